//! Which segments are in memory, by the events and actions that a driver sees?
//!
//! Idea: the driver's counterpart of the core's accounts. Loads, evictions and frees are recorded
//! here, and a forbidden action fails an assertion. (`crates/core/tests/world` keeps such books for
//! the oracle. These books are separate, because two independent ones find more bugs, and
//! incremental, because they are checked millions of times.)
//! ABM-I1 a segment is loading at most once. ABM-I2 pinned segments, and segments of a chunk with a
//! load under way, are not evicted. ABM-I3 a load fits the budget.

use std::collections::BTreeMap;

use coscan_core::{ChunkId, ColumnId, ColumnSet, ExtentId, TableId, TableLayout};

/// A set of columns, one bit each.
pub(super) type Mask = u16;

/// The table and the chunk of segments.
pub(super) type Place = (TableId, ChunkId);

#[derive(Debug, Default)]
struct Chunk {
    resident: Mask,
    loading: Mask,
    /// The number of readers of each column.
    pins: [u16; Mask::BITS as usize],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ExtentState {
    Absent,
    /// The load that brings it.
    Loading(u64),
    Resident,
}

/// A table, and which of its segments are resident or loading.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) layout: TableLayout,
    chunks: Vec<Chunk>,
    extents: Vec<ExtentState>,
    /// The number of loads under way.
    pub(super) loads: usize,
}

/// A load under way: its remaining columns and extents.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) place: Place,
    pub(super) columns: Vec<ColumnId>,
    extents: Vec<ExtentId>,
}

/// All tables.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) tables: BTreeMap<TableId, Table>,
    /// By a number that the driver chooses.
    pub(super) loads: BTreeMap<u64, Load>,
    loads_started: u64,
    pub(super) used: u64,
    pub(super) budget: u64,
}

impl Table {
    pub(super) fn new(layout: TableLayout) -> Self {
        let mut table = Self {
            layout: TableLayout {
                columns: layout.columns,
                ..TableLayout::default()
            },
            chunks: Vec::new(),
            extents: Vec::new(),
            loads: 0,
        };
        table.append(layout);
        table
    }

    pub(super) fn append(&mut self, mut more: TableLayout) {
        self.layout.chunks.append(&mut more.chunks);
        self.layout.shared.append(&mut more.shared);
        self.chunks
            .resize_with(self.layout.chunks.len(), Chunk::default);
        self.extents
            .resize(self.layout.shared.len(), ExtentState::Absent);
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.chunks.len()).unwrap_or(u32::MAX)
    }

    /// Every column.
    pub(super) fn all(&self) -> Mask {
        mask((0..self.layout.columns).map(ColumnId))
    }

    fn own(&self, chunk: ChunkId, column: ColumnId) -> u64 {
        self.layout.chunks[chunk.0 as usize].bytes[usize::from(column.0)]
    }

    fn chunk(&self, chunk: ChunkId) -> &Chunk {
        &self.chunks[chunk.0 as usize]
    }

    pub(super) fn resident(&self, chunk: ChunkId) -> Mask {
        self.chunk(chunk).resident
    }

    pub(super) fn coming(&self, chunk: ChunkId) -> Mask {
        let Chunk {
            resident, loading, ..
        } = self.chunk(chunk);
        resident | loading
    }

    /// The shared extents that serve one of the columns of the chunk.
    fn extents_of(&self, chunk: ChunkId, columns: Mask) -> impl Iterator<Item = usize> + '_ {
        let shared = self.layout.shared.iter().enumerate();
        shared
            .filter(move |(_, e)| has(columns, e.column) && (e.first..=e.last).contains(&chunk))
            .map(|(at, _)| at)
    }

    /// Bytes of these columns of the chunk, shared extents included.
    pub(super) fn bytes(&self, chunk: ChunkId, columns: Mask) -> u64 {
        let own: u64 = bits(columns).map(|column| self.own(chunk, column)).sum();
        let shared = self.extents_of(chunk, columns);
        own + shared.map(|e| self.layout.shared[e].bytes).sum::<u64>()
    }

    /// Bytes of the largest load there can be: a whole chunk.
    pub(super) fn largest_load(&self) -> u64 {
        let all = self.all();
        let chunks = (0..self.len()).map(|chunk| self.bytes(ChunkId(chunk), all));
        chunks.max().unwrap_or(0)
    }

    /// Whether the column is loading and waits for an extent that no load brings any more, because
    /// the load with the extent failed.
    fn is_orphan(&self, chunk: ChunkId, column: ColumnId) -> bool {
        let mut extents = self.extents_of(chunk, 1 << column.0);
        extents.any(|e| self.extents[e] == ExtentState::Absent)
    }
}

