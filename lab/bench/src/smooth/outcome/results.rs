//! The results of one run of the micro-benchmark, in the form in which they are kept.
//!
//! Idea: the JSON file is the interface, as in [`crate::results`]. Units: seconds, bytes; a
//! selectivity is in percent.

use serde::{Deserialize, Serialize};

use crate::smooth::picture::Picture;
use crate::smooth::query::paths::PATHS;

/// One run: every selectivity by every access path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SmoothResults {
    /// Rows of the table.
    pub rows: u64,
    /// Rows of a page.
    pub page_rows: u64,
    /// `plain` (the machine's own) or `disk` (a jump costs nine pages in sequence).
    pub device: String,
    /// What was measured, in the order of [`SmoothResults::point`]'s arguments.
    pub points: Vec<Point>,
    /// The seed of the table's values.
    pub seed: u64,
    /// Bytes of the table's file.
    pub table_bytes: u64,
    /// The table's pages: runs of rows.
    pub pages: u64,
    /// Mean bytes of a page over all columns.
    pub page_bytes: u64,
    /// The device's limit in bytes per second; none if it had no limit.
    pub bandwidth: Option<u64>,
    /// Seconds added to each request.
    pub latency_s: f64,
    /// Bytes of the engine's memory.
    pub memory_bytes: u64,
    /// Seconds after which a query is given up.
    pub limit_s: f64,
    /// The machine.
    pub machine: Machine,
    /// The accesses of the picture, if one was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<Picture>,
}

/// One query by one access path, from an empty buffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Rows in the result, in percent of the table's.
    pub selectivity: f64,
    /// Whether the query has ORDER BY the key.
    pub order_by: bool,
    /// As in [`PATHS`].
    pub path: String,
    /// From the query's text to its last row: the median of the repeats. None if it was given up or
    /// failed.
    pub time_s: Option<f64>,
    /// Pages read by an index. This and the other figures are of the repeat whose time is
    /// `time_s`.
    pub pages_read: u64,
    /// Requests to devices, including those for the index file.
    pub requests: u64,
    /// Bytes that devices delivered.
    pub bytes: u64,
    /// Rows of the result; if the query did not end, the rows until then.
    pub rows: u64,
    /// Whether it was given up because it took too long.
    pub limit: bool,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// The shortest repeat.
    pub min_s: Option<f64>,
    /// The longest repeat.
    pub max_s: Option<f64>,
    /// How often it was measured.
    pub repeats: usize,
}

/// What the figures were measured on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// CPUs that the process could use.
    pub cores: usize,
    /// The CPU's model, if the system reports one.
    pub cpu: Option<String>,
    /// The instruction set.
    pub arch: String,
    /// The operating system.
    pub os: String,
}

impl SmoothResults {
    /// The point of a query by a path, if it was measured.
    #[must_use]
    pub fn point(&self, order_by: bool, selectivity: f64, path: &str) -> Option<&Point> {
        let of = |point: &&Point| {
            point.order_by == order_by
                && point.selectivity.total_cmp(&selectivity).is_eq()
                && point.path == path
        };
        self.points.iter().find(of)
    }

    /// The selectivities that were measured, ascending.
    #[must_use]
    pub fn selectivities(&self, order_by: bool) -> Vec<f64> {
        let of = self
            .points
            .iter()
            .filter(|point| point.order_by == order_by);
        let mut all: Vec<f64> = of.map(|point| point.selectivity).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    }

    /// The paths that were measured, in the paper's order.
    #[must_use]
    pub fn paths(&self) -> Vec<&'static str> {
        let measured = |path: &&str| self.points.iter().any(|point| point.path == *path);
        PATHS.into_iter().filter(measured).collect()
    }

    /// The path with the shortest time for a query, and that time; None if none ended.
    #[must_use]
    pub fn best(&self, order_by: bool, selectivity: f64) -> Option<(&'static str, f64)> {
        let time = |path| Some((path, self.point(order_by, selectivity, path)?.time_s?));
        let times = self.paths().into_iter().filter_map(time);
        times.min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

impl Machine {
    /// The machine of this process.
    #[must_use]
    pub fn here() -> Self {
        let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = about
            .lines()
            .find_map(|line| line.strip_prefix("model name"));
        let model = model.and_then(|rest| rest.split_once(':'));
        Self {
            cores: crate::running::cpu::cores(),
            cpu: model.map(|(_, model)| model.trim().to_owned()),
            arch: std::env::consts::ARCH.to_owned(),
            os: std::env::consts::OS.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_the_issues_names() {
        let results = SmoothResults {
            points: vec![Point::default()],
            ..SmoothResults::default()
        };
        let json = serde_json::to_value(&results).unwrap();
        for key in ["rows", "page_rows", "device", "points"] {
            assert!(!json[key].is_null(), "{key}");
        }
        let point = json["points"][0].as_object().unwrap();
        for key in [
            "selectivity",
            "order_by",
            "path",
            "time_s",
            "pages_read",
            "requests",
            "bytes",
        ] {
            assert!(point.contains_key(key), "{key}");
        }
        assert!(
            point["time_s"].is_null(),
            "a query that was given up has no time"
        );
        assert_eq!(
            serde_json::from_value::<SmoothResults>(json).unwrap(),
            results
        );
    }

    #[test]
    fn the_best_path_is_one_that_ended() {
        let point = |path: &str, time_s| Point {
            selectivity: 5.0,
            path: path.to_owned(),
            time_s,
            ..Point::default()
        };
        let results = SmoothResults {
            points: vec![
                point("smooth", Some(2.0)),
                point("index", None),
                point("full", Some(1.5)),
            ],
            ..SmoothResults::default()
        };
        assert_eq!(results.paths(), ["full", "index", "smooth"]);
        assert_eq!(results.best(false, 5.0), Some(("full", 1.5)));
        assert_eq!(results.best(true, 5.0), None);
        assert_eq!(results.selectivities(false), [5.0]);
    }
}
