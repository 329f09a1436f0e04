//! UPDATE and DELETE by a query of the changed rows.

use std::sync::Arc;

use arrow::datatypes::Fields;
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{
    Expr as PlannedExpr, ExprSchemable, LogicalPlan, Projection, WriteOp,
};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, Ident, ObjectName, Query, SelectItem, SetExpr,
    Statement, TableWithJoins, Update, UpdateTableFromKind, Value, With,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::refuse;
use super::tables::{last_of, named};

/// UPDATE by a query: `SELECT` of one expression for each of the table's columns.
pub(super) async fn update_of(
    state: &SessionState,
    table: Arc<dyn TableProvider>,
    update: &mut Update,
    with: Option<With>,
) -> Result<LogicalPlan> {
    let target = update.table.clone();
    let (name, alias) = named(&target)?;
    let schema = table.schema();
    let assignments = std::mem::take(&mut update.assignments);
    let table_name = last_of(state, &name);
    let values = assigned(schema.fields(), &table_name, &alias, assignments)?;
    let mut from = vec![target];
    match update.from.take() {
        Some(UpdateTableFromKind::BeforeSet(more) | UpdateTableFromKind::AfterSet(more)) => {
            from.extend(more);
        }
        None => {}
    }
    let items = values
        .into_iter()
        .map(|(alias, expr)| SelectItem::ExprWithAlias { expr, alias });
    let plan = rows_of(state, items.collect(), from, update.selection.take(), with).await?;
    let Some(projection) = as_projection(plan) else {
        return refuse("0A000", "UPDATE in this form is not supported");
    };
    let input = projection.input;
    let typed = projection.expr.into_iter().zip(schema.fields());
    let typed = typed.map(|(expr, field)| {
        let value = match expr {
            PlannedExpr::Alias(alias) => *alias.expr,
            other => other,
        };
        let value = value.cast_to(field.data_type(), input.schema())?;
        Ok(value.alias(field.name()))
    });
    let typed = typed.collect::<Result<Vec<_>>>()?;
    let rows = LogicalPlan::Projection(Projection::try_new(typed, input)?);
    Ok(changed(state, name, table, WriteOp::Update, rows))
}

/// DELETE by a query of the rows.
pub(super) async fn delete_of(
    state: &SessionState,
    table: Arc<dyn TableProvider>,
    target: TableWithJoins,
    delete: &mut Delete,
    with: Option<With>,
) -> Result<LogicalPlan> {
    let (name, _) = named(&target)?;
    let mut from = vec![target];
    from.extend(delete.using.take().into_iter().flatten());
    let one = SelectItem::UnnamedExpr(Expr::value(Value::Boolean(true)));
    let plan = rows_of(state, vec![one], from, delete.selection.take(), with).await?;
    let Some(projection) = as_projection(plan) else {
        return refuse("0A000", "DELETE in this form is not supported");
    };
    let rows = LogicalPlan::clone(&projection.input);
    Ok(changed(state, name, table, WriteOp::Delete, rows))
}

/// The new value of each column, by the column's name: what is assigned to it, or its own value,
/// which the alias qualifies.
///
/// # Errors
/// 42703 for a column that the table does not have, 0A000 for several at once.
fn assigned(
    columns: &Fields,
    table: &str,
    alias: &Ident,
    assignments: Vec<Assignment>,
) -> Result<Vec<(Ident, Expr)>> {
    let values = columns.iter().map(|field| {
        let own = Ident::with_quote('"', field.name());
        let names = vec![alias.clone(), own.clone()];
        (own, Expr::CompoundIdentifier(names))
    });
    let mut values: Vec<(Ident, Expr)> = values.collect();
    for Assignment { target, value } in assignments {
        let AssignmentTarget::ColumnName(column) = target else {
            return refuse(
                "0A000",
                "UPDATE of several columns by a subquery is not supported",
            );
        };
        let last = column.0.last().and_then(|part| part.as_ident());
        let column = last.map(|last| last.value.as_str()).unwrap_or_default();
        let slot = values.iter_mut().find(|(own, _)| own.value == column);
        let Some((_, slot)) = slot else {
            let told = format!("column \"{column}\" of relation \"{table}\" does not exist");
            return refuse("42703", &told);
        };
        *slot = value;
    }
    Ok(values)
}

fn as_projection(plan: LogicalPlan) -> Option<Projection> {
    match plan {
        LogicalPlan::Projection(projection) => Some(projection),
        _ => None,
    }
}

fn changed(
    state: &SessionState,
    name: ObjectName,
    table: Arc<dyn TableProvider>,
    op: WriteOp,
    rows: LogicalPlan,
) -> LogicalPlan {
    let normalize = state.config_options().sql_parser.enable_ident_normalization;
    let text = name.to_string();
    let name = object_name_to_table_reference(name, normalize)
        .unwrap_or_else(|_| TableReference::bare(text));
    let target = provider_as_source(table);
    LogicalPlan::Dml(DmlStatement::new(name, target, op, Arc::new(rows)))
}

/// The plan of `WITH … SELECT items FROM from WHERE selection`.
async fn rows_of(
    state: &SessionState,
    items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
    with: Option<With>,
) -> Result<LogicalPlan> {
    let mut query = template("SELECT 1")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
        select.from = from;
        select.selection = selection;
    }
    query.with = with;
    let query = Statement::Query(Box::new(query));
    state
        .statement_to_plan(DfStatement::Statement(Box::new(query)))
        .await
}

pub(super) fn template(sql: &str) -> Result<Query> {
    let parsed = Parser::parse_sql(&GenericDialect {}, sql)?;
    match parsed.into_iter().next() {
        Some(Statement::Query(query)) => Ok(*query),
        _ => refuse("XX000", "a template is no query"),
    }
}
