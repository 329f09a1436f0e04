//! SQL's PREPARE and EXECUTE: they share names and mechanism with the protocol's prepared
//! statements.
//!
//! Not here: which statement has a name, the types that PREPARE declares, and the values of
//! EXECUTE's arguments (`coscan::PreparedNames`, `coscan::declared_types`, `coscan::arguments`).

use std::sync::Arc;

use coscan_pg::dialect::Written;
use coscan_pg::parameters::sql_name;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{DataType, Expr};
use pgwire::api::Type;

use super::connection::{Connection, Halt, supervise};
use crate::failure::Failure;
use crate::net::Interrupt;
use crate::origins::Origin;
use crate::statements::{Action, Outcome, Parsed, Prepared, Session};

impl Connection {
    /// PREPARE. `types` are those of the first parameters.
    pub(crate) async fn prepare_in_sql(
        &mut self,
        name: &str,
        types: &[DataType],
        written: &Written,
        query: &DfStatement,
        text: &str,
    ) -> Result<(), Halt> {
        self.portals.check_free(name)?;
        let Some(cost) = self.session.current_cost.clone() else {
            return Err(Failure::protocol("PREPARE without a text").into());
        };
        let declared = coscan::declared_types(types).map_err(Failure::from)?;
        let parsed = Parsed {
            action: Action::Plan(Box::new(query.clone())),
            cost,
            written: written.clone(),
            place: 0..text.len(),
        };
        let prepared = self.prepare(Some(parsed), declared).await?;
        let origin = self.session.origin(&prepared, text.to_owned(), true);
        Ok(self.portals.prepare(name, prepared, origin)?)
    }

    /// EXECUTE: runs a prepared statement with the values of its arguments.
    pub(crate) async fn execute_in_sql(
        &mut self,
        name: &str,
        arguments: &[Expr],
        formats: &[i16],
        interrupt: &mut Interrupt,
    ) -> Result<Outcome, Halt> {
        let prepared = self.portals.statement(name)?;
        let Some(action @ Action::Plan(_)) = &prepared.action else {
            return Err(Failure::unsupported(format!(
                "\"{name}\" is not a query that EXECUTE can run"
            ))
            .into());
        };
        let values = self.session.arguments(name, prepared.types(), arguments);
        let values = supervise(&mut self.wire, interrupt, values).await?;
        // From here on the prepared statement is planned and run.
        if prepared.cost.is_some() {
            self.session.current_cost.clone_from(&prepared.cost);
        }
        let bound = self.session.bind(&prepared, values);
        let Some(plan) = supervise(&mut self.wire, interrupt, bound).await? else {
            return Err(Failure::protocol("a prepared statement without a plan").into());
        };
        self.session.settings.drop_requests();
        let announced = prepared.schema.clone();
        let (tag, point) = (action.tag(), Arc::clone(&interrupt.commit_point));
        let start = self.session.start(plan, tag, announced, formats, point);
        supervise(&mut self.wire, interrupt, start).await
    }
}

impl Session {
    /// The origin of the statement that the current statement prepares.
    pub(crate) fn origin(&self, prepared: &Prepared, text: String, from_sql: bool) -> Origin {
        Origin {
            text,
            types: prepared.types().iter().map(sql_name).collect(),
            prepared_us: self.moments.last_statement_us(),
            from_sql,
        }
    }

    /// The values that EXECUTE gives the statement of this name.
    async fn arguments(
        &self,
        name: &str,
        types: &[Type],
        arguments: &[Expr],
    ) -> Result<Vec<ScalarValue>, Failure> {
        let runtime = self.threads.runtime();
        let values = coscan::arguments(runtime, &self.context, name, types, arguments);
        Ok(values.await?)
    }
}
