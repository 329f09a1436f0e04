//! The extended query protocol: Parse, Bind, Describe, Execute, Close.
//!
//! Answers stay in the buffer until Sync or Flush asks for them, or rows fill it.

use std::sync::Arc;

use pgwire::api::Type;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete,
    PortalSuspended, TARGET_TYPE_BYTE_PORTAL, TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::EmptyQueryResponse;

use crate::columns::{columns, description};
use crate::connection::{Connection, Halt, supervise};
use crate::failure::Failure;
use crate::params::{parameter_types, parameter_values};
use crate::parse::Parsed;
use crate::portal::{Portal, Prepared, State};
use crate::session::{Outcome, plan_schema, show_schema};
use crate::simple::copied;
use crate::statement::Action;
use coscan_pg::dialect::Written;

impl Connection {
    pub(crate) async fn parse(&mut self, message: Parse) -> Result<(), Halt> {
        let mut interrupt = self.interrupt().await;
        let statements = self.session.parse(message.query);
        let mut statements = supervise(&mut self.wire, &mut interrupt, statements).await?;
        if statements.len() > 1 {
            let text = "cannot insert multiple commands into a prepared statement";
            return Err(Failure::syntax(text).into());
        }
        let said: Vec<_> = message
            .type_oids
            .iter()
            .map(|oid| Type::from_oid(*oid))
            .collect();
        let prepared = self.prepare(statements.pop(), said).await?;
        self.portals
            .prepare(message.name.unwrap_or_default(), prepared)?;
        Ok(self
            .wire
            .put(&PgWireBackendMessage::ParseComplete(ParseComplete::new()))?)
    }

    async fn prepare(
        &mut self,
        statement: Option<Parsed>,
        said: Vec<Option<Type>>,
    ) -> Result<Prepared, Halt> {
        let (action, cost, written) = match statement {
            Some(Parsed {
                action,
                cost,
                written,
            }) => (Some(action), Some(cost), written),
            None => (None, None, Written::new()),
        };
        self.session.at_hand.clone_from(&cost);
        if let Some(action) = &action {
            self.check_transaction(action)?;
        }
        let (plan, schema, types) = match &action {
            Some(
                Action::Plan(statement)
                | Action::Index {
                    query: statement, ..
                }
                | Action::Copy {
                    query: statement, ..
                },
            ) => {
                let mut interrupt = self.interrupt().await;
                let planned = async {
                    let plan = self.session.plan(statement.as_ref().clone()).await?;
                    let work = move || Ok((parameter_types(&plan, &said, &written)?, plan));
                    self.session.compute(work).await
                };
                let (types, plan) = supervise(&mut self.wire, &mut interrupt, planned).await?;
                let answers_rows = action
                    .as_ref()
                    .is_some_and(|action| action.tag().is_none() && action.copy_format().is_none());
                let schema = answers_rows.then(|| plan_schema(&plan)).flatten();
                (Some(plan), schema, types)
            }
            Some(Action::Show(name)) => (None, Some(show_schema(name)), vec![]),
            Some(Action::Fetch { name, .. }) => {
                let schema = match self.portals.portal(name).map(|portal| &portal.state) {
                    Ok(State::Open(rows)) => Some(rows.announced()),
                    _ => None,
                };
                (None, schema, vec![])
            }
            _ => (None, None, vec![]),
        };
        Ok(Prepared {
            action,
            plan,
            types,
            schema,
            cost,
        })
    }

