//! Has a function done something that must not be done twice?
//!
//! What a statement changes appears at its commit point (`commit_point.rs`); until then it can be
//! run again. But an embedder's functions may act while they are computed, as those that take and
//! release advisory locks do. They note that here. A query is not run again
//! (`running/rerun.rs`) if a function of its session has noted something since the query began.
//! Not here: what may be done twice, such as a change of a setting to the same value.
//! A function that acts on another thread while its query fails may be noted too late: each run
//! then acts once.
//! Bounds: a session has one count for all of its queries. At worst a query fails that could have
//! been run again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often the functions of a session have acted: an extension of its configuration.
#[derive(Debug, Default)]
pub struct Effects(AtomicU64);

impl Effects {
    /// Notes that a function has acted.
    pub fn note(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// The effects from now on.
    pub(crate) fn since_now(self: Arc<Self>) -> EffectsSince {
        let seen = self.0.load(Ordering::Acquire);
        EffectsSince { all: self, seen }
    }
}

/// The effects of a session's functions since a query began.
pub(crate) struct EffectsSince {
    all: Arc<Effects>,
    /// The count at that time.
    seen: u64,
}

impl EffectsSince {
    /// Whether there are some.
    pub(crate) fn are_some(&self) -> bool {
        self.all.0.load(Ordering::Acquire) != self.seen
    }
}
