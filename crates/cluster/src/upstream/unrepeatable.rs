//! Which inputs can an operator not read again?
//!
//! What comes from other nodes: a task's rows are sent once. DataFusion's nested loop join reads
//! its left input again where memory has no room for it (`initiate_fallback` in
//! `nested_loop_join.rs`), and the library answers that with an internal error. Here it becomes a
//! failure for want of memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coscan_pg::{OverExec, Way};
use datafusion::common::resources_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::NetworkBoundaryExt;

/// The plan of one process, down to where rows come from others, in which no join reads such rows
/// twice.
pub(super) fn read_once(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let marked = plan.transform_down(|node| {
        if node.as_network_boundary().is_some() {
            return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
        }
        let mut inputs: Vec<_> = node.children().into_iter().cloned().collect();
        let left = match inputs.first_mut() {
            Some(left) if node.is::<NestedLoopJoinExec>() => left,
            _ => return Ok(Transformed::no(node)),
        };
        if left.is::<OverExec<Once>>() || !reads_others(left)? {
            return Ok(Transformed::no(node));
        }
        *left = Arc::new(Once::of(Arc::clone(left)));
        replace_children_if_necessary(node, inputs).map(Transformed::yes)
    });
    marked.data()
}

/// Whether rows of other nodes come into the plan.
pub(super) fn reads_others(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(node.as_network_boundary().is_some()))
}

/// The input is read once.
#[derive(Debug)]
struct Once {
    /// Whether each partition was read.
    was_read: Vec<AtomicBool>,
}

impl Once {
    fn of(input: Arc<dyn ExecutionPlan>) -> OverExec<Self> {
        let once = Self::new(&input);
        OverExec::new(input, once)
    }

    fn new(input: &Arc<dyn ExecutionPlan>) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let was_read = (0..partitions).map(|_| AtomicBool::default()).collect();
        Self { was_read }
    }
}

impl Way for Once {
    const NAME: &'static str = "UnrepeatableExec";

    fn over(&self, input: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        Some(Self::new(input))
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let was_read = self.was_read.get(partition);
        if was_read.is_some_and(|was_read| was_read.swap(true, Ordering::Relaxed)) {
            return resources_err!(
                "the left input of a nested loop join does not fit into the memory that is free, \
                 and rows of other nodes cannot be read again"
            );
        }
        input.execute(partition, context)
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;
    use datafusion::error::DataFusionError;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    #[tokio::test]
    async fn a_second_reading_fails_for_want_of_memory() {
        let empty = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        let once = Once::of(empty);
        assert!(once.execute(0, Arc::default()).is_ok());
        let error = once.execute(0, Arc::default()).err().unwrap();
        assert!(matches!(error, DataFusionError::ResourcesExhausted(_)));
    }
}
