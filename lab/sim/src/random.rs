//! Random numbers that a seed fixes, on every machine.
//!
//! Idea: splitmix64 for bits, and integers only, so that results do not depend on any library's
//! logarithm.
//! Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (2014); von
//! Neumann's comparison method for exponential variates (1951).

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, uniform up to a bias of `n` in 2^64.
    ///
    /// # Panics
    /// `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    /// Shuffles the items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            #[expect(clippy::cast_possible_truncation, reason = "at most `at`")]
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
    }

    /// An exponential variate with this mean.
    ///
    /// The whole part is the number of failed attempts (each fails with probability 1/e). The
    /// fraction is the first number of the successful attempt's falling run, which has odd length.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let mut whole: u64 = 0;
        loop {
            let fraction = self.bits();
            let (mut last, mut length) = (fraction, 1);
            loop {
                let next = self.bits();
                if next >= last {
                    break;
                }
                last = next;
                length += 1;
            }
            if length % 2 == 1 {
                let part = (u128::from(mean) * u128::from(fraction)) >> 64;
                let part = u64::try_from(part).unwrap_or(u64::MAX);
                return whole.saturating_mul(mean).saturating_add(part);
            }
            whole += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_variates_have_the_moments_they_should() {
        let mut random = Random::new(1);
        let drawn: Vec<f64> = (0..100_000)
            .map(|_| random.exponential(1_000_000) as f64 / 1e6)
            .collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let square = drawn.iter().map(|x| x * x).sum::<f64>() / drawn.len() as f64;
        let beyond_three = drawn.iter().filter(|&&x| x > 3.0).count() as f64 / drawn.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        assert!((square - 2.0).abs() < 0.08, "{square}");
        assert!((beyond_three - (-3.0_f64).exp()).abs() < 0.003);
    }

    #[test]
    fn a_seed_fixes_the_sequence() {
        let first: Vec<u64> = (0..3).map(|_| Random::new(0).bits()).collect();
        // The reference value of splitmix64 for seed 0.
        assert_eq!(first, [0xE220_A839_7B1D_CDAF; 3]);
    }

    #[test]
    fn a_shuffle_keeps_the_items() {
        let mut items: Vec<u32> = (0..100).collect();
        Random::new(5).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
