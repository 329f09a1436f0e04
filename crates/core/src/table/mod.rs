//! One table in the buffer manager: which of its segments are resident or loading, and which scans
//! want them?
//!
//! Not here: operations on segments and extents (`segments.rs`); the choice of scan, chunk and
//! victim (`policy/`).
//! ABM-I1: `loading` and `resident` of a chunk are disjoint. ABM-I2: `pinned` is a subset of
//! `resident` and never a victim.

pub(crate) mod best_chunk;
mod check;
pub(crate) mod groups;
mod idle_counts;
pub(crate) mod interest;
pub(crate) mod layout;
mod needed;
pub(crate) mod per_device;
pub(crate) mod scan;
pub(crate) mod segments;

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use crate::bits::Bits;
use crate::table::groups::{ChunkState, Group, GroupId, Groups};
use crate::table::idle_counts::IdleCounts;
use crate::table::interest::Interest;
use crate::table::per_device::PerDevice;
use crate::{
    ChunkId, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, ExtentId, PageRequestId, ScanId,
    SharedExtent, TableId, TableLayout,
};

/// What a table keeps up to date for a policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upkeep {
    /// Whether every idle segment may be evicted alone. Otherwise only *garbage* may: idle
    /// segments that no scan wants [CoopScans07 §6.2, "finding space for a chunk"].
    pub(crate) wanted_segments_may_go: bool,
    /// Whether the columns that stalled scans need count as wanted.
    pub(crate) stalled_scans_want: bool,
    /// Whether segments that may be evicted one by one are counted, so that a policy can draw from
    /// them.
    pub(crate) idle_counts: bool,
}

/// A part of a registered scan: one bit in the interest masks of its table.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) scan: ScanId,
    pub(crate) columns: ColumnSet,
    /// Needed chunks of the part.
    pub(crate) needed: PerDevice,
    /// The needed chunks that are coming.
    pub(crate) coming: PerDevice,
    /// While more chunks than this are coming from a device, the scan is not even almost starved
    /// of the device. `None` for a sequential scan, whose starvation depends on its next chunk.
    pub(crate) plenty: Option<usize>,
}

/// The owner of a pin on columns of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Pinner {
    Scan(ScanId),
    Page(PageRequestId),
    /// The chunk job that this scan leads.
    Job(ScanId),
}

/// The pins on a chunk.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// The pinned columns of each pinner.
    pub(crate) by: SmallVec<[(Pinner, ColumnSet); 2]>,
    /// The union of the pinned columns.
    pub(crate) columns: ColumnSet,
}

/// The state of a shared extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExtentState {
    Absent,
    /// An outstanding load of this chunk brings the extent (by ABM-I1 exactly one load).
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

/// A resident segment of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Residence {
    pub(crate) column: ColumnId,
    /// When it was last used.
    pub(crate) last_use: u64,
    /// Own bytes in memory: those in the file, unless the driver has resized the segment.
    pub(crate) bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Chunk {
    /// Own bytes of each segment in the file.
    pub(crate) bytes: Box<[u64]>,
    /// The resident segments.
    pub(crate) residences: SmallVec<[Residence; 1]>,
    pub(crate) last_load: Option<LastLoad>,
    /// The chunk's segments in `Table::victims`.
    pub(crate) listed: ColumnSet,
}

#[derive(Debug)]
pub(crate) struct Extent {
    pub(crate) shape: SharedExtent,
    pub(crate) state: ExtentState,
}

