//! What do the terms of `docs/design/abm.md`, "Definitions", mean for a given state?
//!
//! Idea: one function per term, each a plain loop, without caches.
//! Not here: decisions (`choose.rs`, `eviction.rs`).

use std::collections::BTreeSet;

use coscan_core::{
    ChunkId, ColumnId, ColumnSet, DeviceId, ExtentId, Policy, ScanId, SharedExtent, TableId, Time,
    TurnLimit,
};

use super::{Chunk, ExtentState, Oracle, PageState, Scan};

/// Turns.
impl Oracle {
    pub(super) fn turns(&self) -> Option<TurnLimit> {
        match self.config.policy {
            Policy::Relevance => self.config.turns,
            _ => None,
        }
    }

    /// When each chunk in work stops counting, unless it is released earlier.
    pub(super) fn ends_of_turns(&self) -> Vec<Time> {
        let Some(limit) = self.turns() else {
            return Vec::new();
        };
        let turns = self.scans_with_turns().flat_map(|(_, q)| q.held.values());
        let turns = turns.chain(self.jobs.values().filter_map(|job| job.passed.as_ref()));
        let ends = turns.map(|(_, last)| Time(last.0.saturating_add(limit.length_ns_max)));
        ends.filter(|&end| end > self.now).collect()
    }

    /// The scans whose chunks may be in work.
    fn scans_with_turns(&self) -> impl Iterator<Item = (ScanId, &Scan)> {
        let all = self.scans.iter().map(|(&id, q)| (id, q));
        all.filter(|(id, _)| !self.is_sequential(*id))
    }

    /// Whether a delivered chunk is in work, if its last progress was at `last`.
    fn in_work(&self, last: Time) -> bool {
        let length = self.turns().map_or(0, |limit| limit.length_ns_max);
        last.0.saturating_add(length) > self.now.0
    }

    pub(super) fn chunks_in_work(&self) -> BTreeSet<(TableId, ChunkId)> {
        let scans = self.scans_with_turns();
        let held =
            scans.flat_map(|(_, q)| q.held.iter().map(|(&c, turn)| (q.spec.table, c, turn.1)));
        let jobs = self.jobs.iter();
        let passed = jobs.filter_map(|(&(_, c), job)| Some((job.table, c, job.passed?.1)));
        let in_work = held.chain(passed).filter(|&(.., last)| self.in_work(last));
        in_work.map(|(table, chunk, _)| (table, chunk)).collect()
    }

    pub(super) fn scans_in_work(&self) -> BTreeSet<ScanId> {
        let scans = self.scans_with_turns();
        let working = scans.filter(|(_, q)| q.held.values().any(|turn| self.in_work(turn.1)));
        let jobs = self.jobs.iter();
        let passed = jobs.filter(|(_, job)| job.passed.is_some_and(|turn| self.in_work(turn.1)));
        let leaders = passed.map(|(&(leader, _), _)| leader);
        working.map(|(id, _)| id).chain(leaders).collect()
    }

    pub(super) fn price(&self, q: ScanId) -> u64 {
        let scan = &self.scans[&q];
        scan.worked_ns.checked_div(scan.chunks_worked).unwrap_or(0)
    }

    pub(super) fn rank(&self, q: ScanId) -> u64 {
        let scan = &self.scans[&q];
        let work = match scan.chunks_worked {
            0 => 0,
            n => (scan.needed.len() as u64 + n) * scan.worked_ns / n,
        };
        let powers = (0..=20).map(|n| 10_u64.saturating_pow(n));
        let level = match work {
            0 => 0,
            work => powers
                .filter(|power| *power >= work)
                .min()
                .expect("u64::MAX is"),
        };
        level.saturating_add(scan.registered_at.0 / 2)
    }
}

/// Tables, chunks, segments, bytes.
impl Oracle {
    pub(super) fn table_ids(&self) -> Vec<TableId> {
        self.tables.keys().copied().collect()
    }

    pub(super) fn chunks(&self, table: TableId) -> Vec<ChunkId> {
        (0u32..)
            .map(ChunkId)
            .take(self.tables[&table].chunks.len())
            .collect()
    }

