//! Which inputs have an order that DataFusion cannot prove?
//!
//! DataFusion moves a sort below a projection or into the branches of a union, and then cannot
//! prove that the order still holds: `SELECT w a, w b … UNION ALL SELECT 1, 2 ORDER BY a DESC, b`
//! is refused by `SanityCheckPlan`, as is a window partitioned by a constant over a sorted file.
//! Such an input is sorted again. Delete this file once `SanityCheckPlan` accepts all plans of
//! `EnsureRequirements`.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::trees::Tree;

/// See the file's header.
#[derive(Debug)]
pub(super) struct UnprovenOrders;

impl PhysicalOptimizerRule for UnprovenOrders {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let found = plan.change_up(|node| {
            let mut inputs = Vec::new();
            for (input, order) in node
                .children()
                .into_iter()
                .zip(node.required_input_ordering())
            {
                let sorted = match order {
                    Some(order) => sorted(input, order.into_single())?,
                    None => None,
                };
                inputs.push(sorted.unwrap_or_else(|| Arc::clone(input)));
            }
            let changed = replace_children_if_necessary(Arc::clone(&node), inputs)?;
            Ok(if Arc::ptr_eq(&changed, &node) {
                Transformed::no(node)
            } else {
                Transformed::yes(changed)
            })
        })?;
        Ok(found.data)
    }

    fn name(&self) -> &'static str {
        "unproven_orders"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The input with a sort, unless it is known to have the order.
fn sorted(
    input: &Arc<dyn ExecutionPlan>,
    order: LexRequirement,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let properties = input.equivalence_properties();
    if properties.ordering_satisfy_requirement(order.clone())? {
        return Ok(None);
    }
    let keys = order.into_iter().map(Into::into);
    Ok(LexOrdering::new(keys).map(|keys| {
        let several = input.output_partitioning().partition_count() > 1;
        let sort = SortExec::new(keys, Arc::clone(input)).with_preserve_partitioning(several);
        Arc::new(sort) as _
    }))
}
