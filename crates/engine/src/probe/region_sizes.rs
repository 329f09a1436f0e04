//! How large were the regions of a smooth scan, in order? EXPLAIN ANALYZE shows it.
//!
//! Consecutive regions of one size form a run. Only the first and the last runs are shown, as in
//! `1×12 2×4 4 … 64×30`, so the text is short however long the scan is.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::metrics::CustomMetricValue;
use parking_lot::Mutex;

/// Sizes in pages, in the order in which the regions were started.
#[derive(Debug, Default)]
pub(super) struct RegionSizes(Mutex<Runs>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Runs {
    first: Vec<Run>,
    /// Whether there were more runs between the first and the last ones.
    cut: bool,
    last: VecDeque<Run>,
}

/// Consecutive regions of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    pages: u32,
    regions: u32,
}

/// The runs that are shown from the start, and from the end.
const FIRST: usize = 12;
const LAST: usize = 8;

impl RegionSizes {
    /// Adds a region of `pages` pages that was started.
    pub(super) fn add(&self, pages: u32) {
        self.0.lock().add(Run { pages, regions: 1 });
    }
}

impl Runs {
    fn add(&mut self, run: Run) {
        let latest = self.last.back_mut().or(self.first.last_mut());
        if let Some(latest) = latest
            && latest.pages == run.pages
        {
            latest.regions += run.regions;
        } else if self.first.len() < FIRST {
            self.first.push(run);
        } else {
            self.last.push_back(run);
            if self.last.len() > LAST {
                self.last.pop_front();
                self.cut = true;
            }
        }
    }
}

impl fmt::Display for RegionSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.lock();
        let show = |run: &Run| match run.regions {
            1 => run.pages.to_string(),
            regions => format!("{}×{regions}", run.pages),
        };
        let mut shown: Vec<String> = runs.first.iter().map(show).collect();
        shown.extend(runs.cut.then(|| "…".to_owned()));
        shown.extend(runs.last.iter().map(show));
        f.write_str(&shown.join(" "))
    }
}

impl CustomMetricValue for RegionSizes {
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(Self::default())
    }

    fn aggregate(&self, other: Arc<dyn CustomMetricValue>) {
        let Some(other) = other.as_any().downcast_ref::<Self>() else {
            return;
        };
        let other = other.0.lock().clone();
        let mut runs = self.0.lock();
        runs.cut |= other.cut;
        for run in other.first.into_iter().chain(other.last) {
            runs.add(run);
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        let other = other.as_any().downcast_ref::<Self>();
        other.is_some_and(|other| *self.0.lock() == other.0.lock().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_shown_and_long_histories_are_cut() {
        let sizes = RegionSizes::default();
        assert_eq!(sizes.to_string(), "");
        for pages in [1, 1, 1, 2, 4, 4] {
            sizes.add(pages);
        }
        assert_eq!(sizes.to_string(), "1×3 2 4×2");
        for pages in 0..100 {
            sizes.add(10 + pages);
        }
        assert_eq!(
            sizes.to_string(),
            "1×3 2 4×2 10 11 12 13 14 15 16 17 18 … 102 103 104 105 106 107 108 109"
        );
        let copy = sizes.new_empty();
        let whole: Arc<dyn CustomMetricValue> = Arc::new(sizes);
        copy.aggregate(Arc::clone(&whole));
        assert_eq!(copy.to_string(), whole.to_string());
        assert!(copy.is_eq(&whole));
    }
}
