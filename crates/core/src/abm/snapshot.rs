//! Which segments does the buffer manager hold, and which scans does it serve?
//!
//! For system tables and tests, and for the questions that the storage crate asks between events.
//! Reads the state and changes nothing.
//! Bounds: each function states what it visits.

use crate::abm::Abm;
use crate::table::scan::Scan;
use crate::table::{Pinner, Table};
use crate::{ChunkId, ColumnId, ColumnSet, DeviceId, ExtentId, ScanId, TableId};

/// A running scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanSnapshot {
    /// Its id.
    pub scan: ScanId,
    /// The table it scans.
    pub table: TableId,
    /// Chunks that the scan still needs.
    pub chunks_needed: usize,
    /// Chunks that the scan holds.
    pub chunks_held: usize,
    /// Chunks handed to the scan that have lapsed and are not released.
    pub chunks_lapsed: usize,
    /// Chunks that other scans' chunk jobs work on for this scan.
    pub chunks_in_jobs: usize,
    /// Needed chunks that are resident or loading.
    pub chunks_coming: usize,
    /// Waiting consumers.
    pub waiting: u32,
    /// Whether the scan is starved.
    pub starved: bool,
    /// Whether the scan is stalled.
    pub stalled: bool,
    /// Chunks that the scan has consumed.
    pub chunks_worked: u64,
    /// The scan's share of the time that its consumed chunks were in work, in nanoseconds.
    pub worked_ns: u64,
}

/// A chunk with resident or loading bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkSnapshot {
    /// The table of the chunk.
    pub table: TableId,
    /// The chunk.
    pub chunk: ChunkId,
    /// Resident columns.
    pub resident: ColumnSet,
    /// Columns in an outstanding load.
    pub loading: ColumnSet,
    /// Pinned columns.
    pub pinned: ColumnSet,
    /// Scans that need the chunk, ascending.
    pub interested: Vec<ScanId>,
}

/// A running chunk job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSnapshot {
    /// The leader: the scan that began the job. It may have ended.
    pub scan: ScanId,
    /// The table.
    pub table: TableId,
    /// The chunk that the job works on.
    pub chunk: ChunkId,
    /// The other scans that the job serves, ascending.
    pub members: Vec<ScanId>,
}

impl Abm {
    /// Whether a scan needs a chunk: the chunk was not delivered to the scan, and no chunk job
    /// works on it for the scan.
    #[must_use]
    pub fn needs(&self, scan: ScanId, chunk: ChunkId) -> bool {
        self.state.scans.get(&scan).is_some_and(|scan| {
            let table = self.state.table(scan.table);
            chunk.0 < table.chunk_count() && table.part_of(scan, chunk).is_some()
        })
    }

    /// Whether a scan needs a chunk and all the columns that it wants of the chunk are resident.
    #[must_use]
    pub fn is_ready(&self, scan: ScanId, chunk: ChunkId) -> bool {
        self.needs(scan, chunk) && {
            let scan = self.state.scan(scan);
            let table = self.state.table(scan.table);
            let part = table.part_of(scan, chunk).map(|part| &scan.parts[part]);
            let resident = &table.group(chunk).state.resident;
            part.is_some_and(|part| part.columns.is_subset(resident))
        }
    }

