//! Pseudo-random numbers, the same for the same seed.

/// A linear congruential generator with Knuth's multiplier (MMIX); the low bits are not used.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    /// A number below `end`, from 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
