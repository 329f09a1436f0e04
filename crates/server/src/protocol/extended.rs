//! The extended query protocol: Parse, Bind, Describe, Execute, Close.
//!
//! Answers stay in the buffer until Sync or Flush asks for them, or rows fill it.
//! Not here: simple queries (`simple.rs`), what portals are (`../statements/portal.rs`).

use std::sync::Arc;

use coscan::running::{Answer, rows_tag};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use pgwire::api::Type;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete,
    PortalSuspended, TARGET_TYPE_BYTE_PORTAL, TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::EmptyQueryResponse;

use super::connection::{Connection, Halt, supervise, with_places};
use super::params::parameter_values;
use super::perform::copied;
use crate::encode::{Declared, Walk, columns, description};
use crate::failure::Failure;
use crate::net::Interrupt;
use crate::statements::{Action, Life, Outcome, Parsed, Portal, Prepared, State};

impl Connection {
    pub(crate) async fn parse(&mut self, message: Parse) -> Result<(), Halt> {
        let name = message.name.unwrap_or_default();
        if name.is_empty() {
            // The unnamed statement is dropped even if the new one cannot be parsed.
            self.portals.forget("");
        }
        let text = if name.is_empty() {
            String::new()
        } else {
            message.query.clone()
        };
        let mut interrupt = self.interrupt().await;
        let placed = with_places(&message.query);
        let statements = self.session.parse(message.query);
        let mut statements = supervise(&mut self.wire, &mut interrupt, statements).await?;
        if statements.len() > 1 {
            let text = "cannot insert multiple commands into a prepared statement";
            return Err(Failure::syntax(text).into());
        }
        let declared: Vec<_> = message
            .type_oids
            .iter()
            .map(|oid| Type::from_oid(*oid))
            .collect();
        let prepared = self.prepare(statements.pop(), declared).await;
        let place = 0..placed.as_ref().map_or(0, String::len);
        let prepared = prepared.map_err(|halt| halt.placed(placed.as_deref(), place))?;
        let origin = self.session.origin(&prepared, text, false);
        self.portals.prepare(&name, prepared, origin)?;
        Ok(self
            .wire
            .put(&PgWireBackendMessage::ParseComplete(ParseComplete::new()))?)
    }

    pub(crate) async fn prepare(
        &mut self,
        statement: Option<Parsed>,
        declared: Vec<Option<Type>>,
    ) -> Result<Prepared, Halt> {
        let Some(Parsed {
            action,
            cost,
            written,
            ..
        }) = statement
        else {
            return Ok(Prepared::default());
        };
        self.session.current_cost = Some(Arc::clone(&cost));
        self.check_transaction(&action)?;
        let planned = match &action {
            Action::Plan(statement)
            | Action::Index {
                query: statement, ..
            }
            | Action::Copy {
                query: statement, ..
            }
            | Action::Declare {
                query: statement, ..
            } => {
                let mut interrupt = self.interrupt().await;
                let statement = statement.as_ref().clone();
                let planned = self.session.prepare(statement, declared, written);
                Some(supervise(&mut self.wire, &mut interrupt, planned).await?)
            }
            _ => None,
        };
        let schema = match (&action, &planned) {
            (Action::Plan(_), Some(planned)) => {
                let has_rows = Answer::of(&planned.plan()).has_rows();
                has_rows.then(|| SchemaRef::clone(planned.schema()))
            }
            (Action::Setting(statement), _) => statement.schema(),
            _ => None,
        };
        Ok(Prepared {
            action: Some(action),
            statement: planned,
            schema,
            cost: Some(cost),
        })
    }

    /// The columns of a statement's rows, if it returns any. For a FETCH or an EXECUTE they are
    /// the present columns of the cursor or of the prepared statement.
    fn schema(&self, prepared: &Prepared) -> Option<SchemaRef> {
        match &prepared.action {
            Some(Action::Fetch(walk)) if !walk.only_moves => {
                self.portals.cursor_schema(&walk.cursor)
            }
            Some(Action::Execute { name, .. }) => {
                let executed = self.portals.statement(name).ok()?;
                executed.schema.clone()
            }
            _ => prepared.schema.clone(),
        }
    }

    pub(crate) async fn bind(&mut self, message: Bind) -> Result<(), Halt> {
        let prepared = self
            .portals
            .statement(message.statement_name.as_deref().unwrap_or(""))?;
        if let Some(action) = &prepared.action {
            self.check_transaction(action)?;
        }
        let values = parameter_values(prepared.types(), &message, &self.session.zone())?;
        self.session.current_cost.clone_from(&prepared.cost);
        let held = match &prepared.cost {
            Some(cost) => {
                let bytes = message.parameters.iter().flatten().map(bytes::Bytes::len);
                Some(cost.copy(&self.session.ledger, bytes.sum())?)
            }
            None => None,
        };
        let mut interrupt = self.interrupt().await;
        let bound = self.session.bind(&prepared, values);
        let plan = supervise(&mut self.wire, &mut interrupt, bound).await?;
        let formats = message.result_column_format_codes;
        if let Some(schema) = self.schema(&prepared) {
            columns(&schema, &formats)?;
        }
        let portal = Portal {
            prepared,
            formats,
            state: State::Bound(plan),
            life: Life::Transaction,
            binary: false,
            number: self.portals.opened(),
            _held: held,
        };
        self.portals
            .open(message.portal_name.unwrap_or_default(), portal)?;
        Ok(self
            .wire
            .put(&PgWireBackendMessage::BindComplete(BindComplete::new()))?)
    }

