//! Who works now, and who waits for a turn?
//!
//! Idea: when the cores are the bottleneck, scans that all work at once all end late. As many
//! chunks are in work as the cores can take, and the scan with least work comes first, by its order
//! of magnitude: shortest first minimises the mean response time of one server [Schrage68], but
//! gains nothing among scans that are alike, of which the one that came first goes first. What a
//! chunk costs a scan is measured. A chunk is decoded once for all who work on
//! it at a time, so others join its turn. The order does not depend on the time that passes, so it
//! is kept, not recomputed.
//! Not here: the queue and the turns under way (`abm/handle/turns.rs`), which chunk a scan is
//! handed (the policy).
//! Bounds: O(scans · log scans) per turn.
//! ABM-I6: every scan's turn comes, for the older a scan, the higher it ranks.
//! Source: none of the papers; [CoopScans07] hands out whatever is available.

use crate::state::State;
use crate::table::Table;
use crate::table::scan::Scan;
use crate::{ChunkId, ScanId, TableId};

/// Scans take turns on the cores: what is ready is handed out only while fewer chunks are in work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TurnLimit {
    /// Different chunks in work at once, at least 1. As many as cores, or a few more so that none
    /// is ever idle.
    pub chunks_max: usize,
    /// So long after its hand-out, or the last `ChunkProgressed`, a chunk does not count as in
    /// work: its consumer waits for something else.
    /// Nanoseconds, at least 1.
    pub length_ns_max: u64,
}

/// The least goes first: all the work of the scan at the price paid so far, rounded up to a power
/// of [`LEVEL`], and a share of the time before it came. So scans that take about as long go in the
/// order in which they came, and others by their length.
pub(crate) fn rank(table: &Table, scan: &Scan) -> u64 {
    let chunks = table.needed_len(scan) as u128 + u128::from(scan.chunks_worked);
    let all = chunks * u128::from(scan.worked_ns) / u128::from(scan.chunks_worked.max(1));
    let all = u64::try_from(all).unwrap_or(u64::MAX);
    level(all).saturating_add(scan.registered_at.0 / AGE_PER_WORK)
}

/// The least power of [`LEVEL`] that is not below; 0 of nothing.
fn level(work_ns: u64) -> u64 {
    let mut level = u64::from(work_ns > 0);
    while level < work_ns {
        level = level.saturating_mul(LEVEL);
    }
    level
}

/// Work per chunk so far, shared between those it was done for, in nanoseconds; 0 before the
/// first.
pub(crate) fn price(scan: &Scan) -> u64 {
    scan.worked_ns / scan.chunks_worked.max(1)
}

/// The scans that join a turn with this chunk, by rank. Its decode is shared by all who work on it
/// now. `at_work`: how many scans have a chunk in work.
///
/// Joining spares the scan a decode later, and all who come after it; it delays those before it by
/// the rest of its work. How much of a price is decode is not known: half of the lower of the two
/// prices is taken for it.
pub(crate) fn joiners(
    state: &State,
    table: TableId,
    chunk: ChunkId,
    leader_price: u64,
    at_work: usize,
) -> impl Iterator<Item = ScanId> + use<> {
    let mut ready: Vec<(u64, ScanId, u64)> = Vec::new();
    let entry = state.table(table);
    let resident = &entry.group(chunk).state.resident;
    let slots = entry.interest(chunk).iter_and(&entry.waiting);
    for slot in slots.map(|slot| entry.slot(slot)) {
        let scan = state.scan(slot.scan);
        if !scan.sequential && slot.columns.is_subset(resident) {
            ready.push((rank(entry, scan), scan.id, price(scan)));
        }
    }
    ready.sort_unstable();
    let count = ready.len();
    let joins = move |(at, (_, id, price)): (usize, (u64, ScanId, u64))| {
        let (before, after) = (at_work + at, count - at);
        let decode = price.min(leader_price) / 2;
        let spared = u128::from(decode) * after as u128;
        let delays = u128::from(price - decode) * before as u128;
        (spared >= delays).then_some(id)
    };
    ready.into_iter().enumerate().filter_map(joins)
}

/// Of scans whose work differs by less than this the one that came first goes first. Where queries
/// are alike, as in a mix of TPC-H's, an order by work left lets the longest wait for all the
/// others and gains the mean nothing.
const LEVEL: u64 = 10;

/// So many seconds of age weigh as much as a second of work less. Large enough that the order of
/// scans that differ is nearly that of their work: in a model of [CoopScans07] Table 2 mean
/// normalized latency was 1.67 without age, 1.71 with 10, 2.14 with 3 and 16 with 1.
const AGE_PER_WORK: u64 = 10;
