//! The operations on the bytes of a table: uses, pins, loads, evictions, and the extents that
//! segments share.
//!
//! Not here: the choice of segments (`policy/`).
//! ABM-I1: an extent is loading at most once, and belongs to the load that brings it. A resident
//! segment has all its extents.

use smallvec::SmallVec;

use crate::table::{Chunk, Extent, ExtentState, LastLoad, Pinner, Residence, Table};
use crate::{ChunkId, ColumnId, ColumnSet, ExtentId, SharedExtent};

impl Table {
    /// The latest use of any resident column.
    pub(crate) fn last_use_of(&self, chunk: ChunkId) -> u64 {
        let resident = self.chunks[chunk.0 as usize].residences.iter();
        resident.map(|segment| segment.last_use).max().unwrap_or(0)
    }

    /// The latest use of a resident column.
    pub(crate) fn last_use_of_segment(&self, chunk: ChunkId, column: ColumnId) -> u64 {
        let resident = self.residence(chunk, column);
        resident.map_or(0, |segment| segment.last_use)
    }

    /// Records a use of resident columns.
    pub(crate) fn touch(&mut self, chunk: ChunkId, columns: &ColumnSet, seq: u64) {
        let Chunk {
            residences, listed, ..
        } = &mut self.chunks[chunk.0 as usize];
        for Residence {
            column, last_use, ..
        } in residences
        {
            if columns.contains(*column) {
                if listed.contains(*column) {
                    self.victims.remove(&(*last_use, chunk, *column));
                    self.victims.insert((seq, chunk, *column));
                }
                *last_use = seq;
            }
        }
    }

    /// Sets the own bytes of a resident segment in memory; returns the previous value.
    pub(crate) fn resize(&mut self, chunk: ChunkId, column: ColumnId, bytes: u64) -> u64 {
        let mut resident = self.chunks[chunk.0 as usize].residences.iter_mut();
        let segment = resident.find(|segment| segment.column == column);
        segment.map_or(bytes, |segment| {
            std::mem::replace(&mut segment.bytes, bytes)
        })
    }

    pub(crate) fn pin(&mut self, chunk: ChunkId, by: Pinner, columns: ColumnSet) {
        let pins = self.pins.entry(chunk).or_default();
        let more = !columns.is_subset(&pins.columns);
        pins.columns.union_with(&columns);
        pins.by.push((by, columns));
        if more {
            self.pins_changed(chunk);
        }
    }

    /// Ends a pin; returns the columns that it held.
    pub(crate) fn unpin(&mut self, chunk: ChunkId, by: Pinner) -> ColumnSet {
        let pins = self.pins.entry(chunk).or_default();
        let at = pins.by.iter().position(|&(pinner, _)| pinner == by);
        let columns = at.map_or_else(ColumnSet::new, |at| pins.by.swap_remove(at).1);
        // Usually other pinners read the same columns.
        if !pins.by.iter().any(|(_, theirs)| columns.is_subset(theirs)) {
            pins.columns = ColumnSet::new();
            for (_, theirs) in &pins.by {
                pins.columns.union_with(theirs);
            }
            if pins.by.is_empty() {
                self.pins.remove(&chunk);
            }
            self.pins_changed(chunk);
        }
        columns
    }

    fn pins_changed(&mut self, chunk: ChunkId) {
        let pinned = self.pins.contains_key(&chunk);
        if !self.set_state(chunk, |state| state.pinned = pinned) {
            self.list_victims(chunk);
        }
    }

    /// The resident columns of a chunk that are not pinned; none while a load of the chunk is
    /// outstanding (ABM-I2).
    pub(crate) fn idle(&self, chunk: ChunkId) -> ColumnSet {
        let group = self.group(chunk);
        if !group.may_be_idle() {
            ColumnSet::new()
        } else if let Some(pins) = self.pins.get(&chunk) {
            group.state.resident.difference(&pins.columns)
        } else {
            group.state.resident.clone()
        }
    }

    /// Bytes in memory of a chunk's resident segments, with their shared extents.
    pub(crate) fn resident_bytes(&self, chunk: ChunkId) -> u64 {
        let residences = &self.chunks[chunk.0 as usize].residences;
        let own: u64 = residences.iter().map(|segment| segment.bytes).sum();
        let extents = residences.iter().flat_map(|segment| {
            let extents = self.extents_of.get(&(chunk, segment.column));
            extents.into_iter().flatten()
        });
        own + extents.map(|&e| self.extent_bytes(e)).sum::<u64>()
    }

