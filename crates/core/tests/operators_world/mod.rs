//! A world of queries with overlapping plans, for the test of shared operators.
//!
//! Everything is drawn from a seed. Streams are polled like the engine polls them: a waiting query
//! is polled only when it was woken.
//! Not here: what is promised (`operators.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coscan_core::operators::{
    Action, Config, Keep, OperatorKind, Operators, Owner, PacketId, Pull, Request, Role, RunId,
};

use crate::draw::Draw;

impl Draw {
    /// An index below `end`.
    fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("small")
    }
}

/// Counts of events in worlds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) shared: u64,
    pub(crate) to_disk: u64,
    pub(crate) reruns: u64,
    pub(crate) deadlocks: u64,
    pub(crate) failed: u64,
    pub(crate) late: u64,
    pub(crate) polls: u64,
}

impl Seen {
    pub(crate) fn add(&mut self, other: &Self) {
        self.shared += other.shared;
        self.to_disk += other.to_disk;
        self.reruns += other.reruns;
        self.deadlocks += other.deadlocks;
        self.failed += other.failed;
        self.late += other.late;
        self.polls += other.polls;
    }
}

/// An operator that plans may contain.
struct Operator {
    kind: OperatorKind,
    partitions: usize,
    children: Vec<usize>,
    /// The number of its steps in each partition.
    steps: Vec<Step>,
    bytes: u64,
    cost: u64,
    /// How many bytes kept runs may take for this one to be kept.
    keep: u64,
    overhead: u64,
}

/// Approximate bytes that a run takes in addition to its batches.
const OVERHEAD: u64 = 1 << 10;

#[derive(Clone, Copy)]
enum Step {
    /// Reads a batch of a child, if there is one.
    Read(usize),
    /// Reads a child to its end.
    Drain(usize),
    Emit,
}

/// An operator in a plan.
struct Node {
    operator: usize,
    children: Vec<Reader>,
    /// By partition: steps taken, batches produced.
    progress: Vec<(usize, u64)>,
}

/// The reader of an operator in a plan; the operator may be shared.
struct Reader {
    operator: usize,
    state: State,
    /// The reader's own plan, until a host's run takes it.
    node: Option<Node>,
    /// By partition: batches taken, and whether it has ended.
    taken: Vec<(u64, bool)>,
    /// Partitions that are not read, recorded before the reader knows how the operator runs.
    dropped: Vec<usize>,
}

#[derive(Clone, Copy)]
enum State {
    New,
    Shares(PacketId, RunId),
    Alone,
}

enum Polled {
    Batch(u64),
    Pending,
    End,
    Error,
}

/// What to poll.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Waker {
    Query(usize),
    Producer(RunId, usize),
}

struct Query {
    readers: Vec<Reader>,
    /// Whether it alternates between its children; otherwise it reads the first to its end first.
    by_turns: bool,
    at: Option<(usize, usize)>,
    runnable: bool,
    stalled: bool,
    /// Whether it waits for slower packets.
    held: Option<(PacketId, usize)>,
}

/// What a run has: a plan, and for each partition the first batch number and the retained batches.
struct Kept {
    node: Option<Node>,
    lists: Vec<(u64, VecDeque<u64>)>,
}

