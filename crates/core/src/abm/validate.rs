//! Which events are refused? Those that contradict the state.
//!
//! Idea: every event is validated before anything changes, so a refused event changes nothing.
//! Contract: `docs/design/abm.md`, "One event".

use crate::abm::Abm;
use crate::table::Table;
use crate::{
    ChunkId, ChunkLayout, ChunkSet, ColumnId, Event, EventError, ScanId, ScanSpec, SharedExtent,
    StorageModel, TableId,
};

impl Abm {
    #[expect(clippy::too_many_lines, reason = "one arm an event")]
    pub(crate) fn validate(&self, event: &Event) -> Result<(), EventError> {
        let scan = |id: &ScanId| self.state.scans.get(id).ok_or(EventError::UnknownScan(*id));
        let chunk = |table: &TableId, chunk: &ChunkId| {
            let entry = self
                .state
                .tables
                .get(table)
                .ok_or(EventError::UnknownTable(*table))?;
            if chunk.0 < entry.chunk_count() {
                Ok(entry)
            } else {
                Err(EventError::UnknownChunk(*table, *chunk))
            }
        };
        match event {
            Event::TableRegistered { table, layout } => {
                if self.state.tables.contains_key(table) {
                    return Err(EventError::TableExists(*table));
                }
                if self.state.model == StorageModel::Nsm && layout.columns != 1 {
                    return Err(EventError::BadLayout(*table));
                }
                check_layout(*table, layout.columns, 0, 0, &layout.chunks, &layout.shared)
            }
            Event::ChunksAppended {
                table,
                chunks,
                shared,
            } => {
                let entry = self
                    .state
                    .tables
                    .get(table)
                    .ok_or(EventError::UnknownTable(*table))?;
                let (first, extents) = (entry.chunk_count(), entry.extent_count());
                check_layout(*table, entry.column_count(), first, extents, chunks, shared)
            }
            Event::TableDropped { table } => {
                let entry = self
                    .state
                    .tables
                    .get(table)
                    .ok_or(EventError::UnknownTable(*table))?;
                let loading = self.loads.keys().any(|(t, _)| t == table);
                let read = self.pages.any_of(*table) || self.jobs.any_of(*table);
                if entry.scans.is_empty() && !loading && !read {
                    Ok(())
                } else {
                    Err(EventError::TableInUse(*table))
                }
            }
            Event::ScanRegistered { scan, spec } => self.validate_scan(*scan, spec),
            Event::ChunkRequested { scan: id }
            | Event::RequestWithdrawn { scan: id }
            | Event::DegreeChanged { scan: id, .. }
            | Event::ChunksWithdrawn { scan: id, .. }
            | Event::ScanEnded { scan: id } => scan(id).map(drop),
            Event::ChunkProgressed { scan: id, chunk } | Event::ChunkLapsed { scan: id, chunk } => {
                let held = scan(id)?.held.contains_key(chunk);
                held.then_some(()).ok_or(EventError::NotHeld(*id, *chunk))
            }
            Event::ChunkReleased { scan: id, chunk } => {
                let scan = scan(id)?;
                let held = scan.held.contains_key(chunk) || scan.lapsed.contains(chunk);
                held.then_some(()).ok_or(EventError::NotHeld(*id, *chunk))
            }
            Event::ChunkJobBegun {
                scan,
                chunk,
                members,
            } => self.validate_begin(*scan, *chunk, members),
            Event::ChunkJobEnded {
                scan,
                chunk,
                given_back,
            } => self.validate_end(*scan, *chunk, given_back),
            Event::LoadCompleted {
                table,
                chunk: c,
                columns,
            } => {
                let entry = chunk(table, c)?;
                check_loading(entry, *c, columns)?;
                match columns
                    .iter()
                    .find(|column| !entry.extents_come(*c, **column))
                {
                    Some(column) => Err(EventError::ExtentAbsent(*table, *c, *column)),
                    None => Ok(()),
                }
            }
            Event::LoadFailed {
                table,
                chunk: c,
                columns,
            } => check_loading(chunk(table, c)?, *c, columns),
            Event::SegmentResized {
                table,
                chunk: c,
                column,
                ..
            } => {
                let resident = &chunk(table, c)?.group(*c).state.resident;
                let known = resident.contains(*column);
                known
                    .then_some(())
                    .ok_or(EventError::NotResident(*table, *c, *column))
            }
            Event::PageRequested {
                request,
                table,
                chunk: c,
                columns,
            } => {
                let entry = chunk(table, c)?;
                let known = columns.iter().all(|column| column.0 < entry.column_count());
                if !known || columns.is_empty() {
                    return Err(EventError::UnknownChunk(*table, *c));
                }
                self.pages.validate_new(*request)
            }
            Event::PageCompleted { .. }
            | Event::PageReleased { .. }
            | Event::BudgetChanged { .. }
            | Event::TimePassed => Ok(()),
        }
    }

    fn validate_scan(&self, id: ScanId, spec: &ScanSpec) -> Result<(), EventError> {
        if self.scan_last.is_some_and(|last| id <= last) {
            return Err(EventError::ScanIdReused(id));
        }
        let table = self
            .state
            .tables
            .get(&spec.table)
            .ok_or(EventError::UnknownTable(spec.table))?;
        let mut seen = ChunkSet::new();
        for part in &spec.parts {
            let end = part.chunks.runs().last().map_or(0, |run| run.end);
            let known = part.columns.iter().all(|c| c.0 < table.column_count());
            let overlap = seen.intersection_len(&part.chunks) > 0;
            let empty = part.chunks.is_empty() || part.columns.is_empty();
            if end > table.chunk_count() || !known || overlap || empty {
                return Err(EventError::BadPart(id));
            }
            for run in part.chunks.runs() {
                seen.insert_range(run);
            }
        }
        if spec.consumers == 0 {
            Err(EventError::BadPart(id))
        } else {
            Ok(())
        }
    }
}

fn check_loading(table: &Table, chunk: ChunkId, columns: &[ColumnId]) -> Result<(), EventError> {
    let loading = &table.group(chunk).state.loading;
    match columns.iter().find(|column| !loading.contains(**column)) {
        Some(column) => Err(EventError::NotLoading(table.id, chunk, *column)),
        None => Ok(()),
    }
}

fn check_layout(
    table: TableId,
    columns: u16,
    first_chunk: u32,
    first_extent: usize,
    chunks: &[ChunkLayout],
    shared: &[SharedExtent],
) -> Result<(), EventError> {
    let count = u32::try_from(chunks.len())
        .ok()
        .and_then(|n| n.checked_add(first_chunk));
    let extents = u32::try_from(first_extent + shared.len());
    let fits = |extent: &SharedExtent| {
        extent.column.0 < columns
            && extent.first <= extent.last
            && extent.first.0 >= first_chunk
            && count.is_some_and(|count| extent.last.0 < count)
    };
    let even = chunks
        .iter()
        .all(|chunk| chunk.bytes.len() == usize::from(columns));
    if count.is_some() && extents.is_ok() && even && shared.iter().all(fits) {
        Ok(())
    } else {
        Err(EventError::BadLayout(table))
    }
}
