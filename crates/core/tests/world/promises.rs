//! Were all promises to the driver kept?
//!
//! ABM-I1 a segment is loading at most once; ABM-I2 a pinned column is not evicted; ABM-I3 a load
//! fits the budget; ABM-I4 a load has a scan that needs it; ABM-I5 a scan gets each of its chunks
//! exactly once; ABM-I7 a failed load fails exactly the scans that need it.

use coscan_core::{Action, ChunkId, ChunkSet, ColumnId, Event, ExtentId, ScanId};

use super::{Load, Page, PageState, World};

impl World {
    /// Carries the actions out.
    ///
    /// # Panics
    /// An action breaks a promise.
    pub(crate) fn absorb(&mut self, event: &Event, actions: &[Action]) {
        self.check_failures(event, actions);
        for action in actions {
            self.carry_out(action);
        }
        if let Event::TableDropped { table } = event {
            assert!(
                self.resident.keys().all(|(t, ..)| t != table),
                "bytes of {table} were not forgotten"
            );
            assert!(
                self.resident_extents.iter().all(|(t, _)| t != table),
                "extents of {table} were not forgotten"
            );
            self.tables.remove(table);
        }
        let covered = |page: &Page| {
            page.columns
                .iter()
                .all(|c| self.resident.contains_key(&(page.table, page.chunk, c)))
        };
        let forgotten = self.pages.iter().find(|(_, page)| match page.state {
            PageState::Queued => self.is_covered(page),
            PageState::Dropped => covered(page),
            PageState::Served => false,
        });
        assert!(
            forgotten.is_none(),
            "a page request was not answered: {forgotten:?}"
        );
    }

    /// ABM-I7: exactly the scans that need a failed segment fail.
    fn check_failures(&self, event: &Event, actions: &[Action]) {
        let mut expected = Vec::new();
        if let Event::LoadFailed {
            table,
            chunk,
            columns,
        } = event
        {
            for (&scan, q) in &self.scans {
                let hit = columns
                    .iter()
                    .any(|&column| q.columns(*chunk).contains(column));
                if q.spec.table == *table && q.needed.contains(*chunk) && hit {
                    expected.push((scan, *chunk));
                }
            }
        }
        let failed = actions.iter().filter_map(|action| match action {
            Action::Fail { scan, chunk } => Some((*scan, *chunk)),
            _ => None,
        });
        assert_eq!(
            failed.collect::<Vec<_>>(),
            expected,
            "ABM-I7: the scans that fail"
        );
    }

    fn carry_out(&mut self, action: &Action) {
        match action {
            Action::Load { .. } => self.start_load(action),
            Action::Evict {
                table,
                chunk,
                column,
            } => {
                assert!(
                    self.resident.remove(&(*table, *chunk, *column)).is_some(),
                    "evicted what is not resident: {action:?}"
                );
                assert!(
                    !self.is_pinned(*table, *chunk, *column),
                    "ABM-I2: victim is pinned: {action:?}"
                );
            }
            Action::EvictExtent { table, extent } => {
                assert!(
                    self.resident_extents.remove(&(*table, *extent)),
                    "evicted what is not resident: {action:?}"
                );
                let shared = self.tables[table].shared[extent.0 as usize];
                for chunk in (shared.first.0..=shared.last.0).map(ChunkId) {
                    let column = shared.column;
                    assert!(
                        !self.resident.contains_key(&(*table, chunk, column)),
                        "{action:?} is part of a segment"
                    );
                    assert!(
                        !self.is_loading(*table, chunk, column),
                        "{action:?} is part of a segment"
                    );
                }
            }
            Action::Deliver { scan, chunk, .. } => self.take_chunk(*scan, *chunk),
            Action::Exhausted { scan } => {
                let q = self.scan(*scan);
                assert!(q.waiting > 0, "no consumer waits for {action:?}");
                assert!(
                    q.needed.is_empty() && q.joined.is_empty(),
                    "ABM-I5: chunks are left: {action:?}"
                );
                q.waiting -= 1;
                q.exhausted = true;
            }
            Action::Fail { scan, .. } => {
                let q = self.scan(*scan);
                q.failed = true;
                q.needed = ChunkSet::new();
                q.joined.clear();
                for job in self.jobs.values_mut() {
                    job.members.remove(scan);
                }
            }
            Action::ServePage { request } => {
                let page = self
                    .pages
                    .get_mut(request)
                    .expect("a page that was asked for");
                assert_ne!(page.state, PageState::Served, "served twice: {action:?}");
                page.state = PageState::Served;
                for column in page.columns.iter() {
                    assert!(
                        self.resident
                            .contains_key(&(page.table, page.chunk, column)),
                        "{action:?} is not in memory"
                    );
                }
            }
            Action::DropPageRequest { request } => {
                let page = self
                    .pages
                    .get_mut(request)
                    .expect("a page that was asked for");
                assert_eq!(page.state, PageState::Queued, "dropped twice: {action:?}");
                page.state = PageState::Dropped;
                assert!(
                    self.is_covered(&self.pages[request]),
                    "no load brings it: {action:?}"
                );
            }
            Action::FailPage { request } => {
                let page = self
                    .pages
                    .remove(request)
                    .expect("a page that was asked for");
                assert_ne!(
                    page.state,
                    PageState::Served,
                    "failed after it was served: {action:?}"
                );
            }
            other => panic!("the driver does not know {other:?}"),
        }
    }

