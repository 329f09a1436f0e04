//! How long do queries on a cluster take, if each has so many nodes, or as many as the load leaves?
//!
//! Idea: the least that a degree can be right or wrong about. Nodes have processors and a buffer
//! each, and read from one device over one link. The core places the pieces of a table
//! (`placement`) and chooses the nodes of a query (`parallelism::nodes`), as in the engine's
//! cluster. A query scans the table. A part of it costs its node a fixed time, and more for each
//! other part with which it exchanges rows. Parts share what their node holds and reads, and work
//! first on what is there.
//! Not here: the buffer manager of a node, in whose place the least recently used piece is evicted;
//! rows between nodes, but for that time; nodes that are lost; operators above scans.
//! Bounds: a part has a job for each processor of its node, and two reads.
//! NODES-I1: a piece is in a node's memory or being read, not both.
//! NODES-I2: a node holds and reads no more pieces than its buffer has room for.
//! NODES-I3: what jobs want stays in memory.

mod node;

use std::collections::{BTreeMap, BTreeSet};

use coscan_core::parallelism::nodes::{Candidate, ClusterLoad, NodeReport};
use coscan_core::placement::{self, NodeOrder, Piece};

use node::{Job, Node};

/// The most pieces that are read for a part at a time.
const READS_MAX: usize = 2;

/// Reports of nodes serve the queries that come within this time. As in the cluster.
const REPORTS_NS: u64 = 100_000_000;

/// Streams begin one after another, so that their first queries differ.
const STREAM_BEGINS_NS: u64 = 1_000_000;

/// A cluster and its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterModel {
    /// The number of nodes, at least 1.
    pub nodes: usize,
    /// The processors of each node, at least 1.
    pub processors: usize,
    /// The pieces that a node has room for, at least [`ClusterModel::processors`] and three.
    pub buffer_pieces: usize,
    /// What the link to the device carries, for all nodes together. At least 1.
    pub bytes_per_second: u64,
    /// The size of a piece.
    pub piece_bytes: u64,
    /// The pieces of the table.
    pub pieces: usize,
    /// The processor time of a query's work on a piece, in nanoseconds.
    pub piece_ns: u64,
    /// The processor time that a part costs its node, in nanoseconds.
    pub part_ns: u64,
    /// What it costs more for each other part of its query, in nanoseconds.
    pub peer_ns: u64,
    /// What a query reads on a node before its size asks for a second one.
    pub bytes_per_node: u64,
}

/// On how many nodes a query runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Always so many, from 1 to all: the first of the order.
    Fixed(usize),
    /// As many as its size asks for and the load leaves.
    ByLoad,
}

/// What became of the queries of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// How long each query took, in the order of their ends, in nanoseconds.
    pub responses_ns: Vec<u64>,
    /// On how many nodes each ran, in the order of their beginnings.
    pub degrees: Vec<usize>,
    /// What the device gave.
    pub read_bytes: u64,
}

impl ClusterModel {
    /// Streams of so many queries, at least one, each of which begins when the one before it has
    /// ended.
    ///
    /// # Panics
    /// If an invariant is broken, or a query does not end.
    #[must_use]
    pub fn run(self, width: Width, streams: usize, queries: usize) -> Answers {
        let mut world = World::new(self, width);
        let begins = (0_u64..).map(|stream| stream * STREAM_BEGINS_NS);
        for at in begins.take(streams) {
            world.agenda.add(at, Event::Begins { left: queries });
        }
        while let Some(event) = world.agenda.next() {
            world.handle(event);
            world.check();
        }
        let ended = world.answers.responses_ns.len();
        assert_eq!(ended, streams * queries, "every query ends");
        world.answers
    }

    /// The processor time of a part of a query on so many nodes, before it works on pieces.
    fn begins_ns(&self, degree: usize) -> u64 {
        self.part_ns + self.peer_ns * (degree.saturating_sub(1) as u64)
    }

    /// How long the link carries a piece.
    fn transfer_ns(&self) -> u64 {
        crate::device::transfer_ns(self.piece_bytes, self.bytes_per_second)
    }

    fn table_bytes(&self) -> u64 {
        self.piece_bytes * self.pieces as u64
    }
}

/// What happens next, in the order of time, and then of arrival.
#[derive(Debug, Default)]
struct Agenda {
    now: u64,
    added: u64,
    events: BTreeMap<(u64, u64), Event>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A stream begins a query, after which so many are left, itself included.
    Begins { left: usize },
    /// A piece has arrived at a node.
    Arrives { node: usize, piece: usize },
    /// A processor of a node has done a job.
    Done { node: usize, job: Job },
}

