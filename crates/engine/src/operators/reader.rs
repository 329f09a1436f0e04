//! One partition of a packet: where does its next batch come from?
//!
//! The packet arrives when the first of its partitions is polled, so a plan that nobody reads runs
//! nothing. It is then host or satellite and does what the coordinator says, or it runs by itself,
//! as the plan would without sharing. Where a run finds no memory, the host's query was refused;
//! the queries of its satellites learn of it, so that they may run once more like the host's
//! (`running/rerun.rs`).
//! Cancel safety: a stream that is dropped closes its partition; the last one leaves the run.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use coscan_core::operators::{Arrived, Owner, Request, Role};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, MetricBuilder};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{FutureExt, Stream, StreamExt};
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};

use super::coordinator::{KEPT_KEY_BYTES_MAX, Next, Polled, RUN_BYTES};
use super::kept::Kept;
use super::operator::{Part, SharedOperator, Shown};
use crate::memory::QueryMemory;

/// How long a packet waits for slower packets before these get batches from disk or run by
/// themselves: longer than queries that keep pace are apart, shorter than anybody minds.
const PATIENCE: Duration = Duration::from_millis(100);

/// One query's execution of a shared operator.
pub(super) struct Execution {
    operator: Arc<SharedOperator>,
    context: Arc<TaskContext>,
    shown: Arc<Shown>,
    state: Mutex<State>,
}

enum State {
    /// No partition was polled; the partitions `dropped` were dropped.
    New {
        dropped: Vec<usize>,
    },
    Shares(Packet),
    Alone,
}

/// A packet in a run.
#[derive(Clone)]
struct Packet {
    arrived: Arrived,
    /// How many batches each partition had when the packet arrived.
    fronts: Arc<[u64]>,
}

impl Execution {
    pub(super) fn new(
        operator: Arc<SharedOperator>,
        context: Arc<TaskContext>,
        shown: Arc<Shown>,
    ) -> Self {
        Self {
            operator,
            context,
            shown,
            state: Mutex::new(State::New {
                dropped: Vec::new(),
            }),
        }
    }

    /// The packet, which arrives if it is new; `None` if the query runs the operator by itself.
    fn packet(&self) -> Option<Packet> {
        let mut state = self.state.lock();
        let dropped = match &mut *state {
            State::New { dropped } => std::mem::take(dropped),
            State::Shares(packet) => return Some(packet.clone()),
            State::Alone => return None,
        };
        let packet = self.arrive(&dropped);
        *state = match &packet {
            Some(packet) => State::Shares(packet.clone()),
            None => State::Alone,
        };
        packet
    }

    fn arrive(&self, dropped: &[usize]) -> Option<Packet> {
        let operator = &*self.operator;
        let owner = operator.owner();
        let joined = operator.key.at(&self.context).and_then(|key| {
            let key_bytes = key.bytes() as u64;
            let is_kept = key_bytes <= KEPT_KEY_BYTES_MAX;
            let request = Request {
                kind: operator.kind,
                partitions: operator.child.output_partitioning().partition_count(),
                owner,
                cost_bytes: operator.cost_bytes,
                keep_bytes_max: if is_kept { operator.keep_bytes_max } else { 0 },
                overhead_bytes: key_bytes + RUN_BYTES,
            };
            let (plan, context) = (&operator.child, &self.context);
            let coordinator = &operator.coordinator;
            coordinator.arrive(key, request, operator.query, plan, context, dropped)
        });
        let Some(joined) = joined else {
            operator.inside.set(owner);
            self.shown.say(Part::Alone);
            return None;
        };
        operator.inside.set(Owner::Run(joined.arrived.run));
        self.shown.say(match joined.arrived.role {
            Role::Host => Part::Host,
            Role::Satellite => Part::Satellite { of: joined.host },
            Role::Late => Part::Late { of: joined.host },
        });
        if joined.arrived.role != Role::Host {
            let saved = usize::try_from(operator.cost_bytes).unwrap_or(usize::MAX);
            self.shown.count("scan_bytes_saved").add(saved);
        }
        Some(Packet {
            arrived: joined.arrived,
            fronts: joined.fronts.into(),
        })
    }

