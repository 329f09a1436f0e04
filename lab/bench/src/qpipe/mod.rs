//! `QPipe`'s experiments on the engine: what do queries in flight save by sharing scans, fragments
//! and operators?
//!
//! Idea: the same clients send the same queries at the same times to engines that differ only in
//! what is shared. Only queries in flight share: no state or result is kept for later queries
//! (`coscan.state_cache` is 0 in every variant), and every run begins with an engine that has
//! nothing in memory.
//!
//! | file | question |
//! |---|---|
//! | `variant.rs` | what is shared? |
//! | `own_tables.rs` | how do clients run side by side without sharing anything? |
//! | `ground.rs` | under which conditions are points measured, and are the rows the same? |
//! | `wisconsin.rs` | what is in the Wisconsin benchmark's tables? |
//! | `scans.rs` | what do overlapping scans read? (Figure 8) |
//! | `pairs.rs` | what does a query gain that starts some time after another? (Figures 9 to 11) |
//! | `mix.rs` | what do many clients of TPC-H's queries gain? (Figures 12 and 13, open arrivals) |
//! | `claims.rs` | does the run show what the paper shows? |
//! | `results.rs` | in which form are the results kept? |
//! | `table.rs` | how are the results shown? |
//!
//! Not here: other engines (`lab/arena/mix.sh`).
//! Source: [QPipe05 §5]; we differ: DBMS X is not available, and the baseline is this engine
//! sharing nothing but what is left in its buffer; in Figures 12 and 13 also this engine with the
//! same policy on tables of which each client has its own.

mod claims;
mod ground;
mod mix;
mod own_tables;
mod pairs;
pub mod results;
mod scans;
pub mod table;
mod variant;
pub mod wisconsin;

use std::path::PathBuf;
use std::time::Duration;

use coscan_quantities::Share;

use crate::demo;
use crate::error::{BenchError, Result};
use crate::progress::OnProgress;
use crate::running::arena::{TableFile, reads_whole_rows};
use crate::smooth::results::Machine;
use crate::tpch::{Generate, Table};
use crate::workload::TABLES;
use results::QpipeResults;

/// What can be measured, by the paper's numbers of figures.
pub const FIGURES: [&str; 7] = ["8", "9", "10", "11", "12", "13", "open"];

/// The options of a run.
#[derive(Clone, Debug)]
pub struct QpipeOptions {
    /// Some of [`FIGURES`].
    pub figures: Vec<String>,
    /// Names and files of [`tpch_tables`].
    pub tpch: Vec<(String, PathBuf)>,
    /// Names and files of the Wisconsin benchmark's tables, which Figure 10 needs.
    pub wisconsin: Vec<(String, PathBuf)>,
    /// TPC-H's scale factor.
    pub scale: f64,
    /// The seed of queries, their parameters, think times and arrivals, and of the Wisconsin
    /// benchmark's tables.
    pub seed: u64,
    /// `nsm` or `dsm`.
    pub model: String,
    /// The buffer: bytes, or a fraction of what an experiment's queries read in all.
    pub buffer: Share,
    /// The device's limit in bytes per second.
    pub bandwidth: Option<u64>,
    /// Time added to each request.
    pub latency: Duration,
    /// The size of a chunk in bytes on disk.
    pub chunk_bytes: u64,
    /// Partitions of each query; at least 2, because with one partition no join merges.
    pub partitions: usize,
    /// The numbers of clients in Figure 12; open arrivals take their rate from the largest.
    pub clients: Vec<usize>,
    /// Queries per client at the largest number of clients in Figure 12.
    pub queries: usize,
    /// Sets of parameters of each query of the mix; 0: parameters are drawn for every query.
    pub sets: usize,
    /// Times between arrivals in figures 8 to 11, as fractions of a query's time alone.
    pub interarrivals: Vec<f64>,
    /// Mean thinking times in Figure 13, as multiples of a query's mean time alone.
    pub thinks: Vec<f64>,
    /// How often each point is measured; the median counts.
    pub repeats: usize,
    /// Whether plain DataFusion answers every query too.
    pub verify: bool,
    /// The scheduler's log of the last run of each variant; the variant's name is appended.
    pub record: Option<PathBuf>,
}