impl Agenda {
    fn add(&mut self, at: u64, event: Event) {
        self.added += 1;
        self.events.insert((at, self.added), event);
    }

    fn next(&mut self) -> Option<Event> {
        let ((at, _), event) = self.events.pop_first()?;
        self.now = at;
        Some(event)
    }
}

/// A query, which has parts that have not ended.
#[derive(Debug)]
struct Query {
    begun_ns: u64,
    left: usize,
    parts: usize,
}

/// The part of a query on a node.
#[derive(Debug)]
struct Part {
    query: usize,
    /// The pieces that it has not begun to work on.
    missing: BTreeSet<usize>,
    /// Jobs that wait for a processor or have one.
    jobs: usize,
    /// Whether it works on pieces.
    has_begun: bool,
}

#[derive(Debug)]
struct World {
    model: ClusterModel,
    width: Width,
    agenda: Agenda,
    /// The nodes' names in their order.
    names: Vec<String>,
    nodes: Vec<Node>,
    pieces: Vec<Piece>,
    /// By first node and degree, for each piece its place among these nodes.
    placed: BTreeMap<(usize, usize), Vec<usize>>,
    queries: Vec<Query>,
    parts: Vec<Part>,
    /// From when on the link is free.
    link_free_ns: u64,
    load: ClusterLoad,
    /// When the nodes were asked, and what they said.
    reports: Option<(u64, Vec<NodeReport>)>,
    answers: Answers,
}

impl World {
    fn new(model: ClusterModel, width: Width) -> Self {
        let names: Vec<String> = (0..model.nodes)
            .map(|node| format!("node {node}"))
            .collect();
        let order = NodeOrder::new(names.iter().map(String::as_str));
        let names = order.first(model.nodes).map(|at| names[at].clone());
        let pieces = (0..model.pieces).map(|piece| Piece {
            key: placement::key(format!("piece {piece}").as_bytes()),
            bytes: model.piece_bytes,
        });
        Self {
            model,
            width,
            agenda: Agenda::default(),
            names: names.collect(),
            nodes: (0..model.nodes).map(|_| Node::new(&model)).collect(),
            pieces: pieces.collect(),
            placed: BTreeMap::new(),
            queries: vec![],
            parts: vec![],
            link_free_ns: 0,
            load: ClusterLoad::default(),
            reports: None,
            answers: Answers::default(),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Begins { left } => self.begin(left),
            Event::Arrives { node, piece } => {
                self.nodes[node].arrived(piece, self.agenda.now);
                self.serve(node);
            }
            Event::Done { node, job } => {
                self.done(node, job);
                self.serve(node);
            }
        }
    }

    /// A query begins: each of its nodes gets a part.
    fn begin(&mut self, left: usize) {
        let (first, degree) = self.chosen();
        self.answers.degrees.push(degree);
        let query = self.queries.len();
        self.queries.push(Query {
            begun_ns: self.agenda.now,
            left,
            parts: degree,
        });
        let placed = self.placed(first, degree).to_vec();
        for node in 0..degree {
            let own = (0..placed.len()).filter(|piece| placed[*piece] == node);
            let part = self.parts.len();
            self.parts.push(Part {
                query,
                missing: own.collect(),
                jobs: 0,
                has_begun: false,
            });
            self.nodes[first + node].parts.push(part);
            let takes_ns = self.model.begins_ns(degree);
            let job = Job {
                part,
                piece: None,
                takes_ns,
            };
            self.submit(first + node, job);
        }
    }

    /// The first node of a query that begins now, and how many it has.
    fn chosen(&mut self) -> (usize, usize) {
        let (all, model) = (self.model.nodes, self.model);
        if let Width::Fixed(degree) = self.width {
            return (0, degree.clamp(1, all));
        }
        let wanted = placement::degree(model.table_bytes(), model.bytes_per_node, all);
        let reports = self.reports();
        let names = self.names.iter().map(String::as_str);
        let said = reports.iter().map(|report| Some(*report));
        self.load.measured(names.zip(said));
        self.load.check();
        let (degree, _) = self.load.degree(wanted);
        if degree == wanted {
            return (0, degree);
        }
        let placed = self.placed(0, all);
        let held = |node: usize| placed.iter().filter(|at| **at == node).count() as u64;
        let needed: Vec<u64> = (0..all)
            .map(|node| held(node) * model.piece_bytes)
            .collect();
        let candidates = reports.iter().zip(needed);
        let candidates = candidates.map(|(report, needed_bytes)| Candidate {
            report: Some(*report),
            needed_bytes,
        });
        let candidates: Vec<Candidate> = candidates.collect();
        (self.load.block(degree, &candidates), degree)
    }

