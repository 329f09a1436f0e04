//! The results of one run of the cooperative-scan benchmark, in the form in which they are kept.
//!
//! Idea: the JSON file is the interface. The table, the report and every script read only these
//! types, so a figure can be drawn from the file alone.
//! Units: seconds, bytes; fractions are between 0 and 1. Times in a policy's part count from the
//! first stream's start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One run: the same workload under each policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoopResults {
    /// Storage model: `nsm` or `dsm`.
    pub model: String,
    /// All bytes of the table's files.
    pub table_bytes: u64,
    /// Memory of the buffer manager.
    pub buffer_bytes: u64,
    /// The device's limit in bytes per second; none if it had no limit.
    pub bandwidth: Option<u64>,
    /// Streams at once.
    pub streams: usize,
    /// Queries of each stream.
    pub queries_per_stream: usize,
    /// The seed of the workload.
    pub seed: u64,
    /// The table's name in titles: a file name or `lineitem, scale factor 1`.
    #[serde(default)]
    pub table: String,
    /// SPEED-SIZE.
    #[serde(default)]
    pub mix: String,
    /// Seconds between two streams' starts.
    #[serde(default)]
    pub delay_s: f64,
    /// Terms of extra arithmetic in SLOW.
    #[serde(default)]
    pub slow_arithmetic: u32,
    /// Chunks of the table.
    #[serde(default)]
    pub chunks: u32,
    /// Bytes that the workload's queries could touch: every column in NSM, the columns they name
    /// in DSM.
    #[serde(default)]
    pub workload_bytes: u64,
    /// Bytes that at least one query needs: no policy can read less from a cold start.
    #[serde(default)]
    pub union_bytes: u64,
    /// Bytes that all queries need, each by itself: what is read if nothing is shared or kept.
    #[serde(default)]
    pub demand_bytes: u64,
    /// CPUs that the process could use.
    #[serde(default)]
    pub cores: usize,
    /// Whether plain DataFusion answered every query too. Policies are compared with each other in
    /// any case.
    #[serde(default)]
    pub verified: bool,
    /// Seconds that each class takes alone, with an empty buffer.
    pub standalone: BTreeMap<String, f64>,
    /// By policy name.
    pub policies: BTreeMap<String, PolicyResults>,
}

/// The workload under one policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyResults {
    /// Mean over the streams of the time from a stream's first query to its last answer:
    /// throughput.
    pub avg_stream_s: f64,
    /// Mean over the queries of latency divided by the class's standalone time: latency.
    pub avg_normalized_latency: f64,
    /// From the first stream's start to the last answer.
    pub total_s: f64,
    /// CPU time of the process, user and system, over `total_s` × cores.
    pub cpu_fraction: f64,
    /// Requests to the device.
    pub io_requests: u64,
    /// Bytes read from the device.
    pub io_bytes: u64,
    /// CPU time inside the scheduler over the process's CPU time.
    pub sched_cpu_fraction: f64,
    /// Bytes of arrays made by decoding.
    pub decode_bytes: u64,
    /// Every query, streams first.
    pub queries: Vec<QueryResults>,
    /// Every load: when, which chunk, and for which query (an index into `queries`).
    pub trace: Vec<(f64, u32, u32)>,
    /// Every chunk job; none if work above the scans is not shared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobResults>,
    /// Chunks whose result a query found remembered, over all queries.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub states_remembered: u64,
}

/// One chunk job: a chunk that was worked on once for several queries. Queries are indices into
/// [`PolicyResults::queries`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobResults {
    /// When it began.
    pub begun_s: f64,
    /// When it ended.
    pub ended_s: f64,
    /// The chunk.
    pub chunk: u32,
    /// The query that began it.
    pub query: u32,
    /// The other queries that it served.
    pub served: Vec<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One query under one policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueryResults {
    /// Its stream.
    pub stream: usize,
    /// Its class, such as `F-10`.
    pub name: String,
    /// When it was sent.
    #[serde(default)]
    pub start_s: f64,
    /// From sending the query to its last row.
    pub latency_s: f64,
    /// Latency over the class's standalone time.
    pub normalized: f64,
    /// Loads that the scheduler chose for it.
    pub io_requests: u64,
}

impl CoopResults {
    /// The policies of the run, in the paper's order; unknown ones last.
    #[must_use]
    pub fn policies_in_order(&self) -> Vec<(&str, &PolicyResults)> {
        let mut policies: Vec<_> = self.policies.iter().map(|(n, p)| (n.as_str(), p)).collect();
        policies.sort_by_key(|(name, _)| {
            POLICIES
                .iter()
                .position(|known| known == name)
                .unwrap_or(POLICIES.len())
        });
        policies
    }

    /// The classes of the run, FAST before SLOW, small ranges first.
    #[must_use]
    pub fn classes(&self) -> Vec<String> {
        let mut names: Vec<String> = self.standalone.keys().cloned().collect();
        names.sort_by_key(|name| {
            let (speed, percent) = name.split_once('-').unwrap_or((name, "0"));
            (speed.to_owned(), percent.parse::<u32>().unwrap_or(0))
        });
        names
    }
}

