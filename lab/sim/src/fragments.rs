//! What does a chunk cost a class of fragments?
//!
//! Idea: the dearest member's work is done once; each other member adds what is its own.
//! Not here: who joins a job (`run/jobs.rs`).

use crate::scenario::{Fragments, Query};

/// What the members of a class would do with a chunk, each alone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassWork {
    dearest_ns: u64,
    all_ns: u64,
}

impl ClassWork {
    pub(crate) fn add(&mut self, member: &Query) {
        self.dearest_ns = self.dearest_ns.max(member.cpu_ns_per_chunk);
        self.all_ns += member.cpu_ns_per_chunk;
    }

    /// CPU time for all of them together.
    pub(crate) fn ns(&self, fragments: Fragments) -> u64 {
        self.dearest_ns + (self.all_ns - self.dearest_ns) * fragments.own_of_1000 / 1_000
    }
}
