//! What happens in a shared-disk system from the arrival of a query to its end?
//!
//! Idea: a *query* is at its coordinator and has *jobs*, its subqueries, each at a node. A job has
//! one request under way at a time: processor, controller, arm, network, processor. What a job looks
//! at on a page and the start of its next I/O are one stay at the processor. `handle` takes the next
//! event; nothing else moves time.
//! Bounds: `queries_max` coordinated and `subqueries_max` worked on by a node, the rest waits in
//! order; the run ends when more than the extent's `population_max` are in the system.
//! R1: a query waits for exactly its unfinished jobs and its results on their way. R2: what a node
//! works on is within its multiprogramming levels. R3: every slot of jobs is in use or free.
//! Source: [RahmStohr94 §3 "Processing model"].

use std::collections::VecDeque;

use super::coherency::Coherency;
use super::database::{Database, Relation};
use super::events::{Event, Events, Then};
use super::locks::{Locks, Mode, Resource};
use super::lru::{Copy, Lru};
use super::machine::Machine;
use super::outcome::{ClassOutcome, Outcome};
use super::servers::{Disks, Found, Server};
use super::workload::{Arrivals, Assignment, Class, Degree, Run, Scan, Work, range, subquery, transaction};
use crate::random::Random;

/// How long a run is, in queries of class 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// So many first are not measured.
    pub warm_up: u32,
    /// The next so many are; the run ends when all of them have.
    pub measured: u32,
    /// Or when so many are in the system: the load is not sustained.
    pub population_max: usize,
}

#[derive(Debug)]
struct Query {
    class: u32,
    number: u32,
    coordinator: u32,
    arrived: u64,
    /// Jobs that have not finished, and results on their way.
    waits_for: u32,
    /// Jobs not yet started, while the orders leave.
    jobs: Vec<u32>,
}

#[derive(Debug)]
struct Job {
    query: u32,
    node: u32,
    runs: Vec<Run>,
    /// Which of them.
    at: usize,
    /// The page it is at.
    page: u32,
    /// What it looks at there.
    objects: u32,
    /// Result tuples not yet sent, in millionths.
    results_ppm: u64,
    /// A message full of results leaves when the processor is done.
    sends: bool,
    /// Pages that it has locked.
    locked: Vec<u32>,
    /// The page it is at, if it comes with the grant.
    with_grant: bool,
}

#[derive(Debug)]
struct Node {
    processors: Server,
    buffer: Lru,
    coordinates: u32,
    /// Queries that wait to be coordinated.
    input: VecDeque<u32>,
    works_on: u32,
    /// Jobs that wait to be worked on.
    waiting: VecDeque<u32>,
}

/// Things in numbered slots.
#[derive(Debug)]
struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    fn add(&mut self, thing: T) -> u32 {
        if let Some(at) = self.free.pop() {
            self.slots[at as usize] = Some(thing);
            return at;
        }
        self.slots.push(Some(thing));
        u32::try_from(self.slots.len() - 1).expect("R3: slots are fewer than 2^32")
    }

    fn take(&mut self, at: u32) -> T {
        let thing = self.slots[at as usize].take();
        self.free.push(at);
        thing.expect("R3: a slot is freed once")
    }

    fn of(&mut self, at: u32) -> &mut T {
        let thing = self.slots[at as usize].as_mut();
        thing.expect("R3: events are about what is there")
    }

    fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn all(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbered = (0_u32..).zip(&self.slots);
        numbered.filter_map(|(at, thing)| thing.as_ref().map(|thing| (at, thing)))
    }
}

/// What the meters showed when measuring began.
#[derive(Clone, Copy, Debug, Default)]
struct Meters {
    at: u64,
    arms: u64,
    processors: u64,
    reads: u64,
    pages_read: u64,
}

/// A running system.
#[derive(Debug)]
pub struct System {
    machine: Machine,
    database: Database,
    classes: Vec<Class>,
    extent: Extent,
    random: Random,
    events: Events,
    handled: u64,
    nodes: Vec<Node>,
    disks: Disks,
    locks: Locks,
    coherency: Coherency,
    queries: Slots<Query>,
    jobs: Slots<Job>,
    /// Arrivals of each class.
    arrived: Vec<u32>,
    /// Queries of class 0 that were measured and have not ended.
    outstanding: u32,
    measuring: Option<Meters>,
    outcome: Outcome,
    over: bool,
}

