//! What does a query wait for, and why does it run once more?
//!
//! A query that is admitted late, or runs again, is several queries for the core, each with a
//! memory of its own (`pool.rs`). A record stays with the query over all of them. It is written
//! when a run begins, and when a wait does. Bytes are the core's, asked for when somebody looks.
//! Not here: the queries of a session (`session/open_queries.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coscan_core::memory::Standing;
use coscan_core::tasks::QueryId;
use coscan_storage::pool::MemoryBudget;
use parking_lot::Mutex;

/// What a query waits for before it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Memory for what its plan needs at least, or needed when it was refused.
    MemoryAdmission,
    /// Memory that one of its operators asked for, and that others are giving back.
    MemoryReclaim,
}

impl Wait {
    /// Its name, as in `pg_stat_activity.wait_event`.
    #[must_use]
    pub fn event(self) -> &'static str {
        match self {
            Self::MemoryAdmission => "MemoryAdmission",
            Self::MemoryReclaim => "MemoryReclaim",
        }
    }
}

/// Why a query runs once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// One of its operators found no memory.
    Refused,
    /// It was ended because `coscan.memory` was lowered, or memory had been taken without asking.
    Ended,
    /// A node of its cluster was lost.
    NodeLost,
}

impl Cause {
    /// As `coscan.queries` shows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Refused => "memory refused",
            Self::Ended => "memory taken back",
            Self::NodeLost => "node lost",
        }
    }
}

/// A query's memory at the time when somebody looks, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) held: u64,
    /// Kept for it beyond that.
    pub(crate) promised: u64,
    /// What it waits for.
    pub(crate) awaited: u64,
    pub(crate) wait: Option<Wait>,
    /// For how long it has waited to be admitted.
    pub(crate) waited: Option<Duration>,
    /// How often it has been run again.
    pub(crate) reruns: u64,
    /// Why it was the last time.
    pub(crate) cause: Option<Cause>,
}

/// See the file's header.
pub(crate) struct Record {
    budget: Arc<MemoryBudget>,
    /// The core's query that runs.
    runs: AtomicU64,
    /// The core's query that waits, or waited last. Numbers are never used twice, so the core says
    /// which of the two is meant.
    waits: AtomicU64,
    again: Mutex<(u64, Option<Cause>)>,
}

/// No query of the core.
const NONE: u64 = u64::MAX;

impl Record {
    pub(super) fn new(budget: &Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            runs: AtomicU64::new(NONE),
            waits: AtomicU64::new(NONE),
            again: Mutex::default(),
        })
    }

    /// The query runs as `query` now.
    pub(super) fn runs_as(&self, query: QueryId) {
        self.runs.store(query.0, Ordering::Relaxed);
    }

    /// The query waits as `query` now.
    pub(super) fn waits_as(&self, query: QueryId) {
        self.waits.store(query.0, Ordering::Relaxed);
    }

    /// The query is to run once more.
    pub(crate) fn runs_again(&self, cause: Cause) {
        let mut again = self.again.lock();
        *again = (again.0 + 1, Some(cause));
    }

    pub(crate) fn look(&self) -> Look {
        let (reruns, cause) = *self.again.lock();
        let mut look = Look {
            reruns,
            cause,
            ..Look::default()
        };
        if let Some(Standing::Runs { held, aside, asks }) = self.standing(&self.runs) {
            (look.held, look.promised, look.awaited) = (held, aside, asks);
            look.wait = (asks > 0).then_some(Wait::MemoryReclaim);
        }
        if let Some(Standing::Waits { minimum, since }) = self.standing(&self.waits) {
            look.awaited = minimum;
            look.wait = Some(Wait::MemoryAdmission);
            look.waited = Some(self.budget.since(since));
        }
        look
    }

    fn standing(&self, query: &AtomicU64) -> Option<Standing> {
        let query = QueryId(query.load(Ordering::Relaxed));
        self.budget.standing(query)
    }
}