    /// Every chunk of every table, ascending.
    pub(super) fn all_chunks(&self) -> Vec<(TableId, ChunkId)> {
        let chunks_of = |table| {
            self.chunks(table)
                .into_iter()
                .map(move |chunk| (table, chunk))
        };
        self.table_ids().into_iter().flat_map(chunks_of).collect()
    }

    /// Every resident segment of every table, ascending.
    pub(super) fn resident_segments(&self) -> Vec<(TableId, ChunkId, ColumnId)> {
        let mut segments = Vec::new();
        for (table, chunk) in self.all_chunks() {
            segments.extend(
                self.resident(table, chunk)
                    .iter()
                    .map(|column| (table, chunk, column)),
            );
        }
        segments
    }

    pub(super) fn chunk(&self, table: TableId, chunk: ChunkId) -> &Chunk {
        &self.tables[&table].chunks[chunk.0 as usize]
    }

    pub(super) fn resident(&self, table: TableId, chunk: ChunkId) -> ColumnSet {
        self.chunk(table, chunk).resident.clone()
    }

    pub(super) fn resident_or_loading(&self, table: TableId, chunk: ChunkId) -> ColumnSet {
        let c = self.chunk(table, chunk);
        c.resident.union(&c.loading)
    }

    pub(super) fn busy(&self, table: TableId, chunk: ChunkId) -> bool {
        !self.chunk(table, chunk).loading.is_empty()
    }

    pub(super) fn own(&self, table: TableId, chunk: ChunkId, column: ColumnId) -> u64 {
        self.tables[&table].layout.chunks[chunk.0 as usize].bytes[usize::from(column.0)]
    }

    /// Own bytes in memory of a segment that is resident or loading.
    pub(super) fn held(&self, table: TableId, chunk: ChunkId, column: ColumnId) -> u64 {
        let resized = self.chunk(table, chunk).resized.get(&column);
        resized.copied().unwrap_or(self.own(table, chunk, column))
    }

    pub(super) fn extents(&self, table: TableId) -> Vec<ExtentId> {
        (0u32..)
            .map(ExtentId)
            .take(self.tables[&table].extents.len())
            .collect()
    }

    pub(super) fn extent(&self, table: TableId, extent: ExtentId) -> ExtentState {
        self.tables[&table].extents[extent.0 as usize]
    }

    pub(super) fn shared(&self, table: TableId, extent: ExtentId) -> SharedExtent {
        self.tables[&table].layout.shared[extent.0 as usize]
    }

    /// The chunks that an extent serves.
    pub(super) fn range(&self, table: TableId, extent: ExtentId) -> Vec<ChunkId> {
        let SharedExtent { first, last, .. } = self.shared(table, extent);
        (first.0..=last.0).map(ChunkId).collect()
    }

    /// The shared extents of a segment, ascending.
    pub(super) fn extents_of(
        &self,
        table: TableId,
        chunk: ChunkId,
        column: ColumnId,
    ) -> Vec<ExtentId> {
        let mut extents = self.extents(table);
        extents.retain(|&e| {
            self.shared(table, e).column == column && self.range(table, e).contains(&chunk)
        });
        extents
    }

    /// The shared extents that a load of these columns has to bring, ascending.
    pub(super) fn absent_extents(
        &self,
        table: TableId,
        chunk: ChunkId,
        columns: &ColumnSet,
    ) -> Vec<ExtentId> {
        let mut extents: Vec<ExtentId> = columns
            .iter()
            .flat_map(|column| self.extents_of(table, chunk, column))
            .filter(|&e| self.extent(table, e) == ExtentState::Absent)
            .collect();
        extents.sort_unstable();
        extents
    }

    pub(super) fn bytes_to_load(&self, table: TableId, chunk: ChunkId, columns: &ColumnSet) -> u64 {
        let own: u64 = columns
            .iter()
            .map(|column| self.own(table, chunk, column))
            .sum();
        let extents = self.absent_extents(table, chunk, columns);
        own + extents
            .iter()
            .map(|&e| self.shared(table, e).bytes)
            .sum::<u64>()
    }

