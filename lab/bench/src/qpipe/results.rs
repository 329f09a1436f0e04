//! The results of one run of `QPipe`'s experiments, in the form in which they are kept.
//!
//! Idea: the JSON file is the interface, as in [`crate::results`]. Units: seconds, bytes.

use coscan_study::{Claim, percentile};
use serde::Serialize;

use crate::results::mean;
use crate::smooth::results::Machine;

/// One run: every point in every variant.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QpipeResults {
    /// `qpipe`.
    pub experiment: String,
    /// The command that made it.
    pub command: String,
    /// TPC-H's scale factor.
    pub scale: f64,
    /// Rows of the Wisconsin benchmark's two large tables; 0 if they were not read.
    pub wisconsin_rows: u32,
    /// The seed of queries, think times, arrivals and the Wisconsin benchmark's tables.
    pub seed: u64,
    /// Storage model: `nsm` or `dsm`.
    pub model: String,
    /// The device's limit in bytes per second; none if it had no limit.
    pub bandwidth: Option<u64>,
    /// Seconds added to each request.
    pub latency_s: f64,
    /// The size of a chunk on disk.
    pub chunk_bytes: u64,
    /// Partitions of each query.
    pub partitions: usize,
    /// Sets of parameters of each query of the mix; 0: parameters are drawn for every query.
    pub sets: usize,
    /// `coscan.state_cache` in all variants: only queries in flight share.
    pub state_cache_bytes: u64,
    /// How often each point was measured.
    pub repeats: usize,
    /// Whether plain DataFusion answered every query too. Variants are compared with each other in
    /// any case.
    pub verified: bool,
    /// The machine of the run.
    pub machine: Machine,
    /// The measurements.
    pub points: Vec<Point>,
    /// The claims that the run must show.
    pub claims: Vec<Claim>,
}

/// A measurement of some clients in one variant.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Point {
    /// The paper's number of the figure, or `open`.
    pub figure: String,
    /// The clients' queries, in words.
    pub what: String,
    /// The number of clients; each sends one query after the other.
    pub clients: usize,
    /// `shared`, `operators off`, `scans`, `apart` or `isolated`.
    pub variant: String,
    /// Seconds between two clients' first queries; for open arrivals the mean.
    pub interarrival_s: Option<f64>,
    /// `interarrival_s` over `alone_s`.
    pub interarrival: Option<f64>,
    /// Mean seconds that a client thinks before each query.
    pub think_s: Option<f64>,
    /// Seconds that a query takes alone, with an empty buffer; for a mix the mean over its queries.
    pub alone_s: f64,
    /// Bytes of the buffer.
    pub buffer_bytes: u64,
    /// Bytes that the experiment's queries read if each runs once and everything is kept.
    pub touched_bytes: u64,
    /// Bytes that this point's queries read, each by itself, with an empty buffer.
    pub demand_bytes: u64,
    /// Queries altogether.
    pub queries: usize,
    /// From the first arrival to the last answer. The point's other figures are those of the
    /// repeat with the median total time.
    pub total_s: f64,
    /// Total time of the shortest repeat.
    pub total_min_s: f64,
    /// Total time of the longest repeat.
    pub total_max_s: f64,
    /// Queries per hour.
    pub qph: f64,
    /// Mean latency.
    pub mean_s: f64,
    /// Median latency.
    pub p50_s: f64,
    /// 95th percentile of the latencies, by nearest rank.
    pub p95_s: f64,
    /// The last client's latency, if there are two clients.
    pub second_s: Option<f64>,
    /// Requests to the device.
    pub io_requests: u64,
    /// Bytes read from the device.
    pub io_bytes: u64,
    /// Bytes of arrays made by decoding.
    pub decode_bytes: u64,
    /// Operators whose output a query took from another query's run.
    pub satellites: u64,
    /// How many satellites there are if everything that can be shared is shared.
    pub satellites_expected: u64,
    /// Processor time, user and system.
    pub cpu_s: f64,
}

impl Point {
    /// Computes what follows from `total_s` and from the latencies, which are in client order.
    pub(crate) fn summarize(&mut self, latencies: &[f64]) {
        let mut sorted = latencies.to_vec();
        sorted.sort_by(f64::total_cmp);
        self.queries = sorted.len();
        self.qph = 3600.0 * sorted.len() as f64 / self.total_s.max(f64::MIN_POSITIVE);
        self.mean_s = mean(sorted.iter().copied());
        self.p50_s = percentile(&sorted, 50);
        self.p95_s = percentile(&sorted, 95);
        if let ([_, second], 2) = (latencies, self.clients) {
            self.second_s = Some(*second);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_the_issues_names() {
        let mut point = Point {
            figure: "9".to_owned(),
            variant: "shared".to_owned(),
            clients: 2,
            total_s: 4.0,
            ..Point::default()
        };
        point.summarize(&[3.0, 1.0]);
        let results = QpipeResults {
            experiment: "qpipe".to_owned(),
            points: vec![point],
            ..QpipeResults::default()
        };
        let json = serde_json::to_value(&results).unwrap();
        assert_eq!(json["experiment"], "qpipe");
        assert_eq!(json["state_cache_bytes"], 0);
        let point = json["points"][0].as_object().unwrap();
        for key in [
            "figure",
            "clients",
            "variant",
            "interarrival_s",
            "think_s",
            "qph",
            "p50_s",
            "p95_s",
            "io_bytes",
            "satellites",
        ] {
            assert!(point.contains_key(key), "{key}");
        }
        assert_eq!(point["qph"], 1800.0);
        assert_eq!(
            (&point["p50_s"], &point["p95_s"]),
            (&1.0.into(), &3.0.into())
        );
        assert_eq!(
            (&point["mean_s"], &point["second_s"]),
            (&2.0.into(), &1.0.into())
        );
    }
}