    pub(crate) fn describe(&mut self, message: &Describe) -> Result<(), Halt> {
        let name = message.name.as_deref().unwrap_or("");
        let columns = match message.target_type {
            TARGET_TYPE_BYTE_STATEMENT => {
                let prepared = self.portals.statement(name)?;
                let schema = self.schema(&prepared);
                if schema.is_some() {
                    self.check_alive()?;
                }
                let oids = prepared.types().iter().map(Type::oid).collect();
                self.wire.put(&PgWireBackendMessage::ParameterDescription(
                    ParameterDescription::new(oids),
                ))?;
                schema.map(|schema| columns(&schema, &[])).transpose()?
            }
            TARGET_TYPE_BYTE_PORTAL => {
                let portal = self.portals.portal(name)?;
                let columns = match &portal.state {
                    State::Open(rows) => Some(rows.columns.clone()),
                    State::Scroll(scroll) => Some(columns(scroll.schema(), &portal.formats)?),
                    State::Bound(_) | State::Done(_) | State::Spent => {
                        let schema = self.schema(&portal.prepared);
                        let schema = schema.map(|schema| columns(&schema, &portal.formats));
                        schema.transpose()?
                    }
                };
                if columns.is_some() {
                    self.check_alive()?;
                }
                columns
            }
            other => return Err(Failure::protocol(format!("cannot describe {other:#x}")).into()),
        };
        let answer = match columns {
            Some(columns) => description(&columns),
            None => PgWireBackendMessage::NoData(NoData::new()),
        };
        Ok(self.wire.put(&answer)?)
    }

    /// The statement of a portal, if it may run in the transaction's present state.
    fn runnable(&self, name: &str) -> Result<Arc<Prepared>, Failure> {
        let portal = self.portals.portal(name)?;
        match &portal.prepared.action {
            Some(action) => self.check_transaction(action)?,
            // A text without a statement does nothing.
            None if matches!(portal.state, State::Bound(_)) => {}
            None => self.check_alive()?,
        }
        Ok(Arc::clone(&portal.prepared))
    }

