//! One run: streams of queries on one table; the core decides, devices and cores are modelled.
//!
//! A query is a scan with one consumer: it requests a chunk, works on it, releases it, and requests
//! the next. A load is one request for each of its columns; each column is reported as soon as it
//! is resident. Events at the same instant come in the order starts, reads, messages, work,
//! deadlines; among equal kinds the lowest device or job comes first.
//! Not here: chunk jobs (`jobs.rs`), the meaning of the figures (coscan-study).

mod jobs;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coscan_core::{
    Abm, AbmConfig, Action, ChunkId, ColumnId, ColumnSet, DeviceId, Event, ScanId, ScanSpec,
    TableId, Time,
};

use crate::cpu::Cpu;
use crate::device::{Device, Request};
use crate::network::Network;
use crate::scenario::{Access, Handed, Outcome, Placement, Query, QueryOutcome, Scenario};

const TABLE: TableId = TableId(0);

/// A column of a load under way, and the stream that it was chosen for.
type Read = (ChunkId, ColumnId, usize);

struct Running {
    stream: usize,
    at: usize,
    begun_ns: u64,
    requests: u64,
    /// The chunk that the query was handed.
    chunk: Option<ChunkId>,
    /// How the query works on the chunk; `None` before it has begun.
    at_work: Option<Work>,
    /// CPU time of the chunks that it worked on alone, and its share of the chunk jobs that served
    /// it.
    worked_ns: u64,
}

/// How a query works on its chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Alone,
    Leads,
}

/// The next event. The order of variants is that of events at the same instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Start,
    Read(usize),
    Message,
    Work,
    Deadline,
}

/// Called before and after the core handles an event, so that a caller with access to a clock can
/// time it.
pub trait Watch {
    /// The core is about to handle an event.
    fn deciding(&mut self) {}
    /// The core has handled the event.
    fn decided(&mut self) {}
}

/// Watches nothing.
impl Watch for () {}

struct Simulation<'a, W> {
    scenario: &'a Scenario,
    watch: &'a mut W,
    abm: Abm,
    cpu: Cpu,
    devices: Vec<Device<Read>>,
    network: Option<Network<Read>>,
    /// Where each segment begins on its device, by chunk and column.
    segments_at: Vec<Box<[u64]>>,
    now: u64,
    /// By scan id.
    running: Vec<Running>,
    /// Scans to end once the current actions are carried out.
    ended: VecDeque<ScanId>,
    /// Streams that have not begun, by start time.
    starts: VecDeque<(u64, usize)>,
    /// Chunks that scans work on.
    arrays: BTreeMap<ChunkId, Arrays>,
    /// The resident columns of each chunk.
    resident: Vec<ColumnSet>,
    /// Running queries, by scan id.
    active: BTreeSet<usize>,
    outcome: Outcome,
}

/// The decoded arrays of a chunk that scans work on.
struct Arrays {
    /// When the decode began.
    begun_ns: u64,
    /// CPU time of the decode so far.
    decode_ns: u64,
    /// The number of scans that work on the chunk.
    scans: usize,
}

impl Scenario {
    /// Runs the scenario.
    ///
    /// # Panics
    /// The scenario is wrong: a chunk on a device that does not exist, shared extents, or a query
    /// for chunks or columns that the table lacks.
    #[must_use]
    pub fn run(&self) -> Outcome {
        self.run_watched(&mut ())
    }