impl System {
    /// A system at rest. The same arguments give the same run.
    #[must_use]
    pub fn new(
        machine: Machine,
        relation: Relation,
        classes: Vec<Class>,
        extent: Extent,
        seed: u64,
    ) -> Self {
        let node = || Node {
            processors: Server::new(machine.processors),
            buffer: Lru::new(machine.buffer_pages),
            coordinates: 0,
            input: VecDeque::new(),
            works_on: 0,
            waiting: VecDeque::new(),
        };
        let relation = Relation {
            declustering: relation.declustering.clamp(1, machine.disks),
            ..relation
        };
        let mut system = Self {
            nodes: (0..machine.nodes).map(|_| node()).collect(),
            disks: Disks::new(&machine),
            machine,
            database: Database::new(relation),
            extent,
            random: Random::new(seed),
            events: Events::default(),
            handled: 0,
            locks: Locks::default(),
            coherency: Coherency::default(),
            queries: Slots::new(),
            jobs: Slots::new(),
            arrived: vec![0; classes.len()],
            outstanding: extent.measured,
            measuring: None,
            outcome: Outcome {
                classes: vec![ClassOutcome::default(); classes.len()],
                sustained: true,
                ..Outcome::default()
            },
            over: false,
            classes,
        };
        for class in 0..system.arrived.len() {
            let first = system.classes[class].arrivals.next(0, &mut system.random);
            system.events.at(first.unwrap_or(0), Event::Arrived(number(class)));
        }
        system
    }

