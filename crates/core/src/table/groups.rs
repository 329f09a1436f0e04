//! Which chunks of a table have their bytes in the same state?
//!
//! A decision first asks which columns of a chunk are resident or loading, and whether the chunk
//! is pinned. Chunks that are alike in this form a *group*; there are few groups, because scans
//! want few combinations of columns. The scans that need a chunk differ from chunk to chunk; the
//! group's members record them (`best_chunk.rs`). The pinned columns differ too (`Table::idle`).
//! Source: [CoopScans07 §4, Figure 3]; we differ: the paper recounts interest for every chunk and
//! decision (§5.2.4).

use std::collections::BTreeMap;

use crate::table::best_chunk::ChunkTree;
use crate::table::interest::Interest;
use crate::{ChunkId, ColumnSet, DeviceId};

/// The state in which the chunks of a group are alike.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ChunkState {
    /// Resident columns.
    pub(crate) resident: ColumnSet,
    /// Columns in an outstanding load. Disjoint from `resident` (ABM-I1).
    pub(crate) loading: ColumnSet,
    /// Whether the chunk is pinned.
    pub(crate) pinned: bool,
    /// Queued page requests.
    pub(crate) pages: u32,
    /// The device of the chunk.
    pub(crate) device: DeviceId,
}

/// A group: its state, derived values, and its members.
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

    /// Whether the chunks of the group may be evicted whole.
    pub(crate) fn is_evictable(&self) -> bool {
        self.may_be_idle() && !self.state.pinned
    }

    /// Whether columns of the group's chunks may be evicted, as far as they are not pinned
    /// (ABM-I2).
    pub(crate) fn may_be_idle(&self) -> bool {
        !self.state.resident.is_empty() && self.state.loading.is_empty()
    }
}

/// The position of a group in the slab.
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
    /// The group with an id that a chunk refers to.
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

    /// Removes a chunk from its group.
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

    /// A slot's interest in a chunk of the group has ended.
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

    /// The interest in chunks of the group in these blocks has changed.
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

    /// The value of `of` for each group, by [`GroupId::index`].
    pub(crate) fn map<T>(&self, of: impl Fn(&Group) -> T) -> Vec<Option<T>> {
        self.slab.iter().map(|g| g.as_ref().map(&of)).collect()
    }
}
