//! The plan node: a cooperative scan with a partial aggregate on it.
//!
//! The buffer manager hands chunks to each partition. The partition starts a chunk job for each,
//! and returns the states that its own jobs and those of other queries delivered. Where sharing
//! does not pay or fails, the partition switches to the plan without sharing: DataFusion's partial
//! aggregate over the remaining rows of the scan.
//! Not here: which plans become this node (`recognise.rs`), jobs (`job.rs`). Cancel safety:
//! dropping a stream ends the jobs that only it waits for; other jobs continue.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use coscan_storage::pool::Scan;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{internal_datafusion_err, internal_err};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

use super::board::{Avoid, Board};
use super::job::Job;
use super::member::{Delivered, Member, TableKey};
use super::recognise::{Fragment, SharingOptions, fragment};
use super::rows_exec::RowsExec;
use crate::error::external;
use crate::read::scan::{
    Batches, Execution, Executions, PartitionMetrics, Remembers, Run, Running, stream_of,
};
use crate::tasks::in_turn;

/// A scan and the partial aggregate on it, processed chunk by chunk for all queries that want the
/// same chunk.
pub(crate) struct FragmentExec {
    fragment: Fragment,
    sharing: SharingOptions,
    executions: Executions<Shared>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// The state that the streams of one execution share.
struct Shared {
    scan: Arc<Execution>,
    member: Arc<Member>,
}

impl FragmentExec {
    /// The node that replaces a partial aggregate; `None` if `node` is not one or cannot be shared.
    ///
    /// # Errors
    /// As [`fragment`].
    pub(crate) fn of(
        node: &Arc<dyn ExecutionPlan>,
        sharing: &SharingOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let fragment = fragment(node, sharing)?;
        Ok(fragment.map(|fragment| Arc::new(Self::new(fragment, sharing.clone())) as _))
    }

    fn new(fragment: Fragment, sharing: SharingOptions) -> Self {
        let properties = Arc::clone(fragment.partial.properties());
        let (own, with) = (fragment.clone(), sharing.clone());
        let make = move || {
            let member = with.board.member(Arc::clone(&own.plan), with.cache_bytes);
            let member = Arc::new(member);
            let remembers = Arc::clone(&member) as Arc<dyn Remembers>;
            let scan = Execution::new(Arc::clone(&own.scan), own.scan_metrics.clone());
            Shared {
                scan: Arc::new(scan.with_memory(remembers)),
                member,
            }
        };
        Self {
            executions: Executions::new(fragment.scan.partitions.len(), make),
            fragment,
            sharing,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The partial aggregate on its scan, as in the plan without sharing, which returns the same
    /// rows.
    pub(crate) fn partial(&self) -> &Arc<dyn ExecutionPlan> {
        &self.fragment.partial
    }

    /// The partial aggregate over these runs of the scan; `None`: over its remaining chunks.
    fn row_by_row(
        &self,
        execution: &Arc<Execution>,
        runs: Option<Vec<Arc<Run>>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = RowsExec::new(Arc::clone(execution), runs, &self.fragment.input);
        let rows: Arc<dyn ExecutionPlan> = Arc::new(rows);
        let replaced = Arc::clone(&self.fragment.partial).transform_up(|node| {
            Ok(if node.is::<DataSourceExec>() {
                Transformed::yes(Arc::clone(&rows))
            } else {
                Transformed::no(node)
            })
        });
        replaced.data()
    }
}

impl DisplayAs for FragmentExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "FragmentExec: ")?;
                self.fragment.partial.fmt_as(t, f)
            }
            DisplayFormatType::TreeRender => self.fragment.partial.fmt_as(t, f),
        }
    }
}

impl fmt::Debug for FragmentExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FragmentExec")
            .field("partial", &self.fragment.partial)
            .finish_non_exhaustive()
    }
}