    /// Runs to the end.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        while self.step() {}
        self.outcome()
    }

    /// Handles the next event. Returns whether the run goes on.
    pub fn step(&mut self) -> bool {
        if self.over {
            return false;
        }
        let Some(event) = self.events.next() else {
            return false;
        };
        self.handled += 1;
        self.handle(event);
        !self.over
    }

    /// What has come of it until now.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let now = self.meters();
        let begin = self.measuring.unwrap_or(now);
        let elapsed = now.at - begin.at;
        let share = |busy: u64, servers: u32| {
            busy as f64 / (elapsed.max(1) as f64 * f64::from(servers.max(1)))
        };
        let disks = self.database.relation.declustering;
        let processors = self.machine.nodes * self.machine.processors;
        Outcome {
            disk_utilisation: share(now.arms - begin.arms, disks),
            processor_utilisation: share(now.processors - begin.processors, processors),
            reads: now.reads - begin.reads,
            pages_read: now.pages_read - begin.pages_read,
            measured_ns: elapsed,
            events: self.handled,
            ..self.outcome.clone()
        }
    }

    fn meters(&self) -> Meters {
        let at = self.events.now();
        let busy = self.nodes.iter().map(|node| node.processors.busy(at));
        Meters {
            at,
            arms: self.disks.busy(at),
            processors: busy.sum(),
            reads: self.disks.reads,
            pages_read: self.disks.pages_read,
        }
    }

    /// Every invariant holds.
    ///
    /// # Panics
    /// One is broken.
    pub fn check(&self) {
        self.locks.check();
        self.disks.check();
        for (at, query) in self.queries.all() {
            let jobs = self.jobs.all().filter(|(_, job)| job.query == at).count();
            assert!(query.waits_for as usize >= jobs, "R1: query {at} waits for its jobs");
        }
        for (at, node) in (0_u32..).zip(&self.nodes) {
            node.buffer.check();
            assert!(node.coordinates <= self.machine.queries_max, "R2: node {at}");
            assert!(node.works_on <= self.machine.subqueries_max, "R2: node {at}");
        }
        for (page, version) in self.coherency.only_at_owner() {
            let copy = self.nodes[self.owner(page) as usize].buffer.peek(page);
            let has = copy.is_some_and(|copy| copy.version == version && copy.dirty);
            assert!(has, "C1: the owner of page {page} has lost it");
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrived(class) => self.arrive(class),
            Event::Delivered {
                node,
                instructions,
                then,
            } => self.compute(node, instructions.into(), then),
            Event::Computed(then) => self.follow(then),
            Event::Controlled(job) => self.request(job),
            Event::Read(disk) => self.disks.arrived(disk),
            Event::Page(job) => self.page_arrived(job),
        }
    }

    fn follow(&mut self, then: Then) {
        match then {
            Then::Begun(query) => self.begun(query),
            Then::Ask(query) => self.deliver(self.authority(), 2, Then::Asked(query)),
            Then::Asked(query) => self.lock_relation(query),
            Then::Locked(query) => self.split(query),
            Then::Split(query) => self.start_jobs(query),
            Then::Started(job) => self.admit(job),
            Then::AskPage(job) => {
                let page = self.jobs.of(job).page;
                let owner = self.owner(page);
                self.deliver(owner, 2, Then::AskedPage(job));
            }
            Then::AskedPage(job) => self.lock_page(job),
            Then::LockedPage(job) => self.look_up(job, 0),
            Then::Issue(job) => self.issue(job),
            Then::Fetch(job) => {
                let page = self.jobs.of(job).page;
                let owner = self.owner(page);
                let instructions = self.machine.instructions;
                let work = instructions.receive_short + instructions.send_long;
                self.deliver_at(owner, self.machine.message_ns(), work, Then::Fetched(job));
            }
            Then::Fetched(job) => self.fetched(job),
            Then::Looked(job) => self.advance(job),
            Then::Finished(job) => self.finish(job),
            Then::Received(query) => self.received(query),
            Then::Ended(query) => self.end(query),
            Then::Release(query) => self.release_relation(query),
            Then::ReleasePage(job, page) => self.release_page(job, page),
            Then::Nothing => {}
        }
    }

    /// Work for a processor of a node, and what follows.
    fn compute(&mut self, node: u32, instructions: u64, then: Then) {
        let service = self.machine.compute_ns(instructions, &mut self.random);
        let now = self.events.now();
        let done = self.nodes[node as usize].processors.submit(now, service);
        self.events.at(done, Event::Computed(then));
    }

    /// A short message to a node, which receives it and, if that makes two, answers.
    fn deliver(&mut self, node: u32, messages: u64, then: Then) {
        let each = self.machine.instructions;
        let work = each.receive_short + (messages - 1) * each.send_short;
        self.deliver_at(node, self.machine.message_ns(), work, then);
    }

    fn deliver_at(&mut self, node: u32, wait: u64, work: u64, then: Then) {
        let instructions = u32::try_from(work).unwrap_or(u32::MAX);
        self.events.after(wait, Event::Delivered {
            node,
            instructions,
            then,
        });
    }

    // From the arrival to the start of subqueries.

    fn arrive(&mut self, class: u32) {
        let now = self.events.now();
        let arrivals = &self.classes[class as usize].arrivals;
        if let Some(next) = arrivals.next(now, &mut self.random) {
            self.events.at(next, Event::Arrived(class));
        }
        if self.queries.count() >= self.extent.population_max {
            self.outcome.sustained = false;
            self.over = true;
            return;
        }
        let number = self.arrived[class as usize];
        self.arrived[class as usize] += 1;
        if class == 0 && number == self.extent.warm_up {
            self.measuring = Some(self.meters());
        }
        let nodes = self.classes[class as usize].nodes.clone();
        let node = self.random.below((nodes.end - nodes.start).into());
        let coordinator = nodes.start + u32::try_from(node).expect("below the nodes");
        let query = self.queries.add(Query {
            class,
            number,
            coordinator,
            arrived: now,
            waits_for: 0,
            jobs: Vec::new(),
        });
        let node = &mut self.nodes[coordinator as usize];
        if node.coordinates < self.machine.queries_max {
            node.coordinates += 1;
            self.compute(coordinator, self.machine.instructions.bot, Then::Begun(query));
        } else {
            node.input.push_back(query);
        }
    }

    fn work(&mut self, query: u32) -> Work {
        let class = self.queries.of(query).class;
        self.classes[class as usize].work
    }

    /// The lock on the relation that a query needs, if any.
    fn relation_mode(&mut self, query: u32) -> Option<Mode> {
        match self.work(query) {
            Work::Scan(scan) if scan.page_locks => Some(Mode::IntentShared),
            Work::Scan(_) => Some(Mode::Shared),
            // Nobody scans the relation of its own that a transaction is on: its intention comes
            // with the first page's lock and meets nobody.
            Work::Transaction(transaction) if transaction.on_relation => {
                Some(if transaction.writes {
                    Mode::IntentExclusive
                } else {
                    Mode::IntentShared
                })
            }
            Work::Transaction(_) => None,
        }
    }

    fn begun(&mut self, query: u32) {
        let coordinator = self.queries.of(query).coordinator;
        if self.relation_mode(query).is_none() {
            self.split(query);
        } else if coordinator == self.authority() {
            self.lock_relation(query);
        } else {
            let send = self.machine.instructions.send_short;
            self.compute(coordinator, send, Then::Ask(query));
        }
    }

    /// The node with the global lock authority over the relation.
    #[expect(clippy::unused_self, reason = "where the authority lies is the system's affair")]
    fn authority(&self) -> u32 {
        0
    }

    /// The node with the authority over a page's lock, which also owns the page.
    fn owner(&self, page: u32) -> u32 {
        if page < self.database.transactions.first {
            return self.authority();
        }
        let partition = &self.database.transactions;
        let place = u64::from(page - partition.first) * u64::from(self.machine.nodes);
        u32::try_from(place / u64::from(partition.pages)).expect("below the nodes")
    }

    fn lock_relation(&mut self, query: u32) {
        let Some(mode) = self.relation_mode(query) else {
            return;
        };
        if self.locks.ask(query, Resource::Relation, mode) {
            self.grant_relation(query);
        }
    }

    fn grant_relation(&mut self, query: u32) {
        let coordinator = self.queries.of(query).coordinator;
        if coordinator == self.authority() {
            self.split(query);
        } else {
            self.deliver(coordinator, 1, Then::Locked(query));
        }
    }

    fn split(&mut self, query: u32) {
        let coordinator = self.queries.of(query).coordinator;
        let parts: Vec<Vec<Run>> = match self.work(query) {
            Work::Transaction(kind) => {
                vec![transaction(&kind, &self.database, &mut self.random)]
            }
            Work::Scan(scan) => {
                let Degree::Fixed(degree) = scan.degree;
                let degree = degree.max(1);
                let range = range(&scan, &self.database, &mut self.random);
                let part = |at| {
                    let share = (at, degree);
                    subquery(&scan, &self.database, &range, share, &mut self.random)
                };
                (0..degree).map(part).collect()
            }
        };
        let nodes = self.place(query, parts.len());
        let mut orders = 0;
        for (runs, node) in parts.into_iter().zip(nodes) {
            orders += u64::from(node != coordinator);
            let job = self.jobs.add(Job {
                query,
                node,
                runs,
                at: 0,
                page: 0,
                objects: 0,
                results_ppm: 0,
                sends: false,
                locked: Vec::new(),
                with_grant: false,
            });
            let query = self.queries.of(query);
            query.jobs.push(job);
            query.waits_for += 1;
        }
        if orders == 0 {
            self.start_jobs(query);
        } else {
            let work = orders * self.machine.instructions.send_short;
            self.compute(coordinator, work, Then::Split(query));
        }
    }

    /// The nodes for so many subqueries. A single one stays at the coordinator.
    fn place(&mut self, query: u32, parts: usize) -> Vec<u32> {
        let Query {
            class, coordinator, ..
        } = *self.queries.of(query);
        let Work::Scan(Scan { assignment, .. }) = self.work(query) else {
            return vec![coordinator];
        };
        if parts <= 1 {
            return vec![coordinator];
        }
        let mut nodes: Vec<u32> = self.classes[class as usize].nodes.clone().collect();
        self.random.shuffle(&mut nodes);
        if assignment == Assignment::LeastBusy {
            nodes.sort_by_key(|&node| self.nodes[node as usize].works_on);
        }
        nodes.into_iter().cycle().take(parts).collect()
    }

    fn start_jobs(&mut self, query: u32) {
        let coordinator = self.queries.of(query).coordinator;
        for job in std::mem::take(&mut self.queries.of(query).jobs) {
            let node = self.jobs.of(job).node;
            if node == coordinator {
                self.admit(job);
            } else {
                self.deliver(node, 1, Then::Started(job));
            }
        }
    }

    fn admit(&mut self, job: u32) {
        let node = self.jobs.of(job).node;
        let node = &mut self.nodes[node as usize];
        if node.works_on < self.machine.subqueries_max {
            node.works_on += 1;
            self.next_page(job, 0);
        } else {
            node.waiting.push_back(job);
        }
    }

    // A job, page by page.

    /// The job has looked at its page: on to the next, with what the processor has to do first.
    fn advance(&mut self, job: u32) {
        self.next_page(job, 0);
    }

    /// Goes to the job's next page, after `work` at the processor for the one before.
    fn next_page(&mut self, job: u32, work: u64) {
        let it = self.jobs.of(job);
        while it.runs.get(it.at).is_some_and(|run| run.next >= run.end) {
            it.at += 1;
        }
        let (at, node) = (it.at, it.node);
        let Some(run) = it.runs.get_mut(at) else {
            return self.last_page(job, work);
        };
        let (page, locks, objects) = (run.next, run.locks, run.objects);
        run.next += 1;
        it.page = page;
        it.objects = objects;
        if !locks {
            return self.look_up(job, work);
        }
        let remote = self.owner(page) != node;
        let send = self.machine.instructions.send_short;
        // A scan holds one page's lock at a time; a transaction all of them (K2).
        self.let_go(job);
        match (remote, work) {
            (true, _) => self.compute(node, work + send, Then::AskPage(job)),
            (false, 0) => self.lock_page(job),
            (false, _) => self.compute(node, work, Then::AskedPage(job)),
        }
    }

    fn last_page(&mut self, job: u32, work: u64) {
        let it = self.jobs.of(job);
        let (node, query) = (it.node, it.query);
        let rest = it.results_ppm > 0;
        let remote = node != self.queries.of(query).coordinator;
        let mut work = work;
        if remote {
            let each = self.machine.instructions;
            work += each.send_short;
            if rest {
                work += each.send_long;
                let it = self.jobs.of(job);
                it.results_ppm = 0;
                it.sends = true;
            }
        }
        self.compute(node, work, Then::Finished(job));
    }

    /// Looks for the job's page, whose lock it has, in the buffer of its node.
    fn look_up(&mut self, job: u32, work: u64) {
        let it = self.jobs.of(job);
        let (page, node, with_grant) = (it.page, it.node, it.with_grant);
        it.with_grant = false;
        let each = self.machine.instructions;
        let buffer = &mut self.nodes[node as usize].buffer;
        if with_grant {
            let version = self.coherency.version(page);
            self.keep(node, Copy {
                page,
                version,
                dirty: false,
            });
            return self.looked(job, work);
        }
        match buffer.touch(page) {
            Some(copy) if self.coherency.valid(copy) => self.looked(job, work),
            copy => {
                if copy.is_some() {
                    buffer.remove(page);
                }
                if self.coherency.at_owner(page) && self.owner(page) != node {
                    self.compute(node, work + each.send_short, Then::Fetch(job));
                } else {
                    self.compute(node, work + each.io, Then::Issue(job));
                }
            }
        }
    }

    /// The page is in the buffer: the job looks at it.
    fn looked(&mut self, job: u32, work: u64) {
        let node = self.jobs.of(job).node;
        let work = work + self.look_at(job);
        self.compute(node, work, Then::Looked(job));
    }

    /// What looking at the job's page takes, and what comes of it.
    fn look_at(&mut self, job: u32) -> u64 {
        let full = self.results_of_message_ppm();
        let it = self.jobs.of(job);
        let mut work = u64::from(it.objects) * self.machine.instructions.object;
        it.results_ppm += it.runs[it.at].results_ppm;
        let (node, query) = (it.node, it.query);
        if it.results_ppm >= full {
            it.results_ppm -= full;
            let remote = node != self.queries.of(query).coordinator;
            if remote {
                self.jobs.of(job).sends = true;
                work += self.machine.instructions.send_long;
            }
        }
        work
    }

    /// Result tuples of a long message: as many as a page has, for results are as wide as tuples.
    fn results_of_message_ppm(&self) -> u64 {
        u64::from(self.database.relation.tuples_per_page) * 1_000_000
    }

    /// A message of results leaves, if one is full.
    fn send_results(&mut self, job: u32) {
        let it = self.jobs.of(job);
        if !std::mem::take(&mut it.sends) {
            return;
        }
        let query = it.query;
        let query_ = self.queries.of(query);
        query_.waits_for += 1;
        let coordinator = query_.coordinator;
        let receive = self.machine.instructions.receive_long;
        self.deliver_at(coordinator, self.machine.page_ns(), receive, Then::Received(query));
    }

    fn issue(&mut self, job: u32) {
        self.send_results(job);
        let page = self.jobs.of(job).page;
        let disk = self.database.partition(page).disk(page);
        let now = self.events.now();
        let done = self.disks.control(disk, now, self.machine.controller_ns);
        self.events.at(done, Event::Controlled(job));
    }

    /// The controller has the request: from the cache, or from the arm.
    fn request(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let (page, prefetch) = (it.page, it.runs[it.at].prefetch);
        let partition = self.database.partition(page);
        let disk = partition.disk(page);
        let now = self.events.now();
        let there = match self.disks.find(disk, page) {
            Found::Cached => now,
            Found::Coming(done) => done,
            Found::Missing => {
                let pages = if prefetch { self.machine.prefetch_pages } else { 1 };
                let end = partition.on_disk(disk).end.min(page + pages);
                let service = self.machine.disk_ns(prefetch, &mut self.random);
                let done = self.disks.read(disk, now, service, page..end);
                self.events.at(done, Event::Read(disk));
                done
            }
        };
        self.events.at(there + self.machine.page_ns(), Event::Page(job));
    }

    fn fetched(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let (page, node) = (it.page, it.node);
        if self.coherency.at_owner(page) {
            let owner = self.owner(page);
            self.nodes[owner as usize].buffer.touch(page);
            self.jobs.of(job).with_grant = true;
            let receive = self.machine.instructions.receive_long;
            self.deliver_at(node, self.machine.page_ns(), receive, Then::LockedPage(job));
        } else {
            // Written meanwhile: the disk has it.
            self.deliver(node, 1, Then::LockedPage(job));
        }
    }

    fn page_arrived(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let (page, node) = (it.page, it.node);
        let version = self.coherency.version(page);
        self.keep(node, Copy {
            page,
            version,
            dirty: false,
        });
        let work = self.look_at(job);
        self.next_page(job, work);
    }

    /// Puts a copy into a node's buffer. What had to go is written if need be, asynchronously.
    fn keep(&mut self, node: u32, copy: Copy) {
        let gone = self.nodes[node as usize].buffer.insert(copy);
        let Some(gone) = gone.filter(|gone| gone.dirty) else {
            return;
        };
        self.coherency.written(gone);
        let io = self.machine.instructions.io;
        self.compute(node, io, Then::Nothing);
        let disk = self.database.partition(gone.page).disk(gone.page);
        let arm = self.machine.disk_ns(false, &mut self.random);
        let now = self.events.now();
        let controller = self.machine.controller_ns;
        self.disks.write(disk, gone.page, now, controller, arm);
    }

    // Locks of pages.

    fn lock_page(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let (page, query) = (it.page, it.query);
        let mode = match self.work(query) {
            Work::Transaction(kind) if kind.writes => Mode::Exclusive,
            _ => Mode::Shared,
        };
        if self.locks.ask(job, Resource::Page(page), mode) {
            self.grant_page(job);
        }
    }

    fn grant_page(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let (page, node) = (it.page, it.node);
        it.locked.push(page);
        let owner = self.owner(page);
        if owner == node {
            return self.look_up(job, 0);
        }
        let copy = self.nodes[node as usize].buffer.peek(page);
        let valid = copy.is_some_and(|copy| self.coherency.valid(copy));
        if self.coherency.at_owner(page) && !valid {
            // The page comes with the grant.
            self.jobs.of(job).with_grant = true;
            let each = self.machine.instructions;
            self.compute(owner, each.send_long, Then::Nothing);
            let (wait, receive) = (self.machine.page_ns(), each.receive_long);
            self.deliver_at(node, wait, receive, Then::LockedPage(job));
        } else {
            self.deliver(node, 1, Then::LockedPage(job));
        }
    }

    /// A scan gives back the lock of the page that it leaves.
    fn let_go(&mut self, job: u32) {
        let query = self.jobs.of(job).query;
        if matches!(self.work(query), Work::Scan(_)) {
            self.give_back_pages(job);
        }
    }

    fn give_back_pages(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let node = it.node;
        for page in std::mem::take(&mut it.locked) {
            let owner = self.owner(page);
            if owner == node {
                self.release_page(job, page);
            } else {
                self.deliver(owner, 1, Then::ReleasePage(job, page));
            }
        }
    }

    fn release_page(&mut self, job: u32, page: u32) {
        for granted in self.locks.release(job, Resource::Page(page)) {
            self.grant_page(granted);
        }
    }

    // From the end of a subquery to the end of the query.

    fn finish(&mut self, job: u32) {
        self.send_results(job);
        let it = self.jobs.of(job);
        let (node, query) = (it.node, it.query);
        let coordinator = self.queries.of(query).coordinator;
        if matches!(self.work(query), Work::Scan(_)) {
            self.give_back_pages(job);
            self.jobs.take(job);
        } else {
            // A transaction's job keeps its locks until commit.
            self.queries.of(query).jobs.push(job);
        }
        let place = &mut self.nodes[node as usize];
        match place.waiting.pop_front() {
            Some(next) => self.next_page(next, 0),
            None => place.works_on -= 1,
        }
        if node == coordinator {
            self.received(query);
        } else {
            self.deliver(coordinator, 1, Then::Received(query));
        }
    }

    fn received(&mut self, query: u32) {
        let it = self.queries.of(query);
        it.waits_for -= 1;
        if it.waits_for > 0 {
            return;
        }
        let coordinator = it.coordinator;
        let each = self.machine.instructions;
        let mut work = each.eot;
        if self.relation_mode(query).is_some() && coordinator != self.authority() {
            work += each.send_short;
        }
        self.compute(coordinator, work, Then::Ended(query));
    }

    fn end(&mut self, query: u32) {
        for job in std::mem::take(&mut self.queries.of(query).jobs) {
            self.commit(job);
        }
        let coordinator = self.queries.of(query).coordinator;
        if self.relation_mode(query).is_none() {
            self.leave(query);
        } else if coordinator == self.authority() {
            self.release_relation(query);
        } else {
            // It has ended for its user; its lock goes a message later.
            self.deliver(self.authority(), 1, Then::Release(query));
        }
        let node = &mut self.nodes[coordinator as usize];
        match node.input.pop_front() {
            Some(next) => {
                let bot = self.machine.instructions.bot;
                self.compute(coordinator, bot, Then::Begun(next));
            }
            None => node.coordinates -= 1,
        }
    }

    /// A transaction's changes go to the owners with the release of their locks.
    fn commit(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let (node, query, locked) = (it.node, it.query, it.locked.clone());
        let writes = matches!(self.work(query), Work::Transaction(kind) if kind.writes);
        let each = self.machine.instructions;
        if writes {
            for page in locked {
                let copy = self.coherency.change(page);
                let owner = self.owner(page);
                if owner != node {
                    let clean = Copy {
                        dirty: false,
                        ..copy
                    };
                    self.keep(node, clean);
                    self.compute(node, each.send_long, Then::Nothing);
                    let (wait, receive) = (self.machine.page_ns(), each.receive_long);
                    self.deliver_at(owner, wait, receive, Then::Nothing);
                }
                self.keep(owner, copy);
            }
        }
        self.give_back_pages(job);
        self.jobs.take(job);
    }

    fn release_relation(&mut self, query: u32) {
        for granted in self.locks.release(query, Resource::Relation) {
            self.grant_relation(granted);
        }
        self.leave(query);
    }

    fn leave(&mut self, query: u32) {
        let now = self.events.now();
        let query = self.queries.take(query);
        if self.classes[query.class as usize].arrivals == Arrivals::OneByOne {
            self.events.at(now, Event::Arrived(query.class));
        }
        let after = query.number.checked_sub(self.extent.warm_up);
        let measured = match query.class {
            0 => after.is_some_and(|at| at < self.extent.measured),
            _ => self.measuring.is_some_and(|begin| query.arrived >= begin.at),
        };
        if !measured {
            return;
        }
        let took = now - query.arrived;
        let class = &mut self.outcome.classes[query.class as usize];
        class.responses.push((query.arrived, took));
        if query.class == 0 {
            self.outstanding -= 1;
            self.over = self.outstanding == 0;
        }
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).expect("classes are few")
}
