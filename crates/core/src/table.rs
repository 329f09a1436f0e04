//! One table in the buffer manager: what is in memory, what is on its way, who wants it.
//!
//! Not here: which scan, chunk or victim is chosen (`relevance.rs`, `elevator.rs`, `sequential.rs`, `room.rs`).
//! I1: `loading` and `resident` of a chunk are disjoint. I2: `pinned` is a subset of `resident` and never a victim.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use crate::bits::Bits;
use crate::classes::{Class, ClassId, ClassKey, Classes};
use crate::{
    ChunkId, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, ExtentId, PageRequestId, Policy,
    ScanId, SharedExtent, TableId, TableLayout,
};

/// A part of a registered scan: one bit in the interest masks of its table.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) scan: ScanId,
    pub(crate) columns: ColumnSet,
}

/// Who pins columns of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Pinner {
    Scan(ScanId),
    Page(PageRequestId),
}

/// Where a shared extent is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExtentState {
    Absent,
    /// Brought by an outstanding load of this chunk (by I1 by one of them only).
    Loading(ChunkId),
    Resident,
}

/// The newest load that touched a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastLoad {
    pub(crate) scan: ScanId,
    /// Sequence number of its start.
    pub(crate) seq: u64,
}

#[derive(Debug)]
struct Chunk {
    bytes: Box<[u64]>,
    class: ClassId,
}

#[derive(Debug)]
struct Extent {
    shape: SharedExtent,
    state: ExtentState,
}

/// A table's state.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) id: TableId,
    policy: Policy,
    columns: u16,
    chunks: Vec<Chunk>,
    extents: Vec<Extent>,
    /// The shared extents of a segment, for those that have any.
    extents_of: BTreeMap<(ChunkId, ColumnId), SmallVec<[ExtentId; 2]>>,
    /// Mean bytes per chunk of each column, at least 1.
    weights: Vec<u64>,
    slots: Vec<Option<Slot>>,
    /// Distinct column sets of the slots, each with the slots that have it.
    families: Vec<(ColumnSet, Bits)>,
    /// Slots of scans that are starved, almost starved, stalled.
    pub(crate) starved: Bits,
    pub(crate) almost: Bits,
    pub(crate) stalled: Bits,
    /// Slots of scans that take their chunks in order.
    pub(crate) sequential: Bits,
    pub(crate) classes: Classes,
    /// When each resident segment was last used.
    last_use: BTreeMap<(ChunkId, ColumnId), u64>,
    last_load: BTreeMap<ChunkId, LastLoad>,
    pins: BTreeMap<ChunkId, BTreeMap<Pinner, ColumnSet>>,
    /// Segments that may be evicted one by one, by last use.
    pub(crate) victims: BTreeSet<(u64, ChunkId, ColumnId)>,
    /// Resident extents, the only ones that can be orphans.
    resident_extents: BTreeSet<ExtentId>,
    /// The largest `pages` that any chunk has had; an upper bound for early stops.
    pub(crate) pages_max: u32,
    /// Where the elevator reads next.
    pub(crate) cursor: ChunkId,
    /// Sequence number of the last load start, for the elevator's turns.
    pub(crate) last_load_seq: Option<u64>,
    /// Running scans.
    pub(crate) scans: BTreeSet<ScanId>,
}

impl Table {
    pub(crate) fn new(id: TableId, policy: Policy, layout: TableLayout) -> Self {
        let mut table = Self {
            id,
            policy,
            columns: layout.columns,
            chunks: Vec::new(),
            extents: Vec::new(),
            extents_of: BTreeMap::new(),
            weights: Vec::new(),
            slots: Vec::new(),
            families: Vec::new(),
            starved: Bits::default(),
            almost: Bits::default(),
            stalled: Bits::default(),
            sequential: Bits::default(),
            classes: Classes::default(),
            last_use: BTreeMap::new(),
            last_load: BTreeMap::new(),
            pins: BTreeMap::new(),
            victims: BTreeSet::new(),
            resident_extents: BTreeSet::new(),
            pages_max: 0,
            cursor: ChunkId(0),
            last_load_seq: None,
            scans: BTreeSet::new(),
        };
        table.append(layout.chunks, layout.shared);
        table
    }

