//! Which scalar subqueries may become joins?
//!
//! One process runs an uncorrelated scalar subquery once, and fails if it has several rows. A
//! divided plan has no place for its value, so it becomes a join, which would repeat rows instead
//! of failing. Those that have at most one row, as an aggregate without GROUP BY has, have the
//! same answer both ways. All others are refused.

use coscan_pg::PgError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// Refuses scalar subqueries that may have several rows.
#[derive(Debug)]
pub(crate) struct OneRow;

impl AnalyzerRule for OneRow {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|part| match part {
                    Expr::ScalarSubquery(scalar)
                        if scalar.subquery.max_rows().is_none_or(|rows| rows > 1) =>
                    {
                        let text = "a cluster runs a scalar subquery only if it has at most one \
                                    row whatever the data, as with an aggregate or LIMIT 1";
                        Err(PgError::unsupported(text).into())
                    }
                    _ => Ok(TreeNodeRecursion::Continue),
                })
            })
        })?;
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "one_row"
    }
}
