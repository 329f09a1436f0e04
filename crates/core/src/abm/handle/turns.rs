//! Who works now, and who waits for a turn?
//!
//! Idea: when the cores are the bottleneck, scans that all work at once all end late. As many
//! chunks are in work as the cores can take, and the scan with least work left comes first
//! (shortest remaining processing time, which minimises the mean response time of one server
//! [Schrage68]); what a chunk costs a scan is measured. A chunk is decoded once for all who work on
//! it at a time, so others join its turn. The order does not depend on the time that passes, so it
//! is kept, not recomputed.
//! Not here: which chunk a scan is handed (`relevance.rs` and its siblings choose it).
//! Bounds: O(scans · log scans) per turn.
//! I6: every scan's turn comes, for the older a scan, the higher it ranks; and a chunk counts as in
//! work only while its consumer goes on, so that one that waits for something else holds nobody up.
//! Source: none of the papers; [CoopScans07] hands out whatever is available.

use std::collections::{BTreeMap, BTreeSet};

use crate::abm::Abm;
use crate::table::Table;
use crate::table::scan::{Scan, Turn};
use crate::{Action, ChunkId, Policy, ScanId, TableId, Time, TurnLimit};

/// Who works and who waits for a turn.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The chunks in work, for whom, and when each stops counting.
    ends: BTreeSet<(Time, ScanId, TableId, ChunkId)>,
    /// The chunks in work: for how many scans.
    open: BTreeMap<(TableId, ChunkId), usize>,
    /// Scans that may be handed a chunk once there is a turn, by rank.
    queue: BTreeSet<(u64, ScanId)>,
}

impl Turns {
    fn insert(&mut self, end: Time, scan: ScanId, table: TableId, chunk: ChunkId) {
        if self.ends.insert((end, scan, table, chunk)) {
            *self.open.entry((table, chunk)).or_default() += 1;
        }
    }

    fn remove(&mut self, end: Time, scan: ScanId, table: TableId, chunk: ChunkId) {
        if self.ends.remove(&(end, scan, table, chunk))
            && let Some(scans) = self.open.get_mut(&(table, chunk))
        {
            *scans -= 1;
            if *scans == 0 {
                self.open.remove(&(table, chunk));
            }
        }
    }
}

impl Abm {
    pub(crate) fn turn_limit(&self) -> Option<TurnLimit> {
        let takes_turns = self.config.policy == Policy::Relevance;
        self.config.turns.filter(|_| takes_turns)
    }

    /// Step 3 of `handle`, with turns.
    pub(crate) fn deliver_in_turn(&mut self, limit: TurnLimit) {
        while let Some(id) = self.serve.pop_first() {
            self.answer_exhausted(id);
            self.queue_for_turn(id);
        }
        while self.turns.open.len() < limit.chunks_max
            && let Some((_, id)) = self.turns.queue.pop_first()
        {
            let scan = self.scan_mut(id);
            scan.rank = None;
            if scan.waiting > 0
                && let Some(chunk) = self.choose_available(id)
            {
                let table = self.scan(id).table;
                let price = price(self.scan(id));
                self.take_turn(id, chunk);
                self.join_turn(table, chunk, price);
            }
        }
    }

    fn take_turn(&mut self, id: ScanId, chunk: ChunkId) {
        self.hand_out(id, chunk);
        self.answer_exhausted(id);
        self.queue_for_turn(id);
    }

    /// A turn with this chunk has begun. Its decode is shared by all who work on it now, so waiting
    /// scans of high rank join.
    ///
    /// Joining spares the scan a decode later, and all who come after it; it delays those before it
    /// by the rest of its work. How much of a price is decode is not known: half of the lower of
    /// the two prices is taken for it.
    fn join_turn(&mut self, table: TableId, chunk: ChunkId, leader_price: u64) {
        let mut at_work: Vec<ScanId> = self.turns.ends.iter().map(|end| end.1).collect();
        at_work.sort_unstable();
        at_work.dedup();
        let mut ready: Vec<(u64, ScanId, u64)> = Vec::new();
        let entry = self.table(table);
        let resident = &entry.group(chunk).state.resident;
        let slots = entry.interest(chunk).iter_and(&entry.waiting);
        for slot in slots.map(|slot| entry.slot(slot)) {
            let scan = self.scan(slot.scan);
            if !scan.sequential && slot.columns.is_subset(resident) {
                ready.push((rank(entry, scan), scan.id, price(scan)));
            }
        }
        ready.sort_unstable();
        for (at, &(_, id, price)) in ready.iter().enumerate() {
            let (before, after) = (at_work.len() + at, ready.len() - at);
            let decode = price.min(leader_price) / 2;
            let spared = u128::from(decode) * after as u128;
            let delays = u128::from(price - decode) * before as u128;
            if spared >= delays {
                self.take_turn(id, chunk);
            }
        }
    }

    /// Puts a waiting scan into the queue, at its present rank.
    fn queue_for_turn(&mut self, id: ScanId) {
        self.leave_queue(id);
        let Some(scan) = self.scans.get_mut(&id) else {
            return;
        };
        if scan.waiting > 0 {
            let rank = rank(&self.tables[&scan.table], scan);
            scan.rank = Some(rank);
            self.turns.queue.insert((rank, id));
        }
    }

