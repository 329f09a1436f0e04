//! Which queries do the same work, and which query produces the output that they share?
//!
//! Idea: when a query arrives whose plan contains an operator that is already running, the query
//! joins that run, as long as it can still get all of its output. A packet is one query's request
//! for one operator. The first packet of a key is the host: the run executes its plan. Later
//! packets are satellites. The output of each partition is a list that every packet reads at its
//! own pace. A run has no thread: a packet that has read the list to its front, and finds the plan
//! not being polled, polls the host's plan itself.
//!
//! ```text
//! arrive ─ Host, Satellite, or nothing (the query runs its own plan)
//! pull   ─ Take n           a retained batch
//!        ├ Poll             the plan: then place, produced | pending | ended | failed
//!        ├ Wait, Full       until Wake; impatient, if Full lasts
//!        └ End, Failed, Rerun
//! close, leave ─ whenever a query is done with a partition, or with all of them
//! ```
//! Not here: the content of keys, plans, batches, wakers, disk (the engine).
//! Bounds (`Config`, `Request`): bytes retained for a run, exceeded by at most one batch per list,
//! and for all runs; bytes and number of kept runs; runs that can be joined.
//!
//! OPS-I1: a packet is in one run and takes each batch of each of its lists once, in order.
//! OPS-I2: a list retains exactly the batches from its first to its front; no packet's position is
//! before the first.
//! OPS-I3: at most one packet polls the stream of a list at a time.
//! OPS-I4: a packet joins only a run of its key that has not failed and whose lists all retain
//! everything they produced.
//! OPS-I5: the bytes that runs retain in memory are counted, per run and in total; bytes retained
//! for windows alone never exceed the bounds.
//! OPS-I6: no cycle of the waits-for graph has a wait at a full list that is not materialised.
//! OPS-I7: a run exists while it has a packet or is kept. A kept run has ended and retains its
//! whole output in memory.
//! OPS-I8: a packet that has taken a batch, or has seen the end of a list, never reruns.
//! Source: [QPipe05 §3, §4.3]; we differ: packets pull instead of being pushed to, and no query's
//! output waits for a thread of another query.

mod check;
mod counts;
mod keep;
mod kind;
mod list;
mod min_cut;
mod packet;
mod retain;
mod waits;

pub use counts::{Done, MicroEngine};
pub use kind::{OperatorKind, Window};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use keep::{KeptRuns, Worth};
use list::{Batch, List, Producer};
use packet::{Packet, Place, Wait};

/// The id of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub u64);

/// The id of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// The reader of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A query, by a number that the driver chooses.
    Query(u64),
    /// The run of an operator above this one.
    Run(RunId),
}

/// The bounds.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The most bytes that a run retains in memory.
    pub run_bytes_max: u64,
    /// The most bytes that all runs retain in memory.
    pub bytes_max: u64,
    /// The most runs that can be joined at a time; packets beyond that are not shared.
    pub windows_max: usize,
    /// The most runs that are kept without a packet at a time.
    pub kept_max: usize,
    /// Bytes of kept runs that stay when memory is short: those of the runs worth most.
    pub kept_bytes_min: u64,
}

/// The request of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The kind of operator.
    pub kind: OperatorKind,
    /// The number of partitions.
    pub partitions: usize,
    /// The reader of the packet.
    pub owner: Owner,
    /// The cost of repeating the work, in bytes read.
    pub cost_bytes: u64,
    /// The most bytes that kept runs may take if this run is to be kept among them; 0: this run is
    /// not kept, and the packet does not read kept runs.
    pub keep_bytes_max: u64,
    /// Bytes that the run takes in addition to its batches: its key, its lists.
    pub overhead_bytes: u64,
}

/// The role of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The run executes its plan.
    Host,
    /// It reads the output of a run that has another packet.
    Satellite,
    /// It reads the output of a kept run.
    Late,
}

/// An accepted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The packet.
    pub packet: PacketId,
    /// The run that it reads.
    pub run: RunId,
    /// Its role in the run.
    pub role: Role,
}

/// What a packet has to do next in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// Take the batch of this number, which is retained.
    Take(u64),
    /// Poll the host's plan.
    Poll,
    /// Wait for [`Action::Wake`]: another packet polls the plan, or the plan will announce its next
    /// batch.
    Wait,
    /// Wait for [`Action::Wake`]: the list is full of batches that slower packets need. A packet
    /// that has waited long enough reports it ([`Operators::impatient`]).
    Full,
    /// The partition has ended.
    End,
    /// The run has failed.
    Failed,
    /// Run the packet's own plan, from the beginning.
    Rerun,
}

