//! A plan node for the remaining rows of a running scan: the input of DataFusion's partial
//! aggregate when a fragment works without sharing.

use std::fmt;
use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};

use crate::read::scan::{Execution, Run, open_runs};

/// The rows of the chunks that no stream or job has claimed.
pub(crate) struct RowsExec {
    execution: Arc<Execution>,
    /// The runs to read; `None`: the runs of each partition of the scan.
    runs: Option<Vec<Arc<Run>>>,
    properties: Arc<PlanProperties>,
}

impl RowsExec {
    /// A node that replaces `scan`.
    pub(crate) fn new(
        execution: Arc<Execution>,
        runs: Option<Vec<Arc<Run>>>,
        scan: &Arc<dyn ExecutionPlan>,
    ) -> Self {
        Self {
            execution,
            runs,
            properties: Arc::clone(scan.properties()),
        }
    }
}

impl DisplayAs for RowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowsExec")
    }
}

impl fmt::Debug for RowsExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowsExec").finish_non_exhaustive()
    }
}

impl ExecutionPlan for RowsExec {
    fn name(&self) -> &'static str {
        "RowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !children.is_empty() {
            return internal_err!("a RowsExec has no children");
        }
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        Ok(open_runs(
            Arc::clone(&self.execution),
            self.runs.clone(),
            partition,
            context.session_config().batch_size(),
            &self.execution.metrics,
        ))
    }
}
