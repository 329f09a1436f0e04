//! A plan node that returns its input's rows in a way of its own, and is as its input in all else.
//!
//! Not here: what the ways are (nodes of the engine and of the cluster).

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
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};

/// How rows are returned.
pub trait Way: fmt::Debug + Send + Sync + Sized + 'static {
    /// The node's name in plans.
    const NAME: &'static str;

    /// The same way over another input; `None` if that input takes the node's place.
    #[must_use]
    fn over(&self, input: &Arc<dyn ExecutionPlan>) -> Option<Self>;

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

    /// What plans show behind the name.
    ///
    /// # Errors
    /// The formatter's.
    fn show(&self, _: &Arc<dyn ExecutionPlan>, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    /// What the node has counted.
    fn metrics(&self, _: &dyn ExecutionPlan) -> Option<MetricsSet> {
        None
    }
}

/// See the file's header.
#[derive(Debug)]
pub struct OverExec<W> {
    input: Arc<dyn ExecutionPlan>,
    way: W,
}

impl<W: Way> OverExec<W> {
    /// A node over this input.
    #[must_use]
    pub fn new(input: Arc<dyn ExecutionPlan>, way: W) -> Self {
        Self { input, way }
    }

    /// How it returns rows.
    #[must_use]
    pub fn way(&self) -> &W {
        &self.way
    }
}

impl<W: Way> DisplayAs for OverExec<W> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(W::NAME)?;
        self.way.show(&self.input, f)
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

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => match self.way.over(&input) {
                Some(way) => Ok(Arc::new(Self { input, way })),
                None => Ok(input),
            },
            _ => internal_err!("{} has one child", W::NAME),
        }
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

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("{} has one child", W::NAME),
        }
    }

    fn fetch(&self) -> Option<usize> {
        self.input.fetch()
    }
}
