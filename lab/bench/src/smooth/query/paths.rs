//! Which access paths are compared, how is each set up, and what does an index scan as a rival
//! owe to its weakness?
//!
//! The index scan stands twice beside the others. `index` keeps pages that it decoded, in a quarter
//! of the memory, and asks for several at once; `index-plain` reads and decodes the pages of a
//! job's 16 rows for these rows alone, which is the paper's scan without its database's buffer.
//! A smooth scan is judged beside the faster of the two: what it gains over `index-plain` alone is
//! the rival's weakness.

use std::time::Duration;

use crate::table::factor;

/// The access paths, in the paper's order.
pub const PATHS: [&str; 6] = ["full", INDEX_PLAIN, INDEX, "sort", "switch", "smooth"];

/// The index scan that keeps decoded pages.
pub const INDEX: &str = "index";
/// The index scan that keeps none.
pub const INDEX_PLAIN: &str = "index-plain";

/// The part of the memory in which decoded pages are kept, as a divisor: the most that a session
/// may set.
const KEPT_PART: u64 = 4;

/// The settings of a session that finds rows by this path.
pub(crate) fn settings(path: &str, memory_bytes: u64) -> Vec<(&'static str, String)> {
    let (path, kept) = match path {
        INDEX_PLAIN => (INDEX, 0),
        path => (path, kept_bytes(memory_bytes)),
    };
    vec![
        ("access_path", path.to_owned()),
        ("index_cache", kept.to_string()),
    ]
}

/// The bytes of decoded pages that the path `index` keeps.
pub(crate) fn kept_bytes(memory_bytes: u64) -> u64 {
    memory_bytes / KEPT_PART
}

/// The times of both index scans, in seconds; `None` if one was given up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rivals {
    pub(crate) plain: Option<f64>,
    pub(crate) index: Option<f64>,
    limit_s: f64,
}

impl Rivals {
    /// The rivals of a query; `time` is the time of a path.
    pub(crate) fn new(time: impl Fn(&str) -> Option<f64>, limit: Duration) -> Self {
        Self {
            plain: time(INDEX_PLAIN),
            index: time(INDEX),
            limit_s: limit.as_secs_f64(),
        }
    }

    /// The time of the faster one; of scans that were given up, at least the limit.
    pub(crate) fn fastest_s(&self) -> f64 {
        let at_least = |time: Option<f64>| time.unwrap_or(self.limit_s);
        at_least(self.plain).min(at_least(self.index))
    }

    /// How many times faster a scan of `seconds` is than both, in words.
    pub(crate) fn gain(&self, seconds: f64) -> String {
        let over = |time: Option<f64>| match time {
            Some(time) => factor(time / seconds),
            None => format!("over {}", factor(self.limit_s / seconds)),
        };
        let (index, plain) = (over(self.index), over(self.plain));
        let both = format!("{index} over {INDEX}, {plain} over {INDEX_PLAIN}");
        match self.weakness() {
            Some(weakness) => format!("{both}: {} are the rival's weakness", factor(weakness)),
            None => both,
        }
    }

    /// The time of the scan that keeps pages over that of the plain one, or over the limit if that
    /// was given up.
    pub(crate) fn index_over_plain(&self) -> Option<f64> {
        Some(self.index? / self.plain.unwrap_or(self.limit_s))
    }

    /// How many times longer the plain scan takes.
    pub(crate) fn weakness(&self) -> Option<f64> {
        Some(self.plain? / self.index?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rivals(times: &[(&str, f64)]) -> Rivals {
        let time = |path: &str| Some(times.iter().find(|(of, _)| *of == path)?.1);
        Rivals::new(time, Duration::from_secs(30))
    }

    #[test]
    fn the_faster_index_scan_is_the_rival_and_the_rest_is_its_weakness() {
        let both = rivals(&[("index", 4.0), ("index-plain", 12.0)]);
        assert_eq!((both.fastest_s(), both.weakness()), (4.0, Some(3.0)));
        assert_eq!(
            both.gain(2.0),
            "2.00 over index, 6.00 over index-plain: 3.00 are the rival's weakness"
        );
        let one = rivals(&[("index", 4.0)]);
        assert_eq!((one.fastest_s(), one.weakness()), (4.0, None));
        assert_eq!(one.gain(2.0), "2.00 over index, over 15.0 over index-plain");
        let none = rivals(&[]);
        assert!((none.fastest_s() - 30.0).abs() < 1e-9);
        // Keeping pages does not help where each is decoded for one row.
        let worse = rivals(&[("index", 5.0), ("index-plain", 4.0)]);
        assert!((worse.fastest_s() - 4.0).abs() < 1e-9);
    }

    #[test]
    fn only_the_plain_path_keeps_no_page() {
        for path in PATHS {
            let settings = settings(path, 400);
            let kept = if path == INDEX_PLAIN { "0" } else { "100" };
            assert_eq!(settings[1], ("index_cache", kept.to_owned()), "{path}");
            assert!(!settings[0].1.contains('-'), "{path}");
        }
    }
}
