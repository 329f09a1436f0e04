//! Which waiting consumers get a chunk now?
//!
//! Not here: which chunk (`policy/`), and which scan has the next turn (`turns.rs`).
//! ABM-I5: each scan gets each of its chunks once.

use crate::abm::Abm;
use crate::policy::in_order::next_in_order;
use crate::table::scan::PartState;
use crate::table::{LastLoad, Pinner};
use crate::{Action, ChunkId, LoadOrigin, ScanId};

impl Abm {
    pub(crate) fn deliver(&mut self) {
        if let Some(limit) = self.turn_limit {
            return self.deliver_in_turn(limit);
        }
        while let Some(id) = self.serve.pop_first() {
            self.deliver_at_once(id);
        }
    }

    /// Delivers ready chunks to the scan, as long as its consumers wait.
    pub(crate) fn deliver_at_once(&mut self, id: ScanId) {
        let waits = |abm: &Self| {
            let scan = abm.state.scans.get(&id);
            scan.is_some_and(|scan| scan.waiting > 0)
        };
        while waits(self)
            && let Some(chunk) = self.choose_available(id)
        {
            self.hand_out(id, chunk);
        }
        self.answer_exhausted(id);
    }

    /// The chunk that the scan gets next, if one is ready.
    pub(crate) fn choose_available(&self, id: ScanId) -> Option<ChunkId> {
        let scan = self.state.scan(id);
        if scan.sequential {
            next_in_order(&self.state, scan)
        } else {
            self.rules.delivery(&self.state, scan)
        }
    }

    pub(crate) fn hand_out(&mut self, id: ScanId, chunk: ChunkId) {
        let seq = self.state.next_seq();
        let scan = self.state.scan(id);
        let part = self.state.table(scan.table).part_of(scan, chunk);
        let part = part.expect("ABM-I5: only needed chunks are chosen");
        let turn = self.begin_turn(id, chunk, part);
        let scan = self.state.scans.get_mut(&id).expect("deliver named it");
        scan.held.insert(chunk, turn);
        scan.waiting -= 1;
        let registered = scan.registered_seq;
        let table = self
            .state
            .tables
            .get_mut(&scan.table)
            .expect("scans name registered tables");
        let PartState { slot, ref columns } = scan.parts[part];
        table.drop_interest(chunk, slot);
        table.pin(chunk, Pinner::Scan(id), columns.clone());
        table.touch(chunk, columns, seq);
        let origin = match table.chunks[chunk.0 as usize].last_load {
            Some(LastLoad { scan, .. }) if scan == id => LoadOrigin::LoadedForMe,
            Some(LastLoad { seq, .. }) if seq > registered => LoadOrigin::LoadedForOthers,
            _ => LoadOrigin::FromBuffer,
        };
        self.active(id);
        self.state.refresh(id);
        self.actions.push_back(Action::Deliver {
            scan: id,
            chunk,
            origin,
        });
    }
}
