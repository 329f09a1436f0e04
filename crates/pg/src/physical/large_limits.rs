//! Restricts DataFusion's heap for the first groups of an order.
//!
//! Before the first row, it allocates a table for as many groups as LIMIT allows, without a
//! budget: `SELECT DISTINCT x … ORDER BY x LIMIT 1000000000000` kills the process. And it counts
//! each NaN as a new group. This rule removes the limit from such aggregates; the limit above them
//! remains. Delete it once DataFusion's table grows with its groups and handles NaN
//! (`aggregates/topk/hash_table.rs`).

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use super::Rule;
use crate::trees::Tree;

/// DataFusion's rule that gives aggregates a limit and an order.
const LIMIT_AGGREGATION: &str = "LimitAggregation";
/// Up to this number of groups DataFusion's table is small.
const GROUPS_MAX: usize = 1 << 14;

/// Adds our rule after `rule` if that is the one it corrects.
pub(super) fn behind(rule: Rule) -> Vec<Rule> {
    if rule.name() == LIMIT_AGGREGATION {
        return vec![rule, Arc::new(LargeLimits)];
    }
    vec![rule]
}

/// Whether the aggregate groups by a float.
fn has_floats(aggregate: &AggregateExec) -> bool {
    let keys = aggregate.group_expr().expr().len();
    let schema = aggregate.schema();
    let mut keys = schema.fields().iter().take(keys);
    keys.any(|key| key.data_type().is_floating())
}

/// See the file's header.
#[derive(Debug)]
struct LargeLimits;

impl PhysicalOptimizerRule for LargeLimits {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let found = plan.change_down(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            let limited = aggregate.zip(aggregate.and_then(AggregateExec::limit_options));
            Ok(match limited {
                Some((aggregate, limit))
                    if limit.descending().is_some()
                        && (limit.limit() > GROUPS_MAX || has_floats(aggregate)) =>
                {
                    Transformed::yes(Arc::new(aggregate.with_new_limit_options(None)))
                }
                _ => Transformed::no(node),
            })
        })?;
        Ok(found.data)
    }

    fn name(&self) -> &'static str {
        "large_limits"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