    /// The partition's stream of the packet's own plan.
    fn run_alone(&self, partition: usize) -> Result<SendableRecordBatchStream> {
        let operator = &self.operator;
        operator.inside.set(operator.owner());
        let context = Arc::clone(&self.context);
        operator.child.execute(partition, context)
    }

    /// The run that the query reads has failed in the memory of its host.
    fn failed_with(&self, host: &TaskContext) {
        if let (Some(own), Some(host)) = (memory(&self.context), memory(host)) {
            own.failed_with(host);
        }
    }

    fn close(&self, partition: usize) {
        let mut state = self.state.lock();
        let packet = match &mut *state {
            State::New { dropped } => return dropped.push(partition),
            State::Shares(packet) => packet.clone(),
            State::Alone => return,
        };
        drop(state);
        self.operator.coordinator.close(&packet.arrived, partition);
    }
}

/// The memory of a context's query, if it is an engine's.
fn memory(context: &TaskContext) -> Option<&QueryMemory> {
    context.memory_pool().downcast_ref()
}

impl Drop for Execution {
    fn drop(&mut self) {
        if let State::Shares(packet) = self.state.get_mut() {
            self.operator.coordinator.leave(&packet.arrived);
        }
    }
}

/// The stream of one partition.
pub(super) struct Reader {
    execution: Arc<Execution>,
    partition: usize,
    at: At,
    baseline: BaselineMetrics,
    counts: Counts,
}

/// What EXPLAIN ANALYZE shows of a partition.
struct Counts {
    /// Batches that another packet's poll produced.
    shared: Count,
    /// Those of them that were there when the packet arrived.
    late: Count,
    from_disk: Count,
    held: Count,
}

enum At {
    Start,
    Shares {
        packet: Packet,
        /// Set while the list is full.
        patience: Option<Pin<Box<Sleep>>>,
    },
    /// Reads a batch from disk.
    Reads(Packet, SendableRecordBatchStream),
    Alone(SendableRecordBatchStream),
    Finished,
}

impl Reader {
    pub(super) fn new(execution: Arc<Execution>, partition: usize) -> Self {
        let shown = &execution.shown;
        let count =
            |name: &'static str| MetricBuilder::new(&shown.metrics).counter(name, partition);
        Self {
            counts: Counts {
                shared: count("batches_shared"),
                late: count("batches_late"),
                from_disk: count("batches_from_disk"),
                held: count("times_held"),
            },
            baseline: BaselineMetrics::new(&shown.metrics, partition),
            execution,
            partition,
            at: At::Start,
        }
    }

    /// The plan of the packet's own operator.
    pub(super) fn own_plan(&self) -> Arc<dyn ExecutionPlan> {
        Arc::clone(&self.execution.operator.child)
    }

    /// The plan whose output the stream reads: the host's, or its own.
    pub(super) fn plan(&self) -> Arc<dyn ExecutionPlan> {
        let hosts = match &self.at {
            At::Shares { packet, .. } | At::Reads(packet, _) => {
                let coordinator = &self.execution.operator.coordinator;
                coordinator.plan(&packet.arrived)
            }
            At::Start | At::Alone(_) | At::Finished => None,
        };
        hosts.unwrap_or_else(|| self.own_plan())
    }

    /// How many packets joined the run that this packet hosts.
    pub(super) fn satellites(&self) -> Option<usize> {
        let At::Shares { packet, .. } = &self.at else {
            return None;
        };
        let arrived = &packet.arrived;
        let satellites = || self.execution.operator.coordinator.satellites(arrived);
        let is_host = arrived.role == Role::Host;
        is_host.then(|| usize::try_from(satellites()).unwrap_or(usize::MAX))
    }

