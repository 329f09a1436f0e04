//! Rules of DataFusion's over physical plans that lose rows or refuse plans, held back where they
//! would.
//!
//! | file | question |
//! |---|---|
//! | `ambiguous_filters.rs` | which column does a filter that is pushed down mean? |
//! | `large_limits.rs` | which groups in order are found by a heap of the first ones? |
//! | `offsets.rs` | whose rows does the limit above a sort count? |
//! | `overstated.rs` | which orders and constants are stated though the rows do not have them? |
//! | `top_k.rs` | which rows may the filter of the first rows hide? |
//! | `unproven_orders.rs` | which inputs have an order that DataFusion cannot prove? |

mod ambiguous_filters;
mod large_limits;
mod offsets;
mod overstated;
mod top_k;
mod unproven_orders;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

use top_k::TopK;
use unproven_orders::UnprovenOrders;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

pub(crate) fn install(builder: &mut SessionStateBuilder) {
    let optimizer = builder.physical_optimizers().get_or_insert_default();
    let rules = std::mem::take(optimizer).rules.into_iter();
    let rules = rules
        .map(overstated::around)
        .map(offsets::around)
        .map(ambiguous_filters::around);
    let rules = rules
        .flat_map(large_limits::behind)
        .flat_map(before_filters);
    *builder.physical_optimizers() = Some(PhysicalOptimizer::with_rules(rules.collect()));
}

/// The last of DataFusion's rules before sorts give their filters to their inputs.
const BEFORE_FILTERS: &str = "EnsureCooperative";

/// What comes last before filters are pushed down, behind `rule` if that is the last one before.
fn before_filters(rule: Rule) -> Vec<Rule> {
    if rule.name() == BEFORE_FILTERS {
        return vec![rule, Arc::new(UnprovenOrders), Arc::new(TopK)];
    }
    vec![rule]
}
