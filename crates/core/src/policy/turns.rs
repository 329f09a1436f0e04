//! Which scan works on a chunk now, and which waits for a turn?
//!
//! Idea: when the cores are the bottleneck, scans that all work at once all end late. So only as
//! many chunks are in work as the cores can take. Each scan has a deadline; more work means a
//! later deadline, by order of magnitude, and the earliest deadline is served first. Shortest
//! first minimises the mean response time of one server [Schrage68], but it gains nothing among
//! similar scans, and makes the longest scan wait for all others.
//! The cost of a chunk to a scan is measured. A chunk is decoded once for all scans that work on
//! it at the same time, so other scans join its turn. The order does not depend on the current
//! time, so it is kept, not recomputed.
//! Sequential scans take no turns.
//! Not here: the queue and the running turns (`abm/handle/turns.rs`), which chunk a scan gets (the
//! policy).
//! Bounds: O(scans · log scans) per turn.
//! ABM-I6: every scan gets its turn, because scans that arrive much later have later deadlines.
//! Source: none of the papers; [CoopScans07] delivers every available chunk at once.

use crate::state::State;
use crate::table::Table;
use crate::table::scan::Scan;
use crate::{ChunkId, ScanId, TableId};

/// The limit on turns: a ready chunk is delivered only while fewer chunks than this are in work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TurnLimit {
    /// The most different chunks in work at once, at least 1. More than there are cores, if a
    /// chunk that changes hands leaves its core idle.
    pub chunks_max: usize,
    /// A chunk stops counting as in work this long after its delivery or its last
    /// `ChunkProgressed`, because its consumer is waiting for something else. Nanoseconds, at
    /// least 1.
    pub length_ns_max: u64,
}

/// The scan's rank; the smallest is served first. It is a deadline that leaves long scans more
/// time: the total work of the scan at its average price, rounded up to a power of [`LEVEL`], plus
/// a share of its arrival time. So scans of similar length are served in the order of arrival, and
/// a long scan is overtaken only by shorter ones that arrive within [`AGE_PER_WORK`] times its
/// level.
pub(crate) fn rank(table: &Table, scan: &Scan) -> u64 {
    let chunks = table.needed_len(scan) as u128 + u128::from(scan.chunks_worked);
    let all = chunks * u128::from(scan.worked_ns) / u128::from(scan.chunks_worked.max(1));
    let all = u64::try_from(all).unwrap_or(u64::MAX);
    level(all).saturating_add(scan.registered_at.0 / AGE_PER_WORK)
}

/// The smallest power of [`LEVEL`] that is at least `work_ns`; 0 for no work.
fn level(work_ns: u64) -> u64 {
    let mut level = u64::from(work_ns > 0);
    while level < work_ns {
        level = level.saturating_mul(LEVEL);
    }
    level
}

/// The scan's average work per consumed chunk, in nanoseconds, where scans that shared the work on
/// a chunk each count their share; 0 before the first chunk.
pub(crate) fn price(scan: &Scan) -> u64 {
    scan.worked_ns / scan.chunks_worked.max(1)
}

/// The scans that join a turn with this chunk, by rank. All scans that work on it now share its
/// decode. `at_work` is the number of scans that have a chunk in work.
///
/// Joining saves a later decode for the scan and all scans after it; it delays the scans before it
/// by the rest of its work. The decode's share of a price is unknown: half of the lower of the two
/// prices stands for it.
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

/// Scans whose work differs by less than this factor are served in the order of registration. With
/// similar queries, as in a mix of TPC-H's, serving the least remaining work first makes the
/// longest wait for all the others and does not improve the mean.
const LEVEL: u64 = 10;

/// This many seconds of age weigh as much as one second less of work. With 1, turns lose to the
/// paper's relevance in 6 of 15 simulated mixes; with 10, long queries of the engine's TPC-H mix
/// wait for nearly all others (`docs/decisions/turns.md`).
const AGE_PER_WORK: u64 = 2;
