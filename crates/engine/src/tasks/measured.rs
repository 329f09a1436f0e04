//! What did queries of the same plan take?
//!
//! Statistics know neither which chunks are in memory nor which results are kept, so a dashboard's
//! query that takes a millisecond would be expected to take as long as the first time, and would
//! wait among the long ones. What it took last time is the better guess.
//! Bounds: two generations of [`GENERATION`] plans, 16 bytes each. A full one displaces the older
//! one.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use datafusion::logical_expr::LogicalPlan;

/// Plans that are remembered, in each of two generations.
const GENERATION: usize = 4096;

/// Stands for a plan: equal plans have equal fingerprints, with the values of their literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of a plan. Takes as long as going through it, and as much stack.
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
    /// What the last query of this plan took.
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
