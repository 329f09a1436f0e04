//! Chunks that no decision can tell apart, grouped.
//!
//! A decision ranks chunks by who is interested in them, which of their columns are in memory, on their way or pinned, and how
//! many page requests queue for them. Chunks alike in all of that form a *class*. Scans announce ranges and drain them, so
//! classes are few and their members are runs: a decision looks at classes, not at scans × chunks, and takes the lowest chunk
//! of the best class.
//!
//! Bounds: moving a chunk is O(log classes + log runs). A decision is O(classes) and usually stops early, because classes are
//! kept by interest count. In the worst case there are as many classes as chunks: finding the chunk that most of an arbitrary
//! subset of scans want is a maximum-inner-product search, for which nothing better is known.
//! Source: [CoopScans07 §4, Figure 3]; we differ: the paper counts interest anew for every chunk and decision (§5.2.4).

use std::collections::{BTreeMap, BTreeSet};

use crate::bits::Bits;
use crate::{ChunkId, ChunkSet, ColumnSet, DeviceId};

/// What makes two chunks alike.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ClassKey {
    /// Slots (see `table.rs`) of the scan parts that need the chunk.
    pub(crate) interest: Bits,
    /// Columns in memory.
    pub(crate) resident: ColumnSet,
    /// Columns in an outstanding load. Disjoint from `resident` (I1).
    pub(crate) loading: ColumnSet,
    /// Columns that someone reads now. A subset of `resident` (I2).
    pub(crate) pinned: ColumnSet,
    /// Queued page requests.
    pub(crate) pages: u32,
    /// Where the chunk is read from.
    pub(crate) device: DeviceId,
}

/// A class: its key, its members, and what follows from the key.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) key: ClassKey,
    pub(crate) members: ChunkSet,
    /// How many scans are interested.
    pub(crate) interested: u32,
    /// Columns that a scan wants of these chunks.
    pub(crate) wanted: ColumnSet,
    /// `resident` ∪ `loading`.
    pub(crate) coming: ColumnSet,
    /// Columns that may be evicted one by one (`Table::victim_columns`).
    pub(crate) victims: ColumnSet,
}

impl Class {
    /// The lowest member.
    pub(crate) fn first(&self) -> ChunkId {
        self.members.first().expect("a class has members")
    }

    /// A load is under way for these chunks.
    pub(crate) fn is_busy(&self) -> bool {
        !self.key.loading.is_empty()
    }
}

/// A class's place in the slab.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ClassId(u32);

/// All classes of a table.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    slab: Vec<Option<Class>>,
    free: Vec<ClassId>,
    by_key: BTreeMap<ClassKey, ClassId>,
    /// (interested, id) of classes without resident columns.
    cold: BTreeSet<(u32, ClassId)>,
    /// (interested, id) of classes with resident columns.
    warm: BTreeSet<(u32, ClassId)>,
}

impl Classes {
    /// The class of an id that a chunk refers to.
    pub(crate) fn at(&self, id: ClassId) -> &Class {
        self.slab[id.0 as usize]
            .as_ref()
            .expect("chunks refer to live classes")
    }

    fn at_mut(&mut self, id: ClassId) -> &mut Class {
        self.slab[id.0 as usize]
            .as_mut()
            .expect("chunks refer to live classes")
    }

    /// The class with this key, made by `make` if there is none. A new class is empty until members are added.
    pub(crate) fn find_or_make(
        &mut self,
        key: ClassKey,
        make: impl FnOnce(ClassKey) -> Class,
    ) -> ClassId {
        if let Some(&id) = self.by_key.get(&key) {
            return id;
        }
        let class = make(key.clone());
        let order = (class.interested, !key.resident.is_empty());
        let id = if let Some(id) = self.free.pop() {
            self.slab[id.0 as usize] = Some(class);
            id
        } else {
            self.slab.push(Some(class));
            #[expect(
                clippy::cast_possible_truncation,
                reason = "at most one class per chunk, plus one"
            )]
            ClassId((self.slab.len() - 1) as u32)
        };
        self.by_key.insert(key, id);
        if order.1 {
            &mut self.warm
        } else {
            &mut self.cold
        }
        .insert((order.0, id));
        id
    }

    /// Adds members to a class.
    pub(crate) fn add(&mut self, id: ClassId, chunks: &ChunkSet) {
        let members = &mut self.at_mut(id).members;
        for run in chunks.runs() {
            members.insert_range(run);
        }
    }

    /// Takes members out of a class and drops the class if none is left.
    pub(crate) fn take(&mut self, id: ClassId, chunks: &ChunkSet) {
        let class = self.at_mut(id);
        for run in chunks.runs() {
            class.members.remove_range(run);
        }
        self.drop_if_empty(id);
    }

    /// Moves one chunk.
    pub(crate) fn move_one(&mut self, chunk: ChunkId, from: ClassId, to: ClassId) {
        self.at_mut(to).members.insert(chunk);
        self.at_mut(from).members.remove(chunk);
        self.drop_if_empty(from);
    }

    fn drop_if_empty(&mut self, id: ClassId) {
        let class = self.at(id);
        if class.members.is_empty() {
            let entry = (class.interested, id);
            if class.key.resident.is_empty() {
                &mut self.cold
            } else {
                &mut self.warm
            }
            .remove(&entry);
            if let Some(class) = self.slab[id.0 as usize].take() {
                self.by_key.remove(&class.key);
            }
            self.free.push(id);
        }
    }

    /// Replaces a class's victim columns (they depend on which scans are stalled under `elevator`).
    pub(crate) fn set_victims(&mut self, id: ClassId, victims: ColumnSet) {
        self.at_mut(id).victims = victims;
    }

    /// Every class, in no particular order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.by_key.values().copied()
    }

    /// Every class.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Class> + '_ {
        self.slab.iter().flatten()
    }

    /// Classes without resident columns, most interest first.
    pub(crate) fn cold_descending(&self) -> impl Iterator<Item = &Class> + '_ {
        self.cold.iter().rev().map(|&(_, id)| self.at(id))
    }

    /// Classes with resident columns, least interest first.
    pub(crate) fn warm_ascending(&self) -> impl DoubleEndedIterator<Item = &Class> + '_ {
        self.warm.iter().map(|&(_, id)| self.at(id))
    }
}
