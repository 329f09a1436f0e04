//! What happens in a shared-disk system from the arrival of a query to its end?
//!
//! Idea: a *query* is at its coordinator and has *jobs*, its subqueries, each at a node. A job has
//! one request under way at a time: processor, controller, arm, network, processor. `step` handles
//! the next event; nothing else advances the time. The consequences of an event are in `steps/`.
//! Bounds: a node coordinates at most `queries_max` queries and works on at most `subqueries_max`
//! jobs; others wait in order. The run ends when more than the extent's `population_max` queries
//! of a class are in the system.
//! R1: a query waits for exactly its unfinished jobs and its results under way. R2: the work of a
//! node is within its multiprogramming levels. R3: every slot of jobs is in use or free. R4: the
//! populations of the classes are the queries in the system.
//! Source: [RahmStohr94 §3 "Processing model"].

use std::collections::VecDeque;

use super::controller::{Chosen, Pieces};
use super::data::coherency::Coherency;
use super::data::database::{Database, Relation};
use super::data::locks::Locks;
use super::events::{Event, Events, Then};
use super::hardware::lru::Lru;
use super::hardware::machine::Machine;
use super::hardware::servers::{Disks, Server};
use super::outcome::{ClassOutcome, Outcome};
use super::slots::Slots;
use super::workload::{Class, Run};
use crate::random::Random;

/// The length of a run, in queries of class 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The number of first queries that are not measured.
    pub warm_up: u32,
    /// The number of queries measured after them; the run ends when all of these have ended.
    pub measured: u32,
    /// The run also ends when this many queries of a class are in the system: the load is not
    /// sustained.
    pub population_max: usize,
}

#[derive(Debug)]
pub(super) struct Query {
    pub(super) class: u32,
    pub(super) number: u32,
    pub(super) coordinator: u32,
    pub(super) arrived: u64,
    /// The number of unfinished jobs and of results under way.
    pub(super) waits_for: u32,
    /// Jobs not yet started, while the orders are sent.
    pub(super) jobs: Vec<u32>,
    /// The remaining pages of a scan whose parallelism is chosen.
    pub(super) pieces: Option<Pieces>,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) query: u32,
    pub(super) node: u32,
    pub(super) runs: Vec<Run>,
    /// The index of the current run.
    pub(super) at: usize,
    /// The device that the job serves, if its scan's parallelism is chosen.
    pub(super) device: Option<u16>,
    /// The current page.
    pub(super) page: u32,
    /// The tuples or entries that it examines there.
    pub(super) objects: u32,
    /// Result tuples not yet sent, in millionths.
    pub(super) results_ppm: u64,
    /// Full messages of results that leave when the processor is done.
    pub(super) sends: u32,
    /// Pages that the job has locked.
    pub(super) locked: Vec<u32>,
    /// Whether the current page comes with the grant of its lock.
    pub(super) with_grant: bool,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) processors: Server,
    pub(super) buffer: Lru,
    pub(super) coordinates: u32,
    /// Queries that wait to be coordinated.
    pub(super) input: VecDeque<u32>,
    pub(super) works_on: u32,
    /// Workers of scans whose parallelism is chosen, including workers under way to this node.
    pub(super) workers: u32,
    /// Jobs that wait to be worked on.
    pub(super) waiting: VecDeque<u32>,
}

/// The meters at the start of measuring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meters {
    pub(super) at: u64,
    pub(super) arms: u64,
    pub(super) processors: u64,
    pub(super) reads: u64,
    pub(super) pages_read: u64,
}

/// A running system.
#[derive(Debug)]
pub struct System {
    pub(super) machine: Machine,
    pub(super) database: Database,
    pub(super) classes: Vec<Class>,
    pub(super) extent: Extent,
    pub(super) random: Random,
    pub(super) events: Events,
    pub(super) handled: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) disks: Disks,
    pub(super) locks: Locks,
    pub(super) coherency: Coherency,
    pub(super) queries: Slots<Query>,
    pub(super) jobs: Slots<Job>,
    /// The number of arrivals of each class.
    pub(super) arrived: Vec<u32>,
    /// The number of queries of each class in the system.
    pub(super) population: Vec<usize>,
    /// Measured queries of class 0 that have not ended.
    pub(super) outstanding: u32,
    pub(super) measuring: Option<Meters>,
    pub(super) outcome: Outcome,
    pub(super) over: bool,
    pub(super) chosen: Option<Chosen>,
}