    /// The next batch. An error or the end finishes the stream.
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            match &mut self.at {
                At::Start => {
                    self.at = match self.execution.packet() {
                        Some(packet) => At::shares(packet),
                        None => At::Alone(self.execution.run_alone(self.partition)?),
                    };
                }
                At::Alone(rows) => return rows.poll_next_unpin(cx),
                At::Reads(packet, rows) => match ready!(rows.poll_next_unpin(cx)) {
                    Some(batch) => return Poll::Ready(Some(batch)),
                    None => self.at = At::shares(packet.clone()),
                },
                At::Shares { packet, patience } => {
                    let packet = packet.clone();
                    if let Some(held) = patience
                        && held.poll_unpin(cx).is_ready()
                    {
                        *patience = None;
                        let coordinator = &self.execution.operator.coordinator;
                        coordinator.impatient(&packet.arrived, self.partition);
                    }
                    if let Some(polled) = self.poll_shared(packet, cx)? {
                        return polled.map(|batch| batch.map(Ok));
                    }
                }
                At::Finished => return Poll::Ready(None),
            }
        }
    }

    /// Makes one step in a run; `None`: the caller must try again.
    fn poll_shared(
        &mut self,
        packet: Packet,
        cx: &mut Context<'_>,
    ) -> Result<Option<Poll<Option<RecordBatch>>>> {
        let coordinator = &self.execution.operator.coordinator;
        let arrived = &packet.arrived;
        let next = coordinator.pull(arrived, self.partition, cx.waker());
        if let (At::Shares { patience, .. }, false) = (&mut self.at, matches!(next, Next::Full)) {
            *patience = None;
        }
        Ok(Some(match next {
            Next::Take(number, kept) => {
                self.counts.shared.add(1);
                let late = number < packet.fronts[self.partition];
                self.counts.late.add(usize::from(late));
                match kept {
                    Kept::Memory { batch, .. } => Poll::Ready(Some(batch)),
                    Kept::Disk(spilled) => {
                        self.counts.from_disk.add(1);
                        self.at = At::Reads(packet, spilled.read()?);
                        return Ok(None);
                    }
                }
            }
            Next::Poll(producer) => match coordinator.produce(arrived, self.partition, producer) {
                Polled::Batch(batch) => Poll::Ready(Some(batch)),
                Polled::Pending => Poll::Pending,
                Polled::Look => return Ok(None),
            },
            Next::Wait => Poll::Pending,
            Next::Full => {
                if self.begins_to_wait(cx) {
                    return Ok(None);
                }
                Poll::Pending
            }
            Next::End => {
                if let Some(satellites) = self.satellites().filter(|_| self.partition == 0) {
                    self.execution.shown.count("satellites").add(satellites);
                }
                Poll::Ready(None)
            }
            Next::Failed(error, host) => {
                if let Some(host) = host {
                    self.execution.failed_with(&host);
                }
                return Err(error);
            }
            Next::Rerun => {
                self.execution.shown.say(Part::Alone);
                self.at = At::Alone(self.execution.run_alone(self.partition)?);
                return Ok(None);
            }
        }))
    }

    /// Begins to wait for slower packets, unless it waits already. Returns whether the time is over
    /// at once.
    fn begins_to_wait(&mut self, cx: &mut Context<'_>) -> bool {
        let At::Shares { patience, .. } = &mut self.at else {
            return false;
        };
        if patience.is_some() {
            return false;
        }
        self.counts.held.add(1);
        let mut held = Box::pin(sleep(PATIENCE));
        if held.poll_unpin(cx).is_ready() {
            return true;
        }
        *patience = Some(held);
        false
    }
}

impl At {
    fn shares(packet: Packet) -> Self {
        Self::Shares {
            packet,
            patience: None,
        }
    }
}

impl Stream for Reader {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.poll_batch(cx);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.at = At::Finished;
        }
        self.baseline.record_poll(polled)
    }
}