    /// What the nodes say of themselves, or have just said.
    fn reports(&mut self) -> Vec<NodeReport> {
        let now = self.agenda.now;
        if let Some((asked, reports)) = &self.reports
            && now - asked < REPORTS_NS
        {
            return reports.clone();
        }
        let reports: Vec<NodeReport> = self.nodes.iter_mut().map(|node| node.report(now)).collect();
        self.reports = Some((now, reports.clone()));
        reports
    }

    fn placed(&mut self, first: usize, degree: usize) -> &[usize] {
        let names = &self.names[first..first + degree];
        let pieces = &self.pieces;
        self.placed.entry((first, degree)).or_insert_with(|| {
            let order = NodeOrder::new(names.iter().map(String::as_str));
            order.place(pieces, degree)
        })
    }

    /// A job waits for a processor, or gets one.
    fn submit(&mut self, node: usize, job: Job) {
        self.parts[job.part].jobs += 1;
        if let Some(job) = self.nodes[node].submit(job) {
            self.begin_job(node, job);
        }
    }

    fn begin_job(&mut self, node: usize, job: Job) {
        let ends = self.agenda.now + job.takes_ns;
        self.agenda.add(ends, Event::Done { node, job });
    }

    fn done(&mut self, node: usize, job: Job) {
        if let Some(next) = self.nodes[node].done(job) {
            self.begin_job(node, next);
        }
        let part = &mut self.parts[job.part];
        part.jobs -= 1;
        part.has_begun = true;
        if part.jobs > 0 || !part.missing.is_empty() {
            return;
        }
        self.nodes[node].parts.retain(|part| *part != job.part);
        let query = &mut self.queries[part.query];
        query.parts -= 1;
        if query.parts > 0 {
            return;
        }
        let now = self.agenda.now;
        self.answers.responses_ns.push(now - query.begun_ns);
        if query.left > 1 {
            let left = query.left - 1;
            self.agenda.add(now, Event::Begins { left });
        }
    }

    /// Parts on a node work on what is there, and ask for what is not.
    fn serve(&mut self, node: usize) {
        let parts = self.nodes[node].parts.clone();
        let begun = parts.into_iter().filter(|part| self.parts[*part].has_begun);
        let begun: Vec<usize> = begun.collect();
        for &part in &begun {
            self.work(node, part);
        }
        for part in begun {
            self.read(node, part);
        }
    }

    /// A part's jobs on pieces that its node holds.
    fn work(&mut self, node: usize, part: usize) {
        let known = &self.parts[part];
        let room = self.model.processors.saturating_sub(known.jobs);
        let held = known.missing.iter().copied();
        let held = held.filter(|piece| self.nodes[node].holds(*piece));
        let held: Vec<usize> = held.take(room).collect();
        for piece in held {
            self.parts[part].missing.remove(&piece);
            self.nodes[node].pin(piece, self.agenda.now);
            let job = Job {
                part,
                piece: Some(piece),
                takes_ns: self.model.piece_ns,
            };
            self.submit(node, job);
        }
    }

    /// A part's reads of pieces that its node does not hold.
    fn read(&mut self, node: usize, part: usize) {
        let (missing, reader) = (&self.parts[part].missing, &mut self.nodes[node]);
        let mut reads = reader.reads_among(missing);
        for &piece in missing {
            if reads >= READS_MAX {
                return;
            }
            if reader.holds(piece) || reader.reads(piece) {
                continue;
            }
            if !reader.begin_read(piece, self.agenda.now) {
                return;
            }
            reads += 1;
            self.answers.read_bytes += self.model.piece_bytes;
            let begins = self.link_free_ns.max(self.agenda.now);
            self.link_free_ns = begins + self.model.transfer_ns();
            let event = Event::Arrives { node, piece };
            self.agenda.add(self.link_free_ns, event);
        }
    }

    fn check(&self) {
        for node in &self.nodes {
            node.check();
        }
    }
}