/// A table's state.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) id: TableId,
    upkeep: Upkeep,
    columns: u16,
    /// The devices of the chunks, in the order of first appearance. A device's *place* is its
    /// position here.
    pub(crate) devices: Vec<DeviceId>,
    pub(crate) chunks: Vec<Chunk>,
    /// The group of each chunk.
    group_of: Vec<GroupId>,
    interest: Interest,
    pub(crate) extents: Vec<Extent>,
    /// The shared extents of each segment that has any.
    pub(crate) extents_of: BTreeMap<(ChunkId, ColumnId), SmallVec<[ExtentId; 2]>>,
    /// Bytes of each column, over all chunks and extents.
    totals: Vec<u64>,
    /// Mean bytes per chunk of each column, at least 1.
    weights: Vec<u64>,
    slots: Vec<Option<Slot>>,
    /// The distinct column sets of the slots, each with its slots.
    pub(crate) families: Vec<(ColumnSet, Bits)>,
    /// Slots of scans with a waiting consumer.
    pub(crate) waiting: Bits,
    /// Slots of starved scans. `almost` has the slots of almost starved scans, `stalled` those of
    /// stalled scans.
    pub(crate) starved: Bits,
    /// Slots of scans that are starved of a device, by its place. Used only if there are several
    /// devices.
    starved_of: Vec<Bits>,
    pub(crate) almost: Bits,
    pub(crate) stalled: Bits,
    /// Slots of scans that take their chunks in order.
    pub(crate) sequential: Bits,
    pub(crate) groups: Groups,
    /// The pins of each pinned chunk.
    pub(crate) pins: BTreeMap<ChunkId, Pins>,
    /// Segments that may be evicted one by one, by last use.
    pub(crate) victims: BTreeSet<(u64, ChunkId, ColumnId)>,
    /// The number of such segments per chunk, if the policy draws from them.
    idle_counts: Option<IdleCounts>,
    /// Resident extents; only these can be orphans.
    pub(crate) resident_extents: BTreeSet<ExtentId>,
    /// The chunk at which the elevator looks for its next load.
    pub(crate) cursor: ChunkId,
    /// Sequence number of the last load start, for the elevator's turns between tables.
    pub(crate) last_load_seq: Option<u64>,
    /// Running scans.
    pub(crate) scans: BTreeSet<ScanId>,
}

