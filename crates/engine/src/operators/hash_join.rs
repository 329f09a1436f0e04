//! The plan node of a hash join whose table is shared: queries that join other rows with the same
//! ones probe one hash table.
//!
//! The table is a run like any other (`HashTableExec`), with one row as its output. A query takes
//! that row, then probes the run's table with a join of its own, and leaves the run when it is
//! done. So the table is there for later queries until the last one that probes it is done, and if
//! the run fails, a query that had to wait for it makes its own.
//! Not here: which joins are wrapped (`plan/share_operators/`).
//! Cancel safety: a query that is cancelled while the table is made leaves the others to make it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use coscan_core::operators::OperatorKind;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, Stream, StreamExt};
use parking_lot::Mutex;

use super::coordinator::Coordinator;
use super::first::FirstExecution;
use super::hash_table::{HashTableExec, join};
use super::key::OperatorKey;
use super::operator::{OwnerCell, SharedOperator, Shown};
use super::reader::{Execution, Reader};

/// What the metrics of the node show of the making of the table.
const OF_THE_TABLE: [&str; 2] = ["scan_bytes_saved", "satellites"];

/// The plan node.
pub(crate) struct SharedHashJoinExec {
    /// The join as the planner made it. Only a second execution runs it.
    join: Arc<dyn ExecutionPlan>,
    /// The making of its table.
    table: Arc<SharedOperator>,
    first: FirstExecution<Probing>,
    shown: Arc<Shown>,
    metrics: ExecutionPlanMetricsSet,
}

/// The making of a join's hash table.
pub(crate) struct HashTable {
    /// What is in the table.
    pub(crate) key: OperatorKey,
    /// Bytes that the scans of its rows read.
    pub(crate) cost_bytes: u64,
    /// The number of the query.
    pub(crate) query: u64,
    /// Who reads the join.
    pub(crate) outer: Arc<OwnerCell>,
    /// Who reads the shared operators that the table's rows come from.
    pub(crate) inside: Arc<OwnerCell>,
    pub(crate) coordinator: Arc<Coordinator>,
}

/// One query's execution of the node: the join, once the table is there.
type Probing = Shared<BoxFuture<'static, Result<Arc<Probe>, Arc<DataFusionError>>>>;

/// A query's join over a table that is there.
struct Probe {
    join: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    /// Keeps the query in the run whose table it probes.
    in_run: Mutex<Reader>,
    shown: Arc<Shown>,
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(satellites) = self.in_run.get_mut().satellites() {
            self.shown.count("satellites").add(satellites);
        }
    }
}

impl SharedHashJoinExec {
    /// `join` is a [`HashJoinExec`](datafusion::physical_plan::joins::HashJoinExec) of which
    /// `table` is the table.
    pub(crate) fn new(join: Arc<dyn ExecutionPlan>, table: HashTable) -> Self {
        let table = SharedOperator {
            key: table.key,
            kind: OperatorKind::HashTable,
            child: Arc::new(HashTableExec::new(Arc::clone(&join))),
            cost_bytes: table.cost_bytes,
            // The bytes of a table are an operator's: they are not given back when memory is short.
            keep_bytes_max: 0,
            query: table.query,
            outer: table.outer,
            inside: table.inside,
            coordinator: table.coordinator,
        };
        Self {
            join,
            table: Arc::new(table),
            first: FirstExecution::new(),
            shown: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn begin(&self, context: Arc<TaskContext>) -> Probing {
        let (table, shown) = (Arc::clone(&self.table), Arc::clone(&self.shown));
        let (own, metrics) = (Arc::clone(&self.join), self.metrics.clone());
        let making = Execution::new(table, Arc::clone(&context), Arc::clone(&shown));
        let mut reader = Reader::new(Arc::new(making), 0);
        let probe = async move {
            match reader.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return internal_err!("a hash table was not made"),
            }
            let plan = reader.plan();
            let Some(table) = plan.downcast_ref::<HashTableExec>() else {
                return internal_err!("{} makes no hash table", plan.name());
            };
            if Arc::ptr_eq(&plan, &reader.own_plan()) {
                copy_build(table, &metrics);
            }
            Ok(Arc::new(Probe {
                join: Arc::new(table.probed_by(join(&own)?)?),
                context,
                in_run: Mutex::new(reader),
                shown,
            }))
        };
        probe.map(|probe| probe.map_err(Arc::new)).boxed().shared()
    }
}

/// Hands what was counted while a table was made to the query that made it.
fn copy_build(table: &HashTableExec, to: &ExecutionPlanMetricsSet) {
    for metric in table.metrics_of_table().iter().flat_map(MetricsSet::iter) {
        if metric.value().name().starts_with("build_") {
            to.register(Arc::clone(metric));
        }
    }
}

impl DisplayAs for SharedHashJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                f.write_str("SharedHashJoinExec: hash table")?;
                self.shown.fmt_part(self.table.query, f)?;
                f.write_str(", ")?;
            }
            DisplayFormatType::TreeRender => {}
        }
        self.join.fmt_as(t, f)
    }
}

impl fmt::Debug for SharedHashJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SharedHashJoinExec");
        shown.field("join", &self.join).finish_non_exhaustive()
    }
}

impl ExecutionPlan for SharedHashJoinExec {
    fn name(&self) -> &'static str {
        "SharedHashJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.join.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.join.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.join.input_distribution_requirements()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.join.maintains_input_order()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.join.apply_expressions(f)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.join.dynamic_expressions_produced()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Arc::clone(&self.join).replace_children(children, options)
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
        let partitions = self.join.output_partitioning().partition_count();
        let begin = || self.begin(Arc::clone(&context));
        let Some(probing) = self.first.open(partition, partitions, begin) else {
            return self.join.execute(partition, context);
        };
        Ok(Box::pin(ProbeStream {
            at: At::Waits((*probing).clone()),
            schema: self.join.schema(),
            partition,
            baseline: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        for metric in self.shown.metrics.clone_inner().iter() {
            if OF_THE_TABLE.contains(&metric.value().name()) {
                metrics.push(Arc::clone(metric));
            }
        }
        Some(metrics)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.join.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.join.statistics_from_inputs(inputs, args)
    }

    fn fetch(&self) -> Option<usize> {
        self.join.fetch()
    }
}

/// One partition of a query's join.
struct ProbeStream {
    at: At,
    schema: SchemaRef,
    partition: usize,
    baseline: BaselineMetrics,
}

enum At {
    Waits(Probing),
    Probes {
        rows: SendableRecordBatchStream,
        _keeps_the_table: Arc<Probe>,
    },
    Finished,
}

impl ProbeStream {
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            match &mut self.at {
                At::Waits(probing) => {
                    let probe = ready!(probing.poll_unpin(cx)).map_err(DataFusionError::Shared)?;
                    let context = Arc::clone(&probe.context);
                    let rows = probe.join.execute(self.partition, context)?;
                    self.at = At::Probes {
                        rows,
                        _keeps_the_table: probe,
                    };
                }
                At::Probes { rows, .. } => return rows.poll_next_unpin(cx),
                At::Finished => return Poll::Ready(None),
            }
        }
    }
}

impl Stream for ProbeStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.poll_batch(cx);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.at = At::Finished;
        }
        self.baseline.record_poll(polled)
    }
}

impl RecordBatchStream for ProbeStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
