//! INTERSECT ALL and EXCEPT ALL.
//!
//! DataFusion plans them as a semi or an anti join on all columns, which keeps every row of the
//! left side whose values are, or are not, on the right side. PostgreSQL counts: of m equal rows
//! on the left and n on the right, min(m, n) or m − n remain. So the equal rows of each side are
//! numbered, and the join also compares the numbers.
//! <https://github.com/apache/datafusion/issues/10236>

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, JoinType, NullEquality, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::logical_plan::{Distinct, Join, Projection, Window};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits,
};
use datafusion::optimizer::AnalyzerRule;

use crate::trees::PlanTree;

/// Counts the rows of INTERSECT ALL and EXCEPT ALL.
#[derive(Debug, Default)]
pub(crate) struct CountRows;

impl AnalyzerRule for CountRows {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) if is_set_operation(&join) => {
                Ok(Transformed::yes(counted(join)?))
            }
            other => Ok(Transformed::no(other)),
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "count_rows_of_set_operations"
    }
}

/// Whether a join was planned for INTERSECT ALL or EXCEPT ALL: without ALL, the left side is made
/// distinct. If it is distinct anyway, each row occurs once and needs no number.
fn is_set_operation(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == join.left.schema().fields().len()
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)))
}

fn counted(mut join: Join) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = join.left.schema().iter().map(Expr::from).collect();
    let (left_keys, right_keys): (Vec<Expr>, Vec<Expr>) = join.on.iter().cloned().unzip();
    let (left, left_number) = numbered(join.left, left_keys, "__left_copy")?;
    let (right, right_number) = numbered(join.right, right_keys, "__right_copy")?;
    join.on.push((left_number, right_number));
    let joined = Join::try_new(
        left,
        right,
        join.on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    let joined = Arc::new(LogicalPlan::Join(joined));
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns, joined,
    )?))
}

fn numbered(
    input: Arc<LogicalPlan>,
    keys: Vec<Expr>,
    name: &str,
) -> Result<(Arc<LogicalPlan>, Expr)> {
    let all_before = WindowFrame::new_bounds(
        WindowFrameUnits::Rows,
        WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
        WindowFrameBound::CurrentRow,
    );
    let number = row_number()
        .partition_by(keys)
        .window_frame(all_before)
        .build()?
        .alias(name);
    let window = LogicalPlan::Window(Window::try_new(vec![number], input)?);
    let number = Expr::Column(Column::new_unqualified(name));
    Ok((Arc::new(window), number))
}
