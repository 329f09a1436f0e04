//! Mean and percentiles over seeds.

/// A figure over the seeds of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) p05: f64,
    pub(crate) p95: f64,
}

impl Spread {
    /// The spread of these values; all zero if there are none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self {
            mean: mean(values.iter().copied()),
            p05: percentile(&values, 5),
            p95: percentile(&values, 95),
        }
    }

    /// Whether a single observation lies between the 5th and 95th percentile, widened by this share
    /// on both sides.
    pub(crate) fn admits(&self, value: f64, share: f64) -> bool {
        value >= self.p05 * (1.0 - share) && value <= self.p95 * (1.0 + share)
    }
}

pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// The nearest-rank percentile of ascending values: the smallest value such that at least `percent`
/// of all are at most as large; 0 if there are none.
#[must_use]
pub fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_values() {
        let spread = Spread::of((1..=100).rev().map(f64::from));
        let expected = Spread {
            mean: 50.5,
            p05: 5.0,
            p95: 95.0,
        };
        assert_eq!(spread, expected);
        assert!(spread.admits(4.3, 0.15) && !spread.admits(4.2, 0.15));
        assert!(spread.admits(109.0, 0.15) && !spread.admits(110.0, 0.15));
    }

    #[test]
    fn few_values() {
        assert_eq!(Spread::of([]), Spread::default());
        let one = Spread::of([3.0]);
        assert_eq!((one.mean, one.p05, one.p95), (3.0, 3.0, 3.0));
    }
}