impl ExecutionPlan for FragmentExec {
    fn name(&self) -> &'static str {
        "FragmentExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.fragment.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.fragment.partial.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(scan), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("a FragmentExec has one child");
        };
        let partial = Arc::clone(&self.fragment.partial).transform_up(|node| {
            Ok(if node.is::<DataSourceExec>() {
                Transformed::yes(Arc::clone(&scan))
            } else {
                Transformed::no(node)
            })
        });
        let partial = partial.data()?;
        let fragment = Self::of(&partial, &self.sharing)?;
        // If the new scan cannot be shared, the plan stays as it is without sharing.
        Ok(fragment.unwrap_or(partial))
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
        let plan = &self.fragment.scan;
        plan.ensure_devices(&context.runtime_env())?;
        let shared = self.executions.open(partition)?;
        let rest = self.row_by_row(&shared.scan, None)?;
        let state = Partition {
            number: partition,
            baseline: BaselineMetrics::new(&self.metrics, partition),
            scan_metrics: PartitionMetrics::new(&self.fragment.scan_metrics, partition),
            metrics: self.metrics.clone(),
            schema: Arc::clone(&self.fragment.plan.schema),
            board: Arc::clone(&self.sharing.board),
            given_back: {
                let twin = Self::new(self.fragment.clone(), self.sharing.clone());
                Box::new(move |execution: &Arc<Execution>, run| {
                    twin.row_by_row(execution, Some(vec![run]))
                })
            },
            shared,
            rest,
            batch_rows: context.session_config().batch_size(),
            context,
            at: At::Start,
        };
        Ok(stream_of(Arc::clone(&state.schema), state))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Makes the plan of a partial aggregate over one run.
type OverRun =
    Box<dyn Fn(&Arc<Execution>, Arc<Run>) -> Result<Arc<dyn ExecutionPlan>> + Send + Sync>;

/// The stream of one partition.
struct Partition {
    number: usize,
    shared: Arc<Shared>,
    board: Arc<Board>,
    schema: SchemaRef,
    /// The partial aggregate over the remaining chunks of the scan.
    rest: Arc<dyn ExecutionPlan>,
    given_back: OverRun,
    context: Arc<TaskContext>,
    batch_rows: usize,
    baseline: BaselineMetrics,
    scan_metrics: PartitionMetrics,
    metrics: ExecutionPlanMetricsSet,
    at: At,
}

enum At {
    Start,
    /// Chunk by chunk, with jobs.
    Sharing {
        running: Arc<Running>,
        scan: Arc<Scan>,
        table: TableKey,
    },
    /// Row by row, over the remaining chunks or those that jobs gave back.
    Alone {
        running: Arc<Running>,
        rows: SendableRecordBatchStream,
    },
    /// No chunk is left to hand out, but jobs may still be working for this member.
    Settling(Arc<Running>),
    Finished,
}

impl Batches for Partition {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<RecordBatch>>> {
        Box::pin(self.next_batch())
    }

    fn baseline(&self) -> &BaselineMetrics {
        &self.baseline
    }
}

