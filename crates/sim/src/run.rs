//! One run: streams of queries against one table, the core deciding, device and cores modelled.
//!
//! A query is a scan with one consumer: it asks for a chunk, works on it, releases it, asks again.

use std::collections::VecDeque;

use coscan_core::{
    Abm, AbmConfig, Action, ChunkId, ColumnId, Event, Part, ScanId, ScanSpec, TableId, TableLayout,
    Time,
};

use crate::cpu::Cpu;
use crate::device::{Device, DeviceModel, Request};

/// A query: what it reads and what a chunk costs it.
#[derive(Clone, Debug)]
pub struct Query {
    /// Its class, such as `F-10`.
    pub name: String,
    /// What it reads.
    pub parts: Vec<Part>,
    /// CPU time per chunk. Nanoseconds.
    pub cpu_ns_per_chunk: u64,
}

/// Queries one after another.
#[derive(Clone, Debug)]
pub struct Stream {
    /// When the first begins. Nanoseconds.
    pub start_ns: u64,
    /// In order.
    pub queries: Vec<Query>,
}

/// Everything that fixes a run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The scheduler.
    pub abm: AbmConfig,
    /// The table.
    pub layout: TableLayout,
    /// The disk.
    pub device: DeviceModel,
    /// Cores.
    pub cores: u64,
    /// The workload.
    pub streams: Vec<Stream>,
}

/// What became of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryOutcome {
    /// Its stream.
    pub stream: usize,
    /// Its class.
    pub name: String,
    /// From its start to its end. Nanoseconds.
    pub latency_ns: u64,
    /// Loads chosen for it.
    pub loads: u64,
}

/// What became of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// In the order they ended.
    pub queries: Vec<QueryOutcome>,
    /// Time of each stream from its start to its end. Nanoseconds.
    pub stream_ns: Vec<u64>,
    /// When the last stream ended. Nanoseconds.
    pub total_ns: u64,
    /// Core time used. Nanoseconds.
    pub cpu_ns: u64,
    /// Loads.
    pub loads: u64,
    /// Bytes loaded.
    pub bytes: u64,
    /// Whether every query ended.
    pub finished: bool,
}

const TABLE: TableId = TableId(0);

struct Running {
    stream: usize,
    at: usize,
    begun: u64,
    loads: u64,
    chunk: Option<ChunkId>,
}

struct Simulation<'a> {
    experiment: &'a Experiment,
    abm: Abm,
    cpu: Cpu,
    device: Device<(ChunkId, Vec<ColumnId>)>,
    now: u64,
    /// By scan id.
    running: Vec<Running>,
    /// Scans to end once the actions at hand are carried out.
    ended: VecDeque<ScanId>,
    outcome: Outcome,
}

impl Experiment {
    /// Runs it.
    ///
    /// # Panics
    /// The core refuses an event: a bug in the simulator.
    #[must_use]
    pub fn run(&self) -> Outcome {
        let mut simulation = Simulation {
            experiment: self,
            abm: Abm::new(self.abm.clone()),
            cpu: Cpu::new(self.cores),
            device: Device::new(self.device),
            now: 0,
            running: Vec::new(),
            ended: VecDeque::new(),
            outcome: Outcome {
                stream_ns: vec![0; self.streams.len()],
                ..Outcome::default()
            },
        };
        let layout = self.layout.clone();
        simulation.tell(Event::TableRegistered {
            table: TABLE,
            layout,
        });
        simulation.run();
        simulation.outcome
    }
}

