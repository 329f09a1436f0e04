//! Keeps conditions without columns above nodes that they must not pass.
//!
//! `SELECT count(*) … HAVING (SELECT false)`: DataFusion pushes a condition that names no column
//! of the groups below the aggregate (55.2, `push_down_filter.rs`). But without keys, or with an
//! empty grouping set, there is a group even if no rows are left. Likewise it pushes such a
//! condition into an extension node, whatever the node prevents; a [`Once`] would apply it to no
//! mention or to all. Here such a condition stays above. Delete the first case once the rule checks
//! for keys.
//!
//! A condition on a column whose key is hidden (`aggregates/dependencies.rs`) is pushed down as one
//! on the column itself, so that scans skip by it.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Aggregate, Expr, Filter, LogicalPlan};
use datafusion::optimizer::simplify_expressions::simplify_predicates;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::functions::with_key;
use crate::once::Once;
use crate::trees::{PlanTree, Tree};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// Wraps the optimizer rule of this name.
#[derive(Debug)]
pub(crate) struct PushDown(Rule);

impl PushDown {
    /// Wraps `rule` if it is the one that pushes filters down.
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
        plan.change_down_with_subqueries(|node| {
            let node = on_columns(node)?;
            match &node.data {
                LogicalPlan::Filter(filter) if stays(filter)? => Ok(node),
                _ => node.transform_data(|node| self.0.rewrite(node, config)),
            }
        })
    }
}

/// A filter on columns in place of one on the calls that hide their keys.
fn on_columns(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(mut filter) = node else {
        return Ok(Transformed::no(node));
    };
    let predicate = std::mem::take(&mut filter.predicate);
    let plain = predicate.change_up(|part| Ok(with_key(part)))?;
    filter.predicate = plain.data;
    let node = LogicalPlan::Filter(filter);
    Ok(Transformed::new_transformed(node, plain.transformed))
}

fn stays(filter: &Filter) -> Result<bool> {
    // The rule makes one filter of several, and finds contradictions, of which no column is left:
    // `count(*) = 1 AND count(*) = 2`.
    let mut parts = split_conjunction_owned(filter.predicate.clone());
    let mut below = filter.input.as_ref();
    while let LogicalPlan::Filter(next) = below {
        parts.extend(split_conjunction_owned(next.predicate.clone()));
        below = next.input.as_ref();
    }
    let must_not_pass = match below {
        LogicalPlan::Aggregate(groups) => has_group_of_nothing(groups),
        node => Once::of(node).is_some(),
    };
    if !must_not_pass {
        return Ok(false);
    }
    let parts = simplify_predicates(parts)?;
    Ok(parts.iter().any(|part| !part.any_column_refs()))
}

fn has_group_of_nothing(groups: &Aggregate) -> bool {
    matches!(groups.group_expr.as_slice(), [] | [Expr::GroupingSet(_)])
}
