//! How are scores that are fractions compared exactly?
//!
//! By cross-multiplication, in 64 bits if the numbers are small and in 128 bits otherwise. The
//! oracle computes the same scores, so rounding would make the schedulers differ.

/// A score `num / den`, compared exactly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio {
    pub(super) num: u64,
    /// Not 0.
    pub(super) den: u64,
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // A product of two `u32` fits; all but the largest weights are that small.
        let numbers = [self.num, self.den, other.num, other.den];
        if numbers.iter().all(|&n| u32::try_from(n).is_ok()) {
            return (self.num * other.den).cmp(&(other.num * self.den));
        }
        let left = u128::from(self.num) * u128::from(other.den);
        left.cmp(&(u128::from(other.num) * u128::from(self.den)))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ratio {}
