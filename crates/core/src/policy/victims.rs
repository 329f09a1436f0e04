//! Which segments may be evicted? The eviction rules that policies share.
//!
//! ABM-I2: pinned segments and chunks with an outstanding load are never victims.
//! Source: [CoopScans07 §4 findFreeSlot, §6.2 "finding space for a chunk"].

use smallvec::SmallVec;

use crate::bits::Bits;
use crate::policy::in_order::{TakenBefore, first_missing};
use crate::state::{LoadChoice, State};
use crate::table::Table;
use crate::table::groups::Group;
use crate::{ChunkId, ColumnId, ColumnSet, TableId};

/// Segments of one chunk that are evicted together.
#[derive(Debug)]
pub(crate) struct Victim {
    pub(crate) table: TableId,
    pub(crate) chunk: ChunkId,
    pub(crate) columns: ColumnSet,
}

impl Victim {
    /// One segment.
    pub(super) fn segment(table: TableId, chunk: ChunkId, column: ColumnId) -> Self {
        Self {
            table,
            chunk,
            columns: [column].into_iter().collect(),
        }
    }

    /// All resident segments of a chunk.
    pub(super) fn whole(state: &State, table: TableId, chunk: ChunkId) -> Self {
        let columns = state.table(table).group(chunk).state.resident.clone();
        Self {
            table,
            chunk,
            columns,
        }
    }
}

/// Which chunks of a group must not be evicted.
#[derive(Debug, Default)]
pub(super) struct Protection {
    /// Protects chunks that one of these slots needs.
    pub(super) slots: Bits,
    /// Protects chunks that the slot needs and that are lower than the given chunk.
    frontiers: SmallVec<[(usize, ChunkId); 4]>,
}

impl Protection {
    pub(super) fn covers(&self, chunk: ChunkId, interest: &Bits) -> bool {
        let mut frontiers = self.frontiers.iter();
        interest.intersects(&self.slots)
            || frontiers.any(|&(slot, end)| chunk < end && interest.contains(slot))
    }
}

/// The least recently used of the segments that may be evicted one by one, except segments of the
/// chunk to be loaded and of the chunks that the load's scan takes before it.
pub(super) fn least_recently_used(state: &State, load: Option<&LoadChoice>) -> Option<Victim> {
    let spared = load.map(|load| TakenBefore::of(state, load));
    least_recent_segment(state, |table, chunk, _| {
        let spared = spared.as_ref();
        spared.is_some_and(|spared| spared.contains(table, chunk))
    })
}

/// The least recently used of the segments that no scan wants, except the segments to be loaded.
pub(super) fn garbage(state: &State, load: Option<&LoadChoice>) -> Option<Victim> {
    least_recent_segment(state, |table, chunk, column| {
        let load = load.filter(|load| load.table == table && load.chunk == chunk);
        load.is_some_and(|load| load.columns.contains(column))
    })
}

fn least_recent_segment(
    state: &State,
    spared: impl Fn(TableId, ChunkId, ColumnId) -> bool,
) -> Option<Victim> {
    let firsts = state.tables.values().filter_map(|table| {
        let mut victims = table.victims.iter();
        let &(seq, chunk, column) = victims.find(|v| !spared(table.id, v.1, v.2))?;
        Some((seq, table.id, chunk, column))
    });
    let (_, table, chunk, column) = firsts.min()?;
    Some(Victim::segment(table, chunk, column))
}

/// The least recently used evictable chunk that `protection` does not cover.
pub(super) fn least_recent_chunk(
    state: &State,
    load: Option<&LoadChoice>,
    protection: impl Fn(&Table, &Group) -> Protection,
) -> Option<Victim> {
    let chunks = evictable_groups(state).flat_map(|(table, group)| {
        let spared = protection(table, group);
        let members = group.members.iter();
        let free = members.filter(move |&c| !spared.covers(c, table.interest(c)));
        free.map(move |chunk| (table.last_use_of(chunk), table.id, chunk))
    });
    let free = chunks.filter(|&(_, t, c)| load.is_none_or(|l| (l.table, l.chunk) != (t, c)));
    let (_, table, chunk) = free.min()?;
    Some(Victim::whole(state, table, chunk))
}

/// Protects the chunks that are usable for the given slots. The columns of these slots are all
/// resident.
pub(super) fn protected(state: &State, table: &Table, ready: &Bits) -> Protection {
    let in_order = ready.intersection(&table.sequential);
    let frontier = |slot| {
        (
            slot,
            first_missing(state, state.scan(table.slot(slot).scan)),
        )
    };
    Protection {
        slots: ready.difference(&table.sequential),
        frontiers: in_order.iter().map(frontier).collect(),
    }
}

fn evictable_groups(state: &State) -> impl Iterator<Item = (&Table, &Group)> {
    state.tables.values().flat_map(|table| {
        let groups = table.groups.iter().filter(|group| group.is_evictable());
        groups.map(move |group| (table, group))
    })
}
