//! The parameters of a run, and its outcome.

use coscan_core::{AbmConfig, ChunkId, ColumnId, Part, TableLayout};

use crate::device::DeviceModel;
use crate::network::NetworkModel;
use crate::random::Random;

/// A query: one scan, and the cost of its chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The name of its class, such as `F-10`.
    pub name: String,
    /// The chunks and columns that it reads.
    pub parts: Vec<Part>,
    /// CPU time per chunk that cannot be shared. Nanoseconds.
    pub cpu_ns_per_chunk: u64,
    /// CPU time for the decode of a chunk, which scans that begin to work on it within
    /// `decode_window_ns` share. Nanoseconds.
    pub decode_ns_per_chunk: u64,
    /// Its fragment class: queries of one class do their work on a chunk once. `None` if the query
    /// is no fragment.
    pub class: Option<u16>,
}

/// Queries that run one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// When the first query begins. Nanoseconds.
    pub start_ns: u64,
    /// The queries, in order.
    pub queries: Vec<Query>,
}

/// Streams that begin `delay_ns` apart.
#[must_use]
pub fn streams(queries: Vec<Vec<Query>>, delay_ns: u64) -> Vec<Stream> {
    let starts = (0_u64..).map(|n| n * delay_ns);
    starts
        .zip(queries)
        .map(|(start_ns, queries)| Stream { start_ns, queries })
        .collect()
}

/// Open arrivals: each query arrives by itself, after an exponential time with this mean (a Poisson
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

/// The order of segments on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Column by column: the chunks of a column are adjacent, in order.
    ByColumn,
    /// Chunk by chunk: the columns of a chunk are adjacent, in order. A loader that writes a block
    /// of every column in turn leaves this order.
    ByChunk,
}

/// Which queries a chunk job serves, among those that want the chunk and do not work on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jobs {
    /// The queries of the leader's class.
    OfClass,
    /// The queries of all classes.
    OfAll,
}

/// The parameters of chunk jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragments {
    /// The queries that a job serves.
    pub jobs: Jobs,
    /// A class costs a job as much as its dearest member alone, plus this many thousandths of each
    /// other member's cost: that member's own conjuncts and aggregates.
    pub own_of_1000: u64,
}

/// All parameters of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The configuration of the core.
    pub abm: AbmConfig,
    /// The table. Without shared extents.
    pub layout: TableLayout,
    /// The order of its segments on the devices.
    pub placement: Placement,
    /// The devices [`coscan_core::DeviceId`] 0, 1, ... of the layout.
    pub devices: Vec<DeviceModel>,
    /// The network between all devices and the machine; `None` if the devices are local.
    pub network: Option<NetworkModel>,
    /// The number of cores.
    pub cores: u64,
    /// The first CPU time of a query, of this length, has priority over queries that have used
    /// theirs: the bonus that operating systems give to threads that have slept. Nanoseconds.
    pub favoured_ns: u64,
    /// A scan that begins to work on a chunk at most this long after another scan, which still
    /// works on it, finds the decoded arrays. Nanoseconds.
    pub decode_window_ns: u64,
    /// The chunk jobs; `None` if every query works on all its chunks itself.
    pub fragments: Option<Fragments>,
    /// The workload.
    pub streams: Vec<Stream>,
}

/// The outcome of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryOutcome {
    /// Its stream.
    pub stream: usize,
    /// Its position in the stream.
    pub at: usize,
    /// When it began. Nanoseconds.
    pub begun_ns: u64,
    /// From its start to its end. Nanoseconds.
    pub latency_ns: u64,
    /// Requests to devices that were chosen for the query.
    pub requests: u64,
}

/// A read of one column of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// When the read ended. Nanoseconds.
    pub at_ns: u64,
    /// The chunk.
    pub chunk: ChunkId,
    /// The column.
    pub column: ColumnId,
    /// The stream whose query the read was chosen for.
    pub stream: usize,
}

/// A chunk that was handed to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// The query's stream.
    pub stream: usize,
    /// The query's position in the stream.
    pub at: usize,
    /// The chunk.
    pub chunk: ChunkId,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The queries, in the order in which they ended.
    pub queries: Vec<QueryOutcome>,
    /// Time of each stream from its start to its end. Nanoseconds.
    pub stream_ns: Vec<u64>,
    /// When the last stream ended. Nanoseconds.
    pub total_ns: u64,
    /// CPU time used. Nanoseconds.
    pub cpu_ns: u64,
    /// How long the arm of the busiest device moved or read. Nanoseconds.
    pub device_ns: u64,
    /// The number of chunk jobs.
    pub jobs: u64,
    /// The number of queries that the jobs served, leaders included, summed over the jobs.
    pub served: u64,
    /// Requests to devices: one for each column of a load.
    pub requests: u64,
    /// Bytes loaded.
    pub bytes: u64,
    /// Events sent to the core.
    pub events: u64,
    /// Reads in the order in which they ended.
    pub accesses: Vec<Access>,
    /// Hand-outs in order.
    pub handed: Vec<Handed>,
    /// Whether every query ended.
    pub finished: bool,
}