impl Job {
    pub(super) fn new(query: u32, node: u32, runs: Vec<Run>) -> Self {
        Self {
            query,
            node,
            runs,
            at: 0,
            device: None,
            page: 0,
            objects: 0,
            results_ppm: 0,
            sends: 0,
            locked: Vec::new(),
            with_grant: false,
        }
    }
}

impl System {
    /// An idle system. The same arguments give the same run.
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
            workers: 0,
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
            population: vec![0; classes.len()],
            outstanding: extent.measured,
            measuring: None,
            outcome: Outcome {
                classes: vec![ClassOutcome::default(); classes.len()],
                sustained: true,
                ..Outcome::default()
            },
            over: false,
            chosen: None,
            classes,
        };
        system.chosen = system.controller();
        if system.chosen.is_some() {
            system.events.at(0, Event::Metered);
        }
        for class in 0..system.arrived.len() {
            let first = system.classes[class].arrivals.next(0, &mut system.random);
            system
                .events
                .at(first.unwrap_or(0), Event::Arrived(number(class)));
        }
        system
    }

    /// Runs to the end.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        while self.step() {}
        self.outcome()
    }

    /// Handles the next event. Returns whether the run continues.
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

    /// The outcome until now, measured from the start if the run ended while it warmed up.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let now = self.meters();
        let begin = self.measuring.unwrap_or_default();
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

    pub(super) fn meters(&self) -> Meters {
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

    /// Checks every invariant.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check(&self) {
        self.locks.check();
        self.disks.check();
        if let Some(chosen) = &self.chosen {
            chosen.parallelism.check();
        }
        for (at, query) in self.queries.all() {
            let jobs = self.jobs.all().filter(|(_, job)| job.query == at).count();
            // A transaction keeps its finished job until commit.
            let awaited = query.waits_for as usize + query.jobs.len();
            assert!(awaited >= jobs, "R1: query {at} waits for its jobs");
        }
        let population: usize = self.population.iter().sum();
        assert_eq!(
            population,
            self.queries.count(),
            "R4: came and did not leave"
        );
        for (at, node) in (0_u32..).zip(&self.nodes) {
            node.buffer.check();
            assert!(
                node.coordinates <= self.machine.queries_max,
                "R2: node {at}"
            );
            assert!(
                node.works_on <= self.machine.subqueries_max,
                "R2: node {at}"
            );
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
            Event::Metered => self.meter(),
        }
    }

    fn follow(&mut self, then: Then) {
        match then {
            Then::Begun(query) => self.begun(query),
            Then::Ask(query) => self.deliver(self.authority(), 2, Then::Asked(query)),
            Then::Asked(query) => self.lock_relation(query),
            Then::Locked(query) => self.split(query),
            Then::Split(query) => self.start_jobs(query),
            Then::Order(job) => {
                let node = self.jobs.of(job).node;
                self.deliver(node, 1, Then::Started(job));
            }
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

    /// Work for a processor of a node, and the step that follows.
    pub(super) fn compute(&mut self, node: u32, instructions: u64, then: Then) {
        let service = self.machine.compute_ns(instructions, &mut self.random);
        let now = self.events.now();
        let done = self.nodes[node as usize].processors.submit(now, service);
        self.events.at(done, Event::Computed(then));
    }

    /// A short message to a node, which receives it and, if `messages` is two, answers.
    pub(super) fn deliver(&mut self, node: u32, messages: u64, then: Then) {
        let each = self.machine.instructions;
        let work = each.receive_short + (messages - 1) * each.send_short;
        self.deliver_at(node, self.machine.message_ns(), work, then);
    }

    pub(super) fn deliver_at(&mut self, node: u32, wait: u64, work: u64, then: Then) {
        let instructions = u32::try_from(work).unwrap_or(u32::MAX);
        self.events.after(
            wait,
            Event::Delivered {
                node,
                instructions,
                then,
            },
        );
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).expect("classes are few")
}
