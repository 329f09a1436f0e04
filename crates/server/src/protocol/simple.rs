//! The simple query protocol: a text of statements in, their results out, one after the other.
//! Also what both protocols share: performing one statement, sending rows, ending transactions.
//!
//! Not here: what a statement's text means (`../statements/statement.rs`), how it is planned and
//! started (`../statements/session.rs`).

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use coscan::refused_read_only;
use coscan_pg::dialect::Written;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::TransactionMode;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse, TransactionStatus};
use pgwire::messages::startup::ParameterStatus;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::connection::{Connection, Halt, supervise};
use crate::encode::{CopyFormat, Declared, Rows, Scroll, Source, Steps, Walk, description, ended};
use crate::failure::Failure;
use crate::net::{FLUSH_BYTES, GOODBYE_TIMEOUT, Interrupt};
use crate::statements::{
    Action, Life, Outcome, Parsed, Portal, Prepared, State, drop_tag, no_statement, rename_tag,
};

impl Connection {
    /// Handles a Query message. Statements after a failed one do not run.
    pub(crate) async fn simple_query(&mut self, sql: String) -> Result<(), Halt> {
        self.portals.forget("");
        self.portals.close("");
        let mut interrupt = self.interrupt().await;
        let statements = self.session.parse(sql);
        let statements = supervise(&mut self.wire, &mut interrupt, statements).await?;
        if statements.is_empty() {
            self.wire.put(&PgWireBackendMessage::EmptyQueryResponse(
                EmptyQueryResponse::new(),
            ))?;
        }
        let are_several = statements.len() > 1;
        for parsed in statements {
            if are_several {
                self.transaction.begin(&self.session).await?;
            }
            let Parsed {
                action,
                cost,
                written,
            } = parsed;
            let is_prepare = matches!(action, Action::Prepare { .. });
            if let (Some(number), false) = (written.keys().next(), is_prepare) {
                let text = format!("there is no parameter ${number}");
                return Err(Failure::new("42P02", text).into());
            }
            self.session.moments.begin_transaction();
            let mut interrupt = self.interrupt().await;
            self.session.current_cost = Some(cost);
            self.session.undoable = are_several || self.status != TransactionStatus::Idle;
            match self.perform(&action, &[], &mut interrupt).await? {
                Outcome::Done(tag) => {
                    self.grant_settings().await?;
                    self.complete(tag)?;
                }
                Outcome::Rows(mut rows) => {
                    match rows.copy_format() {
                        Some(_) => self.start_copy(&rows)?,
                        None => self.wire.put(&description(&rows.columns))?,
                    }
                    let sent = self
                        .send_rows(&mut rows, usize::MAX, &mut interrupt)
                        .await?;
                    self.end_copy(&rows)?;
                    self.grant_settings().await?;
                    self.complete(ended(rows.tag, sent.rows))?;
                }
            }
        }
        self.end_implicit_transaction().await
    }

