//! How is the memory used? For messages, metrics and tests.

use super::{HolderId, Memory};
use crate::ids::Time;
use crate::tasks::QueryId;

/// The uncounted memory of the process is charged up to this part of the limit (a divisor): ending
/// queries does not reduce it, and with no memory left no query could run.
const UNACCOUNTED: u64 = 2;

/// How the memory is used, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that the process may take.
    pub limit: u64,
    /// The part of it that queries never get.
    pub reserve: u64,
    /// Bytes that operators hold.
    pub operators: u64,
    /// Bytes kept for queries beyond those that operators hold.
    pub aside: u64,
    /// Estimates of the open scratches.
    pub scratch: u64,
    /// Bytes that the process takes beyond all counts.
    pub unaccounted: u64,
    /// The bytes of each holder.
    pub holders: Vec<(HolderId, u64)>,
    /// Admitted queries.
    pub queries: usize,
    /// Queries that wait for admission.
    pub waiting: usize,
}

/// What a query has, and what it waits for, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It waits for admission.
    Waits {
        /// Its minimum.
        minimum: u64,
        /// When it arrived.
        since: Time,
    },
    /// It was admitted.
    Runs {
        /// What its operators hold.
        held: u64,
        /// What is kept for it beyond that: it was promised, or given back a moment ago.
        aside: u64,
        /// What its operators wait for while holders give it back.
        asks: u64,
    },
}

impl Memory {
    /// What a query has, and what it waits for; `None` for one that is unknown or has ended. Takes
    /// time in proportion to the queries that wait.
    #[must_use]
    pub fn standing(&self, id: QueryId) -> Option<Standing> {
        if let Some(query) = self.queries.get(&id) {
            return Some(Standing::Runs {
                held: query.held,
                aside: query.aside(),
                asks: query.asks,
            });
        }
        let one = self.waiting.iter().find(|one| one.query == id)?;
        Some(Standing::Waits {
            minimum: one.minimum,
            since: one.since,
        })
    }

    /// Reports how the memory is used.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let holders = self.holders.iter();
        Usage {
            limit: self.config.limit,
            reserve: self.config.reserve,
            operators: self.sums.operators,
            aside: self.sums.aside,
            scratch: self.sums.scratch,
            unaccounted: self.unaccounted,
            holders: holders.map(|(id, holder)| (*id, holder.bytes)).collect(),
            queries: self.queries.len(),
            waiting: self.waiting.len(),
        }
    }

    /// What the process may take.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.config.limit
    }

    /// What operators hold, and what is kept for queries beyond that.
    #[must_use]
    pub fn of_queries(&self) -> u64 {
        self.sums.operators + self.sums.aside
    }

    /// The bytes that everything but the reserve may take.
    pub(super) fn ceiling(&self) -> u64 {
        self.config.limit.saturating_sub(self.config.reserve)
    }

    /// The bytes that cannot be dropped.
    pub(super) fn taken(&self) -> u64 {
        let sums = &self.sums;
        let connections = sums.connections.saturating_sub(self.config.reserve);
        let of_queries = sums.operators + sums.asking + sums.scratch;
        of_queries + sums.kept + connections + self.unaccounted_taken()
    }

    fn unaccounted_taken(&self) -> u64 {
        self.unaccounted.min(self.config.limit / UNACCOUNTED)
    }

    /// The bytes that cannot be dropped, and those that queries are promised.
    pub(super) fn fixed(&self) -> u64 {
        self.taken() + self.sums.aside
    }

    /// Whether `bytes` bytes fit below the ceiling beside what is fixed.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.fixed().saturating_add(bytes) <= self.ceiling()
    }
}
