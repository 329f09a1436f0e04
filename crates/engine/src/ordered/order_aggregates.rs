//! Which rule replaces aggregates and joins by operators in the order of their tables?
//!
//! The replaced nodes return rows partitioned by hash. An ordered aggregation and a clustered join
//! do not: their partitions take whichever chunk comes next. If a node above depends on the
//! partitioning (a partitioned join, another aggregate), the rows are repartitioned just below
//! that node, or below the sort that it needs, so that rows that a HAVING drops are not
//! repartitioned. Usually no node does, and no repartitioning is added. Over a table with a
//! declared order the replaced node may return rows in order, too. If a node above needs that
//! order, the aggregate or join is not replaced.
//! Not here: which aggregates (`recognise.rs`) and joins (`join/recognise.rs`).

use std::sync::{Arc, Weak};

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::Distribution;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::InterleaveExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

use super::exec::OrderedAggregateExec;
use super::join::ClusteredJoinExec;
use crate::resources::Resources;
use crate::settings::{MergeJoins, Settings};

/// Replaces aggregates by ordered aggregations, and joins by clustered joins. It runs after
/// fragments are recognised, and before operators are shared.
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
        let replacing = Replacing {
            aggregates: settings.ordered_aggregates,
            joins: settings.merge_joins,
            resources: &resources,
        };
        let is_on =
            settings.cooperative && (replacing.aggregates || replacing.joins != MergeJoins::Off);
        if !is_on || resources.memory().limit() < MEMORY_MIN {
            return Ok(plan);
        }
        // An order over several partitions is invisible to the reader. If a plan has one
        // partition, a sort above it may have been dropped as unnecessary.
        let above = Above {
            division: false,
            order: plan.output_partitioning().partition_count() == 1,
        };
        Ok(replacing.replaced(&plan, above)?.node)
    }

    fn name(&self) -> &'static str {
        "CoscanOrderAggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// With less memory than this nothing is computed in the order of tables. An ordered operator
/// works while its scan holds a chunk; a hash table has released all chunks before it returns its
/// first row. With little memory the chunk's arrays leave too little to a sort above.
const MEMORY_MIN: u64 = 64 << 20;

/// The nodes to replace.
struct Replacing<'a> {
    aggregates: bool,
    joins: MergeJoins,
    resources: &'a Arc<Resources>,
}

struct Replaced {
    node: Arc<dyn ExecutionPlan>,
    /// Whether its rows are not partitioned as those of the original node.
    undivided: bool,
}

/// The properties of rows on which a node above depends.
#[derive(Clone, Copy)]
struct Above {
    /// The partitioning of the rows.
    division: bool,
    /// The order of the rows.
    order: bool,
}

impl Replacing<'_> {
    /// A plan with its aggregates and joins replaced.
    fn replaced(&self, node: &Arc<dyn ExecutionPlan>, above: Above) -> Result<Replaced> {
        let as_it_was = || Replaced {
            node: Arc::clone(node),
            undivided: false,
        };
        if node.is::<RecursiveQueryExec>() {
            // A recursive query executes the plan below it several times.
            return Ok(as_it_was());
        }
        if let Some(ordered) = self.instead_of(node, above)? {
            return Ok(in_place_of(node, ordered));
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
            let mut below = self.replaced(child, counts)?;
            // Rows are repartitioned below a sort, not above it: the node above needs its order,
            // too.
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

    /// The node that replaces `node`, if there is one.
    fn instead_of(
        &self,
        node: &Arc<dyn ExecutionPlan>,
        above: Above,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut instead = None;
        if self.aggregates {
            instead = OrderedAggregateExec::of(node, above.order, self.resources)?;
        }
        let is_wanted = match self.joins {
            MergeJoins::On => true,
            MergeJoins::Auto => divides_its_inputs(node),
            MergeJoins::Off => false,
        };
        if is_wanted && instead.is_none() {
            instead = ClusteredJoinExec::of(node, above.order, self.resources);
        }
        Ok(instead)
    }
}

/// The node in place of `before`, in one partition if that has one.
fn in_place_of(before: &Arc<dyn ExecutionPlan>, node: Arc<dyn ExecutionPlan>) -> Replaced {
    let is_one = before.output_partitioning().partition_count() == 1;
    if is_one && node.output_partitioning().partition_count() > 1 {
        return Replaced {
            node: Arc::new(CoalescePartitionsExec::new(node)),
            undivided: false,
        };
    }
    Replaced {
        node,
        undivided: true,
    }
}

/// Whether this is a hash join that partitions both of its inputs. That costs more than joining
/// them chunk by chunk; probing a single hash table, whose keys also filter the scan, costs less.
fn divides_its_inputs(node: &Arc<dyn ExecutionPlan>) -> bool {
    let join = node.downcast_ref::<HashJoinExec>();
    join.is_some_and(|join| *join.partition_mode() == PartitionMode::Partitioned)
}

/// The same rows, partitioned as those of `before`.
fn divided(undivided: Replaced, before: &Arc<dyn ExecutionPlan>) -> Result<Replaced> {
    let partitioning = before.output_partitioning();
    let node = match partitioning {
        Partitioning::Hash(..) => Arc::new(RepartitionExec::try_new(
            undivided.node,
            partitioning.clone(),
        )?),
        // No node can depend on another partitioning.
        _ => undivided.node,
    };
    Ok(Replaced {
        node,
        undivided: false,
    })
}
