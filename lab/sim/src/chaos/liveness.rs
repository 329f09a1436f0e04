//! Without faults, does every scan end, and within a bound?
//!
//! Idea: at the end of the safety phase everything late happens soon, and the budget has room for
//! any one load beside what frozen consumers and arriving scans hold. Then three promises must
//! hold, each within a bound that is computed beforehand:
//! 1. scans whose consumers make progress end, although other scans stay stalled (ABM-I8) and short
//!    scans keep arriving (no starvation);
//! 2. the short scans end too, once no more arrive;
//! 3. the stalled scans end, once their consumers make progress (ABM-I6).
//!
//! At the end nothing is left: no scan, no load, no page request; tables can be dropped and no byte
//! is in use.
//! Not here: the proof of the bound (`docs/design/chaos.md`).

use std::collections::BTreeSet;

use coscan_core::{Event, Policy, ScanId, TableId};

use super::driver::{Driver, Due, Phase};
use super::memory::Table;

impl Driver<'_> {
    /// Runs the liveness phase. Returns the largest part of a bound that was used, of 1000.
    ///
    /// # Panics
    /// A scan does not end within the bound.
    pub(super) fn liveness(&mut self) -> u64 {
        self.calm_down();
        let silent: BTreeSet<ScanId> = self.frozen.iter().map(scan_of).collect();
        let lively = |scans: &mut dyn Iterator<Item = ScanId>| -> BTreeSet<ScanId> {
            scans.filter(|scan| !silent.contains(scan)).collect()
        };
        let tracked = lively(&mut self.books.scans.keys().copied());
        for _ in 0..self.options.churn {
            self.put(0, Due::Churn);
        }
        self.counts.frozen += self.frozen.len() as u64;
        let first = self.all_end(&tracked, true, "1 (ABM-I6, ABM-I8)");

        self.agenda.retain(|_, due| !matches!(due, Due::Churn));
        let short = lively(&mut self.books.scans.keys().copied());
        self.phase = Phase::Quiet;
        let second = self.all_end(&short, false, "2 (ABM-I6, ABM-I8)");

        for due in std::mem::take(&mut self.frozen) {
            self.put(1, due);
        }
        let rest = self.books.scans.keys().copied().collect();
        let third = self.all_end(&rest, false, "3 (ABM-I6)");
        self.leave_nothing();
        first.max(second).max(third)
    }

    /// Ends all faults.
    fn calm_down(&mut self) {
        self.phase = Phase::Liveness;
        let soon = self.now + self.options.load_ns.max(self.options.work_ns);
        for ((at, seq), mut due) in std::mem::take(&mut self.agenda) {
            match &mut due {
                Due::Arrival => continue,
                Due::Part { fails, .. } => *fails = false,
                _ => {}
            }
            self.agenda.insert((at.min(soon), seq), due);
        }
        let mut frozen = std::mem::take(&mut self.frozen);
        frozen.retain(|due| self.books.scans.contains_key(&scan_of(due)));
        let thawed = frozen.split_off(frozen.len().min(self.options.frozen_max));
        for due in thawed {
            self.put(1, due);
        }
        let tables = self.books.memory.tables.values();
        let largest = tables.map(Table::largest_load).max().unwrap_or(0);
        let mut held = BTreeSet::new();
        for due in &frozen {
            // A lapsed chunk takes no memory, so the budget has no room for it.
            if let Due::Done(scan, _, chunk) = due
                && !self.books.scans[scan].has_lapsed(*chunk)
            {
                held.insert((self.books.scans[scan].table, *chunk));
            }
        }
        let held = held.into_iter().map(|(table, chunk)| {
            let table = self.books.memory.table(table);
            table.bytes(chunk, table.all())
        });
        let slack = [0, 0, 17, largest, largest * 8];
        // Scans that arrive without end and want one chunk can hold it without end, so the budget
        // has room for it beside the load.
        let churn = u64::from(self.options.churn) * largest;
        let bytes = largest + held.sum::<u64>() + churn + self.one_of(&slack).unwrap_or(0);
        self.frozen = frozen;
        self.tell(&Event::BudgetChanged { bytes }, None);
    }

    /// A short scan arrives.
    pub(super) fn churn(&mut self) {
        // In half of the worlds all short scans read one table, so that they bring nothing that
        // other scans could share.
        let newest = self
            .books
            .memory
            .tables
            .last_key_value()
            .map(|(&table, _)| table);
        let table = newest.filter(|_| self.options.seed.is_multiple_of(2));
        if self.phase == Phase::Liveness
            && let Some(scan) = self.register_scan(table, 2, 1)
        {
            self.churning.push(scan);
        }
    }

    /// Runs until these scans have ended. Returns the part of the bound that this took, of 1000.
    fn all_end(&mut self, scans: &BTreeSet<ScanId>, churn: bool, promise: &str) -> u64 {
        let bound = self.bound(scans, churn);
        let begun = self.now;
        let mut events_left = EVENTS_MAX;
        while let Some(left) = scans
            .iter()
            .find(|scan| self.books.scans.contains_key(scan))
        {
            let more = self.step(begun + bound);
            events_left -= 1;
            assert!(
                more && events_left > 0,
                "promise {promise}: {left} has not ended after {bound} ns; {}",
                if self.agenda.is_empty() {
                    "nothing happens any more"
                } else {
                    "others go on"
                }
            );
        }
        (self.now - begun) * 1000 / bound
    }

    /// The nanoseconds within which the scans must end. `docs/design/chaos.md` gives the proof.
    fn bound(&self, scans: &BTreeSet<ScanId>, churn: bool) -> u64 {
        let options = self.options;
        let of = |scan: &ScanId| &self.books.scans[scan];
        let left = |scan: &ScanId| {
            let of = of(scan);
            (of.needed + of.joined + of.held.len() + of.lapsed) as u64
        };
        let chunks: u64 = scans.iter().map(left).sum();
        let waits: u64 = scans.iter().map(|s| left(s) * (left(s) + 1) / 2).sum();
        let consumers: u64 = scans.iter().map(|scan| u64::from(of(scan).consumers)).sum();
        let churn = if churn { u64::from(options.churn) } else { 0 };
        let running = self.books.scans.len() as u64 + churn;
        let longest = options.load_ns + 2 * options.work_ns;
        // One after the other, each chunk loaded separately, and after each one also a chunk for
        // every short scan.
        let serial = (chunks + consumers + running) * longest * (1 + churn);
        let mut bound = options.stall_after_ns + options.tick_ns + serial;
        if churn > 0 && matches!(options.policy, Policy::Relevance | Policy::Relevance2007) {
            // A scan precedes newcomers once it has waited this long.
            bound += waits * running * options.wait_unit_ns;
        }
        if churn > 0 && options.policy == Policy::Elevator {
            // The cursor goes around once, and stops at every chunk for all scans that want it.
            let tables = self.books.memory.tables.values();
            let all: u64 = tables.map(|table| u64::from(table.len())).sum();
            bound += all * longest * (1 + churn);
        }
        if let Some(limit) = options.turns {
            bound += chunks * limit.length_ns_max.min(options.work_ns);
            if churn > 0 {
                bound += 10 * chunks * options.work_ns;
            }
        }
        bound
    }

    fn leave_nothing(&mut self) {
        let mut events_left = EVENTS_MAX;
        while !self.agenda.is_empty() {
            assert!(
                events_left > 0 && self.step(u64::MAX),
                "the agenda comes to an end"
            );
            events_left -= 1;
        }
        let books = &self.books;
        assert!(books.scans.is_empty() && books.memory.loads.is_empty());
        assert!(
            books.pages.is_empty(),
            "page requests are left: {:?}",
            books.pages
        );
        let tables: Vec<TableId> = books.memory.tables.keys().copied().collect();
        for table in tables {
            self.tell(&Event::TableDropped { table }, None);
        }
        assert_eq!(self.abm.used_bytes(), 0, "ABM-I3: nothing is left");
        self.trace.end();
    }
}

fn scan_of(due: &Due) -> ScanId {
    match due {
        Due::Ask(scan, _) | Due::Done(scan, ..) => *scan,
        other => unreachable!("only consumers fall silent, not {other:?}"),
    }
}

/// More events than the end of any world takes.
const EVENTS_MAX: u64 = 1_000_000;
