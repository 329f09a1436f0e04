//! The results of one run, in the form in which they are kept.
//!
//! Idea: the JSON file is the interface, as in [`crate::results`]. Units: seconds, bytes.

use coscan_study::Claim;
use serde::Serialize;

use crate::smooth::results::Machine;

/// [`Point::experiment`] of one scan alone.
pub const SCAN: &str = "scan";
/// [`Point::experiment`] of point queries beside scans.
pub const MIX: &str = "mix";
/// [`Point::experiment`] of phases with many clients and with one.
pub const CHANGING: &str = "changing";
/// [`Point::experiment`] of scans beside a slow device.
pub const SLOW: &str = "slow";

/// One run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ParallelResults {
    /// `parallel`.
    pub experiment: String,
    /// The command that made it.
    pub command: String,
    /// TPC-H's scale factor.
    pub scale: f64,
    /// The seed of keys and arrivals.
    pub seed: u64,
    /// Storage model: `nsm` or `dsm`.
    pub model: String,
    /// The number of devices.
    pub devices: usize,
    /// Each device's limit in bytes per second, except for a device that was slowed down.
    pub bandwidth: u64,
    /// The size of a chunk on disk.
    pub chunk_bytes: u64,
    /// Partitions of each query.
    pub partitions: usize,
    /// Bytes of the table.
    pub table_bytes: u64,
    /// Bytes of the buffer.
    pub buffer_bytes: u64,
    /// Clients that scan in a mix.
    pub clients: usize,
    /// Point queries per second.
    pub points_per_second: f64,
    /// How long a mix was measured.
    pub time_s: f64,
    /// How often a scan alone was measured (its point is the median) and each mix (its point has
    /// the queries of all rounds).
    pub repeats: usize,
    /// The number of different queries.
    pub queries: usize,
    /// Whether plain DataFusion answered every query too. Settings are compared with each other in
    /// any case.
    pub verified: bool,
    /// The machine of the run.
    pub machine: Machine,
    /// The measurements.
    pub points: Vec<Point>,
    /// The claims that the run must show.
    pub claims: Vec<Claim>,
}

/// A measurement in one setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Point {
    /// [`SCAN`], [`MIX`], [`CHANGING`] or [`SLOW`].
    pub experiment: String,
    /// What differs from the other points of the experiment.
    pub setting: String,
    /// From how many devices a scan read at a time; none: chosen while the scan ran.
    pub parallelism: Option<u32>,
    /// Whether pages that a query waits for could overtake loads.
    pub reserve: bool,
    /// How long was measured, all rounds together; for [`CHANGING`] and [`SLOW`] the time of the
    /// same queries in every setting.
    pub time_s: f64,
    /// Of it, the phases with many clients.
    pub many_s: Option<f64>,
    /// Of it, the phases with one client.
    pub one_s: Option<f64>,
    /// Bytes that the devices delivered meanwhile.
    pub read_bytes: u64,
    /// `read_bytes` per second.
    pub bytes_per_second: f64,
    /// `bytes_per_second` over the sum of the devices' limits.
    pub of_limit: f64,
    /// Processor time over the available processor time.
    pub cpu_fraction: f64,
    /// Clients that scanned, one query after the other.
    pub scan_clients: usize,
    /// Scans that ended meanwhile.
    pub scans: usize,
    /// Mean seconds of those scans.
    pub scan_mean_s: f64,
    /// Mean seconds of the wide scan that needed nothing from the last device, over the same number
    /// of runs in every setting; none if not all of them ended.
    pub avoiding_wide_s: Option<f64>,
    /// The same of the narrow one.
    pub avoiding_narrow_s: Option<f64>,
    /// Point queries that arrived meanwhile.
    pub points: usize,
    /// Median latency of the point queries.
    pub point_p50_s: f64,
    /// 95th percentile of the point queries' latencies, by nearest rank.
    pub point_p95_s: f64,
    /// The devices.
    pub devices: Vec<DeviceUse>,
}

/// What a device did meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceUse {
    /// Its name.
    pub name: String,
    /// Its limit in bytes per second.
    pub limit: u64,
    /// Bytes that it delivered.
    pub bytes: u64,
    /// Share of the time in which at least one request was outstanding.
    pub busy: f64,
}

impl ParallelResults {
    /// The point of an experiment in a setting.
    #[must_use]
    pub fn point(&self, experiment: &str, setting: &str) -> Option<&Point> {
        let mut of = self.of(experiment);
        of.find(|point| point.setting == setting)
    }

    /// The points of an experiment.
    pub fn of(&self, experiment: &str) -> impl Iterator<Item = &Point> {
        let of = move |point: &&Point| point.experiment == experiment;
        self.points.iter().filter(of)
    }

    /// The best of the fixed degrees of parallelism in the mix, with or without a reserve for
    /// pages: the one that read most bytes per second; of those that read nearly as many
    /// ([`NEARLY`]) the one with the lowest P95 of point queries.
    #[must_use]
    pub fn best_fixed(&self, reserve: bool) -> Option<&Point> {
        let fixed = |point: &&Point| point.parallelism.is_some() && point.reserve == reserve;
        let fixed: Vec<&Point> = self.of(MIX).filter(fixed).collect();
        let rates = fixed.iter().map(|point| point.bytes_per_second);
        let most = rates.fold(0.0, f64::max);
        let near = fixed
            .into_iter()
            .filter(|point| point.bytes_per_second >= NEARLY * most);
        near.min_by(|a, b| a.point_p95_s.total_cmp(&b.point_p95_s))
    }
}

/// At least this share of the most bytes per second counts as nearly as many.
pub const NEARLY: f64 = 0.98;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_fixed_degree_has_the_bandwidth_and_of_those_the_shortest_waits() {
        let point = |degree: u32, megabytes: f64, p95| Point {
            experiment: MIX.to_owned(),
            setting: format!("fixed {degree}"),
            parallelism: Some(degree),
            bytes_per_second: megabytes * 1e6,
            point_p95_s: p95,
            ..Point::default()
        };
        let results = ParallelResults {
            points: vec![
                point(1, 150.0, 0.01),
                point(2, 197.0, 0.2),
                point(4, 200.0, 0.3),
                point(8, 199.0, 0.25),
            ],
            ..ParallelResults::default()
        };
        let best = results.best_fixed(false).map(|point| &*point.setting);
        assert_eq!(best, Some("fixed 2"));
        assert_eq!(results.best_fixed(true), None);
        let json = serde_json::to_value(&results).unwrap();
        for key in [
            "experiment",
            "setting",
            "of_limit",
            "point_p95_s",
            "devices",
        ] {
            assert!(!json["points"][0][key].is_null(), "{key}");
        }
    }
}
