//! `SELECT * FROM (SELECT … ORDER BY x LIMIT 2 OFFSET 2) q`: how many rows must the sort keep?
//!
//! If an order is required above an OFFSET, DataFusion's rule that places sorts limits the sort
//! below to the rows of LIMIT, without those that OFFSET skips (55.2,
//! `enforce_sorting/sort_pushdown.rs`), so rows are lost; without LIMIT it drops the sort. Here
//! the rule runs separately on the plan below an OFFSET, whose order is required, and on the plan
//! above, for which the OFFSET is a source of rows. Delete this file once the rule takes
//! `GlobalLimitExec::skip` into account.

use std::fmt;
use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, OrderingRequirements, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use super::{PLACES_SORTS, Rule};
use crate::trees::Tree;

/// Wraps `rule` if it is the one that places sorts.
pub(super) fn around(rule: Rule) -> Rule {
    if rule.name() == PLACES_SORTS {
        return Arc::new(Offsets(rule));
    }
    rule
}

/// See the file's header.
#[derive(Debug)]
struct Offsets(Rule);

impl PhysicalOptimizerRule for Offsets {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let apart = plan.change_down(|node| {
            let offset = node.downcast_ref::<GlobalLimitExec>();
            let Some(offset) = offset.filter(|limit| limit.skip() > 0) else {
                return Ok(Transformed::no(node));
            };
            let input = self.in_order(offset.input(), config)?;
            let rows = Arc::new(GlobalLimitExec::new(input, offset.skip(), offset.fetch()));
            let apart = Arc::new(Apart { rows });
            Ok(Transformed::new(apart, true, TreeNodeRecursion::Jump))
        })?;
        let placed = self.0.optimize(apart.data, config)?;
        if !apart.transformed {
            return Ok(placed);
        }
        let together = placed.change_down(|node| {
            let rows = node
                .downcast_ref::<Apart>()
                .map(|apart| Arc::clone(&apart.rows));
            Ok(match rows {
                Some(rows) => Transformed::new(rows, true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        });
        together.data()
    }

    fn name(&self) -> &'static str {
        PLACES_SORTS
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

impl Offsets {
    /// The input of an OFFSET: in one partition, and in its own order.
    fn in_order(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let placed = self.optimize(required(input)?, config)?;
        let bare = placed.change_down(|node| {
            let input = node
                .downcast_ref::<OutputRequirementExec>()
                .map(OutputRequirementExec::input);
            Ok(input.map_or_else(|| Transformed::no(node), Transformed::yes))
        });
        bare.data()
    }
}

/// The rows in one partition, in the order of the sort below, even if its keys are no columns of
/// the node. (`output_ordering` is not used: until sorts are placed, windows report an order of
/// their own.)
fn required(rows: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(input) = in_order_of(rows).filter(|input| has_sort(input)) {
        let input = required(input)?;
        return replace_children_if_necessary(Arc::clone(rows), vec![input]);
    }
    let sort = rows.downcast_ref::<SortExec>();
    Ok(Arc::new(OutputRequirementExec::new(
        Arc::clone(rows),
        sort.map(|sort| OrderingRequirements::from(sort.expr().clone())),
        Distribution::SinglePartition,
        None,
    )))
}

/// The only input of a node that keeps its order.
fn in_order_of(rows: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    match (
        rows.children().as_slice(),
        rows.maintains_input_order().as_slice(),
    ) {
        (&[input], [true]) => Some(input),
        _ => None,
    }
}

fn has_sort(rows: &Arc<dyn ExecutionPlan>) -> bool {
    rows.is::<SortExec>() || in_order_of(rows).is_some_and(has_sort)
}

/// A plan that acts as a source of rows. It never runs.
#[derive(Debug)]
struct Apart {
    rows: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for Apart {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Apart")
    }
}

impl ExecutionPlan for Apart {
    fn name(&self) -> &'static str {
        "Apart"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.rows.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a detached plan was not put back")
    }
}
