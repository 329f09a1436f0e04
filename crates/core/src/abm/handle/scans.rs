//! Scans come, ask, give back and go.
//!
//! Not here: what they are handed (`relevance.rs`, `elevator.rs`, `in_order.rs` choose it).
//! I5: each scan is handed each of its chunks once.

use std::collections::{BTreeMap, BTreeSet};

use crate::abm::Abm;
use crate::table::scan::{PartState, Scan, Turn};
use crate::table::{LastLoad, Pinner};
use crate::{Action, ChunkId, ChunkSet, LoadOrigin, Policy, ScanId, ScanSpec};

impl Abm {
    pub(crate) fn register(&mut self, id: ScanId, spec: ScanSpec) {
        let registered_seq = self.next_seq();
        let ScanSpec {
            table: table_id,
            parts,
            consumers,
            ordered,
        } = spec;
        let sequential = ordered || self.config.policy.is_sequential();
        let start = if self.config.policy == Policy::Attach && !ordered {
            self.attach_point(table_id, &parts)
        } else {
            ChunkId(0)
        };
        let lookahead = consumers as usize + self.loads_ahead();
        let plenty = (!sequential).then_some(lookahead);
        let table = self.table_mut(table_id);
        table.scans.insert(id);
        let parts: Vec<PartState> = parts
            .into_iter()
            .map(|part| PartState {
                slot: table.add_slot(id, &part.chunks, &part.columns, plenty),
                columns: part.columns,
            })
            .collect();
        let now = self.now;
        let scan = Scan {
            id,
            table: table_id,
            parts,
            held: BTreeMap::new(),
            lapsed: BTreeSet::new(),
            joined: BTreeMap::new(),
            lookahead,
            sequential,
            ordered,
            start,
            waiting: 0,
            wait_since: now,
            last_activity: now,
            stalled: false,
            starved: false,
            almost: false,
            registered_seq,
            registered_at: now,
            worked_ns: 0,
            chunks_worked: 0,
            rank: None,
            last_load_seq: registered_seq,
        };
        self.scans.insert(id, scan);
        self.scan_last = Some(id);
        self.active(id);
        self.refresh(id);
    }

    /// How many loads ahead of its consumers keep a scan fed. The paper's policies stay one ahead
    /// however many loads may be outstanding: under LRU a scan that runs ahead further than its
    /// share of the buffer evicts what it has not used yet.
    fn loads_ahead(&self) -> usize {
        match self.config.policy {
            Policy::Elevator | Policy::Relevance => self.config.loads_max,
            Policy::Normal
            | Policy::Attach
            | Policy::Pbm
            | Policy::PbmSampling
            | Policy::Relevance2007 => 1,
        }
    }

    pub(crate) fn request(&mut self, id: ScanId) {
        let now = self.now;
        let scan = self.scan_mut(id);
        if scan.waiting == 0 {
            scan.wait_since = now;
        }
        scan.waiting += 1;
        self.active(id);
        self.serve.insert(id);
    }

    pub(crate) fn withdraw_request(&mut self, id: ScanId) {
        let scan = self.scan_mut(id);
        scan.waiting = scan.waiting.saturating_sub(1);
        self.active(id);
    }

    pub(crate) fn release(&mut self, id: ScanId, chunk: ChunkId) {
        if !self.scan_mut(id).lapsed.remove(&chunk) {
            let turn = self.let_go(id, chunk);
            if !self.pass_hold(id, chunk, turn) {
                let table = self.scan(id).table;
                self.end_turn(id, table, chunk, turn);
            }
        }
        self.active(id);
        self.refresh(id);
    }

    /// A chunk's consumer does not come back. That is no sign of life: a scan that holds nothing
    /// else, and of which nobody waits, is stalled from now on, so that nothing is loaded in the
    /// chunk's place (I8).
    pub(crate) fn lapse(&mut self, id: ScanId, chunk: ChunkId) {
        let turn = self.let_go(id, chunk);
        if !self.lapse_hold(id, chunk, turn) {
            let table = self.scan(id).table;
            self.end_turn(id, table, chunk, turn);
        }
        let scan = self.scan_mut(id);
        scan.lapsed.insert(chunk);
        let silent = scan.waiting == 0 && scan.held.is_empty();
        if silent && !scan.stalled {
            self.stall_now(id);
        }
    }

