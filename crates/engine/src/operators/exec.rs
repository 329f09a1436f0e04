//! The plan node: an operator whose output queries share.
//!
//! The node shows the operator as its child, and the child's properties as its own. A rewrite of
//! the plan below the node removes the node: its key would not describe the new plan.
//! Not here: which operators are wrapped (`plan/share_operators/`), what its streams do
//! (`reader.rs`).

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};

use super::first::FirstExecution;
use super::operator::{SharedOperator, Shown};
use super::reader::{Execution, Reader};
use crate::tasks::yielding;

/// The plan node.
pub(crate) struct SharedExec {
    operator: Arc<SharedOperator>,
    first: FirstExecution<Execution>,
    shown: Arc<Shown>,
}

impl SharedExec {
    pub(crate) fn new(operator: SharedOperator) -> Self {
        Self {
            operator: Arc::new(operator),
            first: FirstExecution::new(),
            shown: Arc::default(),
        }
    }
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.operator.kind.name();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "SharedExec: {kind}")?;
            }
            DisplayFormatType::TreeRender => write!(f, "{kind}")?,
        }
        self.shown.fmt_part(self.operator.query, f)
    }
}

impl fmt::Debug for SharedExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedExec")
            .field("child", &self.operator.child)
            .finish_non_exhaustive()
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &'static str {
        "SharedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.operator.child.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.operator.child]
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

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(child), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("a SharedExec has one child");
        };
        Ok(child)
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
        let partitions = self.operator.child.output_partitioning().partition_count();
        let execution = self.first.open(partition, partitions, || {
            let (operator, context) = (Arc::clone(&self.operator), Arc::clone(&context));
            Execution::new(operator, context, Arc::clone(&self.shown))
        });
        match execution {
            Some(execution) => Ok(yielding(Box::pin(Reader::new(execution, partition)))),
            None => self.operator.child.execute(partition, context),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.shown.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [child] => Ok(Arc::clone(child)),
            _ => internal_err!("a SharedExec has one child"),
        }
    }

    fn fetch(&self) -> Option<usize> {
        self.operator.child.fetch()
    }
}
