//! The outcome of a run of a shared-disk system.

/// The outcome of the queries of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassOutcome {
    /// (arrival, response time) of the measured queries, in the order in which they ended.
    /// Nanoseconds.
    pub responses: Vec<(u64, u64)>,
}

impl ClassOutcome {
    /// Mean response time, seconds; 0 if none was measured.
    #[must_use]
    pub fn mean_s(&self) -> f64 {
        let sum: u64 = self.responses.iter().map(|&(_, took)| took).sum();
        sum as f64 / 1e9 / self.responses.len().max(1) as f64
    }

    /// The 95th percentile of the response time, seconds.
    #[must_use]
    pub fn p95_s(&self) -> f64 {
        let mut took: Vec<u64> = self.responses.iter().map(|&(_, took)| took).collect();
        took.sort_unstable();
        let rank = (took.len() * 95).div_ceil(100).max(1);
        took.get(rank - 1).map_or(0.0, |&ns| ns as f64 / 1e9)
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// By class.
    pub classes: Vec<ClassOutcome>,
    /// Whether the load was sustained: the number of queries in the system always stayed below the
    /// extent's limit.
    pub sustained: bool,
    /// Share of the measured time in which arms worked, mean of all disks in use.
    pub disk_utilisation: f64,
    /// Share of the measured time in which processors worked.
    pub processor_utilisation: f64,
    /// Reads of arms in the measured time.
    pub reads: u64,
    /// Pages that these reads brought.
    pub pages_read: u64,
    /// The measured time. Nanoseconds.
    pub measured_ns: u64,
    /// Events handled, also outside of the measured time.
    pub events: u64,
}