/// Where a newly produced batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nowhere: only the packet that produced it wants it.
    Drop,
    /// Memory retains it.
    Memory,
    /// Disk retains it.
    Disk,
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Drop the batches of a list before this number.
    Release {
        /// The run.
        run: RunId,
        /// The partition.
        partition: usize,
        /// The first batch that stays.
        before: u64,
    },
    /// Make every packet that waits at a list pull.
    Wake {
        /// The run.
        run: RunId,
        /// The partition.
        partition: usize,
    },
    /// Drop a run's plan; the retained output stays for later packets.
    Keep {
        /// The run.
        run: RunId,
    },
    /// Drop a run's plan and its retained output.
    Stop {
        /// The run.
        run: RunId,
    },
}

/// All packets and runs of an engine. `K` is the key of an operator.
#[derive(Clone, Debug)]
pub struct Operators<K> {
    config: Config,
    packets: BTreeMap<PacketId, Packet>,
    runs: BTreeMap<RunId, Run<K>>,
    /// OPS-I4: the runs that can be joined.
    open: BTreeMap<K, RunId>,
    /// The packets of each owner.
    owners: BTreeMap<Owner, BTreeSet<PacketId>>,
    /// OPS-I7: the runs without packets.
    kept: KeptRuns,
    /// OPS-I5: the bytes that all runs retain in memory.
    memory: u64,
    /// The number of waits at full lists.
    waits_full: u64,
    packets_so_far: u64,
    runs_so_far: u64,
    actions: VecDeque<Action>,
    done: BTreeMap<OperatorKind, Done>,
}

/// One execution of an operator.
#[derive(Clone, Debug)]
struct Run<K> {
    key: K,
    kind: OperatorKind,
    packets: BTreeSet<PacketId>,
    /// By partition.
    lists: Vec<List>,
    window_open: bool,
    /// Whether the run has ever had a satellite.
    had_company: bool,
    failed: bool,
    /// Bytes that the run's lists retain in memory.
    memory: u64,
    cost_bytes: u64,
    keep_bytes_max: u64,
    overhead_bytes: u64,
    /// The worth of the run, if it is kept.
    kept: Option<Worth>,
}

