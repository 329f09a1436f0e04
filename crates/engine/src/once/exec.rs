//! The plan node of a mention: a leaf whose rows are those of a plan that all its mentions share.
//!
//! An equal subtree is a mention, too. No rule changes the shared plan: all have run on it. One
//! mention shows it as its child, for EXPLAIN and for what counts the bytes of scans.
//! WQ1: all mentions of one plan read the rows of one computation, which belongs to one execution
//! of the whole plan. An execution is told by its [`TaskContext`]: the rounds of a recursive query
//! have the same one, the next execution of a prepared statement another.

use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use parking_lot::Mutex;

use super::list::List;
use super::reader::Reader;
use crate::tasks::yielding;

/// A plan whose rows several nodes read.
pub(crate) struct Shared {
    name: Arc<str>,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    executions: Mutex<Vec<Execution>>,
    /// Of writing to disk.
    metrics: ExecutionPlanMetricsSet,
}

/// The rows of one execution: a list for each partition.
struct Execution {
    /// It keeps the address from being used for another one.
    context: Weak<TaskContext>,
    lists: Vec<Arc<List>>,
}

impl Shared {
    pub(crate) fn new(name: &str, input: Arc<dyn ExecutionPlan>) -> Arc<Self> {
        let properties = PlanProperties::clone(input.properties());
        Arc::new(Self {
            name: name.into(),
            properties: Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative)),
            input,
            executions: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    pub(super) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// A partition's list of the execution with this context. Lists of executions that have ended
    /// are dropped.
    fn list(&self, partition: usize, context: &Arc<TaskContext>) -> Arc<List> {
        let mut executions = self.executions.lock();
        executions.retain(|execution| execution.context.strong_count() > 0);
        let own = |execution: &&Execution| execution.context.as_ptr() == Arc::as_ptr(context);
        if let Some(execution) = executions.iter().find(own) {
            return Arc::clone(&execution.lists[partition]);
        }
        let partitions = 0..self.input.output_partitioning().partition_count();
        let lists: Vec<_> = partitions
            .map(|of| {
                let metrics = SpillMetrics::new(&self.metrics, of);
                List::new(&self.input, of, context, metrics)
            })
            .collect();
        let list = Arc::clone(&lists[partition]);
        let context = Arc::downgrade(context);
        executions.push(Execution { context, lists });
        list
    }
}

/// The plan node.
pub(crate) struct OnceExec {
    shared: Arc<Shared>,
    /// Whether the shared plan is shown below this node.
    shows: bool,
    metrics: ExecutionPlanMetricsSet,
}

impl OnceExec {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            shows: false,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// A node of the same rows, below which the shared plan is shown.
    pub(crate) fn showing(&self) -> Self {
        Self {
            shows: true,
            ..Self::new(&self.shared)
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn shows(&self) -> bool {
        self.shows
    }
}

impl DisplayAs for OnceExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.shared.name;
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "OnceExec: {name}")?;
            }
            DisplayFormatType::TreeRender => write!(f, "{name}")?,
        }
        if self.shows {
            return Ok(());
        }
        f.write_str(", computed elsewhere")
    }
}

impl fmt::Debug for OnceExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceExec")
            .field("name", &self.shared.name)
            .field("shows", &self.shows)
            .finish_non_exhaustive()
    }
}

impl ExecutionPlan for OnceExec {
    fn name(&self) -> &'static str {
        "OnceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.shared.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.shows
            .then_some(&self.shared.input)
            .into_iter()
            .collect()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true; self.children().len()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.children().len()]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    /// The same node: other mentions read the same plan, which stays as it is.
    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
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

    /// The rounds of a recursive query read the same rows.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let list = self.shared.list(partition, &context);
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let schema = self.shared.input.schema();
        Ok(yielding(Box::pin(Reader::new(list, schema, baseline))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        if self.shows {
            for metric in self.shared.metrics.clone_inner().iter() {
                metrics.push(Arc::clone(metric));
            }
        }
        Some(metrics)
    }

    fn child_stats_requests(&self, _: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::Skip; self.children().len()]
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        StatisticsContext::new().compute(self.shared.input.as_ref(), args)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
