//! A plan node that returns its input's rows in a way of its own, and is as its input in all else.
//!
//! Not here: what the ways are (`errors.rs`, `unrepeatable.rs`).

use std::fmt;
use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// How rows are returned.
pub(super) trait Way: fmt::Debug + Send + Sync + Sized + 'static {
    /// The node's name in plans.
    const NAME: &'static str;

    /// The same way over another input.
    fn over(&self, input: &Arc<dyn ExecutionPlan>) -> Self;

    /// The rows of a partition.
    ///
    /// # Errors
    /// The input's.
    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;

    /// What the node has counted.
    fn metrics(&self, _: &dyn ExecutionPlan) -> Option<MetricsSet> {
        None
    }
}

/// See the file's header.
#[derive(Debug)]
pub(super) struct OverExec<W> {
    input: Arc<dyn ExecutionPlan>,
    way: W,
}

impl<W> OverExec<W> {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, way: W) -> Self {
        Self { input, way }
    }
}

impl<W: Way> DisplayAs for OverExec<W> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(W::NAME)
    }
}

impl<W: Way> ExecutionPlan for OverExec<W> {
    fn name(&self) -> &'static str {
        W::NAME
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
            (Some(input), true) => {
                let way = self.way.over(&input);
                Ok(Arc::new(Self { input, way }))
            }
            _ => internal_err!("{} has one child", W::NAME),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.way.metrics(self.input.as_ref())
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.way.execute(&self.input, partition, context)
    }
}
