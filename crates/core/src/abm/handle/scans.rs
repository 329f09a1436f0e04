//! How do scans register, request chunks, release them and end?
//!
//! Not here: which chunk a scan gets (`delivery.rs`).

use std::collections::{BTreeMap, BTreeSet};

use crate::abm::Abm;
use crate::bits::Bits;
use crate::table::Pinner;
use crate::table::scan::{PartState, Scan, Turn};
use crate::{ChunkId, ChunkSet, ScanId, ScanSpec};

/// When more chunks than this are coming from a device, one more does not change the scan's
/// starvation. For a scan that may not read from all devices there is no such number: any chunk
/// may change which devices it reads from.
fn plenty(lookahead: usize, devices_max: Option<u32>) -> usize {
    devices_max.map_or(lookahead, |_| usize::MAX)
}

impl Abm {
    pub(crate) fn register(&mut self, id: ScanId, spec: ScanSpec) {
        let registered_seq = self.state.next_seq();
        let rules = self.rules;
        let sequential = spec.ordered || rules.is_sequential();
        let fed_by = self.fed_by(&spec, sequential);
        let ScanSpec {
            table: table_id,
            parts,
            consumers,
            ordered,
            devices_max,
        } = spec;
        let start = if ordered {
            ChunkId(0)
        } else {
            rules.first_chunk(&self.state, table_id, &parts)
        };
        let lookahead = consumers as usize + fed_by * rules.loads_ahead(self.state.loads_max);
        let plenty = (!sequential).then_some(plenty(lookahead, devices_max));
        let table = self.state.table_mut(table_id);
        table.scans.insert(id);
        let parts: Vec<PartState> = parts
            .into_iter()
            .map(|part| PartState {
                slot: table.add_slot(id, &part.chunks, &part.columns, plenty),
                columns: part.columns,
            })
            .collect();
        let now = self.state.now;
        let scan = Scan {
            id,
            table: table_id,
            parts,
            held: BTreeMap::new(),
            lapsed: BTreeSet::new(),
            joined: BTreeMap::new(),
            devices_max,
            lookahead,
            sequential,
            ordered,
            start,
            waiting: 0,
            wait_since: now,
            last_activity: now,
            stalled: false,
            starved: false,
            starved_of: Bits::default(),
            almost: false,
            registered_seq,
            registered_at: now,
            worked_ns: 0,
            chunks_worked: 0,
            rank: None,
            last_load_seq: registered_seq,
        };
        self.state.scans.insert(id, scan);
        self.scan_last = Some(id);
        self.active(id);
        self.state.refresh(id);
    }

    /// How many devices feed a scan: a sequential one is fed by as many as its chunks lie on, any
    /// other one by each device as if it were the only one.
    fn fed_by(&self, spec: &ScanSpec, sequential: bool) -> usize {
        if !sequential {
            return 1;
        }
        let at_once = spec.devices_max;
        let at_once = at_once.map_or(usize::MAX, |max| max.max(1) as usize);
        let table = self.state.table(spec.table);
        table.devices_of(&spec.parts).min(at_once)
    }

    /// Changes the number of devices that the scan reads from at a time; a sequential scan keeps
    /// its look-ahead.
    pub(crate) fn change_degree(&mut self, id: ScanId, devices_max: Option<u32>) {
        let scan = self.state.scan_mut(id);
        scan.devices_max = devices_max;
        if scan.sequential {
            return;
        }
        let plenty = plenty(scan.lookahead, devices_max);
        let (table, slots) = (scan.table, scan.slots());
        for slot in slots {
            self.state.table_mut(table).slot_mut(slot).plenty = Some(plenty);
        }
        self.state.refresh(id);
    }

    pub(crate) fn request(&mut self, id: ScanId) {
        let now = self.state.now;
        let scan = self.state.scan_mut(id);
        if scan.waiting == 0 {
            scan.wait_since = now;
        }
        scan.waiting += 1;
        self.active(id);
        self.serve.insert(id);
    }

    pub(crate) fn withdraw_request(&mut self, id: ScanId) {
        let scan = self.state.scan_mut(id);
        scan.waiting = scan.waiting.saturating_sub(1);
        self.active(id);
    }

    pub(crate) fn release(&mut self, id: ScanId, chunk: ChunkId) {
        if !self.state.scan_mut(id).lapsed.remove(&chunk) {
            let turn = self.let_go(id, chunk);
            if !self.pass_hold(id, chunk, turn) {
                let table = self.state.scan(id).table;
                self.end_turn(id, table, chunk, turn);
            }
        }
        self.active(id);
        self.state.refresh(id);
    }

    /// A consumer is silent while it holds a chunk. A lapse is not activity: if the scan holds no
    /// other chunk and has no waiting consumer, it is stalled from now on, so that no load takes
    /// the chunk's place for it (ABM-I8).
    pub(crate) fn lapse(&mut self, id: ScanId, chunk: ChunkId) {
        let turn = self.let_go(id, chunk);
        if !self.lapse_hold(id, chunk, turn) {
            let table = self.state.scan(id).table;
            self.end_turn(id, table, chunk, turn);
        }
        let scan = self.state.scan_mut(id);
        scan.lapsed.insert(chunk);
        let silent = scan.waiting == 0 && scan.held.is_empty();
        if silent && !scan.stalled {
            self.stall_now(id);
        }
    }

    /// Unpins a chunk and returns its turn, which the caller has to end.
    fn let_go(&mut self, id: ScanId, chunk: ChunkId) -> Turn {
        let seq = self.state.next_seq();
        let scan = self.state.scan_mut(id);
        let turn = scan.held.remove(&chunk).expect("validated");
        let table_id = scan.table;
        let table = self.state.table_mut(table_id);
        let columns = table.unpin(chunk, Pinner::Scan(id));
        table.touch(chunk, &columns, seq);
        turn
    }

    pub(crate) fn progress(&mut self, id: ScanId, chunk: ChunkId) {
        self.extend_turn(id, chunk);
        self.active(id);
    }

    pub(crate) fn withdraw_chunks(&mut self, id: ScanId, chunks: &ChunkSet) {
        let scan = self.state.scans.get_mut(&id).expect("validated");
        let table = self
            .state
            .tables
            .get_mut(&scan.table)
            .expect("scans name registered tables");
        for part in &scan.parts {
            let needed = |run| table.interests().runs(part.slot, run);
            let gone: ChunkSet = chunks.runs().flat_map(needed).collect();
            table.lose_interest(part.slot, &gone);
        }
        self.serve.insert(id);
        self.state.refresh(id);
    }

    pub(crate) fn end(&mut self, id: ScanId) {
        self.leave_queue(id);
        let Some(mut scan) = self.state.scans.shift_remove(&id) else {
            return;
        };
        self.serve.remove(&id);
        self.state.hungry.remove(&id);
        self.leave_jobs(id, std::mem::take(&mut scan.joined));
        for (&chunk, &turn) in &scan.held {
            if !self.pass_hold(id, chunk, turn) {
                self.end_turn(id, scan.table, chunk, turn);
            }
        }
        self.stalls.remove(&(self.stall_time(&scan), id));
        let table = self.state.table_mut(scan.table);
        table.scans.remove(&id);
        for chunk in scan.held.into_keys() {
            table.unpin(chunk, Pinner::Scan(id));
        }
        for part in scan.parts {
            table.drop_slot(part.slot);
        }
    }
}
