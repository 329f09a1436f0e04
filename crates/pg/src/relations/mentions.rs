//! May the mentions of a query in WITH be computed apart? (`dialect/mentions.rs`)
//!
//! Not if its plan calls volatile functions: PostgreSQL's mentions see the same rows, here each
//! would see its own. They are refused. Rows that depend on the order in which files are read
//! (LIMIT over ties, DISTINCT ON, `array_agg` without an order) may still differ; what computes
//! them once is designed in `docs/design/with.md`.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;

use crate::PgError;

/// # Errors
/// 0A000 if `plan`, which the statement computes more than once, calls volatile functions.
pub(super) fn check(name: &str, plan: &LogicalPlan) -> Result<()> {
    let mut is_volatile = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            is_volatile |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if !is_volatile {
        return Ok(());
    }
    let message =
        format!("WITH query \"{name}\" calls volatile functions and is named more than once");
    Err(PgError::new("0A000", message).into())
}
