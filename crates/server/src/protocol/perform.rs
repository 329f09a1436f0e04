//! What does each statement do? Those with a plan are run; the connection itself sees to cursors
//! and the names of prepared statements.
//!
//! Not here: what a statement's text means (`../statements/statement.rs`), how it is planned and
//! started (`../statements/session.rs`), transactions (`transactions.rs`), what SET, RESET and SHOW
//! mean (`coscan::session_settings`).

use std::sync::Arc;

use coscan::session_settings::SettingStatement;
use coscan::{AlterColumns, DropNames, Rename};
use coscan_pg::dialect::Written;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::sql::parser::Statement as DfStatement;

use super::connection::{Connection, Halt, supervise};
use crate::encode::{CopyFormat, Declared, Rows, Scroll, Source, Steps, Walk, description};
use crate::failure::Failure;
use crate::net::Interrupt;
use crate::statements::{
    ALTER_TABLE, Action, Life, Outcome, Portal, Prepared, State, drop_tag, rename_tag,
};

/// The format code of binary values.
const BINARY: i16 = 1;
const TRUNCATE: &str = "TRUNCATE TABLE";

impl Connection {
    /// Performs a statement that is not a bound portal. Longer than a screen: one arm per action.
    pub(crate) async fn perform(
        &mut self,
        action: &Action,
        formats: &[i16],
        interrupt: &mut Interrupt,
    ) -> Result<Outcome, Halt> {
        self.check_transaction(action)?;
        if action.queries() {
            self.transaction.query(&mut self.session).await?;
        }
        let tag = match action {
            Action::Plan(statement)
            | Action::Index {
                query: statement, ..
            } => {
                let statement = statement.as_ref().clone();
                return self.run(statement, action.tag(), formats, interrupt).await;
            }
            Action::Copy { query, format } => {
                let query = query.as_ref().clone();
                let mut outcome = self.run(query, None, &[], interrupt).await?;
                copied(&mut outcome, format)?;
                return Ok(outcome);
            }
            Action::Setting(SettingStatement::Show(name)) => {
                return Ok(Outcome::Rows(Box::new(self.session.show(name, formats)?)));
            }
            Action::Fetch(walk) => return self.fetch(walk, formats, interrupt).await,
            Action::Prepare {
                name,
                types,
                written,
                query,
                text,
            } => {
                self.prepare_in_sql(name, types, written, query, text)
                    .await?;
                "PREPARE"
            }
            Action::Execute { name, arguments } => {
                return self
                    .execute_in_sql(name, arguments, formats, interrupt)
                    .await;
            }
            Action::Rename(rename) => self.rename(rename).await?,
            Action::Alter(alter) => self.alter(alter, interrupt).await?,
            Action::Drop(names) => self.drop_names(names).await?,
            Action::Truncate(tables) => self.truncate(tables, interrupt).await?,
            Action::Block(statement) => self.block(statement).await?,
            Action::Nothing(tag) => tag,
            Action::Lock(names) => self.lock(names)?,
            Action::Setting(statement) => self.change_setting(statement).await?,
            Action::Declare {
                name,
                declared,
                query,
            } => self.declare(name, *declared, query, interrupt).await?,
            Action::Close(name) => self.close_cursor(name.as_deref())?,
            Action::Deallocate(name) => self.deallocate(name.as_deref())?,
            Action::Discard { all, temp } => self.discard(*all, *temp).await?,
        };
        Ok(Outcome::Done(tag.to_owned()))
    }

