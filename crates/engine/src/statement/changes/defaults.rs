//! DEFAULT: what does it stand for?

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use coscan_pg::dialect::query_of;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{ColumnarValue, Expr as PlannedExpr, Volatility, cast};
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, ObjectName, Parens, Query, Select, SelectItem, SetExpr,
    Value, Values, VisitMut, VisitorMut,
};
use datafusion::sql::unparser::expr_to_sql;

use super::given::is_default;
use super::refuse;
use super::tables::last_of;
use crate::statement::sequences::sequence_of;

/// The row of an INSERT of DEFAULT VALUES.
pub(super) fn default_row(
    state: &SessionState,
    table: &dyn TableProvider,
    columns: &[ObjectName],
) -> Result<Query> {
    let row = columns
        .iter()
        .map(|column| default_of(state, table, column));
    let row = row.collect::<Result<Vec<_>>>()?;
    Ok(query_of(SetExpr::Values(Values {
        explicit_row: false,
        value_keyword: false,
        rows: vec![Parens::with_empty_span(row)],
    })))
}

/// Replaces DEFAULT in VALUES by its value.
pub(super) fn give_defaults(
    state: &SessionState,
    table: &dyn TableProvider,
    columns: &[ObjectName],
    source: &mut Query,
) -> Result<()> {
    if let SetExpr::Values(values) = source.body.as_mut() {
        for row in &mut values.rows {
            for (value, column) in row.content.iter_mut().zip(columns) {
                if is_default(value) {
                    *value = default_of(state, table, column)?;
                }
            }
        }
    }
    let mut defaults = Defaults {
        state,
        table,
        columns,
    };
    match source.visit(&mut defaults) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Replaces DEFAULT in VALUES that contain a subquery: `dialect/queries/values.rs` has made their
/// rows SELECTs.
struct Defaults<'a> {
    state: &'a SessionState,
    table: &'a dyn TableProvider,
    columns: &'a [ObjectName],
}

impl VisitorMut for Defaults<'_> {
    type Break = DataFusionError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<DataFusionError> {
        for item in &mut select.projection {
            let SelectItem::ExprWithAlias { expr, alias } = item else {
                continue;
            };
            let place = alias.value.strip_prefix("column");
            let place: Option<usize> = place.and_then(|place| place.parse().ok());
            let column = place.and_then(|place| self.columns.get(place.checked_sub(1)?));
            if let Some(column) = column.filter(|_| is_default(expr)) {
                match default_of(self.state, self.table, column) {
                    Ok(default) => *expr = default,
                    Err(error) => return ControlFlow::Break(error),
                }
            }
        }
        ControlFlow::Continue(())
    }
}

pub(super) fn with_default(
    state: &SessionState,
    assignment: &mut Assignment,
    table: &dyn TableProvider,
) -> Result<()> {
    if let AssignmentTarget::ColumnName(column) = &assignment.target
        && is_default(&assignment.value)
    {
        assignment.value = default_of(state, table, column)?;
    }
    Ok(())
}

/// A column's default, in SQL: its value, or the expression if the value is not always the same.
fn default_of(
    state: &SessionState,
    table: &dyn TableProvider,
    column: &ObjectName,
) -> Result<Expr> {
    let Some(default) = table.get_column_default(&last_of(state, column)) else {
        return Ok(Expr::value(Value::Null));
    };
    if sequence_of(default).is_some() {
        let told = "DEFAULT of a column with a sequence is supported if all rows of VALUES have it";
        return refuse("0A000", told);
    }
    if !is_immutable(default)? {
        return expr_to_sql(&with_typed_constants(default.clone())?);
    }
    let evaluated = state.create_physical_expr(default.clone(), &DFSchema::empty())?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let one = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
    let value = match evaluated.evaluate(&one)? {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0)?,
    };
    expr_to_sql(&PlannedExpr::Literal(value, None))
}

fn is_immutable(expr: &PlannedExpr) -> Result<bool> {
    let changes = expr.exists(|expr| {
        Ok(match expr {
            PlannedExpr::ScalarFunction(call) => {
                call.func.signature().volatility != Volatility::Immutable
            }
            _ => false,
        })
    })?;
    Ok(!changes)
}

/// The same expression with casts that keep the types of constants visible in SQL.
fn with_typed_constants(expr: PlannedExpr) -> Result<PlannedExpr> {
    let typed = expr.transform_up(|expr| match &expr {
        PlannedExpr::Literal(value, _)
            if !matches!(value, ScalarValue::Utf8(_) | ScalarValue::Null) =>
        {
            let held = value.data_type();
            Ok(Transformed::yes(cast(expr, held)))
        }
        _ => Ok(Transformed::no(expr)),
    })?;
    Ok(typed.data)
}