pub(crate) struct World {
    seed: u64,
    draw: Draw,
    core: Operators<usize>,
    operators: Vec<Operator>,
    runs: BTreeMap<RunId, Kept>,
    queries: BTreeMap<usize, Query>,
    waiting: BTreeMap<(RunId, usize), BTreeSet<Waker>>,
    /// Wakers of the queries that wait for an event outside of this world.
    outside: Vec<Waker>,
    to_drop: Vec<Node>,
    faults: bool,
    held: Option<(PacketId, usize)>,
    /// The query that is being polled, and whether it was woken meanwhile.
    polling: Option<(usize, bool)>,
    polls: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let config = Config {
            run_bytes_max: 1 + draw.below(12),
            bytes_max: 4 + draw.below(40),
            windows_max: 1 + draw.index(12),
            kept_max: draw.index(6),
            kept_bytes_min: 0,
        };
        let partitions = 1 + draw.index(2);
        let count = 2 + draw.index(6);
        let operators = (0..count).map(|at| operator(at, partitions, &mut draw));
        let operators = operators.collect();
        Self {
            seed,
            draw,
            core: Operators::new(config),
            operators,
            runs: BTreeMap::new(),
            queries: BTreeMap::new(),
            waiting: BTreeMap::new(),
            outside: Vec::new(),
            to_drop: Vec::new(),
            faults: true,
            held: None,
            polling: None,
            polls: 0,
        }
    }

    pub(crate) fn run(mut self) -> Seen {
        let queries = 2 + self.draw.index(8);
        let mut arrived = 0;
        for _ in 0..200 {
            match self.draw.below(12) {
                0..=2 if arrived < queries => {
                    self.begin(arrived);
                    arrived += 1;
                }
                3 if self.draw.one_in(4) => self.cancel(),
                4 => {
                    if let Some(query) = self.pick() {
                        let query = self.queries.get_mut(&query).expect("picked");
                        query.stalled = !query.stalled;
                    }
                }
                5 if self.draw.one_in(3) => {
                    let bytes = self.draw.below(10);
                    self.core.shrink(bytes);
                    self.act();
                }
                6 => self.lose_patience(),
                7 => self.wake_outside(),
                _ => self.step(),
            }
            self.core.check();
        }
        // From now on no reader stalls and no plan fails: every query must end.
        self.faults = false;
        for query in self.queries.values_mut() {
            query.stalled = false;
        }
        let mut quiet = 0;
        while !self.queries.is_empty() {
            if self.draw.one_in(3) || !self.queries.values().any(|query| query.runnable) {
                let none_outside = self.outside.is_empty();
                self.wake_outside();
                let stuck = none_outside && !self.queries.values().any(|query| query.runnable);
                assert!(!stuck, "seed {}: {:?}", self.seed, self.core);
            }
            self.step();
            quiet += 1;
            assert!(quiet < 100_000, "seed {}: no end", self.seed);
            if quiet % 8 == 0 {
                self.core.check();
            }
        }
        self.core.check();
        // Only kept runs are left.
        self.core.shrink(u64::MAX);
        self.act();
        assert!(self.runs.is_empty(), "seed {}: a run is left", self.seed);
        let mut seen = Seen {
            polls: self.polls,
            ..Seen::default()
        };
        for engine in self.core.micro_engines().values() {
            assert_eq!(
                (engine.runs, engine.retained_bytes),
                (0, 0),
                "seed {}",
                self.seed
            );
            seen.shared += engine.done.batches_shared;
            seen.to_disk += engine.done.batches_to_disk;
            seen.reruns += engine.done.reruns;
            seen.deadlocks += engine.done.deadlocks;
            seen.failed += engine.done.failed;
            seen.late += engine.done.late;
        }
        seen
    }

    fn pick(&mut self) -> Option<usize> {
        let all: Vec<usize> = self.queries.keys().copied().collect();
        (!all.is_empty()).then(|| all[self.draw.index(all.len())])
    }

    fn begin(&mut self, id: usize) {
        // Some operators are drawn more often.
        let fashion = self.operators.len().min(3);
        let root = |world: &mut Self| world.operators.len() - 1 - world.draw.index(fashion);
        let mut readers = vec![root(self)];
        if self.draw.one_in(2) {
            readers.push(root(self));
        }
        let readers = readers.into_iter().map(|root| self.reader(root)).collect();
        let query = Query {
            readers,
            by_turns: self.draw.one_in(2),
            at: None,
            runnable: true,
            stalled: self.draw.one_in(6),
            held: None,
        };
        self.queries.insert(id, query);
    }

    fn reader(&self, operator: usize) -> Reader {
        let of = &self.operators[operator];
        let children = of.children.iter().map(|child| self.reader(*child));
        let node = Node {
            operator,
            children: children.collect(),
            progress: vec![(0, 0); of.partitions],
        };
        Reader {
            operator,
            state: State::New,
            node: Some(node),
            taken: vec![(0, false); of.partitions],
            dropped: Vec::new(),
        }
    }

    fn cancel(&mut self) {
        if let Some(query) = self.pick() {
            self.end(query);
        }
    }

    fn end(&mut self, id: usize) {
        let query = self.queries.remove(&id).expect("it was there");
        for reader in query.readers {
            self.drop_reader(reader);
        }
        self.act();
    }

    fn drop_reader(&mut self, reader: Reader) {
        if let State::Shares(packet, _) = reader.state {
            self.core.leave(packet);
        }
        if let Some(node) = reader.node {
            self.drop_node(node);
        }
    }

    fn drop_node(&mut self, node: Node) {
        for reader in node.children {
            self.drop_reader(reader);
        }
    }

    /// Drops the stream of one partition.
    fn close(&mut self, reader: &mut Reader, partition: usize) {
        if reader.taken[partition].1 {
            return;
        }
        reader.taken[partition].1 = true;
        match reader.state {
            State::Shares(packet, _) => {
                self.core.close(packet, partition);
                self.act();
            }
            State::Alone => {
                let mut node = reader.node.take().expect("its own");
                for child in &mut node.children {
                    self.close(child, partition);
                }
                reader.node = Some(node);
            }
            State::New => reader.dropped.push(partition),
        }
    }

    fn lose_patience(&mut self) {
        if let Some(query) = self.pick()
            && let Some((packet, partition)) = self.queries[&query].held
        {
            self.core.impatient(packet, partition);
            self.act();
        }
    }

    fn wake_outside(&mut self) {
        if !self.outside.is_empty() {
            let at = self.draw.index(self.outside.len());
            let waker = self.outside.swap_remove(at);
            self.wake(waker);
            self.act();
        }
    }

    fn wake(&mut self, waker: Waker) {
        match waker {
            Waker::Query(query) => {
                if let Some((polling, woken)) = &mut self.polling
                    && *polling == query
                {
                    *woken = true;
                }
                if let Some(query) = self.queries.get_mut(&query) {
                    query.runnable = true;
                    query.held = None;
                }
            }
            Waker::Producer(run, partition) => self.core.ready(run, partition),
        }
    }

    /// Carries out the actions of the core.
    fn act(&mut self) {
        loop {
            while let Some(action) = self.core.poll_action() {
                match action {
                    Action::Release {
                        run,
                        partition,
                        before,
                    } => {
                        let (first, batches) =
                            &mut self.runs.get_mut(&run).expect("it runs").lists[partition];
                        while *first < before {
                            assert!(batches.pop_front().is_some(), "OPS-I2");
                            *first += 1;
                        }
                    }
                    Action::Wake { run, partition } => {
                        let woken = self.waiting.remove(&(run, partition));
                        for waker in woken.into_iter().flatten() {
                            self.wake(waker);
                        }
                    }
                    Action::Keep { run } => {
                        let kept = self.runs.get_mut(&run).expect("it ran");
                        self.to_drop.extend(kept.node.take());
                    }
                    Action::Stop { run } => {
                        let kept = self.runs.remove(&run).expect("it ran");
                        self.to_drop.extend(kept.node);
                    }
                }
            }
            match self.to_drop.pop() {
                Some(node) => self.drop_node(node),
                None => return,
            }
        }
    }

    /// A runnable query takes one batch.
    fn step(&mut self) {
        let runnable = self.queries.iter();
        let runnable = runnable.filter(|(_, query)| query.runnable && !query.stalled);
        let runnable: Vec<usize> = runnable.map(|(id, _)| *id).collect();
        if runnable.is_empty() {
            return;
        }
        let id = runnable[self.draw.index(runnable.len())];
        let mut query = self.queries.remove(&id).expect("picked");
        let open = |query: &Query| -> Vec<(usize, usize)> {
            let readers = query.readers.iter().enumerate();
            let places = readers.flat_map(|(reader, of)| {
                let open = of.taken.iter().enumerate().filter(|(_, (_, ended))| !ended);
                open.map(move |(partition, _)| (reader, partition))
            });
            places.collect()
        };
        let places = open(&query);
        let Some(first) = places.first() else {
            self.queries.insert(id, query);
            return self.end(id);
        };
        let (reader, partition) = match query.at {
            // It waits for this partition alone.
            Some(at) => at,
            None if query.by_turns => places[self.draw.index(places.len())],
            None => *first,
        };
        query.at = Some((reader, partition));
        if self.faults && self.draw.one_in(60) {
            // The partition's limit is reached.
            self.close(&mut query.readers[reader], partition);
            query.at = None;
            self.queries.insert(id, query);
            return;
        }
        self.held = None;
        self.polling = Some((id, false));
        self.polls += 1;
        let owner = Owner::Query(id as u64);
        let polled = self.poll(
            &mut query.readers[reader],
            partition,
            owner,
            Waker::Query(id),
        );
        match polled {
            Polled::Batch(_) | Polled::End => query.at = None,
            Polled::Pending => {
                query.runnable = false;
                query.held = self.held;
            }
            Polled::Error => {
                self.polling = None;
                self.queries.insert(id, query);
                return self.end(id);
            }
        }
        self.act();
        let woken = self.polling.take();
        query.runnable |= woken.is_some_and(|(_, woken)| woken);
        self.queries.insert(id, query);
    }

    fn poll(
        &mut self,
        reader: &mut Reader,
        partition: usize,
        owner: Owner,
        waker: Waker,
    ) -> Polled {
        let polled = self.poll_reader(reader, partition, owner, waker);
        let (taken, ended) = &mut reader.taken[partition];
        let emits = |step: &&Step| matches!(step, Step::Emit);
        let steps = &self.operators[reader.operator].steps;
        match polled {
            Polled::Batch(n) => {
                assert_eq!(n, *taken, "OPS-I1, seed {}", self.seed);
                *taken += 1;
            }
            Polled::End => {
                let all = steps.iter().filter(emits).count() as u64;
                assert_eq!(*taken, all, "OPS-I1, seed {}", self.seed);
                *ended = true;
            }
            Polled::Pending | Polled::Error => {}
        }
        polled
    }

    fn poll_reader(
        &mut self,
        reader: &mut Reader,
        partition: usize,
        owner: Owner,
        waker: Waker,
    ) -> Polled {
        loop {
            let (packet, run) = match reader.state {
                State::New => {
                    reader.state = self.arrive(reader, owner);
                    continue;
                }
                State::Alone => {
                    let node = reader.node.as_mut().expect("its own");
                    return self.poll_node(node, partition, owner, waker);
                }
                State::Shares(packet, run) => (packet, run),
            };
            let pull = self.core.pull(packet, partition);
            if let Pull::Take(n) = pull {
                let (first, batches) = &self.runs[&run].lists[partition];
                let at = usize::try_from(n - first).expect("OPS-I2: not before the first");
                assert_eq!(batches.get(at), Some(&n), "OPS-I2, seed {}", self.seed);
            }
            self.act();
            match pull {
                Pull::Take(n) => return Polled::Batch(n),
                Pull::Poll => {
                    if let Some(polled) = self.produce(run, partition, waker) {
                        return polled;
                    }
                }
                Pull::Wait | Pull::Full => {
                    if pull == Pull::Full {
                        self.held = Some((packet, partition));
                    }
                    self.waiting
                        .entry((run, partition))
                        .or_default()
                        .insert(waker);
                    return Polled::Pending;
                }
                Pull::End => return Polled::End,
                Pull::Failed => return Polled::Error,
                Pull::Rerun => {
                    let untouched = reader.taken.iter().all(|(taken, _)| *taken == 0);
                    assert!(untouched, "OPS-I8, seed {}", self.seed);
                    self.core.leave(packet);
                    reader.state = State::Alone;
                }
            }
        }
    }

    fn arrive(&mut self, reader: &mut Reader, owner: Owner) -> State {
        let of = &self.operators[reader.operator];
        let request = Request {
            kind: of.kind,
            partitions: of.partitions,
            owner,
            cost_bytes: of.cost,
            keep_bytes_max: of.keep,
            overhead_bytes: of.overhead,
        };
        let Some(arrived) = self.core.arrive(reader.operator, request) else {
            return State::Alone;
        };
        if arrived.role == Role::Host {
            let kept = Kept {
                node: reader.node.take(),
                lists: vec![(0, VecDeque::new()); of.partitions],
            };
            self.runs.insert(arrived.run, kept);
        }
        for partition in reader.dropped.drain(..) {
            self.core.close(arrived.packet, partition);
        }
        self.act();
        State::Shares(arrived.packet, arrived.run)
    }

    /// Polls a run's plan. `None`: the packet has to pull again.
    fn produce(&mut self, run: RunId, partition: usize, waker: Waker) -> Option<Polled> {
        // The polling packet is woken like all waiting packets.
        let waiting = self.waiting.entry((run, partition)).or_default();
        let is_new = waiting.insert(waker);
        let mut node = self
            .runs
            .get_mut(&run)
            .expect("it runs")
            .node
            .take()
            .expect("one at a time");
        let producer = Waker::Producer(run, partition);
        let wanted = self.core.is_wanted(run, partition);
        let polled = self.poll_node(&mut node, partition, Owner::Run(run), producer);
        self.runs.get_mut(&run).expect("it has a packet").node = Some(node);
        if !matches!(polled, Polled::Pending) && is_new {
            let waiting = self.waiting.entry((run, partition)).or_default();
            waiting.remove(&waker);
        }
        let polled = match polled {
            Polled::Batch(n) => {
                let operator = self.runs[&run].node.as_ref().expect("put back").operator;
                let bytes = self.operators[operator].bytes;
                let granted = !self.draw.one_in(10);
                let keep = self.core.place(run, partition, bytes, granted);
                assert!(wanted || keep == Keep::Drop, "seed {}", self.seed);
                self.act();
                if self.core.produced(run, partition, bytes, keep) {
                    let (first, batches) =
                        &mut self.runs.get_mut(&run).expect("it runs").lists[partition];
                    match keep {
                        Keep::Drop => *first += 1,
                        Keep::Memory | Keep::Disk => batches.push_back(n),
                    }
                    Some(Polled::Batch(n))
                } else {
                    None
                }
            }
            Polled::Pending => {
                self.core.pending(run, partition);
                // If the stream has announced a batch meanwhile, the core wakes the packet.
                Some(Polled::Pending)
            }
            Polled::End => {
                self.core.ended(run, partition);
                None
            }
            Polled::Error => {
                self.core.failed(run, partition);
                None
            }
        };
        self.act();
        polled
    }

    /// The next batch of a plan.
    fn poll_node(
        &mut self,
        node: &mut Node,
        partition: usize,
        owner: Owner,
        waker: Waker,
    ) -> Polled {
        loop {
            let (step, given) = node.progress[partition];
            let steps = &self.operators[node.operator].steps;
            let Some(now) = steps.get(step).copied() else {
                // The streams of its children are dropped.
                for child in 0..node.children.len() {
                    self.close(&mut node.children[child], partition);
                }
                return Polled::End;
            };
            match now {
                Step::Emit => {
                    if self.faults && self.draw.one_in(80) {
                        return Polled::Error;
                    }
                    if self.draw.one_in(4) {
                        self.outside.push(waker);
                        return Polled::Pending;
                    }
                    node.progress[partition] = (step + 1, given + 1);
                    return Polled::Batch(given);
                }
                Step::Read(child) | Step::Drain(child) => {
                    let child = &mut node.children[child];
                    let polled = if child.taken[partition].1 {
                        Polled::End
                    } else {
                        self.poll(child, partition, owner, waker)
                    };
                    match (polled, now) {
                        (Polled::Batch(_), Step::Drain(_)) => {}
                        (Polled::Batch(_) | Polled::End, _) => {
                            node.progress[partition] = (step + 1, given);
                        }
                        (other, _) => return other,
                    }
                }
            }
        }
    }
}

fn operator(at: usize, partitions: usize, draw: &mut Draw) -> Operator {
    let kinds = &OperatorKind::ALL[1..];
    let kind = kinds[draw.index(kinds.len())];
    let mut children: Vec<usize> = Vec::new();
    if at > 0 {
        for _ in 0..draw.below(3) {
            children.push(draw.index(at));
        }
    }
    let mut steps = Vec::new();
    if !children.is_empty() && draw.one_in(2) {
        steps.push(Step::Drain(draw.index(children.len())));
    }
    for _ in 0..draw.below(8) {
        if !children.is_empty() && draw.one_in(2) {
            steps.push(Step::Read(draw.index(children.len())));
        } else {
            steps.push(Step::Emit);
        }
    }
    if draw.one_in(2) {
        steps.extend((0..children.len()).map(Step::Drain));
    }
    Operator {
        kind,
        partitions,
        children,
        steps,
        bytes: draw.below(4),
        cost: draw.below(30),
        keep: draw.below(4) * OVERHEAD + draw.below(30),
        overhead: OVERHEAD + draw.below(3),
    }
}
