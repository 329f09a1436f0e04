//! What does an event change, and which actions follow?
//!
//! Idea: the contract fixes the order of the steps. Stalls (`stalls.rs`); the event's own effect
//! (`scans.rs`, `loading.rs`, `pages.rs`, `jobs.rs`); deliveries (`delivery.rs`, `turns.rs`); the
//! budget (`eviction.rs`); loads (`loading.rs`).
//! Not here: the choices (`policy/`).
//! Contract: `docs/design/abm.md`, "One event".

mod delivery;
mod eviction;
pub(super) mod jobs;
pub(super) mod loading;
pub(super) mod pages;
mod scans;
mod stalls;
pub(super) mod turns;

use crate::abm::Abm;
use crate::table::Table;
use crate::{Action, ChunkLayout, Event, EventError, SharedExtent, TableId, TableLayout, Time};

impl Abm {
    /// Applies an event and decides which actions follow; [`Abm::poll_action`] gives them.
    ///
    /// # Errors
    /// The event contradicts the state (a bug in the driver). Nothing has changed then.
    pub fn handle(&mut self, now: Time, event: Event) -> Result<(), EventError> {
        self.validate(&event)?;
        self.state.now = self.state.now.max(now);
        self.expire_stalls();
        self.expire_turns();
        self.apply(event);
        self.deliver();
        self.shrink_to_budget();
        self.start_loads();
        Ok(())
    }

    /// Longer than a screen: one arm per event.
    fn apply(&mut self, event: Event) {
        match event {
            Event::TableRegistered { table, layout } => self.add_table(table, layout),
            Event::ChunksAppended {
                table,
                chunks,
                shared,
            } => {
                self.append_chunks(table, chunks, shared);
            }
            Event::TableDropped { table } => self.drop_table(table),
            Event::ScanRegistered { scan, spec } => self.register(scan, spec),
            Event::ChunkRequested { scan } => self.request(scan),
            Event::DegreeChanged { scan, devices_max } => self.change_degree(scan, devices_max),
            Event::RequestWithdrawn { scan } => self.withdraw_request(scan),
            Event::ChunkProgressed { scan, chunk } => self.progress(scan, chunk),
            Event::ChunkLapsed { scan, chunk } => self.lapse(scan, chunk),
            Event::ChunkReleased { scan, chunk } => self.release(scan, chunk),
            Event::ChunksWithdrawn { scan, chunks } => self.withdraw_chunks(scan, &chunks),
            Event::ChunkJobBegun {
                scan,
                chunk,
                members,
            } => self.begin_job(scan, chunk, members),
            Event::ChunkJobEnded {
                scan,
                chunk,
                given_back,
            } => self.end_job(scan, chunk, &given_back),
            Event::ScanEnded { scan } => self.end(scan),
            Event::LoadCompleted {
                table,
                chunk,
                columns,
            } => {
                self.complete_load(table, chunk, &columns.into_iter().collect());
            }
            Event::LoadFailed {
                table,
                chunk,
                columns,
            } => {
                self.fail_load(table, chunk, &columns.into_iter().collect());
            }
            Event::SegmentResized {
                table,
                chunk,
                column,
                bytes,
            } => {
                let before = self.state.table_mut(table).resize(chunk, column, bytes);
                self.state.used = self.state.used - before + bytes;
            }
            Event::PageRequested {
                request,
                table,
                chunk,
                columns,
            } => {
                self.request_page(request, table, chunk, columns);
            }
            Event::PageCompleted { request } => self.complete_page(request),
            Event::PageReleased { request } => self.release_page(request),
            Event::BudgetChanged { bytes } => self.state.budget = bytes,
            Event::TimePassed => {}
        }
    }

    fn add_table(&mut self, id: TableId, layout: TableLayout) {
        let devices = layout.chunks.iter().map(|chunk| chunk.device);
        self.state.devices.extend(devices);
        let table = Table::new(id, self.rules.upkeep(), layout);
        self.state.tables.insert(id, table);
    }

    fn append_chunks(&mut self, id: TableId, chunks: Vec<ChunkLayout>, shared: Vec<SharedExtent>) {
        let devices = chunks.iter().map(|chunk| chunk.device);
        self.state.devices.extend(devices);
        let table = self.state.table_mut(id);
        let before = table.devices.len();
        table.append(chunks, shared);
        if table.devices.len() > before {
            let scans: Vec<_> = table.scans.iter().copied().collect();
            for scan in scans {
                self.state.refresh(scan);
            }
        }
    }

    fn drop_table(&mut self, id: TableId) {
        let Some(mut table) = self.state.tables.remove(&id) else {
            return;
        };
        let (segments, extents) = table.resident();
        for (chunk, column) in segments {
            self.state.used -= table.held_bytes(chunk, column);
            self.actions.push_back(Action::Evict {
                table: id,
                chunk,
                column,
            });
        }
        for extent in extents {
            self.state.used -= table.evict_extent(extent);
            self.actions
                .push_back(Action::EvictExtent { table: id, extent });
        }
    }
}
