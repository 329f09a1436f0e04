//! What does a chunk cost a class of fragments?
//!
//! Idea: the work of the dearest member is done once; each other member adds its own part.
//! Not here: the members of a job (`run/jobs.rs`).

use crate::scenario::{Fragments, Query};

/// The work of the members of a class on a chunk, if each worked alone.
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

    /// CPU time for all members together.
    pub(crate) fn ns(&self, fragments: Fragments) -> u64 {
        self.dearest_ns + (self.all_ns - self.dearest_ns) * fragments.own_of_1000 / 1_000
    }
}