impl<K: Ord + Clone> Operators<K> {
    /// A state without packets.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            packets: BTreeMap::new(),
            runs: BTreeMap::new(),
            open: BTreeMap::new(),
            owners: BTreeMap::new(),
            kept: KeptRuns::default(),
            memory: 0,
            waits_full: 0,
            packets_so_far: 0,
            runs_so_far: 0,
            actions: VecDeque::new(),
            done: BTreeMap::new(),
        }
    }

    /// Replaces the bounds.
    pub fn configure(&mut self, config: Config) {
        self.config = config;
    }

    /// A packet arrives. `None`: it cannot be shared; the query runs its own plan.
    pub fn arrive(&mut self, key: K, request: Request) -> Option<Arrived> {
        if request.kind.window() == Window::Linear || request.partitions == 0 {
            return None;
        }
        let there = self.open.get(&key).copied();
        // A key determines the number of partitions, so a different number is a bug in the driver.
        let there = there.filter(|run| self.runs[run].lists.len() == request.partitions);
        let (run, role) = match there {
            Some(run) if self.run(run).kept.is_some() => {
                if request.keep_bytes_max == 0 {
                    return None;
                }
                self.take_up(run);
                (run, Role::Late)
            }
            Some(run) => (run, Role::Satellite),
            None if self.open.contains_key(&key) || !self.has_window() => return None,
            None => (self.begin(key, request), Role::Host),
        };
        self.packets_so_far += 1;
        let packet = PacketId(self.packets_so_far);
        self.packets.insert(
            packet,
            Packet {
                run: Some(run),
                owner: request.owner,
                host: role == Role::Host,
                places: vec![Place::default(); request.partitions],
            },
        );
        let owned = self.owners.entry(request.owner).or_default();
        owned.insert(packet);
        let joined = self.run_mut(run);
        joined.packets.insert(packet);
        joined.had_company |= role != Role::Host;
        let done = self.done(request.kind);
        match role {
            Role::Host => done.hosted += 1,
            Role::Satellite => done.joined += 1,
            Role::Late => done.late += 1,
        }
        self.resolve(request.owner);
        Some(Arrived { packet, run, role })
    }

    /// Whether one more run may be joinable. Drops a kept run if necessary.
    fn has_window(&mut self) -> bool {
        self.open.len() < self.config.windows_max || self.drop_kept()
    }

    fn begin(&mut self, key: K, request: Request) -> RunId {
        self.runs_so_far += 1;
        let id = RunId(self.runs_so_far);
        self.open.insert(key.clone(), id);
        let run = Run {
            key,
            kind: request.kind,
            packets: BTreeSet::new(),
            lists: vec![List::new(); request.partitions],
            window_open: true,
            had_company: false,
            failed: false,
            memory: 0,
            cost_bytes: request.cost_bytes,
            keep_bytes_max: request.keep_bytes_max,
            overhead_bytes: request.overhead_bytes,
            kept: None,
        };
        self.runs.insert(id, run);
        id
    }

    /// What a packet has to do next in a partition.
    ///
    /// # Panics
    /// There is no such packet or partition, or the partition is closed.
    pub fn pull(&mut self, id: PacketId, partition: usize) -> Pull {
        self.set_wait(id, partition, None);
        let packet = &self.packets[&id];
        assert!(!packet.places[partition].closed, "OPS-I1: it takes no more");
        let Some(run_id) = packet.run else {
            return Pull::Rerun;
        };
        let place = packet.places[partition];
        let run = &self.runs[&run_id];
        if run.failed {
            if self.may_rerun(id) {
                self.detach(id);
                return Pull::Rerun;
            }
            // The packet has seen the end of a stream, so its other streams must not rerun.
            self.place_mut(id, partition).ended = true;
            return Pull::Failed;
        }
        let list = &run.lists[partition];
        if place.next < list.front() {
            let kind = run.kind;
            self.place_mut(id, partition).next += 1;
            self.done(kind).batches_shared += 1;
            self.release(run_id, partition);
            if self.waits_full > 0 {
                // Another packet may be the slowest now.
                self.wake(run_id, partition);
            }
            return Pull::Take(place.next);
        }
        match list.producer {
            Producer::Ended => {
                self.place_mut(id, partition).ended = true;
                Pull::End
            }
            Producer::Polled { .. } | Producer::Pending => {
                self.wait(id, partition, Wait::Empty);
                Pull::Wait
            }
            Producer::Ready => {
                if self.is_full(run_id, partition) {
                    self.wait(id, partition, Wait::Full);
                    if !self.run(run_id).lists[partition].materialised {
                        return Pull::Full;
                    }
                }
                let list = &mut self.run_mut(run_id).lists[partition];
                list.producer = Producer::Polled {
                    by: id,
                    woken: false,
                };
                Pull::Poll
            }
        }
    }

    /// Decides where to put the batch of `bytes` bytes that the polling packet got. `granted`: the
    /// query got memory for it. The driver stores the batch there, then calls
    /// [`Operators::produced`].
    pub fn place(&mut self, run_id: RunId, partition: usize, bytes: u64, granted: bool) -> Keep {
        let fits = |core: &Self| {
            let run = core.run(run_id).memory.saturating_add(bytes);
            let all = (core.memory - core.kept.memory).saturating_add(bytes);
            granted && run <= core.config.run_bytes_max && all <= core.config.bytes_max
        };
        let run = self.run(run_id);
        let (kind, company) = (run.kind, run.had_company);
        let by = self.polled(run_id, partition);
        let others = run.packets.iter().any(|id| {
            // Every other reader wants the batch, because it is beyond all their positions.
            *id != by && !self.packets[id].places[partition].closed
        });
        if run.failed {
            return Keep::Drop;
        }
        if run.window_open {
            if kind.window() != Window::Spike && fits(self) {
                return Keep::Memory;
            }
            if kind.window() == Window::Full && company {
                return Keep::Disk;
            }
            self.close_window(run_id);
        }
        if !others {
            return Keep::Drop;
        }
        let materialised = self.run(run_id).lists[partition].materialised;
        // One batch may exceed the bound; a packet that wants the next one has to wait.
        if fits(self) || (granted && !materialised) {
            Keep::Memory
        } else {
            Keep::Disk
        }
    }

    /// The polling packet has taken a batch, which is stored as [`Operators::place`] decided.
    /// `false`: the run has failed meanwhile, and the batch does not count.
    ///
    /// # Panics
    /// OPS-I3: no packet polls the list.
    pub fn produced(&mut self, run_id: RunId, partition: usize, bytes: u64, keep: Keep) -> bool {
        let by = self.polled(run_id, partition);
        let run = self.run_mut(run_id);
        let list = &mut run.lists[partition];
        list.producer = Producer::Ready;
        if run.failed {
            return false;
        }
        let batch = Batch {
            bytes,
            on_disk: keep == Keep::Disk,
        };
        match keep {
            Keep::Drop => {
                assert!(list.batches.is_empty(), "OPS-I2: what is before is needed");
                list.first += 1;
            }
            Keep::Memory | Keep::Disk => list.batches.push_back(batch),
        }
        let kind = run.kind;
        if keep == Keep::Memory {
            run.memory += bytes;
            self.memory += bytes;
        }
        if keep == Keep::Disk {
            self.done(kind).batches_to_disk += 1;
        }
        self.place_mut(by, partition).next += 1;
        self.release(run_id, partition);
        self.wake(run_id, partition);
        true
    }

    /// The polling packet got no batch; [`Operators::ready`] follows.
    ///
    /// # Panics
    /// OPS-I3: no packet polls the list.
    pub fn pending(&mut self, run_id: RunId, partition: usize) {
        let by = self.polled(run_id, partition);
        let list = &mut self.run_mut(run_id).lists[partition];
        if let Producer::Polled { woken: true, .. } = list.producer {
            list.producer = Producer::Ready;
            return self.wake(run_id, partition);
        }
        list.producer = Producer::Pending;
        self.wait(by, partition, Wait::Empty);
    }

    /// A run's plan has a batch for a list. Has no effect on a run that has ended.
    pub fn ready(&mut self, run_id: RunId, partition: usize) {
        let Some(run) = self.runs.get_mut(&run_id) else {
            return;
        };
        match &mut run.lists[partition].producer {
            Producer::Polled { woken, .. } => *woken = true,
            producer @ Producer::Pending => {
                *producer = Producer::Ready;
                self.wake(run_id, partition);
            }
            Producer::Ready | Producer::Ended => {}
        }
    }

    /// The polling packet found the end of the stream.
    ///
    /// # Panics
    /// OPS-I3: no packet polls the list.
    pub fn ended(&mut self, run_id: RunId, partition: usize) {
        let _by = self.polled(run_id, partition);
        self.run_mut(run_id).lists[partition].producer = Producer::Ended;
        self.wake(run_id, partition);
    }

    /// The polling packet met an error; no packet can join the run from now on.
    ///
    /// # Panics
    /// OPS-I3: no packet polls the list.
    pub fn failed(&mut self, run_id: RunId, partition: usize) {
        let _by = self.polled(run_id, partition);
        let run = self.run_mut(run_id);
        run.lists[partition].producer = Producer::Ended;
        run.failed = true;
        let (kind, partitions) = (run.kind, run.lists.len());
        self.done(kind).failed += 1;
        self.close_window(run_id);
        for partition in 0..partitions {
            let front = self.run(run_id).lists[partition].front();
            self.release_before(run_id, partition, front);
            self.wake(run_id, partition);
        }
    }

    /// A packet that waits for slower packets ([`Pull::Full`]) has waited long enough.
    pub fn impatient(&mut self, id: PacketId, partition: usize) {
        let Some(packet) = self.packets.get(&id) else {
            return;
        };
        let (Some(run_id), Some(Wait::Full)) = (packet.run, packet.places[partition].wait) else {
            return;
        };
        let run = self.run(run_id);
        // A materialised batch is written once and read once.
        let redoing_is_cheaper = run.cost_bytes < run.memory.saturating_mul(2);
        let slow = self.slowest(run_id, partition);
        let slow = slow.into_iter().find(|slow| self.may_rerun(*slow));
        match slow {
            Some(slow) if redoing_is_cheaper => self.detach(slow),
            _ => self.materialise(run_id, partition),
        }
        self.wake(run_id, partition);
    }

    /// A query closes one partition of a packet. Closing all partitions does not replace
    /// [`Operators::leave`].
    ///
    /// # Panics
    /// There is no such packet or partition.
    pub fn close(&mut self, id: PacketId, partition: usize) {
        self.set_wait(id, partition, None);
        self.place_mut(id, partition).closed = true;
        if let Some(run) = self.packets[&id].run {
            self.release(run, partition);
            // Another packet may be the slowest now, or may have to poll.
            self.wake(run, partition);
        }
    }

    /// A query is done with a packet, at any position.
    ///
    /// # Panics
    /// There is no such packet, or the packet polls a list.
    pub fn leave(&mut self, id: PacketId) {
        self.leave_run(id);
        let packet = self.packets.remove(&id);
        let packet = packet.expect("OPS-I1: a packet leaves once");
        if let Some(owned) = self.owners.get_mut(&packet.owner) {
            owned.remove(&id);
            if owned.is_empty() {
                self.owners.remove(&packet.owner);
            }
        }
    }

    /// The oldest action that the driver has not taken.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Detaches a satellite, which then runs its own plan.
    fn detach(&mut self, id: PacketId) {
        let packet = &self.packets[&id];
        assert!(packet.is_untouched(), "OPS-I8: it would get rows twice");
        let Some(run) = packet.run else { return };
        let partitions = packet.places.len();
        let kind = self.run(run).kind;
        self.done(kind).reruns += 1;
        self.leave_run(id);
        if self.runs.contains_key(&run) {
            // Other streams of the packet may wait for one that will not come.
            (0..partitions).for_each(|partition| self.wake(run, partition));
        }
    }

    fn leave_run(&mut self, id: PacketId) {
        let partitions = self.packets[&id].places.len();
        (0..partitions).for_each(|partition| self.set_wait(id, partition, None));
        let packet = self.packets.get_mut(&id);
        let packet = packet.expect("OPS-I1: the packet is there");
        let Some(run_id) = packet.run.take() else {
            return;
        };
        let run = self.run_mut(run_id);
        let polls = |list: &List| matches!(list.producer, Producer::Polled { by, .. } if by == id);
        assert!(!run.lists.iter().any(polls), "OPS-I3: it polls");
        run.packets.remove(&id);
        if run.packets.is_empty() {
            return self.keep_or_stop(run_id);
        }
        for partition in 0..partitions {
            self.release(run_id, partition);
            self.wake(run_id, partition);
        }
    }

    fn stop(&mut self, run_id: RunId) {
        self.close_window(run_id);
        let run = self.runs.remove(&run_id);
        let run = run.expect("OPS-I7: a run stops once");
        assert!(run.kept.is_none(), "OPS-I7: it is not kept any more");
        self.memory -= run.memory;
        self.actions.push_back(Action::Stop { run: run_id });
    }

    /// Whether a packet could run its own plan from the beginning without taking rows twice. A host
    /// cannot: its plan is the run's.
    fn may_rerun(&self, id: PacketId) -> bool {
        let packet = &self.packets[&id];
        let polls = |list: &List| matches!(list.producer, Producer::Polled { by, .. } if by == id);
        let run = packet.run.map(|run| self.run(run));
        let polling = run.is_some_and(|run| run.lists.iter().any(polls));
        !packet.host && packet.is_untouched() && !polling
    }

    /// The packet that polls a list.
    fn polled(&self, run_id: RunId, partition: usize) -> PacketId {
        match self.run(run_id).lists[partition].producer {
            Producer::Polled { by, .. } => by,
            Producer::Ready | Producer::Pending | Producer::Ended => {
                panic!("OPS-I3: no packet polls this list")
            }
        }
    }

    /// Ends all waits at a list: every waiting packet pulls, and waits again if necessary.
    fn wake(&mut self, id: RunId, partition: usize) {
        let run = self.runs.get(&id).expect("OPS-I7: it has a packet");
        for packet in &run.packets {
            let packet = self.packets.get_mut(packet);
            let place = packet.map(|packet| &mut packet.places[partition]);
            let wait = place.and_then(|place| place.wait.take());
            self.waits_full -= u64::from(wait == Some(Wait::Full));
        }
        self.actions.push_back(Action::Wake { run: id, partition });
    }

    fn run(&self, id: RunId) -> &Run<K> {
        self.runs.get(&id).expect("OPS-I7: it has a packet")
    }

    fn run_mut(&mut self, id: RunId) -> &mut Run<K> {
        self.runs.get_mut(&id).expect("OPS-I7: it has a packet")
    }

    fn place_mut(&mut self, id: PacketId, partition: usize) -> &mut Place {
        let packet = self.packets.get_mut(&id);
        let packet = packet.expect("OPS-I1: the packet is there");
        &mut packet.places[partition]
    }
}
