//! Rules of DataFusion's over physical plans that lose rows, held back where they would.
//!
//! | file | question |
//! |---|---|
//! | `ambiguous_filters.rs` | which column does a filter that is pushed down mean? |
//! | `large_limits.rs` | which groups in order are found by a heap of the first ones? |
//! | `merged_sorts.rs` | by which keys are partitions sorted that are merged? |
//! | `offsets.rs` | whose rows does the limit above a sort count? |

mod ambiguous_filters;
mod large_limits;
mod merged_sorts;
mod offsets;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

pub(crate) fn install(builder: &mut SessionStateBuilder) {
    let optimizer = builder.physical_optimizers().get_or_insert_default();
    let rules = std::mem::take(optimizer).rules.into_iter();
    let rules = rules.map(offsets::around).map(ambiguous_filters::around);
    let rules = rules.flat_map(large_limits::behind);
    let rules = rules.flat_map(merged_sorts::behind);
    *builder.physical_optimizers() = Some(PhysicalOptimizer::with_rules(rules.collect()));
}
