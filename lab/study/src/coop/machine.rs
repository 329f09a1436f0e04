//! The machine and the tables of [CoopScans07 §5.1], with the source of each parameter.
//!
//! One set of parameters for all policies and experiments. Parameters that the paper does not state
//! follow from its Table 2:
//! - *Bandwidth.* "Slightly over 200 MB/s"; a FAST full scan alone takes 20.37 s for "over 4 GB",
//!   256 chunks of 16 MiB.
//! - *CPU per byte read.* CPU use times total time times two cores is 482, 457, 441 and 447
//!   core-seconds under the four policies, which made 4186, 2325, 1404 and 1842 requests. The four
//!   points lie on a line (residuals below 0.5 %): 421 core-seconds of query work and 14.7 ms per
//!   request of 16 MiB. So reading itself costs CPU.
//! - *SLOW.* Alone it is CPU-bound: 35.27 s for a full scan minus the first load, 35.2
//!   core-seconds; the workload has 11.73 tables' worth of SLOW.
//! - *FAST.* The rest of the 421 core-seconds, over 12.79 tables' worth: 0.8 core-seconds for a
//!   full scan.
//! - *Positioning.* Under `normal` 4186 requests took 453 s, 108 ms each, of which 80 ms are
//!   transfer: 28 ms for the four disks to seek, with the rotation of the last one.
//! - *Favoured.* Under relevance S-01 takes 0.55 s, although it needs 0.4 core-seconds and half a
//!   dozen SLOW scans share the cores; S-10 takes three times its time alone. The scheduler of the
//!   time (Linux 2.6 older than .23) gave threads that had slept priority for up to a second of
//!   CPU; here 0.9 s.

use coscan_core::{
    AbmConfig, ChunkLayout, ChunkSet, ColumnSet, DeviceId, Part, Policy, StorageModel, TableLayout,
};
use coscan_sim::{DeviceModel, Placement, Query, Random, Scenario, Stream};

/// The chunk size of the row-wise experiments.
pub(crate) const CHUNK_BYTES: u64 = 16 << 20;
/// Lineitem at scale factor 10.
pub(crate) const CHUNKS: u32 = 256;
/// 1 GB.
pub(crate) const BUFFER_CHUNKS: u64 = 64;
/// The time between the starts of two streams.
pub(crate) const DELAY_NS: u64 = 3_000_000_000;
/// CPU of a SLOW scan of the whole table.
pub(crate) const SLOW_NS: u64 = 35_200_000_000;
/// CPU of a FAST scan of the whole table.
pub(crate) const FAST_NS: u64 = 800_000_000;

/// The CPU time for which a query has priority.
pub(crate) const FAVOURED_NS: u64 = 900_000_000;

/// The storage.
pub(crate) const RAID: DeviceModel = DeviceModel {
    bytes_per_second: 211_000_000,
    positioning_ns: 28_000_000,
    request_ns: 0,
    cpu_ns_per_mib: 900_000,
    cache: None,
};

/// The policies in the order of the paper's tables.
pub(crate) const POLICIES: [Policy; 4] = [
    Policy::Normal,
    Policy::Attach,
    Policy::Elevator,
    Policy::Relevance2007,
];

/// The machine with a table of `chunks` chunks of 16 MiB and a buffer of `buffer` chunks.
pub(crate) fn rows(policy: Policy, chunks: u32, buffer: u64, streams: Vec<Stream>) -> Scenario {
    let chunk = ChunkLayout {
        device: DeviceId(0),
        bytes: vec![CHUNK_BYTES].into(),
    };
    Scenario {
        abm: scheduler(policy, StorageModel::Nsm, buffer * CHUNK_BYTES),
        layout: TableLayout {
            columns: 1,
            chunks: vec![chunk; chunks as usize],
            shared: Vec::new(),
        },
        placement: Placement::ByColumn,
        devices: vec![RAID],
        network: None,
        cores: 2,
        favoured_ns: FAVOURED_NS,
        decode_window_ns: 0,
        fragments: None,
        streams,
    }
}

/// The machine with a table in columns: `widths` is the size of each column of a chunk in bytes.
pub(crate) fn columns(
    policy: Policy,
    chunks: u32,
    widths: &[u64],
    budget_bytes: u64,
    streams: Vec<Stream>,
) -> Scenario {
    let chunk = ChunkLayout {
        device: DeviceId(0),
        bytes: widths.into(),
    };
    Scenario {
        abm: scheduler(policy, StorageModel::Dsm, budget_bytes),
        layout: TableLayout {
            columns: u16::try_from(widths.len()).unwrap_or(u16::MAX),
            chunks: vec![chunk; chunks as usize],
            shared: Vec::new(),
        },
        placement: Placement::ByColumn,
        devices: vec![RAID],
        network: None,
        cores: 2,
        favoured_ns: FAVOURED_NS,
        decode_window_ns: 0,
        fragments: None,
        streams,
    }
}

/// The scheduler as in the paper: available chunks are handed out at once.
///
/// `loads_max` bounds nothing: every scan's read is in the device's queue, which serves reads in
/// the order of arrival. With a single outstanding load, scans that have reached the same position
/// get a load each and overtake the others together: `normal` then makes 2930 requests in Table 2
/// where the paper's made 4186. The other policies hardly depend on it.
pub(crate) fn scheduler(policy: Policy, model: StorageModel, budget_bytes: u64) -> AbmConfig {
    AbmConfig {
        policy,
        model,
        budget_bytes,
        loads_max: 64,
        // No scan stalls: a query requests its next chunk as soon as it has worked.
        stall_after_ns: 3_600_000_000_000,
        wait_unit_ns: 1_000_000_000,
        turns: None,
    }
}

/// FAST or SLOW.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Speed {
    Fast,
    Slow,
}

impl Speed {
    /// `F` or `S`.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Fast => 'F',
            Self::Slow => 'S',
        }
    }

    /// The paper's name of a query over `percent` of the table: `F-01`.
    pub(crate) fn query_name(self, percent: u32) -> String {
        format!("{}-{percent:02}", self.letter())
    }

    /// CPU time per chunk of 16 MiB.
    pub(crate) fn ns_per_chunk(self) -> u64 {
        let table = match self {
            Self::Fast => FAST_NS,
            Self::Slow => SLOW_NS,
        };
        table / u64::from(CHUNKS)
    }
}

/// A query over a share of a table of one column, at a random place.
pub(crate) fn row_query(speed: Speed, percent: u32, chunks: u32, random: &mut Random) -> Query {
    Query {
        name: speed.query_name(percent),
        parts: vec![Part {
            chunks: random_range(percent, chunks, random),
            columns: ColumnSet::all(1),
        }],
        cpu_ns_per_chunk: speed.ns_per_chunk(),
        decode_ns_per_chunk: 0,
        class: None,
    }
}

/// A range of `percent` of the chunks, at least one, at a random place.
pub(crate) fn random_range(percent: u32, chunks: u32, random: &mut Random) -> ChunkSet {
    let length = (chunks * percent).div_ceil(100).max(1);
    let places = u64::from(chunks - length) + 1;
    let start = u32::try_from(random.below(places)).unwrap_or(0);
    ChunkSet::from_range(start..start + length)
}
