//! Which part of the memory is for small queries?
//!
//! Idea: large queries take all the memory there is, and may hold it for long: they wait for each
//! other, for rows, for clients. A small one would wait for them although it needs next to nothing
//! for a moment. So a part of the memory is for small queries, those with at most a quarter of that
//! part, be it what they have or what they arrived with. A query that grows no longer counts among
//! them. Requests of other queries, their minima and long statements leave the part free. What is
//! taken without a request does not (results on their way, arrays with readers, floors).
//! MEM-I9.

use super::{Memory, Query};

/// A query is small up to this part (a divisor) of what is for small ones.
const SMALL: u64 = 4;

/// The bytes that queries may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// All that is neither taken nor promised.
    pub(super) all: u64,
    /// The part of `all` that only small queries get.
    pub(super) for_small: u64,
    /// The most bytes of a small query.
    small_max: u64,
}

impl Room {
    /// The part for a query with `size` bytes in all.
    pub(super) fn of(self, size: u64) -> u64 {
        if size <= self.small_max {
            self.all
        } else {
            self.for_large()
        }
    }

    pub(super) fn for_large(self) -> u64 {
        self.all - self.for_small
    }

    /// Whether a query with this minimum fits into what is for small ones.
    pub(super) fn is_for(self, minimum: u64) -> bool {
        minimum <= self.small_max.min(self.for_small)
    }

    /// Whether there is more for some query than in `before`.
    pub(super) fn exceeds(self, before: Self) -> bool {
        self.all > before.all
            || self.for_large() > before.for_large()
            || self.for_small > before.for_small
    }
}

impl Query {
    /// What it has or arrived with, in bytes.
    pub(super) fn size(&self) -> u64 {
        self.keeps().max(self.wanted)
    }

    /// What it keeps of the memory for small queries, which have at most `small_max` bytes.
    pub(super) fn keeps_as_small(&self, small_max: u64) -> u64 {
        if self.size() <= small_max {
            self.keeps()
        } else {
            0
        }
    }
}

impl Memory {
    /// The most bytes of a small query.
    #[must_use]
    pub fn small_max(&self) -> u64 {
        self.config.for_small / SMALL
    }

    /// Whether a query that is not small may have this many bytes that are kept for nobody.
    #[must_use]
    pub fn has_room(&self, bytes: u64) -> bool {
        bytes <= self.room_for_queries().for_large()
    }

    /// The room for queries that wait.
    pub(super) fn room_for_queries(&self) -> Room {
        self.room_beside(0)
    }

    /// Whether a query may have `more` bytes than are kept for it, and leaves `free` bytes.
    pub(super) fn may_have(&self, query: &Query, more: u64, free: u64) -> bool {
        let size = query.size().max(query.keeps().saturating_add(more));
        // One that grows leaves what it had of the part to others.
        let room = self.room_beside(query.keeps_as_small(self.small_max()));
        let bytes = more.saturating_add(free);
        self.fits(bytes) && bytes <= room.of(size)
    }

    /// What is for small queries, less what those have.
    pub(super) fn left_for_small(&self) -> u64 {
        self.config.for_small.saturating_sub(self.sums.small)
    }

    /// `own`: the bytes of a small query that do not count as its.
    fn room_beside(&self, own: u64) -> Room {
        let all = self.ceiling().saturating_sub(self.fixed());
        let left = self.config.for_small.saturating_sub(self.sums.small - own);
        Room {
            all,
            for_small: left.min(all),
            small_max: self.small_max(),
        }
    }
}