    /// Adds chunks at the end.
    pub(crate) fn append(&mut self, chunks: Vec<ChunkLayout>, shared: Vec<SharedExtent>) {
        for ChunkLayout { device, bytes } in chunks {
            let key = ClassKey {
                interest: Bits::default(),
                resident: ColumnSet::new(),
                loading: ColumnSet::new(),
                pinned: ColumnSet::new(),
                pages: 0,
                device,
            };
            let class = self.class_for(key);
            let id = self.chunk_count();
            self.classes.add(class, &ChunkSet::from_range(id..id + 1));
            self.chunks.push(Chunk { bytes, class });
        }
        for shape in shared {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "checked when the layout came in"
            )]
            let id = ExtentId(self.extents.len() as u32);
            for chunk in shape.first.0..=shape.last.0 {
                self.extents_of
                    .entry((ChunkId(chunk), shape.column))
                    .or_default()
                    .push(id);
            }
            self.extents.push(Extent {
                shape,
                state: ExtentState::Absent,
            });
        }
        let mut totals = vec![0_u64; self.columns.into()];
        for chunk in &self.chunks {
            for (total, bytes) in totals.iter_mut().zip(&chunk.bytes) {
                *total += bytes;
            }
        }
        for extent in &self.extents {
            totals[usize::from(extent.shape.column.0)] += extent.shape.bytes;
        }
        let chunks = self.chunks.len().max(1) as u64;
        self.weights = totals
            .into_iter()
            .map(|t| t.div_ceil(chunks).max(1))
            .collect();
    }

    pub(crate) fn chunk_count(&self) -> u32 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "checked when the layout came in"
        )]
        let count = self.chunks.len() as u32;
        count
    }

    pub(crate) fn extent_count(&self) -> usize {
        self.extents.len()
    }

    pub(crate) fn column_count(&self) -> u16 {
        self.columns
    }

    /// P(columns): the mean bytes of these columns of a chunk.
    pub(crate) fn weight(&self, columns: &ColumnSet) -> u64 {
        columns.iter().map(|c| self.weights[usize::from(c.0)]).sum()
    }

    pub(crate) fn own_bytes(&self, chunk: ChunkId, column: ColumnId) -> u64 {
        self.chunks[chunk.0 as usize].bytes[usize::from(column.0)]
    }

    pub(crate) fn class_id(&self, chunk: ChunkId) -> ClassId {
        self.chunks[chunk.0 as usize].class
    }

    pub(crate) fn class(&self, chunk: ChunkId) -> &Class {
        self.classes.at(self.class_id(chunk))
    }

    pub(crate) fn device(&self, chunk: ChunkId) -> DeviceId {
        self.class(chunk).key.device
    }

    pub(crate) fn slot(&self, slot: usize) -> &Slot {
        self.slots[slot]
            .as_ref()
            .expect("interest names live slots")
    }

    pub(crate) fn last_load(&self, chunk: ChunkId) -> Option<LastLoad> {
        self.last_load.get(&chunk).copied()
    }

    /// The latest use of any resident column.
    pub(crate) fn last_use_of(&self, chunk: ChunkId) -> u64 {
        let columns = self
            .last_use
            .range((chunk, ColumnId(0))..=(chunk, ColumnId(u16::MAX)));
        columns.map(|(_, &seq)| seq).max().unwrap_or(0)
    }

    /// The union of the columns that the given slots want.
    pub(crate) fn columns_of(&self, slots: &Bits) -> ColumnSet {
        let mut columns = ColumnSet::new();
        for (family, members) in &self.families {
            if members.intersects(slots) {
                columns.union_with(family);
            }
        }
        columns
    }

    /// The columns that slots in both sets want.
    pub(crate) fn columns_of_both(&self, a: &Bits, b: &Bits) -> ColumnSet {
        let mut columns = ColumnSet::new();
        for (family, members) in &self.families {
            if members.intersects3(a, b) {
                columns.union_with(family);
            }
        }
        columns
    }

    /// The slots whose columns share one with `columns`.
    pub(crate) fn overlapping(&self, columns: &ColumnSet) -> Bits {
        let mut slots = Bits::default();
        for (family, members) in &self.families {
            if family.intersects(columns) {
                slots.union_with(members);
            }
        }
        slots
    }

    /// Whether a scan in `among` is interested in the class and every column it wants is in memory.
    pub(crate) fn ready_for_any(&self, class: &Class, among: &Bits) -> bool {
        self.families.iter().any(|(family, members)| {
            members.intersects3(&class.key.interest, among) && family.is_subset(&class.key.resident)
        })
    }

    // ---- slots ----

    /// Takes a slot for a scan part that wants `columns` of `chunks`.
    pub(crate) fn add_slot(
        &mut self,
        scan: ScanId,
        chunks: &ChunkSet,
        columns: &ColumnSet,
        sequential: bool,
    ) -> usize {
        let slot = self
            .slots
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.slots.len());
        let entry = Some(Slot {
            scan,
            columns: columns.clone(),
        });
        if slot == self.slots.len() {
            self.slots.push(entry);
        } else {
            self.slots[slot] = entry;
        }
        self.sequential.set(slot, sequential);
        match self
            .families
            .iter_mut()
            .find(|(family, _)| family == columns)
        {
            Some((_, members)) => members.insert(slot),
            None => self
                .families
                .push((columns.clone(), [slot].into_iter().collect())),
        }
        self.set_interest(slot, chunks, true);
        slot
    }

    /// Gives a slot back. `needed`: the chunks that still carry its bit.
    pub(crate) fn drop_slot(&mut self, slot: usize, needed: &ChunkSet) {
        self.set_interest(slot, needed, false);
        for mask in [
            &mut self.starved,
            &mut self.almost,
            &mut self.stalled,
            &mut self.sequential,
        ] {
            mask.remove(slot);
        }
        for (_, members) in &mut self.families {
            members.remove(slot);
        }
        self.families.retain(|(_, members)| !members.is_empty());
        self.slots[slot] = None;
    }

    /// Sets or clears a slot's bit in the interest of many chunks.
    pub(crate) fn set_interest(&mut self, slot: usize, chunks: &ChunkSet, on: bool) {
        let touched: Vec<(ClassId, ChunkSet)> = self
            .classes
            .ids()
            .filter(|&id| self.classes.at(id).key.interest.contains(slot) != on)
            .map(|id| (id, self.classes.at(id).members.intersection(chunks)))
            .filter(|(_, moved)| !moved.is_empty())
            .collect();
        for (from, moved) in touched {
            let mut key = self.classes.at(from).key.clone();
            key.interest.set(slot, on);
            self.move_to(&moved, from, key);
        }
    }

    /// Changes a chunk's class.
    pub(crate) fn rekey(&mut self, chunk: ChunkId, change: impl FnOnce(&mut ClassKey)) {
        let from = self.class_id(chunk);
        let mut key = self.classes.at(from).key.clone();
        change(&mut key);
        if key != self.classes.at(from).key {
            self.pages_max = self.pages_max.max(key.pages);
            self.move_to(&ChunkSet::from_range(chunk.0..chunk.0 + 1), from, key);
        }
    }

    fn move_to(&mut self, moved: &ChunkSet, from: ClassId, key: ClassKey) {
        let to = self.class_for(key);
        let before = self.classes.at(from).victims.clone();
        let after = self.classes.at(to).victims.clone();
        for chunk in moved.iter() {
            self.chunks[chunk.0 as usize].class = to;
            self.change_victims(chunk, &before, &after);
        }
        if moved.len() == 1
            && let Some(chunk) = moved.first()
        {
            self.classes.move_one(chunk, from, to);
        } else {
            self.classes.add(to, moved);
            self.classes.take(from, moved);
        }
    }

    fn change_victims(&mut self, chunk: ChunkId, before: &ColumnSet, after: &ColumnSet) {
        if before == after {
            return;
        }
        for column in before.difference(after).iter() {
            if let Some(&seq) = self.last_use.get(&(chunk, column)) {
                self.victims.remove(&(seq, chunk, column));
            }
        }
        for column in after.difference(before).iter() {
            if let Some(&seq) = self.last_use.get(&(chunk, column)) {
                self.victims.insert((seq, chunk, column));
            }
        }
    }

    fn class_for(&mut self, key: ClassKey) -> ClassId {
        let wanted = self.columns_of(&key.interest);
        let victims = self.victim_columns(&key, &wanted);
        self.classes.find_or_make(key, |key| Class {
            interested: key.interest.len(),
            coming: key.resident.union(&key.loading),
            members: ChunkSet::new(),
            wanted,
            victims,
            key,
        })
    }

    /// Columns of a chunk that may be evicted by themselves: under LRU every idle one, else *garbage*, the idle ones that no scan
    /// wants [CoopScans07 §6.2, "finding space for a chunk"].
    fn victim_columns(&self, key: &ClassKey, wanted: &ColumnSet) -> ColumnSet {
        if !key.loading.is_empty() {
            return ColumnSet::new();
        }
        let idle = key.resident.difference(&key.pinned);
        match self.policy {
            Policy::Normal | Policy::Attach => idle,
            Policy::Relevance => idle.difference(wanted),
            Policy::Elevator => idle.difference(&self.wanted_now(&key.interest)),
        }
    }

    /// wanted(c) of the contract: under `elevator` stalled scans do not count.
    pub(crate) fn wanted_now(&self, interest: &Bits) -> ColumnSet {
        match self.policy {
            Policy::Elevator => self.columns_of(&interest.difference(&self.stalled)),
            _ => self.columns_of(interest),
        }
    }

    /// Marks the slots of a scan as stalled or not.
    pub(crate) fn set_stalled(&mut self, slots: &[usize], on: bool) {
        for &slot in slots {
            self.stalled.set(slot, on);
        }
        if self.policy != Policy::Elevator {
            return;
        }
        let touched: Vec<ClassId> = self
            .classes
            .ids()
            .filter(|&id| {
                slots
                    .iter()
                    .any(|&s| self.classes.at(id).key.interest.contains(s))
            })
            .collect();
        for id in touched {
            let class = self.classes.at(id);
            let (before, members) = (class.victims.clone(), class.members.clone());
            let after = self.victim_columns(&class.key, &class.wanted);
            if before != after {
                for chunk in members.iter() {
                    self.change_victims(chunk, &before, &after);
                }
                self.classes.set_victims(id, after);
            }
        }
    }

    // ---- use and pins ----

    /// Notes a use of resident columns.
    pub(crate) fn touch(&mut self, chunk: ChunkId, columns: &ColumnSet, seq: u64) {
        for column in columns.iter() {
            if let Some(last) = self.last_use.get_mut(&(chunk, column)) {
                if self.victims.remove(&(*last, chunk, column)) {
                    self.victims.insert((seq, chunk, column));
                }
                *last = seq;
            }
        }
    }

    pub(crate) fn pin(&mut self, chunk: ChunkId, by: Pinner, columns: ColumnSet) {
        self.pins.entry(chunk).or_default().insert(by, columns);
        self.refresh_pins(chunk);
    }

    /// Ends a pin; gives the columns it held.
    pub(crate) fn unpin(&mut self, chunk: ChunkId, by: Pinner) -> ColumnSet {
        let pins = self.pins.entry(chunk).or_default();
        let columns = pins.remove(&by).unwrap_or_default();
        if pins.is_empty() {
            self.pins.remove(&chunk);
        }
        self.refresh_pins(chunk);
        columns
    }

    fn refresh_pins(&mut self, chunk: ChunkId) {
        let mut pinned = ColumnSet::new();
        for columns in self.pins.get(&chunk).into_iter().flat_map(BTreeMap::values) {
            pinned.union_with(columns);
        }
        self.rekey(chunk, |key| key.pinned = pinned);
    }

    // ---- loads and evictions ----

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
        self.last_load.insert(chunk, load);
        self.last_load_seq = Some(load.seq);
        self.rekey(chunk, |key| key.loading.union_with(columns));
    }

    /// Columns arrived: loading → resident.
    pub(crate) fn complete_load(&mut self, chunk: ChunkId, columns: &ColumnSet, seq: u64) {
        for column in columns.iter() {
            self.last_use.insert((chunk, column), seq);
            for extent in self.extents_of.get(&(chunk, column)).into_iter().flatten() {
                let entry = &mut self.extents[extent.0 as usize];
                if matches!(entry.state, ExtentState::Loading(_)) {
                    entry.state = ExtentState::Resident;
                    self.resident_extents.insert(*extent);
                }
            }
        }
        self.rekey(chunk, |key| {
            key.loading = key.loading.difference(columns);
            key.resident.union_with(columns);
        });
    }

    /// Columns will not arrive; gives the bytes that are no longer held.
    pub(crate) fn fail_load(&mut self, chunk: ChunkId, columns: &ColumnSet) -> u64 {
        self.rekey(chunk, |key| key.loading = key.loading.difference(columns));
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

    /// Takes a resident segment out of memory. [`Table::restore`] undoes it.
    pub(crate) fn evict(&mut self, chunk: ChunkId, column: ColumnId) -> Evicted {
        let last_use = self.last_use.get(&(chunk, column)).copied().unwrap_or(0);
        let last_load = self.last_load(chunk);
        // Out of `resident` first: that takes it out of `victims` under its last use.
        self.rekey(chunk, |key| key.resident.remove(column));
        self.last_use.remove(&(chunk, column));
        let class = self.class(chunk);
        if class.coming.is_empty() {
            self.last_load.remove(&chunk);
        }
        let mut extents = SmallVec::new();
        let mut bytes = self.own_bytes(chunk, column);
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
            last_use,
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
        self.last_use
            .insert((evicted.chunk, evicted.column), evicted.last_use);
        if let Some(load) = evicted.last_load {
            self.last_load.insert(evicted.chunk, load);
        }
        self.rekey(evicted.chunk, |key| key.resident.insert(evicted.column));
    }

    /// Whether a chunk in the extent's range other than `except` has or awaits the column, or a scan wants it there.
    fn neighbour_uses(&self, shape: &SharedExtent, except: Option<ChunkId>) -> bool {
        (shape.first.0..=shape.last.0)
            .map(ChunkId)
            .filter(|&c| Some(c) != except)
            .any(|c| {
                let class = self.class(c);
                class.coming.contains(shape.column)
                    || self.wanted_now(&class.key.interest).contains(shape.column)
            })
    }

    /// The lowest resident extent that no chunk has and no scan wants.
    pub(crate) fn orphan(&self) -> Option<ExtentId> {
        let mut resident = self.resident_extents.iter().copied();
        resident.find(|e| !self.neighbour_uses(&self.extents[e.0 as usize].shape, None))
    }

    /// The lowest resident extent of which no chunk has or awaits the column, wanted or not, but for those of `load`.
    pub(crate) fn bare_extent(&self, load: Option<(ChunkId, &ColumnSet)>) -> Option<ExtentId> {
        let mut resident = self.resident_extents.iter().copied();
        resident.find(|extent| {
            let shape = &self.extents[extent.0 as usize].shape;
            let range = shape.first..=shape.last;
            let mine = load
                .is_some_and(|(chunk, cols)| cols.contains(shape.column) && range.contains(&chunk));
            let mut chunks = (shape.first.0..=shape.last.0).map(ChunkId);
            !mine && chunks.all(|c| !self.class(c).coming.contains(shape.column))
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

    /// Everything in memory: segments ascending, then extents.
    pub(crate) fn resident(&self) -> (Vec<(ChunkId, ColumnId)>, Vec<ExtentId>) {
        (
            self.last_use.keys().copied().collect(),
            self.resident_extents.iter().copied().collect(),
        )
    }

    /// Bytes resident or loading, counted anew, and every invariant of the table.
    pub(crate) fn check(&self) -> u64 {
        let mut used = 0;
        let mut members = 0;
        for class in self.classes.iter() {
            let key = &class.key;
            members += class.members.len();
            assert!(!class.members.is_empty(), "a class has members");
            assert!(
                !key.resident.intersects(&key.loading),
                "I1: a segment is loading at most once"
            );
            assert!(
                key.pinned.is_subset(&key.resident),
                "I2: pinned columns are in memory"
            );
            assert!(
                !class.victims.intersects(&key.pinned),
                "I2: victim is pinned"
            );
            assert_eq!(class.interested, key.interest.len());
            assert_eq!(class.wanted, self.columns_of(&key.interest));
            assert_eq!(class.victims, self.victim_columns(key, &class.wanted));
            for chunk in class.members.iter() {
                assert_eq!(&self.class(chunk).key, key, "a chunk is in its class");
                for column in class.coming.iter() {
                    used += self.own_bytes(chunk, column);
                }
                for column in key.resident.iter() {
                    let seq = self.last_use[&(chunk, column)];
                    let listed = self.victims.contains(&(seq, chunk, column));
                    assert_eq!(listed, class.victims.contains(column));
                }
            }
        }
        assert_eq!(members, self.chunks.len(), "classes partition the chunks");
        let resident: usize = self
            .classes
            .iter()
            .map(|c| c.key.resident.len() * c.members.len())
            .sum();
        assert_eq!(resident, self.last_use.len());
        assert!(self.victims.len() <= resident);
        for (id, extent) in self.extents.iter().enumerate() {
            used += if extent.state == ExtentState::Absent {
                0
            } else {
                extent.shape.bytes
            };
            let listed = self.resident_extents.iter().any(|e| e.0 as usize == id);
            assert_eq!(listed, extent.state == ExtentState::Resident);
            for chunk in extent.shape.first.0..=extent.shape.last.0 {
                if self
                    .class(ChunkId(chunk))
                    .key
                    .resident
                    .contains(extent.shape.column)
                {
                    assert!(listed, "a resident segment has its shared extents");
                }
            }
        }
        used
    }
}

/// What [`Table::evict`] took out.
#[derive(Debug)]
pub(crate) struct Evicted {
    pub(crate) chunk: ChunkId,
    pub(crate) column: ColumnId,
    last_use: u64,
    last_load: Option<LastLoad>,
    pub(crate) extents: SmallVec<[ExtentId; 2]>,
    /// Own bytes and those of the extents.
    pub(crate) bytes: u64,
}
