//! Restricts DataFusion's rules over physical plans where they would lose rows or refuse plans.
//!
//! | file | question |
//! |---|---|
//! | `ambiguous_filters.rs` | to which column does a pushed-down filter refer? |
//! | `large_limits.rs` | for which limits does a heap find the first groups? |
//! | `offsets.rs` | to which rows does the limit above a sort apply? |
//! | `over.rs` | a plan node that is as its input, but for how it returns rows |
//! | `overstated.rs` | which stated orders and constants do the rows of a join lack? |
//! | `sequences.rs` | which rows have an order although nothing sorts them? |
//! | `top_k.rs` | which rows may the filter of a sort with a limit remove? |
//! | `unproven_orders.rs` | which inputs have an order that DataFusion cannot prove? |

mod ambiguous_filters;
mod large_limits;
mod offsets;
mod over;
mod overstated;
mod sequences;
mod top_k;
mod unproven_orders;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

pub use over::{OverExec, Way};
pub use overstated::StatedExec;
use top_k::TopK;
use unproven_orders::UnprovenOrders;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// DataFusion's rule that places sorts and repartitions.
const PLACES_SORTS: &str = "EnsureRequirements";

pub(crate) fn install(builder: &mut SessionStateBuilder) {
    let optimizer = builder.physical_optimizers().get_or_insert_default();
    let rules = std::mem::take(optimizer).rules.into_iter();
    let rules = rules
        .map(overstated::around)
        .map(offsets::around)
        .map(ambiguous_filters::around);
    let rules = rules
        .flat_map(large_limits::behind)
        .flat_map(sequences::behind)
        .flat_map(before_filters);
    *builder.physical_optimizers() = Some(PhysicalOptimizer::with_rules(rules.collect()));
}

/// DataFusion's last rule before sorts pass filters to their inputs.
const BEFORE_FILTERS: &str = "EnsureCooperative";

/// Adds our rules after `rule` if that is the last one before filters are pushed down.
fn before_filters(rule: Rule) -> Vec<Rule> {
    if rule.name() == BEFORE_FILTERS {
        return vec![rule, Arc::new(UnprovenOrders), Arc::new(TopK)];
    }
    vec![rule]
}