impl PolicyResults {
    /// Derives the means, `total_s` and each query's count of loads from `queries` and `trace`.
    ///
    /// `standalone` holds each class's time alone; a class without one does not count in the
    /// normalized latency.
    pub fn summarize(&mut self, standalone: &BTreeMap<String, f64>) {
        for query in &mut self.queries {
            query.io_requests = 0;
            query.normalized = standalone
                .get(&query.name)
                .filter(|alone| **alone > 0.0)
                .map_or(0.0, |alone| query.latency_s / alone);
        }
        for &(_, _, query) in &self.trace {
            if let Some(query) = self.queries.get_mut(query as usize) {
                query.io_requests += 1;
            }
        }
        let mut streams: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for query in &self.queries {
            let end = query.start_s + query.latency_s;
            let span = streams.entry(query.stream).or_insert((query.start_s, end));
            *span = (span.0.min(query.start_s), span.1.max(end));
        }
        self.avg_stream_s = mean(streams.values().map(|(start, end)| end - start));
        self.avg_normalized_latency = mean(
            self.queries
                .iter()
                .map(|query| query.normalized)
                .filter(|n| *n > 0.0),
        );
        self.total_s = streams.values().map(|(_, end)| *end).fold(0.0, f64::max);
    }
}

/// The mean; 0 if there are no values.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    if count == 0 {
        0.0
    } else {
        sum / f64::from(count)
    }
}

/// The policies in the order of the paper's Table 2.
pub const POLICIES: [&str; 4] = ["normal", "attach", "elevator", "relevance"];

/// `relevance` with queries that also share the work above their scans, unlike the paper's
/// policies.
pub const WITH_FRAGMENTS: &str = "relevance+fragments";

#[cfg(test)]
mod tests {
    use super::*;

    fn query(stream: usize, name: &str, start_s: f64, latency_s: f64) -> QueryResults {
        QueryResults {
            stream,
            name: name.to_owned(),
            start_s,
            latency_s,
            ..Default::default()
        }
    }

    #[test]
    fn the_summary_follows_the_papers_definitions() {
        let mut policy = PolicyResults {
            queries: vec![
                query(0, "F-10", 0.0, 2.0),
                query(0, "S-10", 2.0, 4.0),
                query(1, "F-10", 3.0, 4.0),
            ],
            trace: vec![(0.1, 5, 0), (0.2, 6, 0), (3.0, 7, 2), (9.0, 1, 99)],
            ..Default::default()
        };
        let standalone = BTreeMap::from([("F-10".to_owned(), 1.0), ("S-10".to_owned(), 2.0)]);
        policy.summarize(&standalone);
        assert!(
            (policy.avg_stream_s - 5.0).abs() < 1e-9,
            "streams take 6 and 4 seconds"
        );
        assert!((policy.avg_normalized_latency - 8.0 / 3.0).abs() < 1e-9);
        assert!((policy.total_s - 7.0).abs() < 1e-9);
        assert_eq!(
            policy
                .queries
                .iter()
                .map(|q| q.io_requests)
                .collect::<Vec<_>>(),
            [2, 0, 1]
        );
    }

    #[test]
    fn policies_and_classes_are_listed_as_in_the_paper() {
        let mut results = CoopResults::default();
        for name in ["relevance", "attach", "zzz", "normal"] {
            results
                .policies
                .insert(name.to_owned(), PolicyResults::default());
        }
        let names: Vec<_> = results
            .policies_in_order()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["normal", "attach", "relevance", "zzz"]);
        for name in ["S-01", "F-100", "F-01", "F-50"] {
            results.standalone.insert(name.to_owned(), 1.0);
        }
        assert_eq!(results.classes(), ["F-01", "F-50", "F-100", "S-01"]);
    }

    #[test]
    fn the_json_has_the_issues_names() {
        let mut results = CoopResults {
            bandwidth: Some(1),
            ..Default::default()
        };
        let policy = PolicyResults {
            queries: vec![query(0, "F-01", 0.0, 1.0)],
            trace: vec![(0.5, 3, 0)],
            ..Default::default()
        };
        results.policies.insert("relevance".to_owned(), policy);
        let json: serde_json::Value = serde_json::to_value(&results).unwrap();
        for key in [
            "model",
            "table_bytes",
            "buffer_bytes",
            "bandwidth",
            "streams",
            "seed",
        ] {
            assert!(!json[key].is_null(), "{key}");
        }
        let policy = &json["policies"]["relevance"];
        assert_eq!(policy["trace"][0], serde_json::json!([0.5, 3, 0]));
        for key in ["stream", "name", "latency_s", "normalized", "io_requests"] {
            assert!(!policy["queries"][0][key].is_null(), "{key}");
        }
    }
}