    /// As [`Self::run`], and notifies `watch` before and after the core handles an event.
    ///
    /// # Panics
    /// As [`Self::run`].
    #[must_use]
    pub fn run_watched(&self, watch: &mut impl Watch) -> Outcome {
        assert!(
            self.layout.shared.is_empty(),
            "shared extents are not modelled"
        );
        let segments_at = self.addresses();
        let mut starts: Vec<(u64, usize)> = self
            .streams
            .iter()
            .enumerate()
            .map(|(n, stream)| (stream.start_ns, n))
            .collect();
        starts.sort_unstable();
        // The budget is set after all queries that start at time 0 have registered, so that no
        // decision is made for the first of them alone.
        let config = AbmConfig {
            budget_bytes: 0,
            ..self.abm.clone()
        };
        let mut simulation = Simulation {
            scenario: self,
            watch,
            abm: Abm::new(config),
            cpu: Cpu::new(self.cores),
            devices: self.devices.iter().copied().map(Device::new).collect(),
            network: self.network.map(Network::new),
            segments_at,
            now: 0,
            running: Vec::new(),
            ended: VecDeque::new(),
            starts: starts.into(),
            arrays: BTreeMap::new(),
            resident: vec![ColumnSet::new(); self.layout.chunks.len()],
            active: BTreeSet::new(),
            outcome: Outcome {
                stream_ns: vec![0; self.streams.len()],
                ..Outcome::default()
            },
        };
        simulation.tell(Event::TableRegistered {
            table: TABLE,
            layout: self.layout.clone(),
        });
        simulation.run();
        simulation.outcome
    }

    /// Where each segment begins on its device, by chunk and column.
    fn addresses(&self) -> Vec<Box<[u64]>> {
        let chunks = &self.layout.chunks;
        let columns = usize::from(self.layout.columns);
        let mut addresses = vec![vec![0; columns].into_boxed_slice(); chunks.len()];
        let mut ends = vec![0; self.devices.len()];
        let mut place = |chunk: usize, column: usize| {
            let end = &mut ends[usize::from(chunks[chunk].device.0)];
            addresses[chunk][column] = *end;
            *end += chunks[chunk].bytes[column];
        };
        let all = || 0..chunks.len();
        match self.placement {
            Placement::ByColumn => {
                (0..columns).for_each(|column| all().for_each(|chunk| place(chunk, column)));
            }
            Placement::ByChunk => {
                all().for_each(|chunk| (0..columns).for_each(|column| place(chunk, column)));
            }
        }
        addresses
    }
}