    pub(super) fn used(&self) -> u64 {
        let mut used = 0;
        for (table, chunk) in self.all_chunks() {
            for column in self.resident_or_loading(table, chunk).iter() {
                used += self.held(table, chunk, column);
            }
        }
        for table in self.table_ids() {
            for extent in self.extents(table) {
                if self.extent(table, extent) != ExtentState::Absent {
                    used += self.shared(table, extent).bytes;
                }
            }
        }
        used
    }

    /// Mean bytes per chunk, rounded up, at least 1: the "average page-per-chunk statistics" of
    /// §6.2.
    fn weight(&self, table: TableId, column: ColumnId) -> u64 {
        let chunks = self.chunks(table);
        let own: u64 = chunks
            .iter()
            .map(|&chunk| self.own(table, chunk, column))
            .sum();
        let extents = &self.tables[&table].layout.shared;
        let shared: u64 = extents
            .iter()
            .filter(|e| e.column == column)
            .map(|e| e.bytes)
            .sum();
        (own + shared).div_ceil(chunks.len().max(1) as u64).max(1)
    }

    /// P(cols): the page count of the relevance functions.
    pub(super) fn p(&self, table: TableId, columns: &ColumnSet) -> u64 {
        columns
            .iter()
            .map(|column| self.weight(table, column))
            .sum()
    }

    pub(super) fn last_use_segment(&self, table: TableId, chunk: ChunkId, column: ColumnId) -> u64 {
        self.chunk(table, chunk).last_use[&column]
    }

    /// The largest last use over the chunk's resident columns; `None` if it has none.
    pub(super) fn last_use(&self, table: TableId, chunk: ChunkId) -> Option<u64> {
        let resident = self.resident(table, chunk);
        resident
            .iter()
            .map(|column| self.last_use_segment(table, chunk, column))
            .max()
    }

    pub(super) fn device(&self, table: TableId, chunk: ChunkId) -> DeviceId {
        self.tables[&table].layout.chunks[chunk.0 as usize].device
    }

    pub(super) fn devices(&self) -> Vec<DeviceId> {
        self.all_chunks()
            .into_iter()
            .map(|(table, chunk)| self.device(table, chunk))
            .collect()
    }

    pub(super) fn has_free_place(&self, device: DeviceId) -> bool {
        self.loads_on(device) < self.config.loads_max
    }

    /// Outstanding loads of the device.
    pub(super) fn loads_on(&self, device: DeviceId) -> usize {
        let loads = self.loads.iter();
        loads.filter(|load| load.device == device).count()
    }
}

impl Scan {
    /// Whether the scan needs no chunk, and no job could give one back.
    pub(super) fn is_exhausted(&self) -> bool {
        self.needed.is_empty() && self.joined.is_empty()
    }

    /// The number of chunks delivered and not released.
    fn in_hands(&self) -> usize {
        self.held.len() + self.lapsed.len()
    }
}

/// Scans.
impl Oracle {
    pub(super) fn scan_ids(&self) -> Vec<ScanId> {
        self.scans.keys().copied().collect()
    }

    /// The columns that the scan wants of the chunk; empty if it never wanted the chunk.
    pub(super) fn cols(&self, scan: ScanId, chunk: ChunkId) -> ColumnSet {
        let parts = &self.scans[&scan].spec.parts;
        let part = parts.iter().find(|part| part.chunks.contains(chunk));
        part.map_or_else(ColumnSet::new, |part| part.columns.clone())
    }

    pub(super) fn is_sequential(&self, scan: ScanId) -> bool {
        match self.config.policy {
            Policy::Normal | Policy::Attach | Policy::Pbm | Policy::PbmSampling => true,
            Policy::Elevator | Policy::Relevance | Policy::Relevance2007 => {
                self.scans[&scan].spec.ordered
            }
        }
    }

    /// The needed chunks, in the order of a sequential scan.
    pub(super) fn order(&self, scan: ScanId) -> Vec<ChunkId> {
        let q = &self.scans[&scan];
        let (before, after): (Vec<ChunkId>, Vec<ChunkId>) =
            q.needed.iter().partition(|&chunk| chunk < q.start);
        [after, before].concat()
    }