    fn take_chunk(&mut self, scan: ScanId, chunk: ChunkId) {
        let q = &self.scans[&scan];
        assert!(q.waiting > 0, "no consumer waits for {chunk}");
        assert!(
            q.needed.contains(chunk),
            "ABM-I5: {scan} got {chunk} twice, or never needed it"
        );
        assert!(
            !q.spec.ordered || q.needed.first() == Some(chunk),
            "{scan} got {chunk} out of order"
        );
        for column in q.columns(chunk).iter() {
            let here = self.resident.contains_key(&(q.spec.table, chunk, column));
            assert!(here, "{scan} got {chunk} without column {column}");
        }
        let q = self.scan(scan);
        assert!(
            !q.done.contains(&chunk),
            "ABM-I5: {scan} is done with {chunk}"
        );
        q.waiting -= 1;
        q.needed.remove(chunk);
        q.held.insert(chunk);
    }

    fn start_load(&mut self, action: &Action) {
        let Action::Load {
            table,
            chunk,
            columns,
            extents,
            bytes,
            scan,
        } = action
        else {
            unreachable!("{action:?} is no load");
        };
        let (table, chunk) = (*table, *chunk);
        let layout = &self.tables[&table];
        let own = |column: &ColumnId| layout.chunks[chunk.0 as usize].bytes[usize::from(column.0)];
        let shared = |extent: &ExtentId| layout.shared[extent.0 as usize].bytes;
        assert_eq!(
            *bytes,
            columns.iter().map(own).sum::<u64>() + extents.iter().map(shared).sum::<u64>()
        );
        assert!(
            columns.is_sorted_by_key(|column| (own(column), *column)),
            "not by size: {action:?}"
        );
        assert!(extents.is_sorted(), "not ascending: {action:?}");
        assert!(!columns.is_empty(), "nothing to load: {action:?}");

        for &column in columns {
            assert!(
                !self.is_loading(table, chunk, column),
                "ABM-I1: loading twice: {action:?}"
            );
            assert!(
                !self.resident.contains_key(&(table, chunk, column)),
                "loaded what is resident: {action:?}"
            );
            let wanted = self.scans.values().any(|q| q.wants(table, chunk, column));
            assert!(
                wanted,
                "ABM-I4: no scan wants column {column} of {action:?}"
            );
            for extent in self.extents_of(table, chunk, column) {
                let elsewhere = self
                    .loads
                    .iter()
                    .any(|l| l.table == table && l.extents.contains(&extent));
                let here = self.resident_extents.contains(&(table, extent));
                assert_eq!(
                    extents.contains(&extent),
                    !elsewhere && !here,
                    "extent {extent} of {action:?}"
                );
            }
        }
        let q = &self.scans[scan];
        assert!(
            q.spec.table == table && q.needed.contains(chunk),
            "ABM-I4: {action:?} is not for {scan}"
        );

        self.loads.push(Load {
            table,
            chunk,
            columns: columns.iter().copied().collect(),
            extents: extents.iter().copied().collect(),
        });
        assert!(
            self.used() <= self.budget,
            "ABM-I3: {} above {}: {action:?}",
            self.used(),
            self.budget
        );
    }
}