    /// Bytes that a load of these columns brings if none of their shared extents is in memory.
    pub(crate) fn bytes_with_extents(&self, chunk: ChunkId, columns: &ColumnSet) -> u64 {
        let of = |column| {
            let extents = self.extents_of.get(&(chunk, column)).into_iter().flatten();
            let shared: u64 = extents.map(|&extent| self.extent_bytes(extent)).sum();
            self.own_bytes(chunk, column) + shared
        };
        columns.iter().map(of).sum()
    }

    /// The absent extents that a load of these columns would bring, ascending.
    pub(crate) fn absent_extents(&self, chunk: ChunkId, columns: &ColumnSet) -> Vec<ExtentId> {
        if self.extents.is_empty() {
            return Vec::new();
        }
        let mut absent: Vec<ExtentId> = columns
            .iter()
            .flat_map(|column| {
                self.extents_of
                    .get(&(chunk, column))
                    .into_iter()
                    .flatten()
                    .copied()
            })
            .filter(|e| self.extents[e.0 as usize].state == ExtentState::Absent)
            .collect();
        absent.sort_unstable();
        absent
    }

    pub(crate) fn extent_bytes(&self, extent: ExtentId) -> u64 {
        self.extents[extent.0 as usize].shape.bytes
    }

    pub(crate) fn extent_is_resident(&self, extent: ExtentId) -> bool {
        self.resident_extents.contains(&extent)
    }

    /// Whether every shared extent of the segment is resident or loading.
    pub(crate) fn extents_come(&self, chunk: ChunkId, column: ColumnId) -> bool {
        let extents = self.extents_of.get(&(chunk, column));
        let mut extents = extents.into_iter().flatten();
        extents.all(|e| self.extents[e.0 as usize].state != ExtentState::Absent)
    }

    /// A load of `columns` and `extents` starts.
    pub(crate) fn start_load(
        &mut self,
        chunk: ChunkId,
        columns: &ColumnSet,
        extents: &[ExtentId],
        load: LastLoad,
    ) {
        for extent in extents {
            self.extents[extent.0 as usize].state = ExtentState::Loading(chunk);
        }
        self.chunks[chunk.0 as usize].last_load = Some(load);
        self.last_load_seq = Some(load.seq);
        self.set_state(chunk, |state| state.loading.union_with(columns));
    }

    /// Columns arrived: loading → resident.
    pub(crate) fn complete_load(&mut self, chunk: ChunkId, columns: &ColumnSet, seq: u64) {
        for column in columns.iter() {
            let bytes = self.own_bytes(chunk, column);
            self.chunks[chunk.0 as usize].residences.push(Residence {
                column,
                last_use: seq,
                bytes,
            });
            for extent in self.extents_of.get(&(chunk, column)).into_iter().flatten() {
                let entry = &mut self.extents[extent.0 as usize];
                if matches!(entry.state, ExtentState::Loading(_)) {
                    entry.state = ExtentState::Resident;
                    self.resident_extents.insert(*extent);
                }
            }
        }
        self.set_state(chunk, |state| {
            state.loading = state.loading.difference(columns);
            state.resident.union_with(columns);
        });
    }

    /// Columns will not arrive; returns the bytes that this frees.
    pub(crate) fn fail_load(&mut self, chunk: ChunkId, columns: &ColumnSet) -> u64 {
        self.set_state(chunk, |state| {
            state.loading = state.loading.difference(columns);
        });
        let mut freed = 0;
        for column in columns.iter() {
            freed += self.own_bytes(chunk, column);
            for extent in self
                .extents_of
                .get(&(chunk, column))
                .cloned()
                .unwrap_or_default()
            {
                let Extent { shape, state } = &mut self.extents[extent.0 as usize];
                if *state == ExtentState::Loading(chunk) {
                    freed += shape.bytes;
                    *state = ExtentState::Absent;
                }
            }
        }
        freed
    }

    /// Evicts a resident segment. [`Table::restore`] undoes it.
    pub(crate) fn evict(&mut self, chunk: ChunkId, column: ColumnId) -> Evicted {
        // Removed from `resident` first: that removes it from `victims` under its last use.
        self.set_state(chunk, |state| state.resident.remove(column));
        let gone = self.group(chunk).coming.is_empty();
        let entry = &mut self.chunks[chunk.0 as usize];
        let last_load = entry.last_load;
        if gone {
            entry.last_load = None;
        }
        let mut resident = entry.residences.iter();
        let at = resident.position(|segment| segment.column == column);
        let residence = entry
            .residences
            .swap_remove(at.expect("only resident segments are evicted"));
        let mut extents = SmallVec::new();
        let mut bytes = residence.bytes;
        for extent in self
            .extents_of
            .get(&(chunk, column))
            .cloned()
            .unwrap_or_default()
        {
            let Extent { shape, state } = &self.extents[extent.0 as usize];
            if *state == ExtentState::Resident && !self.neighbour_uses(shape, Some(chunk)) {
                bytes += shape.bytes;
                self.extents[extent.0 as usize].state = ExtentState::Absent;
                self.resident_extents.remove(&extent);
                extents.push(extent);
            }
        }
        Evicted {
            chunk,
            column,
            residence,
            last_load,
            extents,
            bytes,
        }
    }

