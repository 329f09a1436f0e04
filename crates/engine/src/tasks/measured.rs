//! How long did queries with the same plan take?
//!
//! Statistics do not know which chunks are in memory or which results are kept. By statistics
//! alone, a dashboard's query that now takes a millisecond would be expected to take as long as
//! the first time, and would wait among the long queries. The time that it took last is a better
//! estimate.
//! Bounds: two generations of [`GENERATION`] plans, 16 bytes each. A full generation displaces the
//! older one.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use datafusion::logical_expr::LogicalPlan;

/// Plans in each of the two generations.
const GENERATION: usize = 4096;

/// Identifies a plan: equal plans, with equal literals, have equal fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of a plan. Computing it takes time and stack for one walk of the plan.
    #[must_use]
    pub fn of(plan: &LogicalPlan) -> Self {
        let mut hasher = DefaultHasher::new();
        plan.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Processor time of queries, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Measured {
    recent: HashMap<Fingerprint, u64>,
    before: HashMap<Fingerprint, u64>,
}

impl Measured {
    /// The time that the last query with this plan took.
    pub(super) fn get(&self, plan: Fingerprint) -> Option<u64> {
        let found = self.recent.get(&plan).or_else(|| self.before.get(&plan));
        found.copied()
    }

    pub(super) fn set(&mut self, plan: Fingerprint, ns: u64) {
        if self.recent.len() >= GENERATION && !self.recent.contains_key(&plan) {
            self.before = std::mem::take(&mut self.recent);
        }
        self.recent.insert(plan, ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_counts_and_old_ones_go() {
        let mut measured = Measured::default();
        let number = |n: usize| Fingerprint(n as u64);
        measured.set(number(0), 5);
        measured.set(number(0), 7);
        assert_eq!(measured.get(number(0)), Some(7));
        for n in 1..=GENERATION {
            measured.set(number(n), 1);
        }
        assert_eq!(measured.get(number(0)), Some(7), "of the generation before");
        for n in 0..GENERATION {
            measured.set(number(2 * GENERATION + n), 1);
        }
        assert_eq!(measured.get(number(0)), None);
        assert!(measured.recent.len() + measured.before.len() <= 2 * GENERATION);
    }
}
