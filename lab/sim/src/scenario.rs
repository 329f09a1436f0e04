//! What fixes a run, and what comes of it.

use coscan_core::{AbmConfig, ChunkId, ColumnId, Part, TableLayout};

use crate::device::DeviceModel;
use crate::network::NetworkModel;
use crate::random::Random;

/// A query: one scan, and what a chunk costs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Its class, such as `F-10`.
    pub name: String,
    /// What it reads.
    pub parts: Vec<Part>,
    /// CPU time per chunk that nobody else can spare it. Nanoseconds.
    pub cpu_ns_per_chunk: u64,
    /// CPU time for the decode of a chunk, which scans that begin on it within `decode_window_ns`
    /// share. Nanoseconds.
    pub decode_ns_per_chunk: u64,
    /// Its fragment class: what it does with a chunk is done once with others of its class. None
    /// if what it does is no fragment.
    pub class: Option<u16>,
}

/// Queries one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// When the first begins. Nanoseconds.
    pub start_ns: u64,
    /// In order.
    pub queries: Vec<Query>,
}

/// Streams that begin one after another, `delay_ns` apart.
#[must_use]
pub fn streams(queries: Vec<Vec<Query>>, delay_ns: u64) -> Vec<Stream> {
    let starts = (0_u64..).map(|n| n * delay_ns);
    starts
        .zip(queries)
        .map(|(start_ns, queries)| Stream { start_ns, queries })
        .collect()
}

/// Open arrivals: every query comes by itself, after an exponential time of this mean (a Poisson
/// process).
#[must_use]
pub fn arrivals(queries: Vec<Query>, mean_ns: u64, random: &mut Random) -> Vec<Stream> {
    let mut start_ns: u64 = 0;
    let arrive = |query| {
        start_ns = start_ns.saturating_add(random.exponential(mean_ns));
        Stream {
            start_ns,
            queries: vec![query],
        }
    };
    queries.into_iter().map(arrive).collect()
}

/// What follows what on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Each column lies by itself, its chunks in order.
    ByColumn,
    /// Each chunk lies by itself, its columns in order: what a loader leaves behind that writes a
    /// block of every column in turn.
    ByChunk,
}

/// Which queries a chunk job serves, of those that want the chunk and are not at work on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jobs {
    /// Those of the leader's class.
    OfClass,
    /// Those of all classes.
    OfAll,
}

/// Chunks are worked on once for several queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragments {
    /// Whom a job serves.
    pub jobs: Jobs,
    /// A class costs a job what its dearest member costs alone, and so many thousandths of what
    /// each other member costs alone: its own conjuncts and aggregates.
    pub own_of_1000: u64,
}

/// Everything that fixes a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The scheduler.
    pub abm: AbmConfig,
    /// The table. No shared extents.
    pub layout: TableLayout,
    /// Where its segments lie.
    pub placement: Placement,
    /// What [`coscan_core::DeviceId`] 0, 1, ... of the layout are.
    pub devices: Vec<DeviceModel>,
    /// What all devices are behind; `None` if they are in the machine.
    pub network: Option<NetworkModel>,
    /// Cores.
    pub cores: u64,
    /// The first so much CPU time of a query goes before the work of queries that have had theirs:
    /// the bonus that operating systems give to threads that have slept. Nanoseconds.
    pub favoured_ns: u64,
    /// A scan that begins on a chunk at most so long after another, which is still at it, finds its
    /// arrays. Nanoseconds.
    pub decode_window_ns: u64,
    /// None: every query works on all its chunks itself.
    pub fragments: Option<Fragments>,
    /// The workload.
    pub streams: Vec<Stream>,
}

/// What became of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryOutcome {
    /// Its stream.
    pub stream: usize,
    /// Its place in the stream.
    pub at: usize,
    /// When it began. Nanoseconds.
    pub begun_ns: u64,
    /// From its start to its end. Nanoseconds.
    pub latency_ns: u64,
    /// Requests to devices that were chosen for it.
    pub requests: u64,
}

/// A read of one column of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// When it was done. Nanoseconds.
    pub at_ns: u64,
    /// The chunk.
    pub chunk: ChunkId,
    /// The column.
    pub column: ColumnId,
    /// The stream whose query it was chosen for.
    pub stream: usize,
}

/// A chunk that was handed to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// The query's stream.
    pub stream: usize,
    /// Its place in the stream.
    pub at: usize,
    /// The chunk.
    pub chunk: ChunkId,
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
    /// How long the busiest device moved its arm or read. Nanoseconds.
    pub device_ns: u64,
    /// Chunk jobs, and the queries that they served, each with its leader.
    pub jobs: u64,
    /// See `jobs`.
    pub served: u64,
    /// Requests to devices: one for each column of a load.
    pub requests: u64,
    /// Bytes loaded.
    pub bytes: u64,
    /// Events told to the core.
    pub events: u64,
    /// Reads in the order they were done.
    pub accesses: Vec<Access>,
    /// In the order they were handed out.
    pub handed: Vec<Handed>,
    /// Whether every query ended.
    pub finished: bool,
}
