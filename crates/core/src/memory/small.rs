//! Which part of the memory is for small queries?
//!
//! Idea: large queries take all the memory there is, and may hold it for long: they wait for each
//! other, for rows, for clients. A small one would wait for them although it needs next to nothing
//! for a moment. So a part of the memory is for small queries, those with at most a quarter of that
//! part, be it what they have or what they arrived with. A query that grows no longer counts among
//! them. What others ask for leaves the part free: queries, their minima, long statements, chunks
//! in work. What is taken without a request may not (results on their way, arrays with readers,
//! short statements). Small queries get their part all the same, so that more than the ceiling may
//! be taken, by the part at most.
//! MEM-I9.

use super::{Memory, Query};

/// A query is small up to this part (a divisor) of what is for small ones.
const SMALL: u64 = 4;

/// The bytes that a query may take that arrives now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// Of all that is neither taken nor promised nor for small queries.
    pub(super) for_large: u64,
    /// Of what is for small queries.
    pub(super) for_small: u64,
    /// The most bytes of a small query.
    small_max: u64,
}

impl Room {
    /// The room for a query that arrives with a minimum.
    pub(super) fn of(self, minimum: u64) -> u64 {
        if minimum <= self.small_max {
            self.for_large.max(self.for_small)
        } else {
            self.for_large
        }
    }

    /// Whether a query with this minimum begins in what is for small ones.
    pub(super) fn is_for(self, minimum: u64) -> bool {
        minimum <= self.small_max.min(self.for_small)
    }

    /// Whether there is more for some query than in `before`.
    pub(super) fn exceeds(self, before: Self) -> bool {
        self.for_large > before.for_large || self.for_small > before.for_small
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

    /// The bytes that are free for a query that is not small.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.room_for_queries().for_large
    }

    /// Whether this many bytes are free for a query that is not small.
    #[must_use]
    pub fn has_room(&self, bytes: u64) -> bool {
        bytes <= self.free()
    }

    /// The room for queries that wait.
    pub(super) fn room_for_queries(&self) -> Room {
        let for_small = self.left_for_small();
        let free = self.ceiling().saturating_sub(self.fixed());
        Room {
            for_large: free.saturating_sub(for_small),
            for_small,
            small_max: self.small_max(),
        }
    }

    /// What is for small queries, less what those keep.
    pub(super) fn left_for_small(&self) -> u64 {
        self.config.for_small.saturating_sub(self.sums.small)
    }

    /// Whether a query that gets `more` bytes than are kept for it is small even so, and there is
    /// that much for small ones.
    pub(super) fn has_part(&self, query: &Query, more: u64) -> bool {
        let grown = query.keeps().saturating_add(more);
        let theirs = self.sums.small.saturating_add(more);
        grown.max(query.wanted) <= self.small_max() && theirs <= self.config.for_small
    }

    /// Whether `more` bytes than are kept for a query fit beside all that is fixed and what is for
    /// small queries, when it is none.
    pub(super) fn fits_beside_small(&self, query: &Query, more: u64) -> bool {
        let own = query.keeps_as_small(self.small_max());
        let others = self.sums.small - own;
        let left = self.config.for_small.saturating_sub(others);
        self.fits(more.saturating_add(left))
    }
}