    /// Unpins a chunk. Its turn is to be ended.
    fn let_go(&mut self, id: ScanId, chunk: ChunkId) -> Turn {
        let seq = self.next_seq();
        let scan = self.scan_mut(id);
        let turn = scan.held.remove(&chunk).expect("validated");
        let table_id = scan.table;
        let table = self.table_mut(table_id);
        let columns = table.unpin(chunk, Pinner::Scan(id));
        table.touch(chunk, &columns, seq);
        turn
    }

    pub(crate) fn progress(&mut self, id: ScanId, chunk: ChunkId) {
        self.extend_turn(id, chunk);
        self.active(id);
    }

    pub(crate) fn withdraw_chunks(&mut self, id: ScanId, chunks: &ChunkSet) {
        let scan = self.scans.get_mut(&id).expect("validated");
        let table = self
            .tables
            .get_mut(&scan.table)
            .expect("scans name registered tables");
        for part in &scan.parts {
            let needed = |run| table.interests().runs(part.slot, run);
            let gone: ChunkSet = chunks.runs().flat_map(needed).collect();
            table.lose_interest(part.slot, &gone);
        }
        self.serve.insert(id);
        self.refresh(id);
    }

    pub(crate) fn end(&mut self, id: ScanId) {
        self.leave_queue(id);
        let Some(mut scan) = self.scans.shift_remove(&id) else {
            return;
        };
        self.serve.remove(&id);
        self.hungry.remove(&id);
        self.leave_jobs(id, std::mem::take(&mut scan.joined));
        for (&chunk, &turn) in &scan.held {
            if !self.pass_hold(id, chunk, turn) {
                self.end_turn(id, scan.table, chunk, turn);
            }
        }
        self.stalls.remove(&(self.stall_time(&scan), id));
        let table = self.table_mut(scan.table);
        table.scans.remove(&id);
        for chunk in scan.held.into_keys() {
            table.unpin(chunk, Pinner::Scan(id));
        }
        for part in scan.parts {
            table.drop_slot(part.slot);
        }
    }

    pub(crate) fn deliver(&mut self) {
        if let Some(limit) = self.turn_limit() {
            return self.deliver_in_turn(limit);
        }
        while let Some(id) = self.serve.pop_first() {
            while self.scans.get(&id).is_some_and(|scan| scan.waiting > 0)
                && let Some(chunk) = self.choose_available(id)
            {
                self.hand_out(id, chunk);
            }
            self.answer_exhausted(id);
        }
    }

    pub(crate) fn choose_available(&self, id: ScanId) -> Option<ChunkId> {
        let scan = self.scan(id);
        match self.config.policy {
            _ if scan.sequential => self.next_in_order(scan),
            Policy::Normal | Policy::Attach | Policy::Pbm | Policy::PbmSampling => {
                self.next_in_order(scan)
            }
            Policy::Elevator => self.oldest_behind_cursor(scan),
            Policy::Relevance | Policy::Relevance2007 => self.most_useful(scan),
        }
    }

    pub(crate) fn hand_out(&mut self, id: ScanId, chunk: ChunkId) {
        let seq = self.next_seq();
        let scan = self.scan(id);
        let part = self.table(scan.table).part_of(scan, chunk);
        let part = part.expect("I5: only needed chunks are chosen");
        let turn = self.begin_turn(id, chunk, part);
        let scan = self.scans.get_mut(&id).expect("deliver named it");
        scan.held.insert(chunk, turn);
        scan.waiting -= 1;
        let registered = scan.registered_seq;
        let table = self
            .tables
            .get_mut(&scan.table)
            .expect("scans name registered tables");
        let PartState { slot, ref columns } = scan.parts[part];
        table.slot_mut(slot).coming -= 1;
        table.drop_interest(chunk, slot);
        table.pin(chunk, Pinner::Scan(id), columns.clone());
        table.touch(chunk, columns, seq);
        let origin = match table.chunks[chunk.0 as usize].last_load {
            Some(LastLoad { scan, .. }) if scan == id => LoadOrigin::LoadedForMe,
            Some(LastLoad { seq, .. }) if seq > registered => LoadOrigin::LoadedForOthers,
            _ => LoadOrigin::FromBuffer,
        };
        self.active(id);
        self.refresh(id);
        self.actions.push_back(Action::Deliver {
            scan: id,
            chunk,
            origin,
        });
    }
}