    pub(crate) fn leave_queue(&mut self, id: ScanId) {
        let scan = self.scans.get_mut(&id);
        if let Some(rank) = scan.and_then(|scan| scan.rank.take()) {
            self.turns.queue.remove(&(rank, id));
        }
    }

    /// Answers all consumers of a scan that needs nothing more and that no job could give a chunk
    /// back to.
    pub(crate) fn answer_exhausted(&mut self, id: ScanId) {
        while let Some(scan) = self.scans.get_mut(&id)
            && scan.waiting > 0
            && scan.joined.is_empty()
            && self.tables[&scan.table].needed_len(scan) == 0
        {
            scan.waiting -= 1;
            self.active(id);
            self.actions.push_back(Action::Exhausted { scan: id });
        }
    }

    /// A chunk is handed out now.
    pub(crate) fn begin_turn(&mut self, id: ScanId, chunk: ChunkId, part: usize) -> Turn {
        let (begun, end) = (self.now, self.end_of_turn());
        if self.turn_limit().is_some() {
            let table = self.scan(id).table;
            self.turns.insert(end, id, table, chunk);
        }
        Turn {
            begun,
            end,
            part,
            served: 1,
        }
    }

    /// The consumer goes on: the chunk is in work, even if it was not any more.
    pub(crate) fn extend_turn(&mut self, id: ScanId, chunk: ChunkId) {
        let end = self.end_of_turn();
        let limited = self.turn_limit().is_some();
        let scan = self.scan_mut(id);
        let table = scan.table;
        let turn = scan.held.get_mut(&chunk).expect("validated");
        let before = std::mem::replace(&mut turn.end, end);
        if limited {
            self.turns.remove(before, id, table, chunk);
            self.turns.insert(end, id, table, chunk);
        }
    }

    /// The scan gave the chunk back, or is over: how long it worked on it counts.
    pub(crate) fn end_turn(&mut self, id: ScanId, table: TableId, chunk: ChunkId, turn: Turn) {
        self.leave_work(id, table, chunk, turn);
        self.count_work(id, turn.worked_ns(self.now) / turn.served);
    }

    /// The chunk is not in work any more.
    pub(crate) fn leave_work(&mut self, id: ScanId, table: TableId, chunk: ChunkId, turn: Turn) {
        self.turns.remove(turn.end, id, table, chunk);
    }

    /// A chunk of the scan is done with, and this is the scan's share of the work.
    pub(crate) fn count_work(&mut self, id: ScanId, worked_ns: u64) {
        if let Some(scan) = self.scans.get_mut(&id) {
            scan.worked_ns += worked_ns;
            scan.chunks_worked += 1;
            if scan.rank.is_some() {
                self.serve.insert(id);
            }
        }
    }

    fn end_of_turn(&self) -> Time {
        let length = self.turn_limit().map_or(0, |limit| limit.length_ns_max);
        Time(self.now.0.saturating_add(length))
    }

    pub(crate) fn expire_turns(&mut self) {
        while let Some(&(end, id, table, chunk)) = self.turns.ends.first()
            && end <= self.now
        {
            self.turns.remove(end, id, table, chunk);
        }
    }

    /// When the next turn ends by itself.
    pub(crate) fn turn_deadline(&self) -> Option<Time> {
        self.turns.ends.first().map(|&(end, ..)| end)
    }

    /// Every invariant of the turns.
    pub(crate) fn check_turns(&self) {
        let queued = self.scans.values().filter(|scan| scan.rank.is_some());
        assert_eq!(queued.count(), self.turns.queue.len());
        for &(queued_at, id) in &self.turns.queue {
            let scan = self.scan(id);
            assert_eq!(scan.rank, Some(queued_at));
            assert!(
                scan.waiting == 0 || queued_at == rank(self.table(scan.table), scan),
                "ranks are up to date"
            );
        }
        let open: usize = self.turns.open.values().sum();
        assert_eq!(open, self.turns.ends.len(), "open chunks are counted right");
        for &(_, id, table, chunk) in &self.turns.ends {
            assert!(self.turns.open.contains_key(&(table, chunk)));
            let scan = self.scans.get(&id);
            let held = scan.is_some_and(|scan| scan.held.contains_key(&chunk));
            assert!(
                held || self.job_holds((id, chunk)),
                "only held chunks are in work"
            );
        }
    }
}

/// The least goes first: work left at the price paid so far, and a share of the time before the
/// scan came.
fn rank(table: &Table, scan: &Scan) -> u64 {
    let left = table.needed_len(scan) as u128 * u128::from(scan.worked_ns);
    let left = left / u128::from(scan.chunks_worked.max(1));
    let left = u64::try_from(left).unwrap_or(u64::MAX);
    left.saturating_add(scan.registered_at.0 / AGE_PER_WORK)
}

/// Work per chunk so far, shared between those it was done for, in nanoseconds; 0 before the
/// first.
fn price(scan: &Scan) -> u64 {
    scan.worked_ns / scan.chunks_worked.max(1)
}

/// So many seconds of age weigh as much as a second of work less. Large enough that the order is
/// nearly that of work left: in a model of [CoopScans07] Table 2 mean normalized latency was 1.67
/// without age, 1.71 with 10, 2.14 with 3 and 16 with 1.
const AGE_PER_WORK: u64 = 10;
