//! How do operators that multiply rows yield to other queries?
//!
//! DataFusion's operators yield where they read: at scans and exchanges. A join that turns one
//! batch into thousands reads nothing for minutes, and an aggregation above it consumes them in
//! one go, so the thread is lost to all others and the query cannot be cancelled. Each batch
//! that such an operator emits is therefore counted against Tokio's budget, which costs a
//! decrement per batch.
//!
//! A join whose filter rejects every pair emits nothing. It receives the rows of its probe side in
//! small pieces, and yields between them.
//!
//! Not here: sort-merge joins with a filter, which DataFusion plans only if hash joins are turned
//! off: they yield only between the batches that they read.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};

use crate::tasks::{GivesWay, YieldingExec};

/// The name of [`YieldingJoins`].
pub(crate) const YIELDING_JOINS: &str = "CoscanYieldingJoins";

/// Runs late, because what it adds would hide operators from other rules, but before operators are
/// shared, because after that it would undo the sharing.
#[derive(Debug)]
pub(crate) struct YieldingJoins;

impl PhysicalOptimizerRule for YieldingJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|node| {
            if !MULTIPLYING.contains(&node.name()) {
                return Ok(Transformed::no(node));
            }
            let node = YieldingExec::new(in_pieces(node)?, GivesWay::AfterBatches);
            Ok(Transformed::yes(Arc::new(node) as _))
        })?;
        Ok(wrapped.data)
    }

    fn name(&self) -> &'static str {
        YIELDING_JOINS
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Gives a join that may reject pairs its probe side in pieces.
fn in_pieces(join: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let filters = |join: &HashJoinExec| join.filter().is_some();
    let loops = join.is::<NestedLoopJoinExec>();
    if !loops && !join.downcast_ref().is_some_and(filters) {
        return Ok(join);
    }
    let mut children: Vec<_> = join.children().into_iter().map(Arc::clone).collect();
    // The left side is kept in memory; the right side is the probe side.
    if let Some(probe) = children.pop() {
        let way = GivesWay::InPieces { for_loops: loops };
        children.push(Arc::new(YieldingExec::new(probe, way)));
    }
    replace_children_if_necessary(join, children)
}

const MULTIPLYING: &[&str] = &[
    "NestedLoopJoinExec",
    "CrossJoinExec",
    "HashJoinExec",
    "SortMergeJoinExec",
    "UnnestExec",
];
