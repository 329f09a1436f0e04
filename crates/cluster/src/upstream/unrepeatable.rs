//! Which inputs can an operator not read again?
//!
//! What comes from other nodes: a task's rows are sent once. DataFusion's nested loop join reads
//! its left input again where memory has no room for it (`initiate_fallback` in
//! `nested_loop_join.rs`), and the library answers that with an internal error. Here it becomes a
//! failure for want of memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{internal_err, resources_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
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
        if left.is::<UnrepeatableExec>() || !reads_others(left)? {
            return Ok(Transformed::no(node));
        }
        *left = Arc::new(UnrepeatableExec::new(Arc::clone(left)));
        replace_children_if_necessary(node, inputs).map(Transformed::yes)
    });
    marked.data()
}

/// Whether rows of other nodes come into the plan.
pub(super) fn reads_others(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(node.as_network_boundary().is_some()))
}

/// An input that is read once.
#[derive(Debug)]
struct UnrepeatableExec {
    input: Arc<dyn ExecutionPlan>,
    /// Whether each partition was read.
    was_read: Vec<AtomicBool>,
}

impl UnrepeatableExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let was_read = (0..partitions).map(|_| AtomicBool::default()).collect();
        Self { input, was_read }
    }
}

impl DisplayAs for UnrepeatableExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for UnrepeatableExec {
    fn name(&self) -> &'static str {
        "UnrepeatableExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(child), true) => Ok(Arc::new(Self::new(child))),
            _ => internal_err!("an UnrepeatableExec has one child"),
        }
    }

    fn execute(
        &self,
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
        self.input.execute(partition, context)
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
        let once = UnrepeatableExec::new(empty);
        assert!(once.execute(0, Arc::default()).is_ok());
        let error = once.execute(0, Arc::default()).err().unwrap();
        assert!(matches!(error, DataFusionError::ResourcesExhausted(_)));
    }
}
