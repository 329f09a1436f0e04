//! The rule that has aggregates done in the order of their tables.
//!
//! The aggregates that it replaces give their groups divided by hash, which an ordered aggregation
//! does not: its partitions take whichever chunk comes next. Where something above counts on the
//! division (a join of partitions, another aggregate), the groups are divided just below it, or
//! below the sort that it needs, so that what a HAVING drops is not divided. Where nobody does, as
//! mostly, they are not. Over a table whose order is declared they may be given in order, too:
//! where something above needs it, the aggregate stays as it is.
//! Not here: which aggregates (`recognise.rs`).

use std::sync::{Arc, Weak};

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::Distribution;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::InterleaveExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

use super::exec::OrderedAggregateExec;
use crate::resources::Resources;
use crate::settings::Settings;

/// Puts ordered aggregations in the place of aggregates. Runs after fragments were recognised, and
/// before operators are shared.
#[derive(Debug)]
pub(crate) struct OrderAggregates {
    resources: Weak<Resources>,
}

impl OrderAggregates {
    pub(crate) fn new(resources: Weak<Resources>) -> Self {
        Self { resources }
    }
}

impl PhysicalOptimizerRule for OrderAggregates {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(settings) = config.extensions.get::<Settings>() else {
            return Ok(plan);
        };
        let Some(resources) = self.resources.upgrade() else {
            return Ok(plan);
        };
        if !settings.cooperative || !settings.ordered_aggregates {
            return Ok(plan);
        }
        // Of several partitions nobody sees an order; what is one may have had a sort above it that
        // was needless.
        let above = Above {
            division: false,
            order: plan.output_partitioning().partition_count() == 1,
        };
        Ok(replaced(&plan, above, &resources)?.node)
    }

    fn name(&self) -> &'static str {
        "CoscanOrderAggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

struct Replaced {
    node: Arc<dyn ExecutionPlan>,
    /// Its rows are not divided any more as they were.
    undivided: bool,
}

/// What something above counts on.
#[derive(Clone, Copy)]
struct Above {
    /// How rows are divided.
    division: bool,
    /// In which order they come.
    order: bool,
}

/// A plan with its aggregates replaced.
fn replaced(
    node: &Arc<dyn ExecutionPlan>,
    above: Above,
    resources: &Arc<Resources>,
) -> Result<Replaced> {
    let as_it_was = || Replaced {
        node: Arc::clone(node),
        undivided: false,
    };
    if node.is::<RecursiveQueryExec>() {
        // It executes what is below it several times.
        return Ok(as_it_was());
    }
    if let Some(ordered) = OrderedAggregateExec::of(node, above.order, resources)? {
        let is_one = node.output_partitioning().partition_count() == 1;
        return Ok(
            if is_one && ordered.output_partitioning().partition_count() > 1 {
                Replaced {
                    node: Arc::new(CoalescePartitionsExec::new(ordered)),
                    undivided: false,
                }
            } else {
                Replaced {
                    node: ordered,
                    undivided: true,
                }
            },
        );
    }
    let before = node.children();
    if before.is_empty() {
        return Ok(as_it_was());
    }
    let requirements = node.input_distribution_requirements();
    let orders = node.required_input_ordering();
    let keeps_order = node.maintains_input_order();
    let merges = node.is::<CoalescePartitionsExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<RepartitionExec>();
    let mut children = Vec::with_capacity(before.len());
    let mut undivided = false;
    for (at, child) in before.into_iter().enumerate() {
        let own = node.is::<InterleaveExec>()
            || matches!(
                requirements.child_distribution(at),
                Some(Distribution::KeyPartitioned(_))
            );
        let needs_order = orders.get(at).is_some_and(Option::is_some);
        let counts = Above {
            division: own || above.division && !merges,
            order: needs_order || above.order && keeps_order.get(at).is_none_or(|keeps| *keeps),
        };
        let mut below = replaced(child, counts, resources)?;
        // Whoever is above a sort wants its order too.
        if below.undivided && counts.division && (own || node.is::<SortExec>()) {
            below = divided(below, child)?;
        }
        undivided |= below.undivided && !merges;
        children.push(below.node);
    }
    Ok(Replaced {
        node: replace_children_if_necessary(Arc::clone(node), children)?,
        undivided,
    })
}

/// The same rows, divided as those of `before`.
fn divided(undivided: Replaced, before: &Arc<dyn ExecutionPlan>) -> Result<Replaced> {
    let partitioning = before.output_partitioning();
    let node = match partitioning {
        Partitioning::Hash(..) => Arc::new(RepartitionExec::try_new(
            undivided.node,
            partitioning.clone(),
        )?),
        // Nobody can have counted on it.
        _ => undivided.node,
    };
    Ok(Replaced {
        node,
        undivided: false,
    })
}