    pub(crate) async fn execute(&mut self, message: Execute) -> Result<(), Halt> {
        let name = message.name.unwrap_or_default();
        let max = usize::try_from(message.max_rows).ok();
        let max = max.filter(|max| *max > 0).unwrap_or(usize::MAX);
        let prepared = self.runnable(&name)?;
        let mut portal = self.portals.take(&name)?;
        self.session.undoable = self.transaction.status().is_block();
        let mut interrupt = self.interrupt().await;
        self.session.current_cost.clone_from(&prepared.cost);

        if let State::Bound(plan) = &mut portal.state {
            let Some(action) = &prepared.action else {
                self.portals.put_back(name, portal);
                let empty = PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new());
                return Ok(self.wire.put(&empty)?);
            };
            let plan = plan.take();
            self.begin_if_changed(plan.as_ref(), action).await?;
            if let Action::Fetch(walk) = action
                && max < usize::MAX
                && !walk.only_moves
            {
                return self
                    .fetch_at_most(max, walk, name, portal, &mut interrupt)
                    .await;
            }
            let is_planned = plan.is_some();
            let formats = portal.formats.as_slice();
            let outcome = self.run_bound(plan, &prepared, action, formats, &mut interrupt);
            let Some(outcome) = outcome.await? else {
                return self.complete("DECLARE CURSOR".to_owned());
            };
            match outcome {
                Outcome::Done(tag) => {
                    self.grant_settings().await?;
                    if is_planned {
                        portal.state = State::Spent;
                        self.portals.put_back(name, portal);
                    }
                    return self.complete(tag);
                }
                Outcome::Rows(rows) => {
                    self.start_copy(&rows)?;
                    portal.state = State::Open(rows);
                }
            }
        }
        self.send_portal(&name, &mut portal.state, max, &mut interrupt)
            .await?;
        self.portals.put_back(name, portal);
        Ok(())
    }

    /// Runs the statement of a portal, by its plan if it has one. `None`: the plan is a cursor's.
    async fn run_bound(
        &mut self,
        plan: Option<LogicalPlan>,
        prepared: &Prepared,
        action: &Action,
        formats: &[i16],
        interrupt: &mut Interrupt,
    ) -> Result<Option<Outcome>, Halt> {
        let Some(plan) = plan else {
            // In this protocol the client asks for the description itself, if it wants one.
            self.described = true;
            let outcome = self.perform(action, formats, interrupt).await;
            self.described = false;
            return outcome.map(Some);
        };
        self.session.settings.drop_requests();
        if let Action::Declare { name, declared, .. } = action {
            self.declare_bound(name, *declared, plan, interrupt).await?;
            return Ok(None);
        }
        let outcome = self.start_bound(plan, prepared, action, formats, interrupt);
        outcome.await.map(Some)
    }

    /// Sends the first `max` rows of a FETCH. The rest of it waits in the portal for the next
    /// Execute. (PostgreSQL moves the cursor over all rows of the FETCH at once.)
    async fn fetch_at_most(
        &mut self,
        max: usize,
        walk: &Walk,
        name: String,
        mut portal: Portal,
        interrupt: &mut Interrupt,
    ) -> Result<(), Halt> {
        let (now, rest) = walk.split(max);
        self.described = true;
        let passed = self.walk(&now, &portal.formats, interrupt).await;
        self.described = false;
        let passed = passed?;
        self.grant_settings().await?;
        match rest {
            Some(rest) if passed == max => {
                let rest = Prepared {
                    action: Some(Action::Fetch(rest)),
                    cost: portal.prepared.cost.clone(),
                    ..Prepared::default()
                };
                portal.prepared = Arc::new(rest);
            }
            _ => portal.state = State::Done("FETCH"),
        }
        self.portals.put_back(name, portal);
        if passed < max {
            return self.complete(rows_tag("FETCH", passed));
        }
        self.suspend()
    }

    /// Tells the client that the portal has more rows, after what the statement has said so far.
    fn suspend(&mut self) -> Result<(), Halt> {
        self.send_notices()?;
        let suspended = PgWireBackendMessage::PortalSuspended(PortalSuspended::new());
        Ok(self.wire.put(&suspended)?)
    }

    /// Opens a cursor by a bound plan.
    async fn declare_bound(
        &mut self,
        name: &str,
        declared: Declared,
        plan: LogicalPlan,
        interrupt: &mut Interrupt,
    ) -> Result<(), Halt> {
        self.check_cursor(declared)?;
        let point = Arc::clone(&interrupt.commit_point);
        let start = self.session.start(plan, None, None, &[], point);
        let rows = supervise(&mut self.wire, interrupt, start).await?;
        self.open_cursor(name, declared, rows, interrupt).await
    }

    /// Starts a bound plan, whose rows the client asked for in these formats.
    async fn start_bound(
        &mut self,
        plan: LogicalPlan,
        prepared: &Prepared,
        action: &Action,
        formats: &[i16],
        interrupt: &mut Interrupt,
    ) -> Result<Outcome, Halt> {
        let formats = match action.copy_format() {
            Some(_) => &[],
            None => formats,
        };
        let (tag, announced) = (action.tag(), prepared.schema.clone());
        let point = Arc::clone(&interrupt.commit_point);
        let start = self.session.start(plan, tag, announced, formats, point);
        let mut outcome = supervise(&mut self.wire, interrupt, start).await?;
        if let Some(format) = action.copy_format() {
            copied(&mut outcome, format)?;
        }
        Ok(outcome)
    }

    /// Sends the rows of a portal, at most `max`.
    async fn send_portal(
        &mut self,
        name: &str,
        state: &mut State,
        max: usize,
        interrupt: &mut Interrupt,
    ) -> Result<(), Halt> {
        match state {
            State::Open(rows) => {
                // A COPY sends all its rows: Execute's limit does not apply.
                let max = if rows.copy_format().is_some() {
                    usize::MAX
                } else {
                    max
                };
                let sent = self.send_rows(rows, max, interrupt).await?;
                self.grant_settings().await?;
                if sent.complete {
                    self.end_copy(rows)?;
                    let (tag, is_copy) = (rows.tag, rows.copy_format().is_some());
                    self.complete(rows_tag(tag, sent.rows))?;
                    *state = if is_copy {
                        State::Spent
                    } else {
                        State::Done(tag)
                    };
                } else {
                    self.suspend()?;
                }
            }
            State::Done(tag) => {
                let tag = rows_tag(tag, 0);
                self.complete(tag)?;
            }
            State::Spent => {
                let text = format!("portal {name:?} cannot be run");
                return Err(Failure::new("55000", text).into());
            }
            State::Bound(_) | State::Scroll(_) => {}
        }
        Ok(())
    }

    /// P1: the messages up to the Sync are one transaction. Statements that only read are no part
    /// of it. Tells the transaction if the statement is a query.
    async fn begin_if_changed(
        &mut self,
        plan: Option<&LogicalPlan>,
        action: &Action,
    ) -> Result<(), Failure> {
        let changes = match plan {
            Some(plan) => !coscan::only_reads(plan),
            None => action.may_change(),
        };
        if changes {
            self.transaction.begin(&self.session).await?;
        }
        if action.queries() {
            self.transaction.query(&mut self.session).await?;
        }
        Ok(())
    }

    pub(crate) fn close(&mut self, message: &Close) -> Result<(), Halt> {
        let name = message.name.as_deref().unwrap_or("");
        // It is not an error to close what does not exist.
        match message.target_type {
            TARGET_TYPE_BYTE_STATEMENT => self.portals.forget(name),
            _ => self.portals.close(name),
        };
        Ok(self
            .wire
            .put(&PgWireBackendMessage::CloseComplete(CloseComplete::new()))?)
    }
}
