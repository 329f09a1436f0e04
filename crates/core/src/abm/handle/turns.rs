//! How do turns begin, how do scans join them, how do they continue and end?
//!
//! Not here: rank and joining rules (`policy/turns.rs`), which chunk a scan gets (the policy).
//! Bounds: O(scans · log scans) per turn.
//! ABM-I6: a chunk counts as in work only while its consumer makes progress, so a consumer that
//! waits for something else delays no scan beyond `length_ns_max`. Sequential scans take no turns.

use std::collections::{BTreeMap, BTreeSet};

use crate::abm::Abm;
use crate::policy::turns::{joiners, price, rank};
use crate::table::scan::Turn;
use crate::{Action, ChunkId, ScanId, TableId, Time, TurnLimit};

/// Chunks in work, and scans that wait for a turn.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The chunks in work: when each stops counting, and its scan.
    ends: BTreeSet<(Time, ScanId, TableId, ChunkId)>,
    /// The chunks in work, with the number of scans that work on each.
    open: BTreeMap<(TableId, ChunkId), usize>,
    /// Scans that may get a chunk once a turn is free, by rank.
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
    /// Step 3 of `handle`, with turns.
    pub(crate) fn deliver_in_turn(&mut self, limit: TurnLimit) {
        while let Some(id) = self.serve.pop_first() {
            if self.takes_no_turns(id) {
                self.deliver_at_once(id);
            } else {
                self.answer_exhausted(id);
                self.queue_for_turn(id);
            }
        }
        while self.turns.open.len() < limit.chunks_max
            && let Some((_, id)) = self.turns.queue.pop_first()
        {
            let scan = self.state.scan_mut(id);
            scan.rank = None;
            if scan.waiting > 0
                && let Some(chunk) = self.choose_available(id)
            {
                let table = self.state.scan(id).table;
                let price = price(self.state.scan(id));
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

    /// A turn with this chunk has begun: other scans join it.
    fn join_turn(&mut self, table: TableId, chunk: ChunkId, leader_price: u64) {
        let mut at_work: Vec<ScanId> = self.turns.ends.iter().map(|end| end.1).collect();
        at_work.sort_unstable();
        at_work.dedup();
        for id in joiners(&self.state, table, chunk, leader_price, at_work.len()) {
            self.take_turn(id, chunk);
        }
    }

    /// Whether the scan gets its chunks without waiting for turns. The consumer of a sequential
    /// scan may hold a chunk while it waits for another scan (a merge join reads its inputs
    /// crosswise); if both scans waited for turns, it would wait for its own turn to end.
    fn takes_no_turns(&self, id: ScanId) -> bool {
        let scan = self.state.scans.get(&id);
        self.turn_limit.is_none() || scan.is_some_and(|scan| scan.sequential)
    }

    /// Queues a waiting scan at its current rank.
    fn queue_for_turn(&mut self, id: ScanId) {
        self.leave_queue(id);
        let Some(scan) = self.state.scans.get_mut(&id) else {
            return;
        };
        if scan.waiting > 0 {
            let rank = rank(&self.state.tables[&scan.table], scan);
            scan.rank = Some(rank);
            self.turns.queue.insert((rank, id));
        }
    }

    pub(crate) fn leave_queue(&mut self, id: ScanId) {
        let scan = self.state.scans.get_mut(&id);
        if let Some(rank) = scan.and_then(|scan| scan.rank.take()) {
            self.turns.queue.remove(&(rank, id));
        }
    }

    /// Answers all consumers of a scan that needs no chunk and to which no job could give a chunk
    /// back.
    pub(crate) fn answer_exhausted(&mut self, id: ScanId) {
        while let Some(scan) = self.state.scans.get_mut(&id)
            && scan.waiting > 0
            && scan.joined.is_empty()
            && self.state.tables[&scan.table].needed_len(scan) == 0
        {
            scan.waiting -= 1;
            self.active(id);
            self.actions.push_back(Action::Exhausted { scan: id });
        }
    }

    /// Begins the turn of a chunk that is being delivered.
    pub(crate) fn begin_turn(&mut self, id: ScanId, chunk: ChunkId, part: usize) -> Turn {
        let (begun, end) = (self.state.now, self.end_of_turn());
        if !self.takes_no_turns(id) {
            let table = self.state.scan(id).table;
            self.turns.insert(end, id, table, chunk);
        }
        Turn {
            begun,
            end,
            part,
            served: 1,
        }
    }

    /// The consumer made progress: the chunk is in work, even if its turn had ended.
    pub(crate) fn extend_turn(&mut self, id: ScanId, chunk: ChunkId) {
        let end = self.end_of_turn();
        let limited = !self.takes_no_turns(id);
        let scan = self.state.scan_mut(id);
        let table = scan.table;
        let turn = scan.held.get_mut(&chunk).expect("validated");
        let before = std::mem::replace(&mut turn.end, end);
        if limited {
            self.turns.remove(before, id, table, chunk);
            self.turns.insert(end, id, table, chunk);
        }
    }

    /// The scan has released the chunk or ended: counts its time in work.
    pub(crate) fn end_turn(&mut self, id: ScanId, table: TableId, chunk: ChunkId, turn: Turn) {
        self.leave_work(id, table, chunk, turn);
        self.count_work(id, turn.worked_ns(self.state.now) / turn.served);
    }

    /// The chunk leaves the set of chunks in work.
    pub(crate) fn leave_work(&mut self, id: ScanId, table: TableId, chunk: ChunkId, turn: Turn) {
        self.turns.remove(turn.end, id, table, chunk);
    }

    /// Counts one consumed chunk and the scan's share of its time in work.
    pub(crate) fn count_work(&mut self, id: ScanId, worked_ns: u64) {
        if let Some(scan) = self.state.scans.get_mut(&id) {
            scan.worked_ns += worked_ns;
            scan.chunks_worked += 1;
            if scan.rank.is_some() {
                self.serve.insert(id);
            }
        }
    }

    fn end_of_turn(&self) -> Time {
        let length = self.turn_limit.map_or(0, |limit| limit.length_ns_max);
        Time(self.state.now.0.saturating_add(length))
    }

    pub(crate) fn expire_turns(&mut self) {
        while let Some(&(end, id, table, chunk)) = self.turns.ends.first()
            && end <= self.state.now
        {
            self.turns.remove(end, id, table, chunk);
        }
    }

    /// When the first of the running turns ends because of its length.
    pub(crate) fn turn_deadline(&self) -> Option<Time> {
        self.turns.ends.first().map(|&(end, ..)| end)
    }

    /// Checks every invariant of the turns.
    pub(crate) fn check_turns(&self) {
        let queued = self.state.scans.values().filter(|scan| scan.rank.is_some());
        assert_eq!(queued.count(), self.turns.queue.len());
        for &(queued_at, id) in &self.turns.queue {
            let scan = self.state.scan(id);
            assert_eq!(scan.rank, Some(queued_at));
            assert!(
                scan.waiting == 0 || queued_at == rank(self.state.table(scan.table), scan),
                "ranks are up to date"
            );
        }
        let open: usize = self.turns.open.values().sum();
        assert_eq!(open, self.turns.ends.len(), "open chunks are counted right");
        for &(_, id, table, chunk) in &self.turns.ends {
            assert!(self.turns.open.contains_key(&(table, chunk)));
            let scan = self.state.scans.get(&id);
            let held = scan.is_some_and(|scan| scan.held.contains_key(&chunk));
            assert!(
                held || self.job_holds((id, chunk)),
                "only held chunks are in work"
            );
        }
    }
}
