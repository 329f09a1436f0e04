//! One partition of a packet: where does its next batch come from?
//!
//! The packet arrives when the first of its partitions is polled, so a plan that nobody reads runs
//! nothing. It is then host or satellite and does what the coordinator says, or it runs by itself,
//! as the plan would without sharing.
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
                if let At::Shares { patience, .. } = &mut self.at
                    && patience.is_none()
                {
                    self.counts.held.add(1);
                    let mut held = Box::pin(sleep(PATIENCE));
                    if held.poll_unpin(cx).is_ready() {
                        return Ok(None);
                    }
                    *patience = Some(held);
                }
                Poll::Pending
            }
            Next::End => {
                if let Some(satellites) = self.satellites().filter(|_| self.partition == 0) {
                    self.execution.shown.count("satellites").add(satellites);
                }
                Poll::Ready(None)
            }
            Next::Failed(error) => return Err(error),
            Next::Rerun => {
                self.execution.shown.say(Part::Alone);
                self.at = At::Alone(self.execution.run_alone(self.partition)?);
                return Ok(None);
            }
        }))
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
