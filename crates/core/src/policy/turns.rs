//! Who works now, and who waits for a turn?
//!
//! Idea: when the cores are the bottleneck, scans that all work at once all end late. As many
//! chunks are in work as the cores can take, and the scan with least work left comes first
//! (shortest remaining processing time, which minimises the mean response time of one server
//! [Schrage68]); what a chunk costs a scan is measured. A chunk is decoded once for all who work on
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

/// The least goes first: work left at the price paid so far, and a share of the time before the
/// scan came.
pub(crate) fn rank(table: &Table, scan: &Scan) -> u64 {
    let left = table.needed_len(scan) as u128 * u128::from(scan.worked_ns);
    let left = left / u128::from(scan.chunks_worked.max(1));
    let left = u64::try_from(left).unwrap_or(u64::MAX);
    left.saturating_add(scan.registered_at.0 / AGE_PER_WORK)
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

/// So many seconds of age weigh as much as a second of work less. Large enough that the order is
/// nearly that of work left: in a model of [CoopScans07] Table 2 mean normalized latency was 1.67
/// without age, 1.71 with 10, 2.14 with 3 and 16 with 1.
const AGE_PER_WORK: u64 = 10;