    /// Performs a statement that is not a bound portal.
    #[allow(clippy::too_many_lines)] // One arm per action.
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
        let session = &mut self.session;
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
            Action::Show(name) => {
                return Ok(Outcome::Rows(Box::new(session.show(name, formats)?)));
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
            Action::Rename(rename) => {
                let renamed = coscan::rename_own(&session.context, rename, session.undoable);
                renamed.await.map_err(Failure::from)?;
                rename_tag(rename)
            }
            Action::Drop(names) => {
                let dropped = coscan::drop_own(&session.context, names, session.undoable);
                dropped.await.map_err(Failure::from)?;
                drop_tag(names)
            }
            Action::Truncate(tables) => {
                self.truncate(tables, interrupt).await?;
                TRUNCATE
            }
            Action::Begin { modes, tag } => {
                self.begin(modes).await?;
                tag
            }
            Action::Commit { chain } | Action::Rollback { chain } => {
                let commits = matches!(action, Action::Commit { .. });
                self.end(commits, *chain).await?
            }
            Action::RollbackTo(name) => {
                self.check_block("ROLLBACK TO SAVEPOINT")?;
                let session = &mut self.session;
                let returned = self.transaction.rollback_to(session, name).await?;
                self.portals.close_since(returned.opened);
                self.report(returned.reports)?;
                self.status = TransactionStatus::Transaction;
                "ROLLBACK"
            }
            Action::Savepoint(name) => {
                self.check_block("SAVEPOINT")?;
                let opened = self.portals.opened();
                let saved = self.transaction.savepoint(&self.session, name, opened);
                saved.await?;
                "SAVEPOINT"
            }
            Action::Release(name) => {
                self.check_block("RELEASE SAVEPOINT")?;
                self.transaction.release(name)?;
                "RELEASE"
            }
            Action::Nothing(tag) => tag,
            Action::Lock(names) => {
                self.check_block("LOCK TABLE")?;
                for name in names {
                    let exists = self.session.context.table_exist(name.clone());
                    if !exists.unwrap_or(false) {
                        let text = format!("relation \"{name}\" does not exist");
                        return Err(Failure::new("42P01", text).into());
                    }
                }
                "LOCK TABLE"
            }
            Action::Set(set) => {
                let in_transaction = self.status != TransactionStatus::Idle;
                let before = session.settings.modes(&session.context);
                let report = session
                    .settings
                    .apply(&session.context, set, in_transaction)
                    .await?;
                self.report(report)?;
                self.transaction.check_modes(&before, &self.session)?;
                "SET"
            }
            Action::Reset(Some(name)) => {
                session.settings.forget(name);
                let report = session.settings.reset(&session.context, name).await?;
                self.report(report)?;
                "RESET"
            }
            Action::Reset(None) => {
                let reports = session.settings.reset_all(&session.context).await?;
                self.report(reports)?;
                "RESET"
            }
            Action::Declare {
                name,
                declared,
                query,
            } => {
                self.check_cursor(*declared)?;
                let query = query.as_ref().clone();
                let outcome = self.run(query, None, &[], interrupt).await?;
                self.open_cursor(name, *declared, outcome, interrupt)
                    .await?;
                "DECLARE CURSOR"
            }
            Action::Close(Some(name)) => {
                if !self.portals.close(name) {
                    let text = format!("cursor {name:?} does not exist");
                    return Err(Failure::new("34000", text).into());
                }
                "CLOSE CURSOR"
            }
            Action::Close(None) => {
                self.portals.close_all();
                "CLOSE CURSOR ALL"
            }
            Action::Deallocate(Some(name)) => {
                if !self.portals.forget(name) {
                    return Err(no_statement(name).into());
                }
                "DEALLOCATE"
            }
            Action::Deallocate(None) => {
                self.portals.forget_all();
                "DEALLOCATE ALL"
            }
            Action::Discard { all, temp } => {
                if *all && self.status != TransactionStatus::Idle {
                    let text = "DISCARD ALL cannot run inside a transaction block";
                    return Err(Failure::new("25001", text).into());
                }
                if *all || *temp {
                    coscan::forget_own(&session.context);
                }
                if *all {
                    self.portals.close_all();
                    self.portals.forget_all();
                    self.locks.unlock_all();
                    let reports = session.settings.reset_all(&session.context).await?;
                    self.report(reports)?;
                }
                match (all, temp) {
                    (true, _) => "DISCARD ALL",
                    (_, true) => "DISCARD TEMP",
                    _ => "DISCARD PLANS",
                }
            }
        };
        Ok(Outcome::Done(tag.to_owned()))
    }

    /// A cursor that is not WITH HOLD needs a transaction block, because it ends with the
    /// transaction.
    pub(crate) fn check_cursor(&self, declared: Declared) -> Result<(), Failure> {
        if declared.hold {
            return Ok(());
        }
        self.check_block("DECLARE CURSOR")
    }

    /// Refuses a statement outside of a transaction block.
    fn check_block(&self, statement: &str) -> Result<(), Failure> {
        if self.status == TransactionStatus::Idle {
            let text = format!("{statement} can only be used in transaction blocks");
            return Err(Failure::new("25P01", text));
        }
        Ok(())
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
    ) -> Result<(), Halt> {
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
        Ok(())
    }

    /// FETCH sends rows of a cursor, as a result of their own. MOVE skips them.
    async fn fetch(
        &mut self,
        walk: &Walk,
        formats: &[i16],
        interrupt: &mut Interrupt,
    ) -> Result<Outcome, Halt> {
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
                let mut rows = rows.in_zone(self.session.zone());
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
        let verb = if walk.only_moves { "MOVE" } else { "FETCH" };
        Ok(Outcome::Done(format!("{verb} {passed}")))
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

    /// Sends up to `max` rows. Stops at once when interrupted or when the client has gone.
    pub(crate) async fn send_rows(
        &mut self,
        rows: &mut Rows,
        max: usize,
        interrupt: &mut Interrupt,
    ) -> Result<Sent, Halt> {
        let mut sent = 0;
        loop {
            while rows.is_loaded() && sent < max {
                sent += rows.put_rows(self.wire.buffer_for_rows(), max - sent)?;
                if self.wire.buffered() >= FLUSH_BYTES {
                    self.flush_rows(rows, interrupt).await?;
                    // Without this, Tokio would let the task fill a socket's buffer of megabytes
                    // in one go.
                    yield_now().await;
                }
            }
            if sent == max {
                return Ok(Sent {
                    rows: sent,
                    complete: false,
                });
            }
            // Encoded rows go out before a wait, which may be long. Without rows the client would
            // be woken twice, the first time for a description.
            let batch = match futures::FutureExt::now_or_never(rows.next_batch()) {
                Some(batch) => batch?,
                None => {
                    if self.wire.holds_rows() {
                        self.flush(interrupt).await?;
                    }
                    supervise(&mut self.wire, interrupt, rows.next_batch()).await?
                }
            };
            match batch {
                Some(batch) => rows.load(&batch)?,
                None => {
                    return Ok(Sent {
                        rows: sent,
                        complete: true,
                    });
                }
            }
        }
    }

    /// Writes out the encoded rows. If the client does not read, the rest of the batch is put back
    /// in front of the waiting batches (S6).
    async fn flush_rows(&mut self, rows: &mut Rows, interrupt: &mut Interrupt) -> Result<(), Halt> {
        let mut flushed = pin!(self.flush(interrupt));
        if let Poll::Ready(flushed) = futures::poll!(flushed.as_mut()) {
            return flushed;
        }
        rows.give_up_turn();
        let patience = rows.patience();
        tokio::select! {
            biased;
            flushed = &mut flushed => return flushed,
            () = sleep(patience) => rows.put_aside(),
        }
        flushed.await
    }

    /// Sends the encoded rows. If the statement is interrupted after its commit point, a client
    /// that does not read loses its connection instead of being told that nothing was done.
    async fn flush(&mut self, interrupt: &mut Interrupt) -> Result<(), Halt> {
        let failure = tokio::select! {
            biased;
            failure = interrupt.fired() => failure,
            flushed = self.wire.flush() => return Ok(flushed?),
        };
        if interrupt.commit_point.abandon() {
            return Err(failure.into());
        }
        match timeout(GOODBYE_TIMEOUT, self.wire.flush()).await {
            Ok(flushed) => Ok(flushed?),
            Err(_) => Err(Halt::Gone),
        }
    }

    /// Announces COPY data to the client, if the rows are sent as such.
    pub(crate) fn start_copy(&mut self, rows: &Rows) -> Result<(), Halt> {
        if let Some(format) = rows.copy_format() {
            for message in format.start(&rows.columns)? {
                self.wire.put(&message)?;
            }
        }
        Ok(())
    }

    /// Ends the COPY data, if the rows were sent as such.
    pub(crate) fn end_copy(&mut self, rows: &Rows) -> Result<(), Halt> {
        for message in rows.copy_end() {
            self.wire.put(&message)?;
        }
        Ok(())
    }

    /// Ends a statement with its tag.
    pub(crate) fn complete(&mut self, tag: String) -> Result<(), Halt> {
        let complete = CommandComplete::new(tag);
        Ok(self
            .wire
            .put(&PgWireBackendMessage::CommandComplete(complete))?)
    }

    pub(crate) fn report(
        &mut self,
        reports: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<(), Halt> {
        for (name, value) in reports {
            let status = ParameterStatus::new(name.to_owned(), value);
            self.wire
                .put(&PgWireBackendMessage::ParameterStatus(status))?;
        }
        Ok(())
    }

    /// In a failed transaction, refuses every action that neither ends nor revives it. In a READ
    /// ONLY one, refuses writes.
    pub(crate) fn check_transaction(&self, action: &Action) -> Result<(), Failure> {
        let ends = matches!(
            action,
            Action::Commit { .. } | Action::Rollback { .. } | Action::RollbackTo(_)
        );
        if ends {
            return Ok(());
        }
        self.check_alive()?;
        match action.writes() {
            Some(verb) if self.session.is_read_only() => Err(refused_read_only(verb).into()),
            _ => Ok(()),
        }
    }

    /// Checks that the current transaction has not failed.
    ///
    /// # Errors
    /// 25P02 in a failed transaction.
    pub(crate) fn check_alive(&self) -> Result<(), Failure> {
        if self.status == TransactionStatus::Error {
            let text =
                "current transaction is aborted, commands ignored until end of transaction block";
            return Err(Failure::new("25P02", text));
        }
        Ok(())
    }

    /// Undoes SET LOCAL.
    async fn end_local_settings(&mut self) -> Result<(), Halt> {
        let session = &mut self.session;
        let reports = session.settings.end_transaction(&session.context).await?;
        self.report(reports)
    }

    /// Carries out the requests of `set_config()`.
    pub(crate) async fn grant_settings(&mut self) -> Result<(), Halt> {
        let in_transaction = self.status != TransactionStatus::Idle;
        if self.session.settings.has_requests() {
            self.transaction.begin(&self.session).await?;
        }
        let session = &mut self.session;
        let before = session.settings.modes(&session.context);
        let reports = session
            .settings
            .grant(&session.context, in_transaction)
            .await?;
        self.report(reports)?;
        Ok(self.transaction.check_modes(&before, &self.session)?)
    }

    /// BEGIN.
    async fn begin(&mut self, modes: &[TransactionMode]) -> Result<(), Halt> {
        let session = &mut self.session;
        self.transaction.begin(session).await?;
        self.status = TransactionStatus::Transaction;
        let before = session.settings.modes(&session.context);
        session.settings.set_modes(&session.context, modes).await?;
        Ok(self.transaction.check_modes(&before, &self.session)?)
    }

    /// COMMIT and ROLLBACK.
    async fn end(&mut self, commits: bool, chain: bool) -> Result<&'static str, Halt> {
        if chain {
            self.check_block(if commits {
                "COMMIT AND CHAIN"
            } else {
                "ROLLBACK AND CHAIN"
            })?;
        }
        let session = &mut self.session;
        let modes = session.settings.modes(&session.context);
        let tag = if commits && self.status != TransactionStatus::Error {
            if let Err(halt) = self.commit().await {
                self.roll_back().await?;
                return Err(halt);
            }
            self.end_local_settings().await?;
            self.status = TransactionStatus::Idle;
            "COMMIT"
        } else {
            self.roll_back().await?;
            "ROLLBACK"
        };
        if chain {
            self.begin(&modes.written()).await?;
        }
        Ok(tag)
    }

    /// Makes what the transaction did permanent, and keeps its cursors WITH HOLD.
    ///
    /// # Errors
    /// If the rows of a cursor cannot be computed, or files that the transaction wrote cannot be
    /// published. The transaction is then still open, to be rolled back.
    async fn commit(&mut self) -> Result<(), Halt> {
        if self.portals.held().next().is_some() {
            let mut interrupt = self.interrupt().await;
            for portal in self.portals.held() {
                if let State::Open(rows) = &mut portal.state {
                    let environment = self.session.context.runtime_env();
                    let held = rows.hold(&self.session.ledger, environment);
                    supervise(&mut self.wire, &mut interrupt, held).await?;
                }
            }
        }
        self.transaction.commit(&self.session).await?;
        self.session.moments.end_transaction();
        self.portals.commit();
        // After its cursors have ended, which may take locks.
        self.locks.end_transaction();
        Ok(())
    }

    /// ROLLBACK.
    pub(crate) async fn roll_back(&mut self) -> Result<(), Halt> {
        let reports = self.transaction.rollback(&mut self.session).await;
        self.status = TransactionStatus::Idle;
        self.session.moments.end_transaction();
        self.portals.roll_back();
        // After its cursors have ended, which may take locks.
        self.locks.end_transaction();
        self.report(reports?)
    }

    /// P1: outside of a transaction block, each simple query, or run of messages up to a Sync, is
    /// a transaction.
    pub(crate) async fn end_implicit_transaction(&mut self) -> Result<(), Halt> {
        if self.status == TransactionStatus::Idle {
            self.commit().await?;
        }
        Ok(())
    }
}

/// Turns the rows of a statement into COPY data.
pub(crate) fn copied(outcome: &mut Outcome, format: &CopyFormat) -> Result<(), Failure> {
    match outcome {
        Outcome::Rows(rows) => rows.copy_as(format.clone()),
        Outcome::Done(_) => Err(Failure::syntax("COPY needs a query")),
    }
}

/// The format code of binary values.
const BINARY: i16 = 1;
const TRUNCATE: &str = "TRUNCATE TABLE";

/// The progress of [`Connection::send_rows`].
pub(crate) struct Sent {
    pub(crate) rows: usize,
    /// No rows are left.
    pub(crate) complete: bool,
}
