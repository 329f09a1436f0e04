//! A random source whose numbers are the same in every version and on every machine, and that is
//! easy to write in another language.
//!
//! `rand` reserves the right to change its standard generator, and a workload is named by its seed
//! in published figures, so the generator is written out here: `SplitMix64` [Steele14].

/// `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence that `seed` stands for.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`, or 0 if `bound` is 0. The bias is at most `bound / 2^64`.
    // The upper half of a 128-bit product fits in 64 bits.
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// The waiting time for the next random event, if there is one event per unit of time on
    /// average.
    pub(crate) fn exponential(&mut self) -> f64 {
        // 53 bits, as many as a float has; never 0.
        let share = ((self.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -share.ln()
    }

    /// One of `items`; None if there are none.
    #[allow(clippy::cast_possible_truncation)] // An index into a slice fits in usize.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_published_test_vector() {
        let mut random = Random::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!([(); 5].map(|()| random.next_u64()), expected);
    }

    #[test]
    fn numbers_stay_below_the_bound_and_reach_all_of_it() {
        let mut random = Random::new(7);
        let mut seen = [0_u32; 5];
        for _ in 0..1000 {
            seen[usize::try_from(random.below(5)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|&n| n > 140), "{seen:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.pick::<u8>(&[]), None);
        let waits: Vec<f64> = (0..10_000).map(|_| random.exponential()).collect();
        let mean = waits.iter().sum::<f64>() / 10_000.0;
        assert!((0.95..1.05).contains(&mean) && waits.iter().all(|wait| *wait >= 0.0));
    }
}
