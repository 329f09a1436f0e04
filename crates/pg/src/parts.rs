//! Does a plan have what a rule is for?
//!
//! A rule that rewrites expressions moves each of them, and writes down its name to keep it. Most
//! nodes of most plans have nothing for a given rule, and to look takes a part of that time.
//!
//! Not here: what a rule is for. A rule that looks says so beside its rewrite: whatever it
//! rewrites must count as meant.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::trees::{PlanTree, Tree};

/// Whether an expression of a node has a part that is meant. Subqueries are nodes of their own.
pub(crate) fn has_part(node: &LogicalPlan, is_meant: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    let looked = node.each_expression(|expr| {
        found |= expr.has(|part| Ok(is_meant(part)))?;
        Ok(until(found))
    });
    // An error is left to the rule.
    found || looked.is_err()
}

/// Whether a node of the plan, or of its subqueries, has a part that is meant.
pub(crate) fn plan_has_part(plan: &LogicalPlan, is_meant: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    let looked = plan.each_with_subqueries(|node| {
        found |= has_part(node, &is_meant);
        Ok(until(found))
    });
    found || looked.is_err()
}

fn until(found: bool) -> TreeNodeRecursion {
    if found {
        TreeNodeRecursion::Stop
    } else {
        TreeNodeRecursion::Continue
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{LogicalPlanBuilder, col, exists, lit};

    use super::*;

    fn is_not(part: &Expr) -> bool {
        matches!(part, Expr::Not(_))
    }

    fn values() -> LogicalPlanBuilder {
        LogicalPlanBuilder::values(vec![vec![lit(true)]]).unwrap()
    }

    #[test]
    fn parts_are_found_wherever_they_are() {
        let plain = values().filter(col("column1")).unwrap().build().unwrap();
        assert!(!has_part(&plain, is_not) && !plan_has_part(&plain, is_not));

        let deep = col("column1").and((!col("column1")).or(lit(true)));
        let filtered = values().filter(deep).unwrap().build().unwrap();
        assert!(has_part(&filtered, is_not) && plan_has_part(&filtered, is_not));

        let above = LogicalPlanBuilder::from(filtered.clone());
        let above = above.project([col("column1")]).unwrap().build().unwrap();
        assert!(!has_part(&above, is_not), "only below");
        assert!(plan_has_part(&above, is_not));

        let asked = exists(std::sync::Arc::new(filtered));
        let around = values().filter(asked).unwrap().build().unwrap();
        assert!(!has_part(&around, is_not), "only in a subquery");
        assert!(plan_has_part(&around, is_not));
    }
}