impl Memory {
    pub(super) fn table(&self, table: TableId) -> &Table {
        &self.tables[&table]
    }

    fn table_mut(&mut self, table: TableId) -> &mut Table {
        self.tables.get_mut(&table).expect("a registered table")
    }

    /// Records a `Load`; returns the load's number.
    ///
    /// # Panics
    /// The contract does not permit the load.
    pub(super) fn start_load(
        &mut self,
        place: Place,
        columns: &[ColumnId],
        extents: &[ExtentId],
        bytes: u64,
    ) -> u64 {
        let number = self.loads_started;
        self.loads_started += 1;
        let (id, chunk) = place;
        let table = self.table_mut(id);
        let wanted = mask(columns.iter().copied());
        assert!(!columns.is_empty(), "nothing to load of {id}.{chunk}");
        assert_eq!(
            wanted & table.coming(chunk),
            0,
            "ABM-I1: loading twice: {id}.{chunk}"
        );
        assert!(
            columns.is_sorted_by_key(|&column| (table.own(chunk, column), column)),
            "columns of {id}.{chunk} not by size"
        );
        let absent = |e: &usize| table.extents[*e] == ExtentState::Absent;
        let expected: Vec<usize> = table.extents_of(chunk, wanted).filter(absent).collect();
        assert!(
            extents
                .iter()
                .map(|e| e.0 as usize)
                .eq(expected.iter().copied()),
            "extents {extents:?} of {id}.{chunk}, not {expected:?}"
        );
        let own: u64 = columns.iter().map(|&column| table.own(chunk, column)).sum();
        let shared = expected.iter().map(|&e| table.layout.shared[e].bytes);
        assert_eq!(bytes, own + shared.sum::<u64>(), "bytes of {id}.{chunk}");
        table.chunks[chunk.0 as usize].loading |= wanted;
        for e in expected {
            table.extents[e] = ExtentState::Loading(number);
        }
        table.loads += 1;
        self.used += bytes;
        assert!(
            self.used <= self.budget,
            "ABM-I3: {} above {}",
            self.used,
            self.budget
        );
        let load = Load {
            place,
            columns: columns.to_vec(),
            extents: extents.to_vec(),
        };
        self.loads.insert(number, load);
        number
    }

    /// Records that columns of a load are resident, and with them their extents, whichever load
    /// was going to bring these.
    pub(super) fn complete(&mut self, number: u64, columns: &[ColumnId]) {
        let (id, chunk) = self.settle(number, columns);
        let table = self.table_mut(id);
        let arrived = mask(columns.iter().copied());
        let entry = &mut table.chunks[chunk.0 as usize];
        entry.loading &= !arrived;
        entry.resident |= arrived;
        let extents: Vec<usize> = table.extents_of(chunk, arrived).collect();
        for e in extents {
            table.extents[e] = ExtentState::Resident;
        }
    }

    /// Records that columns of a load failed.
    pub(super) fn fail(&mut self, number: u64, columns: &[ColumnId]) {
        let brought = self.loads[&number].extents.clone();
        let (id, chunk) = self.settle(number, columns);
        let table = self.table_mut(id);
        let lost = mask(columns.iter().copied());
        table.chunks[chunk.0 as usize].loading &= !lost;
        let mut freed: u64 = columns.iter().map(|&column| table.own(chunk, column)).sum();
        for e in brought.iter().map(|e| e.0 as usize) {
            let shape = table.layout.shared[e];
            if has(lost, shape.column) && table.extents[e] == ExtentState::Loading(number) {
                table.extents[e] = ExtentState::Absent;
                freed += shape.bytes;
            }
        }
        self.used -= freed;
    }

    fn settle(&mut self, number: u64, columns: &[ColumnId]) -> Place {
        let load = self.loads.get_mut(&number).expect("a load under way");
        load.columns.retain(|column| !columns.contains(column));
        let place = load.place;
        if load.columns.is_empty() {
            self.loads.remove(&number);
            self.table_mut(place.0).loads -= 1;
        }
        place
    }

    /// Columns under way that wait for an extent which no load brings; they have to fail.
    pub(super) fn orphans(&self) -> Option<(u64, Vec<ColumnId>)> {
        self.loads.iter().find_map(|(&number, load)| {
            let (id, chunk) = load.place;
            let table = self.table(id);
            let columns = load.columns.iter().copied();
            let orphans: Vec<ColumnId> = columns.filter(|&c| table.is_orphan(chunk, c)).collect();
            (!orphans.is_empty()).then_some((number, orphans))
        })
    }

