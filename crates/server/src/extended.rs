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

use crate::connection::{Connection, Halt, supervise};
use crate::encode::{columns, description};
use crate::failure::Failure;
use crate::params::{parameter_types, parameter_values};
use crate::portal::{Portal, Prepared, State};
use crate::session::{Outcome, plan_schema, show_schema};
use crate::statement::Action;

impl Connection {
    pub(crate) async fn parse(&mut self, message: Parse) -> Result<(), Halt> {
        let mut actions = self.session.parse(&message.query)?;
        if actions.len() > 1 {
            let text = "cannot insert multiple commands into a prepared statement";
            return Err(Failure::syntax(text).into());
        }
        let said: Vec<_> = message
            .type_oids
            .iter()
            .map(|oid| Type::from_oid(*oid))
            .collect();
        let prepared = self.prepare(actions.pop(), &said).await?;
        self.portals
            .prepare(message.name.unwrap_or_default(), prepared)?;
        Ok(self
            .wire
            .put(&PgWireBackendMessage::ParseComplete(ParseComplete::new()))?)
    }

    async fn prepare(
        &mut self,
        action: Option<Action>,
        said: &[Option<Type>],
    ) -> Result<Prepared, Halt> {
        if let Some(action) = &action {
            self.check_transaction(action)?;
        }
        let (plan, schema, types) = match &action {
            Some(
                Action::Plan(statement)
                | Action::Index {
                    query: statement, ..
                },
            ) => {
                let mut interrupt = self.interrupt().await;
                let plan = self.session.plan(statement.as_ref().clone());
                let plan = supervise(&mut self.wire, &mut interrupt, plan).await?;
                let types = parameter_types(&plan, said)?;
                let answers_rows = action.as_ref().is_some_and(|action| action.tag().is_none());
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
        })
    }

    pub(crate) fn bind(&mut self, message: Bind) -> Result<(), Halt> {
        let prepared = self
            .portals
            .statement(message.statement_name.as_deref().unwrap_or(""))?;
        if let Some(action) = &prepared.action {
            self.check_transaction(action)?;
        }
        let values = parameter_values(&prepared.types, &message)?;
        let plan = match &prepared.plan {
            Some(plan) if prepared.types.is_empty() => Some(plan.clone()),
            Some(plan) => Some(
                plan.clone()
                    .replace_params_with_values(&values)
                    .map_err(Failure::from)?,
            ),
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

        if let State::Bound(plan) = &mut portal.state {
            let Some(action) = &prepared.action else {
                self.portals.put_back(name, portal);
                let empty = PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new());
                return Ok(self.wire.put(&empty)?);
            };
            let outcome = match plan.take() {
                Some(plan) => {
                    self.check_transaction(action)?;
                    let announced = prepared.schema.clone();
                    let start = self
                        .session
                        .start(plan, action.tag(), announced, &portal.formats);
                    supervise(&mut self.wire, &mut interrupt, start).await?
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
                Outcome::Done(tag) => return self.complete(tag),
                Outcome::Rows(rows) => portal.state = State::Open(rows),
            }
        }
        match &mut portal.state {
            State::Open(rows) => {
                let sent = self.send_rows(rows, max, &mut interrupt).await?;
                if sent.complete {
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