    pub(crate) async fn bind(&mut self, message: Bind) -> Result<(), Halt> {
        let prepared = self
            .portals
            .statement(message.statement_name.as_deref().unwrap_or(""))?;
        if let Some(action) = &prepared.action {
            self.check_transaction(action)?;
        }
        let values = parameter_values(&prepared.types, &message)?;
        self.session.at_hand.clone_from(&prepared.cost);
        let held = match &prepared.cost {
            Some(cost) => {
                let bytes = message.parameters.iter().flatten().map(bytes::Bytes::len);
                Some(cost.copy(&self.session.ledger, bytes.sum())?)
            }
            None => None,
        };
        let plan = match prepared.plan.clone() {
            Some(plan) if prepared.types.is_empty() => Some(plan),
            Some(plan) => {
                let work = move || Ok(plan.replace_params_with_values(&values)?);
                let work = self.session.compute(work);
                let mut interrupt = self.interrupt().await;
                Some(supervise(&mut self.wire, &mut interrupt, work).await?)
            }
            None => None,
        };
        let formats = message.result_column_format_codes;
        if let Some(schema) = &prepared.schema {
            columns(schema, &formats)?;
        }
        let portal = Portal {
            prepared,
            formats,
            state: State::Bound(plan),
            hold: false,
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
                let oids = prepared.types.iter().map(Type::oid).collect();
                self.wire.put(&PgWireBackendMessage::ParameterDescription(
                    ParameterDescription::new(oids),
                ))?;
                prepared
                    .schema
                    .as_ref()
                    .map(|schema| columns(schema, &[]))
                    .transpose()?
            }
            TARGET_TYPE_BYTE_PORTAL => {
                let portal = self.portals.portal(name)?;
                match (&portal.state, &portal.prepared.schema) {
                    (State::Open(rows), _) => Some(rows.columns.clone()),
                    (_, Some(schema)) => Some(columns(schema, &portal.formats)?),
                    (_, None) => None,
                }
            }
            other => return Err(Failure::protocol(format!("cannot describe {other:#x}")).into()),
        };
        let answer = match columns {
            Some(columns) => description(&columns),
            None => PgWireBackendMessage::NoData(NoData::new()),
        };
        Ok(self.wire.put(&answer)?)
    }

    pub(crate) async fn execute(&mut self, message: Execute) -> Result<(), Halt> {
        let name = message.name.unwrap_or_default();
        let max = match usize::try_from(message.max_rows) {
            Ok(max) if max > 0 => max,
            _ => usize::MAX,
        };
        let mut portal = self.portals.take(&name)?;
        let prepared = Arc::clone(&portal.prepared);
        let mut interrupt = self.interrupt().await;
        self.session.at_hand.clone_from(&prepared.cost);

        if let State::Bound(plan) = &mut portal.state {
            let Some(action) = &prepared.action else {
                self.portals.put_back(name, portal);
                let empty = PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new());
                return Ok(self.wire.put(&empty)?);
            };
            let outcome = match plan.take() {
                Some(plan) => {
                    self.check_transaction(action)?;
                    self.session.settings.forget_wishes();
                    let announced = prepared.schema.clone();
                    let formats = match action.copy_format() {
                        Some(_) => &[],
                        None => portal.formats.as_slice(),
                    };
                    let start = self.session.start(plan, action.tag(), announced, formats);
                    let mut outcome = supervise(&mut self.wire, &mut interrupt, start).await?;
                    if let Some(format) = action.copy_format() {
                        copied(&mut outcome, format)?;
                    }
                    outcome
                }
                None => {
                    // The client has asked for the description itself, or does not want it.
                    self.described = true;
                    let outcome = self.perform(action, &portal.formats, &mut interrupt).await;
                    self.described = false;
                    outcome?
                }
            };
            match outcome {
                Outcome::Done(tag) => {
                    self.grant_settings().await?;
                    return self.complete(tag);
                }
                Outcome::Rows(rows) => {
                    self.start_copy(&rows)?;
                    portal.state = State::Open(rows);
                }
            }
        }
        match &mut portal.state {
            State::Open(rows) => {
                // A COPY sends all its rows: the limit of Execute does not apply.
                let max = if rows.copy_format().is_some() {
                    usize::MAX
                } else {
                    max
                };
                let sent = self.send_rows(rows, max, &mut interrupt).await?;
                self.grant_settings().await?;
                if sent.complete {
                    self.end_copy(rows)?;
                    let tag = rows.tag;
                    self.complete(format!("{tag} {}", sent.rows))?;
                    portal.state = State::Done(tag);
                } else {
                    self.wire.put(&PgWireBackendMessage::PortalSuspended(
                        PortalSuspended::new(),
                    ))?;
                }
            }
            State::Done(tag) => {
                let tag = format!("{tag} 0");
                self.complete(tag)?;
            }
            State::Bound(_) => {}
        }
        self.portals.put_back(name, portal);
        Ok(())
    }

    pub(crate) fn close(&mut self, message: &Close) -> Result<(), Halt> {
        let name = message.name.as_deref().unwrap_or("");
        // Closing what does not exist is not an error.
        match message.target_type {
            TARGET_TYPE_BYTE_STATEMENT => self.portals.forget(name),
            _ => self.portals.close(name),
        };
        Ok(self
            .wire
            .put(&PgWireBackendMessage::CloseComplete(CloseComplete::new()))?)
    }
}
