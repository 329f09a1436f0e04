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
use parking_lot::Mutex;

use super::operator::{Part, SharedOperator, Shown};
use super::reader::{Execution, Reader};
use crate::tasks::yielding;

/// The plan node.
pub(crate) struct SharedExec {
    operator: Arc<SharedOperator>,
    executed: Mutex<Executed>,
    shown: Arc<Shown>,
}

/// How far the node has been executed. A second execution is left to the child.
enum Executed {
    Not,
    /// Not all partitions are open yet.
    Partly(Arc<Execution>, Vec<bool>),
    Wholly,
}

impl SharedExec {
    pub(crate) fn new(operator: SharedOperator) -> Self {
        Self {
            operator: Arc::new(operator),
            executed: Mutex::new(Executed::Not),
            shown: Arc::default(),
        }
    }

    /// The execution of a stream that is being opened; `None` if it is not the first execution.
    fn open(&self, partition: usize, context: &Arc<TaskContext>) -> Option<Arc<Execution>> {
        let mut executed = self.executed.lock();
        if let Executed::Not = *executed {
            let partitions = self.operator.child.output_partitioning().partition_count();
            let (operator, context) = (Arc::clone(&self.operator), Arc::clone(context));
            let execution = Execution::new(operator, context, Arc::clone(&self.shown));
            *executed = Executed::Partly(Arc::new(execution), vec![false; partitions]);
        }
        let Executed::Partly(execution, opened) = &mut *executed else {
            return None;
        };
        let is_open = opened.get_mut(partition)?;
        if std::mem::replace(is_open, true) {
            return None;
        }
        let execution = Arc::clone(execution);
        if opened.iter().all(|opened| *opened) {
            *executed = Executed::Wholly;
        }
        Some(execution)
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
        let query = self.operator.query;
        match self.shown.part() {
            None => Ok(()),
            Some(Part::Host) => write!(f, ", query={query}, host"),
            Some(Part::Satellite { of }) => write!(f, ", query={query}, satellite of query {of}"),
            Some(Part::Late { of }) => write!(f, ", query={query}, kept of query {of}"),
            Some(Part::Alone) => write!(f, ", query={query}, alone"),
        }
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
        match self.open(partition, &context) {
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