    /// Records an `Evict`.
    ///
    /// # Panics
    /// ABM-I2 is broken, or the segment is not resident.
    pub(super) fn evict(&mut self, (id, chunk): Place, column: ColumnId) {
        let table = self.table_mut(id);
        let bytes = table.own(chunk, column);
        let entry = &mut table.chunks[chunk.0 as usize];
        assert!(
            has(entry.resident, column),
            "{id}.{chunk}.{column} is evicted but not resident"
        );
        assert_eq!(
            entry.pins[usize::from(column.0)],
            0,
            "ABM-I2: {id}.{chunk}.{column} is pinned"
        );
        assert_eq!(
            entry.loading, 0,
            "ABM-I2: {id}.{chunk} has a load under way"
        );
        entry.resident &= !(1 << column.0);
        self.used -= bytes;
    }

    /// Records an `EvictExtent`.
    ///
    /// # Panics
    /// The extent is not resident, or is part of a segment that is resident or loading.
    pub(super) fn evict_extent(&mut self, id: TableId, extent: ExtentId) {
        let table = self.table_mut(id);
        let e = extent.0 as usize;
        assert_eq!(
            table.extents[e],
            ExtentState::Resident,
            "extent {id}.{extent} is not resident"
        );
        let shape = table.layout.shared[e];
        for chunk in (shape.first.0..=shape.last.0).map(ChunkId) {
            let used = has(table.coming(chunk), shape.column);
            assert!(!used, "extent {id}.{extent} is part of chunk {chunk}");
        }
        table.extents[e] = ExtentState::Absent;
        self.used -= shape.bytes;
    }

    pub(super) fn pin(&mut self, (id, chunk): Place, columns: Mask) {
        let entry = &mut self.table_mut(id).chunks[chunk.0 as usize];
        assert_eq!(
            columns & !entry.resident,
            0,
            "{id}.{chunk} is read but not in memory"
        );
        for column in bits(columns) {
            entry.pins[usize::from(column.0)] += 1;
        }
    }

    pub(super) fn unpin(&mut self, (id, chunk): Place, columns: Mask) {
        let entry = &mut self.table_mut(id).chunks[chunk.0 as usize];
        for column in bits(columns) {
            entry.pins[usize::from(column.0)] -= 1;
        }
    }

    /// Asserts that nothing of a dropped table is left, and removes the table.
    ///
    /// # Panics
    /// Something of the table is left.
    pub(super) fn drop_table(&mut self, id: TableId) {
        let table = self.table(id);
        assert!(
            table.chunks.iter().all(|c| c.resident == 0),
            "segments of {id} are left"
        );
        let mut extents = table.extents.iter();
        assert!(
            extents.all(|e| *e == ExtentState::Absent),
            "extents of {id} are left"
        );
        self.tables.remove(&id);
    }

    /// Checks what may exceed the budget: only chunks that are pinned or have a load under way, and
    /// their extents.
    ///
    /// # Panics
    /// The budget is exceeded and something else is in memory.
    pub(super) fn check_shrunk(&self) {
        if self.used <= self.budget {
            return;
        }
        for (id, table) in &self.tables {
            for (at, chunk) in table.chunks.iter().enumerate() {
                let kept = chunk.loading != 0 || chunk.pins.iter().any(|&pins| pins > 0);
                assert!(
                    chunk.resident == 0 || kept,
                    "ABM-I3: {} above {}, and chunk {id}.{at} is not evicted",
                    self.used,
                    self.budget
                );
            }
            for (e, state) in table.extents.iter().enumerate() {
                let shape = table.layout.shared[e];
                let mut range = (shape.first.0..=shape.last.0).map(ChunkId);
                assert!(
                    *state != ExtentState::Resident
                        || range.any(|c| has(table.coming(c), shape.column)),
                    "ABM-I3: {} above {}, and extent {id}.{e} is not evicted",
                    self.used,
                    self.budget
                );
            }
        }
    }
}

pub(super) fn mask(columns: impl IntoIterator<Item = ColumnId>) -> Mask {
    columns
        .into_iter()
        .fold(0, |mask, column| mask | 1 << column.0)
}

pub(super) fn has(mask: Mask, column: ColumnId) -> bool {
    mask >> column.0 & 1 == 1
}

pub(super) fn bits(mask: Mask) -> impl Iterator<Item = ColumnId> {
    let all = 0..16;
    all.filter(move |bit| mask >> bit & 1 == 1).map(ColumnId)
}

pub(super) fn set(mask: Mask) -> ColumnSet {
    bits(mask).collect()
}