impl Simulation<'_> {
    fn run(&mut self) {
        let mut starts: Vec<(u64, usize)> = self
            .experiment
            .streams
            .iter()
            .enumerate()
            .map(|(n, s)| (s.start_ns, n))
            .collect();
        starts.sort_unstable();
        let mut starts = VecDeque::from(starts);
        loop {
            let start = starts.front().map(|&(at, _)| (at, 0));
            let load = self.device.next().map(|at| (at, 1));
            let work = self.cpu.next().map(|at| (at, 2));
            let stall = self.abm.next_deadline().map(|at| (at.0.max(self.now), 3));
            let busy = start.or(load).or(work).is_some();
            let Some((at, what)) = [start, load, work, stall].into_iter().flatten().min() else {
                break;
            };
            if !busy && what == 3 && at > self.now + 3_600_000_000_000 {
                break;
            }
            self.now = self.now.max(at);
            match what {
                0 => {
                    if let Some((_, stream)) = starts.pop_front() {
                        self.start_query(stream, 0);
                    }
                }
                1 => {
                    if let Some((chunk, columns)) = self.device.finish(self.now) {
                        self.tell(Event::LoadCompleted {
                            table: TABLE,
                            chunk,
                            columns,
                        });
                    }
                }
                2 => {
                    if let Some(job) = self.cpu.finish(self.now) {
                        self.chunk_done(job);
                    }
                }
                _ => self.tell(Event::TimePassed),
            }
            while let Some(scan) = self.ended.pop_front() {
                self.query_done(scan);
            }
        }
        let wanted: usize = self
            .experiment
            .streams
            .iter()
            .map(|s| s.queries.len())
            .sum();
        self.outcome.finished = self.outcome.queries.len() == wanted;
        self.outcome.total_ns = self.now;
        self.outcome.cpu_ns = self.cpu.busy_ns;
    }

    fn start_query(&mut self, stream: usize, at: usize) {
        let Some(query) = self.experiment.streams[stream].queries.get(at) else {
            let begun = self.experiment.streams[stream].start_ns;
            self.outcome.stream_ns[stream] = self.now - begun;
            return;
        };
        let scan = ScanId(self.running.len() as u64);
        self.running.push(Running {
            stream,
            at,
            begun: self.now,
            loads: 0,
            chunk: None,
        });
        let spec = ScanSpec {
            table: TABLE,
            parts: query.parts.clone(),
            consumers: 1,
            ordered: false,
        };
        self.tell(Event::ScanRegistered { scan, spec });
        self.tell(Event::ChunkRequested { scan });
    }

    fn chunk_done(&mut self, job: usize) {
        let scan = ScanId(job as u64);
        if let Some(chunk) = self.running[job].chunk.take() {
            self.tell(Event::ChunkReleased { scan, chunk });
            self.tell(Event::ChunkRequested { scan });
        }
    }

    fn query_done(&mut self, scan: ScanId) {
        self.tell(Event::ScanEnded { scan });
        #[expect(clippy::cast_possible_truncation, reason = "ids count up from 0")]
        let running = &self.running[scan.0 as usize];
        let (stream, at) = (running.stream, running.at);
        self.outcome.queries.push(QueryOutcome {
            stream,
            name: self.experiment.streams[stream].queries[at].name.clone(),
            latency_ns: self.now - running.begun,
            loads: running.loads,
        });
        self.start_query(stream, at + 1);
    }

    fn tell(&mut self, event: Event) {
        self.abm
            .handle(Time(self.now), event)
            .expect("the simulator is a right driver");
        while let Some(action) = self.abm.poll_action() {
            match action {
                Action::Load {
                    chunk,
                    columns,
                    bytes,
                    scan,
                    ..
                } => {
                    #[expect(clippy::cast_possible_truncation, reason = "ids count up from 0")]
                    let running = &mut self.running[scan.0 as usize];
                    running.loads += 1;
                    self.outcome.loads += 1;
                    self.outcome.bytes += bytes;
                    let at = u64::from(chunk.0);
                    let request = Request {
                        at,
                        end: at + 1,
                        bytes,
                        tag: (chunk, columns),
                    };
                    self.device.submit(self.now, request);
                }
                Action::Deliver { scan, chunk, .. } => {
                    #[expect(clippy::cast_possible_truncation, reason = "ids count up from 0")]
                    let job = scan.0 as usize;
                    let running = &mut self.running[job];
                    running.chunk = Some(chunk);
                    let query = &self.experiment.streams[running.stream].queries[running.at];
                    self.cpu.start(self.now, job, query.cpu_ns_per_chunk);
                }
                Action::Exhausted { scan } => self.ended.push_back(scan),
                _ => {}
            }
        }
    }
}