impl Partition {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let finished = matches!(self.at, At::Finished);
            let rows_min = if finished { 0 } else { self.batch_rows };
            if let Some(states) = self.shared.member.take(rows_min)? {
                return Ok(Some(states));
            }
            if finished {
                return Ok(None);
            }
            if let Some(batch) = self.step().await? {
                return Ok(Some(batch));
            }
        }
    }

    /// Takes one step. After an error the partition is finished.
    async fn step(&mut self) -> Result<Option<RecordBatch>> {
        match std::mem::replace(&mut self.at, At::Finished) {
            At::Start => self.start().await?,
            At::Sharing {
                running,
                scan,
                table,
            } => self.share(running, scan, table).await?,
            At::Alone { running, mut rows } => match rows.next().await.transpose()? {
                Some(batch) => {
                    self.at = At::Alone { running, rows };
                    return Ok(Some(batch));
                }
                None => self.at = At::Settling(running),
            },
            At::Settling(running) => {
                let given_back = self.shared.member.settled().await;
                if given_back.is_empty() {
                    self.report(&running);
                } else {
                    let run = Arc::new(Run::new(&given_back, &running.pipelines, 1, false));
                    let plan = (self.given_back)(&self.shared.scan, run)?;
                    let rows = plan.execute(self.number, Arc::clone(&self.context))?;
                    self.at = At::Alone { running, rows };
                }
            }
            At::Finished => {}
        }
        Ok(None)
    }

    async fn start(&mut self) -> Result<()> {
        let running = {
            let _timer = self.scan_metrics.opening.timer();
            self.shared.scan.running().await?
        };
        let Some(run) = running.runs(self.number).first().map(Arc::clone) else {
            self.at = At::Settling(running);
            return Ok(());
        };
        let scan = running.scan(&run).await?;
        let member = &self.shared.member;
        let table = (running.pool.number(), running.table.table());
        if member.table().is_none() {
            member.take_place(&running, &scan);
            let judged = running.judged.iter().flatten().next();
            let work = judged.map(|judged| member.work(judged)).transpose()?;
            let avoided = work
                .flatten()
                .map(|work| self.board.avoids(table, &work.class));
            if avoided.flatten() == Some(Avoid::States) {
                member.leave();
            }
            if !member.is_alone() {
                self.board.enter(member);
            }
        }
        self.at = At::Sharing {
            running,
            scan,
            table,
        };
        Ok(())
    }

    /// Shares the next chunk and waits for its job, so that a partition runs one job at a time.
    async fn share(
        &mut self,
        running: Arc<Running>,
        scan: Arc<Scan>,
        table: TableKey,
    ) -> Result<()> {
        let member = Arc::clone(&self.shared.member);
        if member.is_alone() {
            return self.go_alone(running);
        }
        let handed = {
            let _timer = self.scan_metrics.waited_for_chunk.timer();
            scan.next_chunk().await.map_err(external)?
        };
        let Some(mut lease) = handed else {
            self.at = At::Settling(running);
            return Ok(());
        };
        let judged = running.judged[lease.index()].as_ref();
        let judged = judged.ok_or_else(|| internal_datafusion_err!("a chunk was not judged"))?;
        let work = member.work(judged)?;
        let work = work.ok_or_else(|| internal_datafusion_err!("a chunk has no work"))?;
        let remembered = member.recall(lease.info(), &work);
        let pays = || self.board.avoids(table, &work.class) != Some(Avoid::States);
        if member.is_alone() || remembered.is_none() && !pays() {
            // The streams process this chunk row by row, with all other remaining chunks.
            member.leave();
            lease.hand_on();
            return self.go_alone(running);
        }
        self.scan_metrics.chunk(lease.origin());
        lease.set_batch_rows(self.batch_rows);
        self.at = At::Sharing {
            running: Arc::clone(&running),
            scan,
            table,
        };
        let Some(order) = member.order(lease.info().id(), work) else {
            // Another query's job is working on the chunk, or has done so.
            return Ok(());
        };
        if let Some(states) = remembered {
            order.deliver(states, Delivered::Remembered);
            return Ok(());
        }
        let orders = self.board.gather(table, &lease, order);
        let job = Job::begin(Arc::clone(&self.board), table, lease, member, orders);
        let (done, ended) = tokio::sync::oneshot::channel::<()>();
        // The job is a separate task, because other members may wait for its states.
        let work = async move {
            job.run().await;
            drop(done);
        };
        tokio::spawn(in_turn(work.boxed()));
        // An error also means that the job has ended.
        let _ended = ended.await;
        Ok(())
    }

    /// Switches to row-by-row work.
    fn go_alone(&mut self, running: Arc<Running>) -> Result<()> {
        let rows = self.rest.execute(self.number, Arc::clone(&self.context))?;
        self.at = At::Alone { running, rows };
        Ok(())
    }

    /// Reports sharing for EXPLAIN ANALYZE. The first partition that settles reports all counts.
    fn report(&self, running: &Running) {
        if let Some(run) = running.runs(self.number).first() {
            self.scan_metrics.report(run);
        }
        let counts = &self.shared.member.counts;
        let show = |name: &'static str, count: &std::sync::atomic::AtomicUsize| {
            let metric = MetricBuilder::new(&self.metrics).counter(name, self.number);
            metric.add(count.swap(0, Ordering::Relaxed));
        };
        show("chunks_remembered", &counts.remembered);
        show("chunks_own_jobs", &counts.own_jobs);
        show("chunks_others_jobs", &counts.others_jobs);
        show("chunks_given_back", &counts.given_back);
        show("query_sets_max", &counts.query_sets);
        show("conjuncts_evaluated", &counts.conjuncts);
        show("conjuncts_spared", &counts.conjuncts_spared);
    }
}