impl Default for QpipeOptions {
    fn default() -> Self {
        Self {
            figures: FIGURES.map(str::to_owned).to_vec(),
            tpch: Vec::new(),
            wisconsin: Vec::new(),
            scale: 1.0,
            seed: 1,
            model: "dsm".to_owned(),
            buffer: Share::Fraction(0.25),
            bandwidth: Some(200_000_000),
            latency: Duration::ZERO,
            chunk_bytes: demo::row_group_bytes(1.0),
            partitions: crate::running::cpu::cores().max(PARTITIONS_MIN),
            clients: (1..=12).collect(),
            queries: 4,
            sets: 0,
            interarrivals: vec![0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2],
            thinks: vec![0.0, 1.0, 2.0, 5.0, 10.0],
            repeats: 1,
            verify: true,
            record: None,
        }
    }
}

impl QpipeOptions {
    fn wants(&self, figure: &str) -> bool {
        self.figures.iter().any(|wanted| wanted == figure)
    }

    /// Whether TPC-H's tables are needed.
    #[must_use]
    pub fn needs_tpch(&self) -> bool {
        self.figures.iter().any(|figure| figure != SORT_MERGE)
    }

    /// Whether the Wisconsin benchmark's tables are needed.
    #[must_use]
    pub fn needs_wisconsin(&self) -> bool {
        self.wants(SORT_MERGE)
    }

    /// TPC-H's tables of these names.
    fn tables(&self, names: &[&str]) -> Result<Vec<TableFile>> {
        let table = |name: &&str| {
            let found = self.tpch.iter().find(|(known, _)| known == name);
            let (name, path) = found.ok_or_else(|| BenchError::NoTable {
                text: (*name).to_owned(),
            })?;
            Ok(TableFile::new(name, path))
        };
        names.iter().map(table).collect()
    }
}

/// The tables of TPC-H that the experiments read.
pub fn tpch_tables() -> impl Iterator<Item = Table> {
    let all = Table::ALL.into_iter();
    all.filter(|table| TABLES.contains(&table.name()))
}

/// How the tables are made: with about as many chunks as in the other papers' experiments, so that
/// a quarter of a small table still leaves a choice of chunks.
#[must_use]
pub fn generate(scale: f64) -> Generate {
    Generate {
        scale,
        row_group_bytes: demo::row_group_bytes(scale),
        threads: crate::running::cpu::cores(),
    }
}

/// Runs the experiments, one figure after the other.
///
/// Cancel safety: dropping the future cancels all queries.
///
/// # Errors
/// A table is missing or cannot be read, a query fails, or [`BenchError::Mismatch`] if a query's
/// rows differ from those of another run or of plain DataFusion.
pub async fn run(options: &QpipeOptions, on_progress: OnProgress) -> Result<QpipeResults> {
    // Names are checked before anything is measured.
    reads_whole_rows(&options.model)?;
    let mut results = QpipeResults {
        experiment: "qpipe".to_owned(),
        scale: options.scale,
        seed: options.seed,
        model: options.model.clone(),
        bandwidth: options.bandwidth,
        latency_s: options.latency.as_secs_f64(),
        chunk_bytes: options.chunk_bytes,
        partitions: options.partitions,
        sets: options.sets,
        state_cache_bytes: 0,
        repeats: options.repeats,
        verified: options.verify,
        machine: Machine::here(),
        ..QpipeResults::default()
    };
    if options.wants(SCANS) {
        scans::run(options, &on_progress, &mut results).await?;
    }
    for pair in pairs::ALL {
        if options.wants(pair.figure) {
            pairs::run(&pair, options, &on_progress, &mut results).await?;
        }
    }
    if [THROUGHPUT, THINKING, OPEN]
        .iter()
        .any(|f| options.wants(f))
    {
        mix::run(options, &on_progress, &mut results).await?;
    }
    results.claims = claims::claims(&results.points);
    Ok(results)
}

/// The least value of [`QpipeOptions::partitions`].
const PARTITIONS_MIN: usize = 2;

