//! Makes operators that multiply rows give way to others.
//!
//! DataFusion's operators yield where they read: at scans and exchanges. A join that turns one
//! batch into thousands reads nothing for minutes, and an aggregation above it drains it in one go,
//! so the thread is lost to everyone else and the query cannot be cancelled (S3). Counting each
//! batch such an operator hands out against Tokio's budget ends that, for a decrement per batch.
//!
//! Not here: a join whose filter rejects every pair. It hands out nothing, and gives way only
//! between the batches of its probe side. Its client is still answered at once, by the server's own
//! threads.

use std::sync::Arc;

use coscan::tasks::YieldingExec;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

/// The rule runs late, because what it adds would hide operators from other rules. It runs before
/// operators are shared, because after that it would undo the sharing.
#[derive(Debug)]
pub(crate) struct YieldingJoins;

impl PhysicalOptimizerRule for YieldingJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|node| {
            if MULTIPLYING.contains(&node.name()) {
                let node: Arc<dyn ExecutionPlan> = Arc::new(YieldingExec::new(node));
                return Ok(Transformed::yes(node));
            }
            Ok(Transformed::no(node))
        })?;
        Ok(wrapped.data)
    }

    fn name(&self) -> &'static str {
        "YieldingJoins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

const MULTIPLYING: &[&str] = &[
    "NestedLoopJoinExec",
    "CrossJoinExec",
    "HashJoinExec",
    "SortMergeJoinExec",
    "UnnestExec",
];