impl Table {
    pub(crate) fn new(id: TableId, upkeep: Upkeep, layout: TableLayout) -> Self {
        let mut table = Self {
            id,
            upkeep,
            columns: layout.columns,
            devices: Vec::new(),
            chunks: Vec::new(),
            group_of: Vec::new(),
            interest: Interest::default(),
            extents: Vec::new(),
            extents_of: BTreeMap::new(),
            totals: vec![0; layout.columns.into()],
            weights: Vec::new(),
            slots: Vec::new(),
            families: Vec::new(),
            waiting: Bits::default(),
            starved: Bits::default(),
            starved_of: Vec::new(),
            almost: Bits::default(),
            stalled: Bits::default(),
            sequential: Bits::default(),
            groups: Groups::default(),
            pins: BTreeMap::new(),
            victims: BTreeSet::new(),
            idle_counts: upkeep.idle_counts.then(IdleCounts::default),
            resident_extents: BTreeSet::new(),
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
            if !self.devices.contains(&device) {
                self.devices.push(device);
                self.starved_of.push(Bits::default());
            }
            let state = ChunkState {
                resident: ColumnSet::new(),
                loading: ColumnSet::new(),
                pinned: false,
                pages: 0,
                device,
            };
            let id = ChunkId(self.chunk_count());
            for (total, bytes) in self.totals.iter_mut().zip(&bytes) {
                *total += bytes;
            }
            self.interest.push();
            if let Some(counts) = &mut self.idle_counts {
                counts.push();
            }
            let group = self.groups.insert(id, state, &self.interest);
            self.group_of.push(group);
            self.chunks.push(Chunk {
                bytes,
                residences: SmallVec::new(),
                last_load: None,
                listed: ColumnSet::new(),
            });
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
            self.totals[usize::from(shape.column.0)] += shape.bytes;
            self.extents.push(Extent {
                shape,
                state: ExtentState::Absent,
            });
        }
        let chunks = self.chunks.len().max(1) as u64;
        let mean = |total: &u64| total.div_ceil(chunks).max(1);
        self.weights = self.totals.iter().map(mean).collect();
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

    /// P(columns − without).
    pub(crate) fn weight_minus(&self, columns: &ColumnSet, without: &ColumnSet) -> u64 {
        let left = columns.iter().filter(|&column| !without.contains(column));
        left.map(|c| self.weights[usize::from(c.0)]).sum()
    }

    /// Own bytes of a segment in the file: what a load of it brings.
    pub(crate) fn own_bytes(&self, chunk: ChunkId, column: ColumnId) -> u64 {
        self.chunks[chunk.0 as usize].bytes[usize::from(column.0)]
    }

    /// Own bytes in memory of a segment that is resident or loading.
    pub(crate) fn held_bytes(&self, chunk: ChunkId, column: ColumnId) -> u64 {
        let resident = self.residence(chunk, column);
        resident.map_or_else(|| self.own_bytes(chunk, column), |segment| segment.bytes)
    }

    pub(crate) fn residence(&self, chunk: ChunkId, column: ColumnId) -> Option<&Residence> {
        let mut resident = self.chunks[chunk.0 as usize].residences.iter();
        resident.find(|segment| segment.column == column)
    }

    pub(crate) fn group(&self, chunk: ChunkId) -> &Group {
        self.groups.at(self.group_of[chunk.0 as usize])
    }

    /// The slots interested in a chunk.
    pub(crate) fn interest(&self, chunk: ChunkId) -> &Bits {
        self.interest.slots(chunk)
    }

    /// The slots interested in each chunk, for searches of the groups.
    pub(crate) fn interests(&self) -> &Interest {
        &self.interest
    }

    pub(crate) fn device(&self, chunk: ChunkId) -> DeviceId {
        self.group(chunk).state.device
    }

    /// The place of a chunk's device.
    pub(crate) fn place(&self, chunk: ChunkId) -> usize {
        self.place_of(self.device(chunk))
    }

    /// The place of the device of one of the table's chunks.
    pub(crate) fn place_of(&self, device: DeviceId) -> usize {
        let mut devices = self.devices.iter();
        let place = devices.position(|&known| known == device);
        place.expect("devices of chunks are known")
    }

    /// Slots of scans that are starved of the device in this place. On a table with one device,
    /// slots of starved scans.
    pub(crate) fn starved_of(&self, place: usize) -> &Bits {
        if self.devices.len() <= 1 {
            &self.starved
        } else {
            &self.starved_of[place]
        }
    }

    /// Records of which devices a slot's scan is starved, by place.
    pub(crate) fn set_starved_of(&mut self, slot: usize, starved: &Bits) {
        for (place, slots) in self.starved_of.iter_mut().enumerate() {
            slots.set(slot, starved.contains(place));
        }
    }

    /// The number of slots in use.
    pub(crate) fn slot_count(&self) -> u32 {
        self.families.iter().map(|(_, members)| members.len()).sum()
    }

    pub(crate) fn slot(&self, slot: usize) -> &Slot {
        self.slots[slot]
            .as_ref()
            .expect("interest names live slots")
    }

    pub(crate) fn slot_mut(&mut self, slot: usize) -> &mut Slot {
        self.slots[slot].as_mut().expect("scans name live slots")
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

    /// Whether every slot wants at least one of `columns`.
    pub(crate) fn overlap_all(&self, columns: &ColumnSet) -> bool {
        let mut families = self.families.iter();
        families.all(|(family, _)| family.intersects(columns))
    }

    /// The slots that want at least one of `columns`.
    pub(crate) fn overlapping(&self, columns: &ColumnSet) -> Bits {
        let mut slots = Bits::default();
        for (family, members) in &self.families {
            if family.intersects(columns) {
                slots.union_with(members);
            }
        }
        slots
    }

    /// The slots whose columns are all in `columns`.
    pub(crate) fn covered_by(&self, columns: &ColumnSet) -> Bits {
        let mut slots = Bits::default();
        for (family, members) in &self.families {
            if family.is_subset(columns) {
                slots.union_with(members);
            }
        }
        slots
    }

    // ---- slots ----

    /// Adds a slot for a scan part that wants `columns` of `chunks`. `plenty`: see [`Slot`].
    pub(crate) fn add_slot(
        &mut self,
        scan: ScanId,
        chunks: &ChunkSet,
        columns: &ColumnSet,
        plenty: Option<usize>,
    ) -> usize {
        let slot = self
            .slots
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.slots.len());
        let entry = Some(Slot {
            scan,
            columns: columns.clone(),
            needed: self.count_where(chunks, |_| true),
            coming: self.count_coming(chunks, columns),
            plenty,
        });
        if slot == self.slots.len() {
            self.slots.push(entry);
        } else {
            self.slots[slot] = entry;
        }
        self.sequential.set(slot, plenty.is_none());
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

    /// Removes a slot.
    pub(crate) fn drop_slot(&mut self, slot: usize) {
        let needed = self.interest.runs(slot, 0..u32::MAX).collect();
        self.set_interest(slot, &needed, false);
        for mask in [
            &mut self.waiting,
            &mut self.starved,
            &mut self.almost,
            &mut self.stalled,
            &mut self.sequential,
        ] {
            mask.remove(slot);
        }
        for slots in &mut self.starved_of {
            slots.remove(slot);
        }
        for (_, members) in &mut self.families {
            members.remove(slot);
        }
        self.families.retain(|(_, members)| !members.is_empty());
        self.slots[slot] = None;
    }

    /// The number of the chunks whose `columns` are all resident or loading.
    fn count_coming(&self, chunks: &ChunkSet, columns: &ColumnSet) -> PerDevice {
        self.count_where(chunks, |group| columns.is_subset(&group.coming))
    }

    /// The number of the chunks in groups for which `holds` is true.
    fn count_where(&self, chunks: &ChunkSet, holds: impl Fn(&Group) -> bool) -> PerDevice {
        let place = |group: &Group| holds(group).then(|| self.place_of(group.state.device));
        let places = self.groups.map(place);
        let groups = chunks.iter().map(|chunk| self.group_of[chunk.0 as usize]);
        let mut counts = PerDevice::default();
        for place in groups.filter_map(|group| places[group.index()].flatten()) {
            counts.add(place, 1);
        }
        counts
    }

    /// Updates the counts of coming chunks after a chunk's coming columns have changed from
    /// `before`. Returns the scans whose starvation may change.
    pub(crate) fn recount_coming(
        &mut self,
        chunk: ChunkId,
        before: &ColumnSet,
    ) -> SmallVec<[ScanId; 64]> {
        let mut scans = SmallVec::new();
        let place = self.place(chunk);
        let now = &self.groups.at(self.group_of[chunk.0 as usize]).coming;
        for (columns, members) in &self.families {
            let comes = columns.is_subset(now);
            if comes == columns.is_subset(before) {
                continue;
            }
            for slot in members.iter_and(self.interest.slots(chunk)) {
                let slot = self.slots[slot]
                    .as_mut()
                    .expect("interest names live slots");
                if !comes {
                    slot.coming.take(place, 1);
                }
                let coming = slot.coming.at(place);
                if slot.plenty.is_none_or(|plenty| coming <= plenty) {
                    scans.push(slot.scan);
                }
                if comes {
                    slot.coming.add(place, 1);
                }
            }
        }
        scans
    }

    /// Sets or clears a slot's bit in the interest of many chunks.
    fn set_interest(&mut self, slot: usize, chunks: &ChunkSet, on: bool) {
        let idle = self.groups.map(Group::may_be_idle);
        let mut blocks: Vec<(GroupId, u32)> = Vec::new();
        let mut of_block = 0;
        for chunk in chunks.iter() {
            self.interest.set(chunk, slot, on);
            let group = self.group_of[chunk.0 as usize];
            let block = chunk.0 / 64;
            if blocks.last().is_some_and(|&(_, last)| last != block) {
                of_block = blocks.len();
            }
            // A block has chunks of few groups, so this search is short.
            if !blocks[of_block..].contains(&(group, block)) {
                blocks.push((group, block));
            }
            if idle[group.index()] == Some(true) {
                self.list_victims(chunk);
            }
        }
        blocks.sort_unstable();
        for of_group in blocks.chunk_by(|a, b| a.0 == b.0) {
            let numbers: Vec<u32> = of_group.iter().map(|&(_, block)| block).collect();
            self.groups.refresh(of_group[0].0, &numbers, &self.interest);
        }
    }

    /// Removes a slot from the interest of many chunks.
    pub(crate) fn lose_interest(&mut self, slot: usize, chunks: &ChunkSet) {
        let coming = self.count_coming(chunks, &self.slot(slot).columns);
        let needed = self.count_where(chunks, |_| true);
        let counts = self.slot_mut(slot);
        counts.coming.take_all(&coming);
        counts.needed.take_all(&needed);
        self.set_interest(slot, chunks, false);
    }

    /// Puts a slot back into the interest of one chunk.
    pub(crate) fn gain_interest(&mut self, chunk: ChunkId, slot: usize) {
        let one = ChunkSet::from_range(chunk.0..chunk.0 + 1);
        let coming = self.count_coming(&one, &self.slot(slot).columns);
        let place = self.place(chunk);
        let counts = self.slot_mut(slot);
        counts.coming.add_all(&coming);
        counts.needed.add(place, 1);
        self.set_interest(slot, &one, true);
    }

    /// Removes a slot from the interest of one chunk.
    pub(crate) fn drop_interest(&mut self, chunk: ChunkId, slot: usize) {
        let place = self.place(chunk);
        let group = self.group_of[chunk.0 as usize];
        let coming = &self.groups.at(group).coming;
        let comes = self.slot(slot).columns.is_subset(coming);
        let counts = self.slot_mut(slot);
        counts.coming.take(place, usize::from(comes));
        counts.needed.take(place, 1);
        self.interest.set(chunk, slot, false);
        self.groups
            .drop_interest(group, chunk, slot, &self.interest);
        self.list_victims(chunk);
    }

    /// Changes the state of a chunk; returns false if the change has no effect.
    pub(crate) fn set_state(
        &mut self,
        chunk: ChunkId,
        change: impl FnOnce(&mut ChunkState),
    ) -> bool {
        let from = self.group_of[chunk.0 as usize];
        let old = &self.groups.at(from).state;
        let mut state = old.clone();
        change(&mut state);
        if state == *old {
            return false;
        }
        self.groups.remove(chunk, from, &self.interest);
        self.group_of[chunk.0 as usize] = self.groups.insert(chunk, state, &self.interest);
        self.list_victims(chunk);
        true
    }

    /// Updates `victims` for a chunk.
    pub(crate) fn list_victims(&mut self, chunk: ChunkId) {
        let Chunk {
            listed, residences, ..
        } = &self.chunks[chunk.0 as usize];
        let idle = self.idle(chunk);
        if idle.is_empty() && listed.is_empty() {
            return;
        }
        let now = self.victim_columns(&idle, self.interest(chunk));
        if now == *listed {
            return;
        }
        for &Residence {
            column, last_use, ..
        } in residences
        {
            match (listed.contains(column), now.contains(column)) {
                (true, false) => {
                    self.victims.remove(&(last_use, chunk, column));
                }
                (false, true) => {
                    self.victims.insert((last_use, chunk, column));
                }
                _ => {}
            }
        }
        if let Some(counts) = &mut self.idle_counts {
            counts.change(chunk, listed.len(), now.len());
        }
        self.chunks[chunk.0 as usize].listed = now;
    }

    /// The number of segments that may be evicted one by one; 0 if they are not counted.
    pub(crate) fn idle_count(&self) -> usize {
        self.idle_counts.as_ref().map_or(0, IdleCounts::total)
    }

    /// The segment in this place, in the order of (chunk, column).
    pub(crate) fn idle_segment(&self, place: usize) -> Option<(ChunkId, ColumnId)> {
        let (chunk, place) = self.idle_counts.as_ref()?.at(place)?;
        let column = self.chunks[chunk.0 as usize].listed.iter().nth(place)?;
        Some((chunk, column))
    }

    /// The columns of a chunk that may be evicted one by one.
    pub(crate) fn victim_columns(&self, idle: &ColumnSet, interest: &Bits) -> ColumnSet {
        if self.upkeep.wanted_segments_may_go {
            idle.clone()
        } else {
            idle.difference(&self.wanted_now(interest))
        }
    }

    /// wanted(c) of the contract.
    pub(crate) fn wanted_now(&self, interest: &Bits) -> ColumnSet {
        if self.upkeep.stalled_scans_want {
            self.columns_of(interest)
        } else {
            self.columns_of(&interest.difference(&self.stalled))
        }
    }

    /// Marks the slots of a scan as stalled or not.
    pub(crate) fn set_stalled(&mut self, slots: &[usize], on: bool) {
        for &slot in slots {
            self.stalled.set(slot, on);
        }
        if self.upkeep.stalled_scans_want {
            return;
        }
        let idle = self.groups.iter().filter(|group| group.may_be_idle());
        let chunks: Vec<ChunkId> = idle.flat_map(|group| group.members.iter()).collect();
        for chunk in chunks {
            self.list_victims(chunk);
        }
    }
}
