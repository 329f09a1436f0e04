//! Conditions without columns, above groups that exist without rows.
//!
//! `SELECT count(*) … HAVING (SELECT false)`: DataFusion filters the rows that are grouped by a
//! condition that names no column of the groups (55.2, `push_down_filter.rs`). But one group is
//! made of no rows at all, if there are no keys, or an empty grouping set. Here such a condition
//! stays above. To be deleted when the rule asks for keys.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Aggregate, Expr, Filter, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rule of this name, held back.
#[derive(Debug)]
pub(crate) struct PushDown(Rule);

impl PushDown {
    /// Holds `rule` back if it is the one that pushes filters down.
    pub(crate) fn around(rule: Rule) -> Rule {
        if rule.name() == "push_down_filter" {
            Arc::new(Self(rule))
        } else {
            rule
        }
    }
}

impl OptimizerRule for PushDown {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        plan.transform_down_with_subqueries(|node| match &node {
            LogicalPlan::Filter(filter) if stays(filter) => Ok(Transformed::no(node)),
            _ => self.0.rewrite(node, config),
        })
    }
}

fn stays(filter: &Filter) -> bool {
    let LogicalPlan::Aggregate(groups) = filter.input.as_ref() else {
        return false;
    };
    let without_columns = |part: &&Expr| !part.any_column_refs();
    has_group_of_nothing(groups)
        && split_conjunction(&filter.predicate)
            .iter()
            .any(without_columns)
}

fn has_group_of_nothing(groups: &Aggregate) -> bool {
    matches!(groups.group_expr.as_slice(), [] | [Expr::GroupingSet(_)])
}