    pub(crate) fn restore(&mut self, evicted: Evicted) {
        for extent in evicted.extents {
            self.extents[extent.0 as usize].state = ExtentState::Resident;
            self.resident_extents.insert(extent);
        }
        let chunk = &mut self.chunks[evicted.chunk.0 as usize];
        chunk.residences.push(evicted.residence);
        chunk.last_load = evicted.last_load;
        self.set_state(evicted.chunk, |state| state.resident.insert(evicted.column));
    }

    /// Whether another chunk in the extent's range than `except` has the column resident or
    /// loading, or a scan wants the column of such a chunk.
    fn neighbour_uses(&self, shape: &SharedExtent, except: Option<ChunkId>) -> bool {
        (shape.first.0..=shape.last.0)
            .map(ChunkId)
            .filter(|&c| Some(c) != except)
            .any(|c| {
                self.group(c).coming.contains(shape.column)
                    || self.wanted_now(self.interest(c)).contains(shape.column)
            })
    }

    /// The lowest resident extent whose column no chunk in range has resident or loading and no
    /// scan wants.
    pub(crate) fn orphan(&self) -> Option<ExtentId> {
        let mut resident = self.resident_extents.iter().copied();
        resident.find(|e| !self.neighbour_uses(&self.extents[e.0 as usize].shape, None))
    }

    /// The lowest resident extent whose column no chunk in range has resident or loading, even if
    /// a scan wants it. Extents that `load` needs are excepted.
    pub(crate) fn bare_extent(&self, load: Option<(ChunkId, &ColumnSet)>) -> Option<ExtentId> {
        let mut resident = self.resident_extents.iter().copied();
        resident.find(|extent| {
            let shape = &self.extents[extent.0 as usize].shape;
            let range = shape.first..=shape.last;
            let mine = load
                .is_some_and(|(chunk, cols)| cols.contains(shape.column) && range.contains(&chunk));
            let mut chunks = (shape.first.0..=shape.last.0).map(ChunkId);
            !mine && chunks.all(|c| !self.group(c).coming.contains(shape.column))
        })
    }

    pub(crate) fn evict_extent(&mut self, extent: ExtentId) -> u64 {
        self.extents[extent.0 as usize].state = ExtentState::Absent;
        self.resident_extents.remove(&extent);
        self.extent_bytes(extent)
    }

    pub(crate) fn restore_extent(&mut self, extent: ExtentId) {
        self.extents[extent.0 as usize].state = ExtentState::Resident;
        self.resident_extents.insert(extent);
    }

    /// All resident segments, ascending, then all resident extents.
    pub(crate) fn resident(&self) -> (Vec<(ChunkId, ColumnId)>, Vec<ExtentId>) {
        let chunks = (0..).map(ChunkId).zip(&self.chunks);
        let segments = chunks.flat_map(|(id, chunk)| {
            let resident = chunk.residences.iter();
            resident.map(move |segment| (id, segment.column))
        });
        let mut segments: Vec<(ChunkId, ColumnId)> = segments.collect();
        segments.sort_unstable();
        (segments, self.resident_extents.iter().copied().collect())
    }

    /// The recomputed bytes of the extents resident or loading.
    pub(crate) fn check_extents(&self) -> u64 {
        let mut used = 0;
        for (id, extent) in self.extents.iter().enumerate() {
            let shape = &extent.shape;
            if extent.state != ExtentState::Absent {
                used += shape.bytes;
            }
            let listed = self.resident_extents.iter().any(|e| e.0 as usize == id);
            assert_eq!(listed, extent.state == ExtentState::Resident);
            for chunk in (shape.first.0..=shape.last.0).map(ChunkId) {
                let resident = &self.group(chunk).state.resident;
                assert!(
                    listed || !resident.contains(shape.column),
                    "a resident segment has its shared extents"
                );
            }
        }
        used
    }
}

/// What [`Table::evict`] evicted.
#[derive(Debug)]
pub(crate) struct Evicted {
    pub(crate) chunk: ChunkId,
    pub(crate) column: ColumnId,
    residence: Residence,
    last_load: Option<LastLoad>,
    pub(crate) extents: SmallVec<[ExtentId; 2]>,
    /// Own bytes plus the bytes of the freed extents.
    pub(crate) bytes: u64,
}