pub(crate) const SCANS: &str = "8";
pub(crate) const MERGE_JOIN: &str = "9";
pub(crate) const SORT_MERGE: &str = "10";
pub(crate) const HASH_JOIN: &str = "11";
pub(crate) const THROUGHPUT: &str = "12";
pub(crate) const THINKING: &str = "13";
pub(crate) const OPEN: &str = "open";

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::path::Path;
    use std::sync::Arc;

    use super::results::Point;
    use super::variant::{APART, ISOLATED, SHARED, Variant};
    use super::*;
    use crate::tpch;

    /// At scale 0.01 behind a device on which a query takes some tenths of a second. Times mean
    /// nothing; counts stay the same even if the machine stalls for a moment.
    async fn small(root: &Path, figures: &[&str], buffer: f64) -> QpipeResults {
        let mut options = QpipeOptions {
            figures: figures.iter().map(|figure| (*figure).to_owned()).collect(),
            scale: 0.01,
            bandwidth: Some(4_000_000),
            chunk_bytes: demo::row_group_bytes(0.01),
            partitions: 2,
            clients: vec![1, 4],
            queries: 2,
            sets: 1,
            interarrivals: vec![0.0, LATER],
            buffer: Share::Fraction(buffer),
            thinks: vec![0.1],
            ..QpipeOptions::default()
        };
        let file = |table: Table| {
            let go_on = |_, _| ControlFlow::Continue(());
            let path = tpch::ensure(root, table, &generate(options.scale), &go_on).unwrap();
            (table.name().to_owned(), path)
        };
        options.tpch = tpch_tables().map(file).collect();
        for table in wisconsin::tables(options.scale, options.seed) {
            let path = table.ensure(root, |_| ()).await.unwrap();
            options.wisconsin.push((table.name.to_owned(), path));
        }
        run(&options, Arc::new(|_| ())).await.unwrap()
    }

    /// When the second query comes, as a part of the first one's time alone. At this scale and
    /// speed Figure 9's query spends a third of its time on lineitem's footer and page index.
    /// Queries that want these at the same time read them once, isolated or not, and then scan side
    /// by side.
    const LATER: f64 = 0.6;

    fn of<'a>(results: &'a QpipeResults, figure: &str, variant: Variant) -> Vec<&'a Point> {
        let of = |point: &&Point| point.figure == figure && point.variant == variant.name;
        results.points.iter().filter(of).collect()
    }

    /// The run itself checks that rows are equal (G1), also with plain DataFusion's.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn scans_and_pairs_share_and_answer_the_same() {
        let root = tempfile::tempdir().unwrap();
        // Too small for one query to follow another within the buffer. Sorting takes whole rows at
        // a time, and so a larger part.
        let with_q4 = small(root.path(), &[SCANS, MERGE_JOIN, HASH_JOIN], 0.05).await;
        let sorted = small(root.path(), &[SORT_MERGE], 0.1).await;
        assert!(sorted.wisconsin_rows == 20_000);
        let figures = [SCANS, MERGE_JOIN, HASH_JOIN].map(|figure| (figure, &with_q4));
        for (figure, results) in figures.into_iter().chain([(SORT_MERGE, &sorted)]) {
            assert!(results.verified);
            let [isolated, shared] = [ISOLATED, SHARED].map(|v| of(results, figure, v));
            assert!(!isolated.is_empty() && isolated.len() == shared.len());
            let read = |points: &[&Point]| points.iter().map(|p| p.io_bytes).sum::<u64>();
            assert!(read(&shared) < read(&isolated), "{figure}: {results:?}");
            assert!(isolated.iter().all(|point| point.satellites == 0));
            if figure != SCANS {
                let joined = shared.iter().map(|point| point.satellites).sum::<u64>();
                assert!(joined > 0, "{figure}: {results:?}");
                assert!(shared.iter().all(|point| point.second_s.is_some()));
            }
        }
        let text = table::render(&with_q4);
        assert!(text.contains("never below 0.95"), "{text}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn clients_of_the_mix_share_and_answer_the_same() {
        let root = tempfile::tempdir().unwrap();
        let results = small(root.path(), &[THROUGHPUT, THINKING, OPEN], 0.25).await;
        for (figure, places) in [(THROUGHPUT, 2), (THINKING, 1), (OPEN, 1)] {
            for variant in [ISOLATED, SHARED] {
                let points = of(&results, figure, variant);
                assert_eq!(points.len(), places, "{figure}");
                assert!(points.iter().all(|p| p.queries == 8 && p.p95_s >= p.p50_s));
            }
        }
        assert!(of(&results, OPEN, SHARED)[0].interarrival_s > Some(0.0));
        for (figure, places) in [(THROUGHPUT, 2), (THINKING, 1)] {
            let points = of(&results, figure, APART);
            assert_eq!(points.len(), places, "{figure}");
            assert!(points.iter().all(|p| p.queries == 8 && p.satellites == 0));
        }
        assert_eq!(results.claims.len(), 5, "{:?}", results.claims);
    }
}