impl RecordBatchStream for Reader {
    fn schema(&self) -> SchemaRef {
        self.execution.operator.child.schema()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.execution.close(self.partition);
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;
    use coscan_core::operators::OperatorKind;
    use coscan_storage::pool::MemoryBudget;
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
    use datafusion::execution::runtime_env::RuntimeEnv;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
    use futures::stream;

    use super::super::{Coordinator, KeptFunctions, OperatorKey, OwnerCell, PlanKey};
    use super::*;

    /// A partition without rows, which asks for memory.
    #[derive(Debug)]
    struct Asks {
        bytes: usize,
        schema: SchemaRef,
    }

    impl PartitionStream for Asks {
        fn schema(&self) -> &SchemaRef {
            &self.schema
        }

        fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
            let table = MemoryConsumer::new("join").register(context.memory_pool());
            let refused: Option<Result<RecordBatch>> = table.try_grow(self.bytes).err().map(Err);
            let schema = Arc::clone(&self.schema);
            Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(refused)))
        }
    }

    /// One partition ends at once, the other asks for this much.
    fn asking(bytes: usize) -> Arc<dyn ExecutionPlan> {
        let schema: SchemaRef = Arc::new(Schema::empty());
        let partitions = [0, bytes].map(|bytes| {
            let schema = Arc::clone(&schema);
            Arc::new(Asks { bytes, schema }) as Arc<dyn PartitionStream>
        });
        let plan = StreamingTableExec::try_new(schema, partitions.into(), None, [], false, None);
        Arc::new(plan.unwrap())
    }

    /// The memory of a query, and its streams of an operator that asks for 60,000 bytes.
    fn query(
        number: u64,
        coordinator: &Arc<Coordinator>,
        budget: &Arc<MemoryBudget>,
        session: &RuntimeEnv,
    ) -> (Arc<QueryMemory>, [Reader; 2]) {
        let memory = QueryMemory::begin(budget);
        let context = TaskContext::default().with_runtime(memory.environment(session));
        let key = PlanKey::new("groups".to_owned(), KeptFunctions::default(), Vec::new());
        let operator = SharedOperator {
            key: OperatorKey::new(Arc::new(key), "".into(), "".into()),
            kind: OperatorKind::Aggregate,
            child: asking(60_000),
            cost_bytes: 1,
            keep_bytes_max: 0,
            query: number,
            outer: OwnerCell::of_query(number),
            inside: OwnerCell::of_query(number),
            coordinator: Arc::clone(coordinator),
        };
        let execution = Execution::new(Arc::new(operator), Arc::new(context), Arc::default());
        let execution = Arc::new(execution);
        let readers = [0, 1].map(|partition| Reader::new(Arc::clone(&execution), partition));
        (memory, readers)
    }

    /// Each has seen that one partition has no rows, so neither may do the host's work by itself.
    #[tokio::test]
    async fn where_the_host_finds_no_memory_its_satellites_may_run_once_more_too() {
        let budget = MemoryBudget::new(80_000);
        let coordinator = Coordinator::new(&budget, false);
        let session = RuntimeEnv::default();
        let others: Arc<dyn MemoryPool> = QueryMemory::begin(&budget);
        let taken = MemoryConsumer::new("join").register(&others);
        taken.try_grow(40_000).unwrap();
        let query = |number| query(number, &coordinator, &budget, &session);
        let (host, [mut ends, mut fails]) = query(1);
        let (satellite, [mut ends_too, mut fails_too]) = query(2);
        assert!(ends.next().await.is_none());
        assert!(ends_too.next().await.is_none());
        fails.next().await.unwrap().unwrap_err();
        assert_eq!(host.would_need_unseen(), Some(60_000));
        assert_eq!(satellite.would_need_unseen(), None, "it asked for nothing");
        fails_too.next().await.unwrap().unwrap_err();
        assert_eq!(satellite.would_need_unseen(), Some(60_000));
    }
}