    async fn rename(&mut self, rename: &Rename) -> Result<&'static str, Failure> {
        let session = &self.session;
        coscan::rename_own(&session.context, rename, session.undoable).await?;
        Ok(rename_tag(rename))
    }

    async fn alter(
        &mut self,
        alter: &AlterColumns,
        interrupt: &mut Interrupt,
    ) -> Result<&'static str, Halt> {
        let session = &self.session;
        let size = session.size();
        let altered = async {
            Box::pin(coscan::alter_own(&session.context, alter, size)).await?;
            Ok(ALTER_TABLE)
        };
        supervise(&mut self.wire, interrupt, altered).await
    }

    async fn drop_names(&mut self, names: &DropNames) -> Result<&'static str, Failure> {
        let session = &self.session;
        coscan::drop_own(&session.context, names, session.undoable).await?;
        Ok(drop_tag(names))
    }

    /// SET and RESET.
    async fn change_setting(&mut self, statement: &SettingStatement) -> Result<&'static str, Halt> {
        let in_transaction = self.transaction.has_begun();
        let session = &mut self.session;
        // The messages up to a Sync have begun one, but are no block: PostgreSQL warns there, too.
        if !session.undoable
            && let Some(warning) = statement.warning()
        {
            session.notices.add(warning);
        }
        let before = session.settings.modes(&session.context);
        let (settings, context) = (&mut session.settings, &session.context);
        let reports = settings.change(context, statement, in_transaction).await?;
        self.report(reports)?;
        if statement.may_be_late() {
            self.transaction.check_modes(&before, &self.session)?;
        }
        Ok(statement.tag())
    }

    async fn declare(
        &mut self,
        name: &str,
        declared: Declared,
        query: &DfStatement,
        interrupt: &mut Interrupt,
    ) -> Result<&'static str, Halt> {
        self.check_cursor(declared)?;
        let outcome = self.run(query.clone(), None, &[], interrupt).await?;
        self.open_cursor(name, declared, outcome, interrupt).await?;
        Ok("DECLARE CURSOR")
    }

    /// CLOSE of a cursor, or of all.
    fn close_cursor(&mut self, name: Option<&str>) -> Result<&'static str, Failure> {
        let Some(name) = name else {
            self.portals.close_all();
            return Ok("CLOSE CURSOR ALL");
        };
        if !self.portals.close(name) {
            let text = format!("cursor {name:?} does not exist");
            return Err(Failure::new("34000", text));
        }
        Ok("CLOSE CURSOR")
    }

    /// DEALLOCATE of a prepared statement, or of all.
    fn deallocate(&mut self, name: Option<&str>) -> Result<&'static str, Failure> {
        let Some(name) = name else {
            self.portals.forget_all();
            return Ok("DEALLOCATE ALL");
        };
        self.portals.statement(name)?;
        self.portals.forget(name);
        Ok("DEALLOCATE")
    }

    async fn discard(&mut self, all: bool, temp: bool) -> Result<&'static str, Halt> {
        if all {
            let outside = self.transaction.status().check_outside("DISCARD ALL");
            outside.map_err(Failure::from)?;
        }
        let session = &mut self.session;
        if all || temp {
            coscan::forget_own(&session.context);
        }
        if all {
            self.portals.close_all();
            self.portals.forget_all();
            self.locks.unlock_all();
            let reports = session.settings.reset_all(&session.context).await?;
            self.report(reports)?;
        }
        Ok(match (all, temp) {
            (true, _) => "DISCARD ALL",
            (_, true) => "DISCARD TEMP",
            _ => "DISCARD PLANS",
        })
    }

    /// A cursor that is not WITH HOLD needs a transaction block, because it ends with the
    /// transaction.
    pub(crate) fn check_cursor(&self, declared: Declared) -> Result<(), Failure> {
        if declared.hold {
            return Ok(());
        }
        self.check_block("DECLARE CURSOR")
    }

    /// Opens a cursor: a portal with the cursor's name.
    pub(crate) async fn open_cursor(
        &mut self,
        name: &str,
        declared: Declared,
        outcome: Outcome,
        interrupt: &mut Interrupt,
    ) -> Result<(), Halt> {
        let Outcome::Rows(mut rows) = outcome else {
            return Err(Failure::syntax("a cursor needs a query").into());
        };
        let state = if declared.scroll {
            let ledger = self.session.ledger.clone();
            let all = async move {
                let (mut batches, mut counted) = (vec![], vec![]);
                while let Some(batch) = rows.next_batch().await? {
                    counted.push(ledger.hold("a scrolling cursor", batch.get_array_memory_size())?);
                    batches.push(batch);
                }
                Ok(Scroll::new(rows.announced(), batches, counted))
            };
            State::Scroll(supervise(&mut self.wire, interrupt, all).await?)
        } else {
            State::Open(rows)
        };
        let prepared = Prepared {
            cost: self.session.current_cost.clone(),
            ..Prepared::default()
        };
        let portal = Portal {
            prepared: prepared.into(),
            formats: vec![],
            state,
            life: if declared.hold {
                Life::UnlessCommitted
            } else {
                Life::Transaction
            },
            binary: declared.binary,
            number: self.portals.opened(),
            _held: None,
        };
        Ok(self.portals.open(name.to_owned(), portal)?)
    }

    /// Plans a statement and starts it.
    async fn run(
        &mut self,
        statement: DfStatement,
        tag: Option<&'static str>,
        formats: &[i16],
        interrupt: &mut Interrupt,
    ) -> Result<Outcome, Halt> {
        let session = &self.session;
        session.settings.drop_requests();
        let point = Arc::clone(&interrupt.commit_point);
        let started = session.run(statement, tag, formats, point);
        supervise(&mut self.wire, interrupt, started).await
    }

    /// TRUNCATE of several tables: all tables are looked up before the first loses its rows.
    async fn truncate(
        &mut self,
        tables: &[DfStatement],
        interrupt: &mut Interrupt,
    ) -> Result<&'static str, Halt> {
        self.transaction.begin(&self.session).await?;
        let mut plans = Vec::with_capacity(tables.len());
        for table in tables {
            let planned = self.session.prepare(table.clone(), vec![], Written::new());
            let planned = supervise(&mut self.wire, interrupt, planned).await?;
            plans.push(planned.plan());
        }
        for plan in plans {
            let point = Arc::clone(&interrupt.commit_point);
            let start = self.session.start(plan, Some(TRUNCATE), None, &[], point);
            supervise(&mut self.wire, interrupt, start).await?;
        }
        Ok(TRUNCATE)
    }

    /// FETCH sends rows of a cursor, as a result of their own. MOVE skips them.
    async fn fetch(
        &mut self,
        walk: &Walk,
        formats: &[i16],
        interrupt: &mut Interrupt,
    ) -> Result<Outcome, Halt> {
        let passed = self.walk(walk, formats, interrupt).await?;
        let verb = if walk.only_moves { "MOVE" } else { "FETCH" };
        Ok(Outcome::Done(format!("{verb} {passed}")))
    }

    /// Sends or skips rows of a cursor. Returns how many there were.
    pub(super) async fn walk(
        &mut self,
        walk: &Walk,
        formats: &[i16],
        interrupt: &mut Interrupt,
    ) -> Result<usize, Halt> {
        let mut portal = self.portals.take(&walk.cursor).map_err(|_| {
            let name = &walk.cursor;
            Failure::new("34000", format!("cursor \"{name}\" does not exist"))
        })?;
        let formats: &[i16] = if portal.binary && !self.described {
            &[BINARY]
        } else {
            formats
        };
        let passed = match &mut portal.state {
            State::Open(rows) => {
                let most = match walk.steps {
                    Steps::By(count) => usize::try_from(count).ok().filter(|count| *count > 0),
                    Steps::AllAfter => Some(usize::MAX),
                    _ => None,
                };
                let Some(most) = most else {
                    self.portals.put_back(walk.cursor.clone(), portal);
                    let text = "cursor can only scan forward: declare it with SCROLL";
                    return Err(Failure::new("55000", text).into());
                };
                rows.reformat(formats)?;
                self.pass(rows, most, walk.only_moves, interrupt).await?
            }
            State::Scroll(scroll) => {
                let schema = SchemaRef::clone(scroll.schema());
                let batches = Source::Ready(scroll.walk(walk.steps).into());
                let rows = Rows::new(schema, formats, batches, "FETCH")?;
                let rows = rows.in_zone(self.session.zone());
                let mut rows = rows.in_style(self.session.interval_style());
                self.pass(&mut rows, usize::MAX, walk.only_moves, interrupt)
                    .await?
            }
            State::Done(_) => 0,
            State::Bound(_) | State::Spent => {
                let name = &walk.cursor;
                return Err(Failure::new("34000", format!("{name:?} is not a cursor")).into());
            }
        };
        self.portals.put_back(walk.cursor.clone(), portal);
        Ok(passed)
    }

    /// Sends the next rows, or discards them. Returns how many there were.
    async fn pass(
        &mut self,
        rows: &mut Rows,
        most: usize,
        discard: bool,
        interrupt: &mut Interrupt,
    ) -> Result<usize, Halt> {
        if discard {
            return supervise(&mut self.wire, interrupt, rows.skip(most)).await;
        }
        if !self.described {
            self.wire.put(&description(&rows.columns))?;
        }
        Ok(self.send_rows(rows, most, interrupt).await?.rows)
    }
}

/// Turns the rows of a statement into COPY data.
pub(crate) fn copied(outcome: &mut Outcome, format: &CopyFormat) -> Result<(), Failure> {
    match outcome {
        Outcome::Rows(rows) => rows.copy_as(format.clone()),
        Outcome::Done(_) => Err(Failure::syntax("COPY needs a query")),
    }
}
