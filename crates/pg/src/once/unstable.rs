//! Can a second computation of a plan return different rows?
//!
//! Yes if it calls volatile functions, or if its rows depend on the order in which scans return
//! theirs, which differs from scan to scan: LIMIT and OFFSET, DISTINCT ON, order-dependent
//! aggregates, windows over ties. The last digits of a sum of floats depend on that order, too.
//! Parts of a plan that are computed once return the same rows each time.
//! Not here: whether an order decides all ties. Only an ORDER BY of every column counts as such.

use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DFSchema};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Sort, WindowFunction};
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan, WindowFrameUnits};

use super::Once;
use crate::trees::{PlanTree, Tree};

/// Aggregates whose result depends on the order of their rows.
const BY_ORDER: [&str; 12] = [
    "any_value",
    "array_agg",
    "first_value",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_object_agg",
    "last_value",
    "mode",
    "nth_value",
    "string_agg",
    "xmlagg",
];

/// Window functions that distinguish rows that are equal in their order.
const BY_ROW: [&str; 7] = [
    "first_value",
    "lag",
    "last_value",
    "lead",
    "nth_value",
    "ntile",
    "row_number",
];

/// Aggregates that do not compute with the floats that they read.
const EXACT: [&str; 6] = ["bool_and", "bool_or", "count", "grouping", "max", "min"];

/// Whether another computation may return different rows; see the file's header.
pub(crate) fn is_unstable(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.each_with_subqueries(|node| {
        if Once::of(node).is_some() {
            return Ok(TreeNodeRecursion::Jump);
        }
        found |= match node {
            LogicalPlan::Limit(limit) => !is_ordered(&limit.input),
            LogicalPlan::Distinct(Distinct::On(_)) => true,
            _ => false,
        };
        let input = node.inputs().first().map(|input| input.schema());
        node.each_expression(|expr| {
            let is_unstable = |part: &Expr| {
                depends_on_order(part) || input.is_some_and(|input| adds_floats(part, input))
            };
            found |= expr.is_volatile() || expr.has(|part| Ok(is_unstable(part)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

/// Whether an aggregate or a window function depends on the order of rows.
fn depends_on_order(expr: &Expr) -> bool {
    match expr {
        Expr::AggregateFunction(call) => {
            let params = &call.params;
            BY_ORDER.contains(&call.func.name()) && !decides(&params.order_by, &params.args)
        }
        Expr::WindowFunction(call) => is_by_row(call),
        _ => false,
    }
}

/// Whether an aggregate or a window function computes with floats of several rows.
fn adds_floats(expr: &Expr, input: &DFSchema) -> bool {
    let (name, args) = match expr {
        Expr::AggregateFunction(call) => (call.func.name(), &call.params.args),
        Expr::WindowFunction(call) => (call.fun.name(), &call.params.args),
        _ => return false,
    };
    let is_float = |arg: &Expr| arg.get_type(input).is_ok_and(|kind| kind.is_floating());
    let makes_floats = ["corr", "covar_", "regr_"]
        .iter()
        .any(|of| name.starts_with(of));
    makes_floats && name != "regr_count" || !EXACT.contains(&name) && args.iter().any(is_float)
}

/// Whether rows that are equal in this order have equal arguments.
fn decides(order: &[Sort], args: &[Expr]) -> bool {
    let is_key = |arg: &Expr| order.iter().any(|key| key.expr == *arg);
    let mut args = args.iter();
    args.all(|arg| is_key(arg) || matches!(arg, Expr::Literal(..)))
}

fn is_by_row(call: &WindowFunction) -> bool {
    let name = call.fun.name();
    let by_row = call.params.window_frame.units == WindowFrameUnits::Rows;
    let frame_counts = !["rank", "dense_rank", "percent_rank", "cume_dist"].contains(&name);
    BY_ROW.contains(&name) || BY_ORDER.contains(&name) || by_row && frame_counts
}

/// Whether ORDER BY names every column below it: then LIMIT takes the same values each time.
pub(crate) fn is_ordered(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(given) => is_ordered(&given.input),
        LogicalPlan::SubqueryAlias(given) => is_ordered(&given.input),
        LogicalPlan::Sort(given) => {
            let is_key = |column: Column| {
                let column = Expr::Column(column);
                given.expr.iter().any(|sort| sort.expr == column)
            };
            given.input.schema().iter().map(Column::from).all(is_key)
        }
        _ => false,
    }
}

/// Whether a plan scans a work table whose recursive query is not part of the plan.
pub(crate) fn scans_work_table(plan: &LogicalPlan) -> Result<bool> {
    let (mut scanned, mut own) = (vec![], vec![]);
    plan.each_with_subqueries(|node| {
        match node {
            LogicalPlan::TableScan(scan) => {
                let table = source_as_provider(&scan.source).ok();
                let table = table.as_ref().and_then(|table| table.downcast_ref());
                scanned.extend(table.map(|table: &CteWorkTable| table.name().to_owned()));
            }
            LogicalPlan::RecursiveQuery(query) => own.push(query.name.clone()),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(scanned.iter().any(|name| !own.contains(name)))
}
