//! SQL's PREPARE and EXECUTE: they share names and mechanism with the protocol's prepared
//! statements.
//!
//! An argument of EXECUTE is an expression. Its value is converted to the parameter's type as if
//! assigned to a column of that type; otherwise the statement fails.

use std::sync::Arc;

use coscan::running::guarded;
use coscan_pg::dialect::{Written, type_of};
use coscan_pg::output::pg_type;
use coscan_pg::parameters::{Encoding, cast_to, sql_name, value};
use coscan_pg::resolve::is_assignable;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, SelectItem, SetExpr, Statement, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
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
        if self.portals.statement(name).is_ok() {
            let text = format!("prepared statement \"{name}\" already exists");
            return Err(Failure::new("42P05", text).into());
        }
        let Some(cost) = self.session.current_cost.clone() else {
            return Err(Failure::protocol("PREPARE without a text").into());
        };
        let declared = types.iter().map(|data_type| match type_of(data_type) {
            Some(pg_type) => Ok(Some(pg_type)),
            None => Err(Failure::new(
                "42704",
                format!("type \"{data_type}\" does not exist"),
            )),
        });
        let declared = declared.collect::<Result<_, _>>()?;
        let parsed = Parsed {
            action: Action::Plan(Box::new(query.clone())),
            cost,
            written: written.clone(),
        };
        let prepared = self.prepare(Some(parsed), declared).await?;
        let origin = self.session.origin(&prepared, text.to_owned(), true);
        Ok(self.portals.prepare(name.to_owned(), prepared, origin)?)
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
        let types = prepared.types();
        if arguments.len() != types.len() {
            let (expected, given) = (types.len(), arguments.len());
            let text = format!(
                "wrong number of parameters for prepared statement \"{name}\": \
                 expected {expected} parameters but got {given}"
            );
            return Err(Failure::syntax(text).into());
        }
        let mut values = vec![];
        for (index, (argument, pg_type)) in arguments.iter().zip(types).enumerate() {
            let evaluated = self.session.argument(index + 1, argument, pg_type);
            values.push(supervise(&mut self.wire, interrupt, evaluated).await?);
        }
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

    /// The value of an argument, converted to the parameter's type.
    async fn argument(
        &self,
        number: usize,
        argument: &Expr,
        wanted: &Type,
    ) -> Result<ScalarValue, Failure> {
        if let Some(text) = literal(argument) {
            let raw = text.map(|text| text.to_owned().into());
            return Ok(value(wanted, Encoding::Text, raw.as_ref(), &self.zone())?);
        }
        let (given, field) = self.evaluated(argument.clone()).await?;
        let given_type = pg_type(&field);
        if !is_assignable(given_type.oid(), wanted.oid()) {
            let (given, wanted) = (sql_name(&given_type), sql_name(wanted));
            let text = format!(
                "parameter ${number} of type {given} cannot be coerced to the expected type {wanted}"
            );
            return Err(Failure::new("42804", text));
        }
        if given_type == *wanted {
            return Ok(given);
        }
        if *wanted == Type::NUMERIC {
            // The text of a number keeps all digits of a numeric.
            let raw = (!given.is_null()).then(|| given.to_string().into());
            return Ok(value(wanted, Encoding::Text, raw.as_ref(), &self.zone())?);
        }
        let (cast, _) = self.evaluated(cast_to(argument.clone(), wanted)).await?;
        Ok(cast)
    }

    /// Evaluates an expression without columns. The field names a type that Arrow lacks.
    async fn evaluated(&self, expr: Expr) -> Result<(ScalarValue, FieldRef), Failure> {
        let work = coscan::evaluate(self.context.state(), select(expr)?);
        Ok(guarded(self.threads.runtime(), work).await?)
    }
}

/// The text of an untyped literal; the inner `None` stands for NULL.
#[expect(clippy::option_option, reason = "NULL is a literal too")]
fn literal(expr: &Expr) -> Option<Option<&str>> {
    match expr {
        Expr::Value(ValueWithSpan {
            value: Value::Null, ..
        }) => Some(None),
        Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(text),
            ..
        }) => Some(Some(text)),
        Expr::Nested(inner) => literal(inner),
        _ => None,
    }
}

/// `SELECT expr`.
fn select(expr: Expr) -> Result<DfStatement, Failure> {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, "SELECT NULL");
    let mut statement = parsed.ok().and_then(|mut all| all.pop());
    if let Some(Statement::Query(query)) = &mut statement
        && let SetExpr::Select(select) = query.body.as_mut()
    {
        select.projection = vec![SelectItem::UnnamedExpr(expr)];
    }
    let statement = statement.ok_or_else(|| Failure::protocol("SELECT NULL is no query"))?;
    Ok(DfStatement::Statement(Box::new(statement)))
}