impl<W: Watch> Simulation<'_, W> {
    fn run(&mut self) {
        let begun = self.starts.front().map_or(0, |&(at, _)| at);
        self.now = begun;
        while self.starts.front().is_some_and(|&(at, _)| at == begun) {
            self.start_stream();
        }
        self.tell(Event::BudgetChanged {
            bytes: self.scenario.abm.budget_bytes,
        });
        self.end_queries();
        while let Some((at, next)) = self.next() {
            self.now = self.now.max(at);
            match next {
                Next::Start => self.start_stream(),
                Next::Read(device) => self.read_done(device),
                Next::Message => {
                    if let Some(read) = self.network.as_mut().and_then(Network::receive) {
                        self.arrived(read);
                    }
                }
                Next::Work => {
                    if let Some(job) = self.cpu.finish(self.now) {
                        self.chunk_done(job);
                    }
                }
                Next::Deadline => self.tell(Event::TimePassed),
            }
            self.end_queries();
        }
        let streams = &self.scenario.streams;
        let wanted: usize = streams.iter().map(|stream| stream.queries.len()).sum();
        self.outcome.finished = self.outcome.queries.len() == wanted;
        self.outcome.total_ns = self.now;
        self.outcome.cpu_ns = self.cpu.busy_ns(self.now);
        let busy = self.devices.iter().map(Device::busy_ns);
        self.outcome.device_ns = busy.max().unwrap_or(0);
    }

    fn next(&self) -> Option<(u64, Next)> {
        let start = self.starts.front().map(|&(at, _)| (at, Next::Start));
        let reads = self.devices.iter().enumerate();
        let read = reads
            .filter_map(|(n, device)| Some((device.next()?, Next::Read(n))))
            .min();
        let message = self.network.as_ref().and_then(Network::next);
        let message = message.map(|at| (at, Next::Message));
        let work = self.cpu.next().map(|at| (at, Next::Work));
        let busy = [start, read, message, work].into_iter().flatten().min();
        let deadline = self.abm.next_deadline();
        let deadline = deadline.map(|at| (at.0.max(self.now), Next::Deadline));
        // After a deadline alone no consumer can request anything, but it may start a load.
        match (busy, deadline) {
            (Some(busy), Some(deadline)) => Some(busy.min(deadline)),
            (busy, deadline) => busy.or(deadline.filter(|&(at, _)| at > self.now)),
        }
    }

    fn start_stream(&mut self) {
        if let Some((_, stream)) = self.starts.pop_front() {
            self.start_query(stream, 0);
        }
    }

    fn start_query(&mut self, stream: usize, at: usize) {
        let plan = &self.scenario.streams[stream];
        let Some(query) = plan.queries.get(at) else {
            self.outcome.stream_ns[stream] = self.now - plan.start_ns;
            return;
        };
        let scan = ScanId(self.running.len() as u64);
        self.active.insert(self.running.len());
        self.running.push(Running {
            stream,
            at,
            begun_ns: self.now,
            requests: 0,
            chunk: None,
            at_work: None,
            worked_ns: 0,
        });
        let spec = ScanSpec {
            table: TABLE,
            parts: query.parts.clone(),
            consumers: 1,
            ordered: false,
            devices_max: None,
        };
        self.tell(Event::ScanRegistered { scan, spec });
        self.tell(Event::ChunkRequested { scan });
    }

    fn read_done(&mut self, device: usize) {
        let done = self.devices[device].finish(self.now);
        self.take_cpu();
        let Some(read) = done else {
            return;
        };
        let (chunk, column, _) = read;
        let bytes = self.scenario.layout.chunks[chunk.0 as usize].bytes[usize::from(column.0)];
        match &mut self.network {
            Some(network) => network.send(self.now, bytes, read),
            None => self.arrived(read),
        }
    }

    fn arrived(&mut self, (chunk, column, stream): Read) {
        self.outcome.accesses.push(Access {
            at_ns: self.now,
            chunk,
            column,
            stream,
        });
        self.resident[chunk.0 as usize].insert(column);
        self.tell(Event::LoadCompleted {
            table: TABLE,
            chunk,
            columns: vec![column],
        });
    }

    fn chunk_done(&mut self, job: usize) {
        let scan = ScanId(job as u64);
        if let Some(chunk) = self.running[job].chunk.take() {
            self.leave_arrays(chunk);
            if self.running[job].at_work.take() == Some(Work::Leads) {
                self.tell(Event::ChunkJobEnded {
                    scan,
                    chunk,
                    given_back: Vec::new(),
                });
            }
            self.tell(Event::ChunkReleased { scan, chunk });
            self.tell(Event::ChunkRequested { scan });
        }
    }

    fn end_queries(&mut self) {
        while let Some(scan) = self.ended.pop_front() {
            self.active.remove(&job(scan));
            self.tell(Event::ScanEnded { scan });
            let running = self.running(scan);
            let (stream, at) = (running.stream, running.at);
            let outcome = QueryOutcome {
                stream,
                at,
                begun_ns: running.begun_ns,
                latency_ns: self.now - running.begun_ns,
                requests: running.requests,
            };
            self.outcome.queries.push(outcome);
            self.start_query(stream, at + 1);
        }
    }

    fn running(&self, scan: ScanId) -> &Running {
        &self.running[job(scan)]
    }

    /// Sends an event to the core and carries out its actions.
    fn tell(&mut self, event: Event) {
        self.outcome.events += 1;
        self.watch.deciding();
        let handled = self.abm.handle(Time(self.now), event);
        self.watch.decided();
        handled.expect("the simulator is a right driver of a right scenario");
        let mut given = Vec::new();
        while let Some(action) = self.abm.poll_action() {
            match action {
                Action::Load {
                    chunk,
                    columns,
                    bytes,
                    scan,
                    ..
                } => self.load(scan, chunk, &columns, bytes),
                Action::Deliver { scan, chunk, .. } => {
                    let running = &mut self.running[job(scan)];
                    running.chunk = Some(chunk);
                    self.outcome.handed.push(Handed {
                        stream: running.stream,
                        at: running.at,
                        chunk,
                    });
                    given.push((job(scan), chunk));
                }
                Action::Exhausted { scan } => self.ended.push_back(scan),
                Action::Evict { chunk, column, .. } => {
                    self.resident[chunk.0 as usize].remove(column);
                }
                _ => {}
            }
        }
        for (n, chunk) in given {
            // Another query's job may have taken the chunk by now.
            let running = &self.running[n];
            if running.chunk == Some(chunk) && running.at_work.is_none() {
                self.begin_work(n, chunk);
            }
        }
    }

    fn begin_work(&mut self, n: usize, chunk: ChunkId) {
        let favoured = self.running[n].worked_ns < self.scenario.favoured_ns;
        let work = if self.has_class(n) {
            self.running[n].at_work = Some(Work::Leads);
            let (own, decode) = self.begin_job(n, chunk);
            own + self.decode(chunk, decode)
        } else {
            self.running[n].at_work = Some(Work::Alone);
            let query = self.query(n);
            let (own, decode) = (query.cpu_ns_per_chunk, query.decode_ns_per_chunk);
            let work = own + self.decode(chunk, decode);
            self.running[n].worked_ns += work;
            work
        };
        self.cpu.start(self.now, n, work, favoured);
    }

    fn query(&self, n: usize) -> &Query {
        let running = &self.running[n];
        &self.scenario.streams[running.stream].queries[running.at]
    }

    /// The decode time of a scan that begins to work on a chunk.
    fn decode(&mut self, chunk: ChunkId, decode_ns: u64) -> u64 {
        let (now, window) = (self.now, self.scenario.decode_window_ns);
        let fresh = || Arrays {
            begun_ns: now,
            decode_ns: 0,
            scans: 0,
        };
        let arrays = self.arrays.entry(chunk).or_insert_with(fresh);
        arrays.scans += 1;
        if now - arrays.begun_ns > window {
            (arrays.begun_ns, arrays.decode_ns) = (now, 0);
        }
        let rest = decode_ns.saturating_sub(arrays.decode_ns);
        arrays.decode_ns += rest;
        rest
    }

    fn leave_arrays(&mut self, chunk: ChunkId) {
        if let Some(arrays) = self.arrays.get_mut(&chunk) {
            arrays.scans -= 1;
            if arrays.scans == 0 {
                self.arrays.remove(&chunk);
            }
        }
    }

    fn load(&mut self, scan: ScanId, chunk: ChunkId, columns: &[ColumnId], bytes: u64) {
        let requests = columns.len() as u64;
        let running = &mut self.running[job(scan)];
        running.requests += requests;
        let stream = running.stream;
        self.outcome.requests += requests;
        self.outcome.bytes += bytes;
        let layout = &self.scenario.layout.chunks[chunk.0 as usize];
        let DeviceId(device) = layout.device;
        let device = usize::from(device);
        for &column in columns {
            let n = usize::from(column.0);
            let request = Request {
                at: self.segments_at[chunk.0 as usize][n],
                bytes: layout.bytes[n],
                tag: (chunk, column, stream),
            };
            self.devices[device].submit(self.now, request);
        }
        self.take_cpu();
    }

    /// Updates the share of the cores that the devices take.
    fn take_cpu(&mut self) {
        let taken = self.devices.iter().map(Device::cpu).sum();
        self.cpu.take(self.now, taken);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "ids count up from 0")]
fn job(scan: ScanId) -> usize {
    scan.0 as usize
}