    pub(super) fn ready(&self, scan: ScanId, chunk: ChunkId) -> bool {
        let q = &self.scans[&scan];
        q.needed.contains(chunk)
            && self
                .cols(scan, chunk)
                .is_subset(&self.resident(q.spec.table, chunk))
    }

    pub(super) fn coming(&self, scan: ScanId, chunk: ChunkId) -> bool {
        let q = &self.scans[&scan];
        q.needed.contains(chunk)
            && self
                .cols(scan, chunk)
                .is_subset(&self.resident_or_loading(q.spec.table, chunk))
    }

    /// Whether the scan could get the chunk before any other load for it.
    pub(super) fn usable(&self, scan: ScanId, chunk: ChunkId) -> bool {
        let mut coming = self
            .order(scan)
            .into_iter()
            .take_while(|&c| self.coming(scan, c));
        self.ready(scan, chunk) && (!self.is_sequential(scan) || coming.any(|c| c == chunk))
    }

    pub(super) fn missing(&self, scan: ScanId, chunk: ChunkId) -> ColumnSet {
        let table = self.scans[&scan].spec.table;
        self.cols(scan, chunk)
            .difference(&self.resident_or_loading(table, chunk))
    }

    fn available(&self, scan: ScanId) -> usize {
        let q = &self.scans[&scan];
        let coming = if self.is_sequential(scan) {
            self.order(scan)
                .into_iter()
                .take_while(|&chunk| self.coming(scan, chunk))
                .count()
        } else {
            q.needed
                .iter()
                .filter(|&chunk| self.coming(scan, chunk))
                .count()
        };
        q.in_hands() + coming
    }

    fn lookahead(&self, scan: ScanId) -> usize {
        let ahead = match self.config.policy {
            Policy::Elevator | Policy::Relevance => self.config.loads_max,
            _ => 1,
        };
        let q = &self.scans[&scan];
        let mut devices = BTreeSet::new();
        for part in &q.spec.parts {
            let chunks = part.chunks.iter();
            devices.extend(chunks.map(|chunk| self.device(q.spec.table, chunk)));
        }
        let fed_by = if self.is_sequential(scan) {
            let at_once = q.devices_at_first;
            let at_once = at_once.map_or(usize::MAX, |max| max.max(1) as usize);
            devices.len().max(1).min(at_once)
        } else {
            1
        };
        q.spec.consumers as usize + fed_by * ahead
    }

    /// available(q, d): counts only coming chunks of device d; for a sequential scan available(q).
    fn available_of(&self, scan: ScanId, device: DeviceId) -> usize {
        if self.is_sequential(scan) {
            return self.available(scan);
        }
        let q = &self.scans[&scan];
        let of_device = |chunk: &ChunkId| self.device(q.spec.table, *chunk) == device;
        let coming = q.needed.iter().filter(of_device);
        q.in_hands() + coming.filter(|&chunk| self.coming(scan, chunk)).count()
    }

    /// A table's devices in the order in which its chunks name them.
    fn devices_of(&self, table: TableId) -> Vec<DeviceId> {
        let mut all: Vec<DeviceId> = Vec::new();
        for chunk in &self.tables[&table].layout.chunks {
            if !all.contains(&chunk.device) {
                all.push(chunk.device);
            }
        }
        all
    }

    fn is_limited(&self, scan: ScanId) -> bool {
        let spec = &self.scans[&scan].spec;
        let devices = self.devices_of(spec.table).len();
        spec.devices_max
            .is_some_and(|max| devices > 1 && (max as usize) < devices)
    }

    /// The devices of which the scan misses chunks, as many as it may read from: in the table's
    /// order, starting with the scan's own first device.
    fn read_from(&self, scan: ScanId) -> Vec<DeviceId> {
        let q = &self.scans[&scan];
        let table = q.spec.table;
        let mut all = self.devices_of(table);
        let own = scan.0 % all.len().max(1) as u64;
        all.rotate_left(usize::try_from(own).expect("few devices"));
        let misses = |device: &DeviceId| {
            let mut needed = q.needed.iter();
            needed.any(|chunk| self.device(table, chunk) == *device && !self.coming(scan, chunk))
        };
        all.retain(misses);
        all.truncate(
            q.spec
                .devices_max
                .map_or(usize::MAX, |max| max.max(1) as usize),
        );
        all
    }

