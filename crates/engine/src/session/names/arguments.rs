//! What are the values of EXECUTE's arguments?
//!
//! An argument is an expression without columns. Its value is converted to the parameter's type as
//! if assigned to a column of that type; otherwise the statement fails.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::FieldRef;
use coscan_pg::dialect::with_types;
use coscan_pg::output::pg_type;
use coscan_pg::parameters::{Encoding, cast_to, sql_name, value};
use coscan_pg::resolve::is_assignable;
use coscan_pg::{PgError, Type};
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Expr, SelectItem, SetExpr, Statement, Value, ValueWithSpan};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use tokio::runtime::Handle;

use crate::running::guarded;
use crate::session_names::check;

/// The values that EXECUTE gives the parameters of the statement of this name, which are of these
/// types. Expressions are computed on this runtime. Dropping the future ends that.
///
/// # Errors
/// 42601 if there are more or fewer arguments than parameters; 42804 for an argument that cannot
/// be assigned to its parameter; those of planning and computing it.
pub async fn arguments(
    runtime: &Handle,
    context: &SessionContext,
    name: &str,
    types: &[Type],
    arguments: &[Expr],
) -> Result<Vec<ScalarValue>> {
    if types.is_empty() {
        // PostgreSQL does not look at them either.
        return Ok(vec![]);
    }
    if arguments.len() != types.len() {
        return Err(wrong_number(name, types.len(), arguments.len()).into());
    }
    let given = Given { runtime, context };
    let mut values = Vec::with_capacity(types.len());
    for (index, (argument, wanted)) in arguments.iter().zip(types).enumerate() {
        values.push(given.value(index + 1, argument, wanted).await?);
    }
    Ok(values)
}

/// Where arguments are computed.
struct Given<'a> {
    runtime: &'a Handle,
    context: &'a SessionContext,
}

impl Given<'_> {
    /// The value of an argument, converted to the parameter's type.
    async fn value(&self, number: usize, argument: &Expr, wanted: &Type) -> Result<ScalarValue> {
        if let Some(text) = literal(argument) {
            return self.read(wanted, text);
        }
        let mut argument = argument.clone();
        with_types(&mut argument);
        let (given, field) = self.evaluated(argument.clone()).await?;
        let given_type = pg_type(&field);
        if !is_assignable(given_type.oid(), wanted.oid()) {
            return Err(not_assignable(number, &given_type, wanted).into());
        }
        if given_type == *wanted {
            return Ok(given);
        }
        if *wanted == Type::NUMERIC {
            // The text of a number keeps all digits of a numeric.
            let text = (!given.is_null()).then(|| given.to_string());
            return self.read(wanted, text.as_deref());
        }
        let (cast, _) = self.evaluated(cast_to(argument, wanted)).await?;
        Ok(cast)
    }

    /// The value of this type that a text stands for.
    fn read(&self, wanted: &Type, text: Option<&str>) -> Result<ScalarValue> {
        let raw = text.map(|text| text.to_owned().into());
        let state = self.context.state_ref();
        let state = state.read();
        let zone = state.config_options().execution.time_zone.as_deref();
        let read = value(wanted, Encoding::Text, raw.as_ref(), zone.unwrap_or("UTC"));
        Ok(read?)
    }

    async fn evaluated(&self, expr: Expr) -> Result<(ScalarValue, FieldRef)> {
        let work = evaluate(self.context.state(), select(expr)?);
        guarded(self.runtime, work).await
    }
}

/// The value of a query of one expression. The field names a type that Arrow lacks.
///
/// # Errors
/// Those of planning, of rights and of running; 21000 if there is not one value.
async fn evaluate(state: SessionState, query: DfStatement) -> Result<(ScalarValue, FieldRef)> {
    let plan = state.statement_to_plan(query).await?;
    check(&state, &plan)?;
    let field = Arc::clone(plan.schema().field(0));
    let batches = DataFrame::new(state, plan).collect().await?;
    let first = batches.iter().find(|batch| batch.num_rows() > 0);
    let column = first.and_then(|batch| batch.columns().first());
    match column {
        Some(column) if column.len() == 1 => Ok((ScalarValue::try_from_array(column, 0)?, field)),
        _ => Err(PgError::new("21000", "an argument of EXECUTE has one value").into()),
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
fn select(expr: Expr) -> Result<DfStatement> {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, "SELECT NULL");
    let mut statement = parsed.ok().and_then(|mut all| all.pop());
    if let Some(Statement::Query(query)) = &mut statement
        && let SetExpr::Select(select) = query.body.as_mut()
    {
        select.projection = vec![SelectItem::UnnamedExpr(expr)];
    }
    let no_query = || PgError::new("XX000", "SELECT NULL is no query");
    let statement = statement.ok_or_else(no_query)?;
    Ok(DfStatement::Statement(Box::new(statement)))
}

fn wrong_number(name: &str, expected: usize, given: usize) -> PgError {
    let told = format!(
        "wrong number of parameters for prepared statement \"{name}\": \
         expected {expected} parameters but got {given}"
    );
    PgError::new("42601", told)
}

fn not_assignable(number: usize, given: &Type, wanted: &Type) -> PgError {
    let (given, wanted) = (sql_name(given), sql_name(wanted));
    let told = format!(
        "parameter ${number} of type {given} cannot be coerced to the expected type {wanted}"
    );
    PgError::new("42804", told)
}
