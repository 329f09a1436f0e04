//! Chunks whose bytes are in the same state, grouped.
//!
//! A decision first asks which columns of a chunk are in memory or on their way, and whether
//! someone reads it. Chunks alike in that form a *group*, of which there are few, for columns are
//! wanted in few combinations. Which scans need them differs from chunk to chunk; that is for the
//! group's members (`best_chunk.rs`). Which columns are pinned does so too (`Table::idle`).
//! Source: [CoopScans07 §4, Figure 3]; we differ: the paper counts interest anew for every chunk
//! and decision (§5.2.4).

use std::collections::BTreeMap;

use crate::table::best_chunk::ChunkTree;
use crate::table::interest::Interest;
use crate::{ChunkId, ColumnSet, DeviceId};

/// What makes chunks alike.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ChunkState {
    /// Columns in memory.
    pub(crate) resident: ColumnSet,
    /// Columns in an outstanding load. Disjoint from `resident` (ABM-I1).
    pub(crate) loading: ColumnSet,
    /// Whether someone reads the chunk now.
    pub(crate) pinned: bool,
    /// Queued page requests.
    pub(crate) pages: u32,
    /// Where the chunk is read from.
    pub(crate) device: DeviceId,
}

/// A group: its state, what follows from it, and its members.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) state: ChunkState,
    /// `resident` ∪ `loading`.
    pub(crate) coming: ColumnSet,
    pub(crate) members: ChunkTree,
}

impl Group {
    fn new(state: ChunkState) -> Self {
        Self {
            coming: state.resident.union(&state.loading),
            members: ChunkTree::default(),
            state,
        }
    }

    /// Whether its chunks may be evicted whole.
    pub(crate) fn is_evictable(&self) -> bool {
        self.may_be_idle() && !self.state.pinned
    }

    /// Whether columns of its chunks may be evicted, as far as nobody reads them (ABM-I2).
    pub(crate) fn may_be_idle(&self) -> bool {
        !self.state.resident.is_empty() && self.state.loading.is_empty()
    }
}

/// A group's place in the slab.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct GroupId(u32);

impl GroupId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// All groups of a table.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    slab: Vec<Option<Group>>,
    free: Vec<GroupId>,
    by_state: BTreeMap<ChunkState, GroupId>,
}

impl Groups {
    /// The group of an id that a chunk refers to.
    pub(crate) fn at(&self, id: GroupId) -> &Group {
        self.slab[id.index()]
            .as_ref()
            .expect("chunks refer to live groups")
    }

    fn at_mut(&mut self, id: GroupId) -> &mut Group {
        self.slab[id.index()]
            .as_mut()
            .expect("chunks refer to live groups")
    }

    /// Puts a chunk into the group of its state.
    pub(crate) fn insert(
        &mut self,
        chunk: ChunkId,
        state: ChunkState,
        interest: &Interest,
    ) -> GroupId {
        let id = self.find_or_make(state);
        self.at_mut(id).members.insert(chunk, interest);
        id
    }

    /// Takes a chunk out of its group.
    pub(crate) fn remove(&mut self, chunk: ChunkId, from: GroupId, interest: &Interest) {
        let group = self.at_mut(from);
        group.members.remove(chunk, interest);
        if group.members.len() == 0
            && let Some(group) = self.slab[from.index()].take()
        {
            self.by_state.remove(&group.state);
            self.free.push(from);
        }
    }

    /// A chunk of the group interests a slot no longer.
    pub(crate) fn drop_interest(
        &mut self,
        id: GroupId,
        chunk: ChunkId,
        slot: usize,
        interest: &Interest,
    ) {
        let members = &mut self.at_mut(id).members;
        members.drop_interest(chunk, slot, interest);
    }

    /// The interest of chunks of a group in these blocks changed.
    pub(crate) fn refresh(&mut self, id: GroupId, blocks: &[u32], interest: &Interest) {
        self.at_mut(id).members.refresh(blocks, interest);
    }

    fn find_or_make(&mut self, state: ChunkState) -> GroupId {
        if let Some(&id) = self.by_state.get(&state) {
            return id;
        }
        let group = Some(Group::new(state.clone()));
        let id = if let Some(id) = self.free.pop() {
            self.slab[id.index()] = group;
            id
        } else {
            self.slab.push(group);
            #[expect(
                clippy::cast_possible_truncation,
                reason = "at most one group per chunk, plus one"
            )]
            GroupId((self.slab.len() - 1) as u32)
        };
        self.by_state.insert(state, id);
        id
    }

    /// Every group.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Group> + '_ {
        self.slab.iter().flatten()
    }

    /// What `of` says of each group, by [`GroupId::index`].
    pub(crate) fn map<T>(&self, of: impl Fn(&Group) -> T) -> Vec<Option<T>> {
        self.slab.iter().map(|g| g.as_ref().map(&of)).collect()
    }
}