    /// Whether fewer than `enough` chunks are available of a device of which the scan misses
    /// chunks; if it misses none, in all.
    fn is_short(&self, scan: ScanId, enough: usize) -> bool {
        let devices = self.read_from(scan);
        if devices.is_empty() || self.is_sequential(scan) {
            return self.available(scan) < enough;
        }
        let mut devices = devices.into_iter();
        devices.any(|device| self.available_of(scan, device) < enough)
    }

    /// The number of chunks in its order that a sequential scan may have loaded now.
    pub(super) fn window(&self, scan: ScanId) -> usize {
        self.lookahead(scan)
            .saturating_sub(self.scans[&scan].in_hands())
    }

    pub(super) fn stalled(&self, scan: ScanId) -> bool {
        self.scans[&scan].stalled
    }

    /// queryStarved of Figure 3.
    pub(super) fn starved(&self, scan: ScanId) -> bool {
        !self.stalled(scan) && self.is_short(scan, self.lookahead(scan))
    }

    /// starved(q, d), where d is the chunk's device.
    pub(super) fn starved_of(&self, scan: ScanId, table: TableId, chunk: ChunkId) -> bool {
        let device = self.device(table, chunk);
        let limited = !self.is_sequential(scan) && self.is_limited(scan);
        !self.stalled(scan)
            && (!limited || self.read_from(scan).contains(&device))
            && self.available_of(scan, device) < self.lookahead(scan)
    }

    pub(super) fn almost_starved(&self, scan: ScanId) -> bool {
        !self.stalled(scan) && self.is_short(scan, self.lookahead(scan) + 1)
    }

    /// The interested scans, ascending.
    pub(super) fn interested(&self, table: TableId, chunk: ChunkId) -> Vec<ScanId> {
        let mut scans = self.scan_ids();
        scans.retain(|scan| {
            let q = &self.scans[scan];
            q.spec.table == table && q.needed.contains(chunk)
        });
        scans
    }

    pub(super) fn union_of_cols(&self, scans: &[ScanId], chunk: ChunkId) -> ColumnSet {
        scans.iter().fold(ColumnSet::new(), |all, &scan| {
            all.union(&self.cols(scan, chunk))
        })
    }

    pub(super) fn wanted(&self, table: TableId, chunk: ChunkId) -> ColumnSet {
        let mut scans = self.interested(table, chunk);
        if matches!(self.config.policy, Policy::Elevator | Policy::Relevance) {
            scans.retain(|&scan| !self.stalled(scan));
        }
        self.union_of_cols(&scans, chunk)
    }

    /// The number of page requests queued for the chunk.
    pub(super) fn pages(&self, table: TableId, chunk: ChunkId) -> usize {
        let of_chunk = self
            .pages
            .values()
            .filter(|p| (p.table, p.chunk) == (table, chunk));
        of_chunk.filter(|p| p.state == PageState::Queued).count()
    }

    /// The columns that a scan holds, a job pins, or a served page pins.
    pub(super) fn pinned_columns(&self, table: TableId, chunk: ChunkId) -> ColumnSet {
        let mut pinned = ColumnSet::new();
        for scan in self.scan_ids() {
            let q = &self.scans[&scan];
            if q.spec.table == table && q.held.contains_key(&chunk) {
                pinned = pinned.union(&self.cols(scan, chunk));
            }
        }
        for (&(_, of), job) in &self.jobs {
            if (job.table, of) == (table, chunk) && !job.lapsed() {
                pinned = pinned.union(&job.columns);
            }
        }
        for page in self.pages.values() {
            if (page.table, page.chunk) == (table, chunk) && page.state == PageState::Served {
                pinned = pinned.union(&page.columns);
            }
        }
        pinned
    }

    pub(super) fn pinned(&self, table: TableId, chunk: ChunkId) -> bool {
        !self.pinned_columns(table, chunk).is_empty()
    }
}
