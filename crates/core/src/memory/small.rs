//! Which part of the memory is for small queries?
//!
//! Idea: large queries take all the memory there is, and may hold it for long: they wait for each
//! other, for rows, for clients. A small one would wait for them although it needs next to nothing
//! for a moment. So a part of the memory is for small queries, those with at most an eighth of that
//! part, be it what they have or what they arrived with. A query that grows no longer counts among
//! them. Where a query is alone the whole memory is its own; long statements of connections leave
//! the part free in any case.
//! Bounds: one step per query where memory is short, otherwise none.
//! MEM-I9.

use super::{Memory, Query};

/// A query is small up to this part (a divisor) of what is for small ones.
const SMALL: u64 = 8;

/// The bytes that queries may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// All that is neither taken nor promised.
    pub(super) all: u64,
    /// The part of `all` that only small queries get.
    pub(super) for_small: u64,
}

impl Room {
    /// The part for a query with `size` bytes in all.
    pub(super) fn of(self, size: u64, small_max: u64) -> u64 {
        if size <= small_max {
            self.all
        } else {
            self.all - self.for_small
        }
    }

    /// Whether there is more for some query than in `before`.
    pub(super) fn exceeds(self, before: Self) -> bool {
        let large = |room: Self| room.of(u64::MAX, 0);
        self.all > before.all || large(self) > large(before) || self.for_small > before.for_small
    }
}

impl Query {
    /// What it has or arrived with, in bytes.
    fn size(&self) -> u64 {
        self.keeps().max(self.wanted)
    }
}

impl Memory {
    /// The most bytes of a small query.
    pub(super) fn small_max(&self) -> u64 {
        self.config.for_small / SMALL
    }

    /// The room for queries that wait.
    pub(super) fn query_room(&self) -> Room {
        self.room_beside(None)
    }

    /// Whether a query may have `more` bytes than are kept for it, and leaves `free` bytes.
    pub(super) fn may_have(&self, query: &Query, more: u64, free: u64) -> bool {
        let bytes = more.saturating_add(free);
        if self.fits(bytes.saturating_add(self.config.for_small)) {
            return true;
        }
        let size = query.size().max(query.keeps().saturating_add(more));
        self.fits(bytes) && bytes <= self.room_beside(Some(query)).of(size, self.small_max())
    }

    /// `own`: a query that asks; it counts as one that will not be small.
    fn room_beside(&self, own: Option<&Query>) -> Room {
        let all = self.ceiling().saturating_sub(self.fixed());
        let is_alone = self.queries.len() + self.waiting.len() <= 1;
        let for_small = if is_alone {
            0
        } else {
            self.left_for_small(own)
        };
        Room {
            all,
            for_small: for_small.min(all),
        }
    }

    /// What is for small queries, less what those keep that are there, without `own`.
    pub(super) fn left_for_small(&self, own: Option<&Query>) -> u64 {
        let small_max = self.small_max();
        let small = |query: &&Query| query.size() <= small_max;
        let theirs: u64 = self.queries.values().filter(small).map(Query::keeps).sum();
        let own = own.filter(small).map_or(0, Query::keeps);
        self.config.for_small.saturating_sub(theirs - own)
    }
}