    /// The running chunk jobs, ascending by scan and chunk.
    pub fn jobs(&self) -> impl Iterator<Item = JobSnapshot> + '_ {
        self.jobs.iter().map(|((scan, chunk), job)| JobSnapshot {
            scan,
            table: job.table,
            chunk,
            members: job.members.iter().copied().collect(),
        })
    }

    /// Whether a chunk job that `leader` began on the chunk could give it back to a scan: the scan
    /// has joined, or it is the leader and has not released the chunk.
    #[must_use]
    pub fn serves(&self, leader: ScanId, chunk: ChunkId, scan: ScanId) -> bool {
        self.jobs.get((leader, chunk)).is_some_and(|job| {
            let has_it =
                |scan: &Scan| scan.held.contains_key(&chunk) || scan.lapsed.contains(&chunk);
            job.members.contains(&scan)
                || scan == leader && self.state.scans.get(&scan).is_some_and(has_it)
        })
    }

    /// Whether a scan holds a chunk that was delivered to it: neither released nor lapsed.
    #[must_use]
    pub fn holds(&self, scan: ScanId, chunk: ChunkId) -> bool {
        self.state
            .scans
            .get(&scan)
            .is_some_and(|scan| scan.held.contains_key(&chunk))
    }

    /// Whether a scan other than `scan` needs one of these columns of a chunk, or holds it. NSM
    /// does not distinguish columns.
    #[must_use]
    pub fn others_want(
        &self,
        scan: ScanId,
        table: TableId,
        chunk: ChunkId,
        columns: &ColumnSet,
    ) -> bool {
        self.is_wanted_but_by(Some(scan), table, chunk, columns)
    }

    /// Whether a scan that is not stalled needs one of these columns of a chunk, or any scan holds
    /// it. NSM does not distinguish columns.
    #[must_use]
    pub fn is_wanted(&self, table: TableId, chunk: ChunkId, columns: &ColumnSet) -> bool {
        self.is_wanted_but_by(None, table, chunk, columns)
    }

    /// Bytes of segments that may be evicted one by one and that only stalled scans need. Visits
    /// all such segments of tables with a stalled scan.
    #[must_use]
    pub fn stalled_bytes(&self) -> u64 {
        let of_table = |table: &Table| -> u64 {
            let only_stalled = |chunk: ChunkId, column: ColumnId| {
                let interest = table.interest(chunk).iter();
                let mut needing =
                    interest.filter(|&slot| table.slot(slot).columns.contains(column));
                let first = needing.next();
                first.is_some_and(|slot| table.stalled.contains(slot))
                    && needing.all(|slot| table.stalled.contains(slot))
            };
            let segments = table
                .victims
                .iter()
                .map(|&(_, chunk, column)| (chunk, column));
            segments
                .filter(|&(chunk, column)| only_stalled(chunk, column))
                .map(|(chunk, column)| table.held_bytes(chunk, column))
                .sum()
        };
        let tables = self.state.tables.values();
        let stalled = tables.filter(|table| !table.stalled.is_empty());
        stalled.map(of_table).sum()
    }

    fn is_wanted_but_by(
        &self,
        scan: Option<ScanId>,
        table: TableId,
        chunk: ChunkId,
        columns: &ColumnSet,
    ) -> bool {
        let Some(table) = self.state.tables.get(&table) else {
            return false;
        };
        let interest = table.interest(chunk);
        let interest = match scan {
            Some(_) => interest.clone(),
            None => interest.difference(&table.stalled),
        };
        let mut needing = interest.iter().map(|slot| table.slot(slot));
        let holding = table.pins.get(&chunk).into_iter();
        needing.any(|slot| Some(slot.scan) != scan && slot.columns.intersects(columns))
            || holding.flat_map(|pins| &pins.by).any(|(pinner, held)| {
                let other = match (*pinner, scan) {
                    (Pinner::Scan(by), Some(scan)) => by != scan,
                    (Pinner::Job(leader), Some(scan)) => self.is_for_others(leader, chunk, scan),
                    (Pinner::Page(_), _) | (_, None) => true,
                };
                other && held.intersects(columns)
            })
    }

    /// Whether a shared extent is resident: its load completed, did not fail, and the extent was
    /// not evicted. False for extents and tables that the core does not know.
    #[must_use]
    pub fn extent_is_resident(&self, table: TableId, extent: ExtentId) -> bool {
        self.state
            .tables
            .get(&table)
            .is_some_and(|table| table.extent_is_resident(extent))
    }

    /// The devices of chunks that the scan needs and that are not coming. Empty for an unknown
    /// scan.
    #[must_use]
    pub fn misses(&self, scan: ScanId) -> Vec<DeviceId> {
        let Some(scan) = self.state.scans.get(&scan) else {
            return Vec::new();
        };
        let devices = self.state.table(scan.table).devices.iter().enumerate();
        let missed = devices.filter(|&(place, _)| self.state.misses_of(scan, place));
        missed.map(|(_, &device)| device).collect()
    }

    /// The running scans, ascending by id.
    pub fn scans(&self) -> impl Iterator<Item = ScanSnapshot> + '_ {
        self.state.scans.values().map(|scan| ScanSnapshot {
            scan: scan.id,
            table: scan.table,
            chunks_needed: self.state.table(scan.table).needed_len(scan),
            chunks_held: scan.held.len(),
            chunks_lapsed: scan.lapsed.len(),
            chunks_in_jobs: scan.joined.len(),
            chunks_coming: self.state.coming(scan),
            waiting: scan.waiting,
            starved: scan.starved,
            stalled: scan.stalled,
            chunks_worked: scan.chunks_worked,
            worked_ns: scan.worked_ns,
        })
    }

    /// The chunks with resident or loading bytes, in no particular order.
    pub fn chunks(&self) -> impl Iterator<Item = ChunkSnapshot> + '_ {
        self.state.tables.values().flat_map(|table| {
            let groups = table.groups.iter();
            let held = groups.filter(|group| !group.coming.is_empty());
            held.flat_map(move |group| {
                group.members.iter().map(move |chunk| {
                    let slots = table.interest(chunk).iter();
                    let mut interested: Vec<ScanId> = slots.map(|s| table.slot(s).scan).collect();
                    interested.sort_unstable();
                    ChunkSnapshot {
                        table: table.id,
                        chunk,
                        resident: group.state.resident.clone(),
                        loading: group.state.loading.clone(),
                        pinned: table
                            .pins
                            .get(&chunk)
                            .map(|pins| pins.columns.clone())
                            .unwrap_or_default(),
                        interested,
                    }
                })
            })
        })
    }
}
