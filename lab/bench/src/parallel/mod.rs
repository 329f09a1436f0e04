//! A table on several devices: do scans use all devices without slowing point queries?
//!
//! Idea: the same files and queries run on devices with a limit of bandwidth in process, so that
//! one disk can stand for several. Two points of an experiment differ only in where the files are
//! said to be, from how many devices a scan reads at a time, or how fast one device is. Tasks run
//! in turn, as in a server. Nothing is kept for later queries (`coscan.state_cache` is 0), and
//! every point begins with an engine that has nothing in memory.
//!
//! | file | question |
//! |---|---|
//! | `data.rs` | how is the table laid out over the devices? |
//! | `queries.rs` | which queries run? |
//! | `ground.rs` | under which settings are they measured, and are the rows the same? |
//! | `load.rs` | which clients run for how long, and what do the devices do meanwhile? |
//! | `experiments.rs` | which points are measured? |
//! | `results.rs` | in which form are the results kept? |
//! | `claims.rs` | does the run show what it should? |
//! | `table.rs` | how are the results shown? |
//!
//! Not here: the paper's figures, which are simulated (`coscan sim`).
//! Source: [RahmStohr94 §4.4, §5]; we differ: an index requests the pages, not transactions.

mod claims;
mod data;
mod experiments;
mod ground;
mod load;
mod queries;
pub mod results;
pub mod table;

use std::path::PathBuf;
use std::time::Duration;

use coscan_quantities::Share;

use crate::demo;
use crate::error::Result;
use crate::progress::OnProgress;
use crate::running::arena::reads_whole_rows;
use crate::smooth::results::Machine;
use results::{CHANGING, MIX, ParallelResults, SCAN, SLOW};

pub use data::ensure;

/// What can be measured, in the order of a run.
pub const EXPERIMENTS: [&str; 4] = [SCAN, MIX, CHANGING, SLOW];

/// The options of a run.
#[derive(Clone, Debug)]
pub struct ParallelOptions {
    /// Some of [`EXPERIMENTS`].
    pub experiments: Vec<String>,
    /// TPC-H's lineitem in one file, which plain DataFusion reads.
    pub source: PathBuf,
    /// The same rows in the parts of each folder ([`ensure`]); one device per folder.
    pub folders: Vec<PathBuf>,
    /// TPC-H's scale factor.
    pub scale: f64,
    /// The seed of keys and arrivals.
    pub seed: u64,
    /// `nsm` or `dsm`.
    pub model: String,
    /// The buffer: bytes, or a fraction of the table.
    pub buffer: Share,
    /// Each device's limit in bytes per second.
    pub bandwidth: u64,
    /// The size of a chunk in bytes on disk.
    pub chunk_bytes: u64,
    /// Partitions of each query.
    pub partitions: usize,
    /// Clients that scan, one query after the other.
    pub clients: usize,
    /// Point queries per second.
    pub points_per_second: f64,
    /// For how long a mix of queries is measured.
    pub time: Duration,
    /// Fixed degrees of parallelism to compare with the chosen one.
    pub fixed: Vec<u32>,
    /// How often a scan alone is measured (the median counts), and each mix of scans and point
    /// queries (the queries of all rounds count).
    pub repeats: usize,
    /// Whether plain DataFusion answers every query too.
    pub verify: bool,
}

impl ParallelOptions {
    /// The defaults on these files.
    #[must_use]
    pub fn new(source: PathBuf, folders: Vec<PathBuf>, scale: f64) -> Self {
        Self {
            experiments: EXPERIMENTS.map(str::to_owned).to_vec(),
            source,
            folders,
            scale,
            seed: 1,
            model: "dsm".to_owned(),
            buffer: Share::Fraction(0.25),
            bandwidth: 50_000_000,
            chunk_bytes: demo::row_group_bytes(scale),
            partitions: crate::running::cpu::cores(),
            clients: 8,
            points_per_second: 20.0,
            time: Duration::from_secs(10),
            fixed: vec![1, 2, 4, 8],
            repeats: 3,
            verify: true,
        }
    }

    fn wants(&self, experiment: &str) -> bool {
        self.experiments.iter().any(|wanted| wanted == experiment)
    }
}

/// Runs the experiments, one after the other.
///
/// Cancel safety: dropping the future cancels all queries.
///
/// A file cannot be read, a query fails, or [`crate::BenchError::Mismatch`] if its rows differ
/// from those of another run or of plain DataFusion.
pub async fn run(options: &ParallelOptions, on_progress: OnProgress) -> Result<ParallelResults> {
    // Names are checked before anything is measured.
    reads_whole_rows(&options.model)?;
    let mut ground = ground::Ground::new(options, &on_progress).await?;
    let points = experiments::run(&mut ground).await?;
    let results = ParallelResults {
        experiment: "parallel".to_owned(),
        scale: options.scale,
        seed: options.seed,
        model: options.model.clone(),
        devices: options.folders.len(),
        bandwidth: options.bandwidth,
        chunk_bytes: options.chunk_bytes,
        partitions: options.partitions,
        table_bytes: ground.table_bytes(),
        buffer_bytes: ground.buffer_bytes(),
        clients: options.clients,
        points_per_second: options.points_per_second,
        time_s: options.time.as_secs_f64(),
        repeats: options.repeats,
        verified: options.verify,
        queries: ground.queries().all.len(),
        machine: Machine::here(),
        points,
        ..ParallelResults::default()
    };
    Ok(ParallelResults {
        claims: claims::claims(&results),
        ..results
    })
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use super::results::Point;
    use super::*;
    use crate::tpch::{self, Generate, Table};

    /// At scale 0.01, on devices on which a scan takes some tenths of a second. Times mean nothing
    /// here. A limited device never exceeds its limit, and where each query reads from does not
    /// depend on time, so both hold even if the machine stalls for a moment.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_device_is_read_and_every_row_is_plain_datafusions() {
        let root = tempfile::tempdir().unwrap();
        let scale = 0.01;
        let generate = Generate {
            scale,
            row_group_bytes: demo::row_group_bytes(scale),
            threads: 2,
        };
        let go_on = |_, _| ControlFlow::Continue(());
        let source = tpch::ensure(root.path(), Table::Lineitem, &generate, &go_on).unwrap();
        let folders = ensure(root.path(), &source, scale, 4).await.unwrap();
        assert_eq!(
            ensure(root.path(), &source, scale, 4).await.unwrap(),
            folders,
            "made once"
        );
        let options = ParallelOptions {
            bandwidth: 1_000_000,
            clients: 2,
            time: Duration::from_millis(500),
            fixed: vec![1],
            repeats: 2,
            ..ParallelOptions::new(source, folders, scale)
        };
        let results = run(&options, Arc::new(|_| ())).await.unwrap();
        assert!(
            results.verified && results.table_bytes > 300_000,
            "{results:?}"
        );

        let of = |experiment: &str| -> Vec<&Point> {
            let of = |point: &&Point| point.experiment == experiment;
            results.points.iter().filter(of).collect()
        };
        let [one, all] = of(SCAN)[..] else {
            panic!("{results:?}")
        };
        assert_eq!((one.devices.len(), all.devices.len()), (1, 4));
        assert_eq!(one.read_bytes, all.read_bytes, "the same scan");
        for device in &all.devices {
            let quarter = all.read_bytes / 4;
            assert!(
                (quarter * 7 / 10..quarter * 13 / 10).contains(&device.bytes),
                "{all:?}"
            );
        }
        let mixes = of(MIX);
        assert_eq!(
            mixes.len(),
            4,
            "idle, chosen, fixed with and without a reserve"
        );
        let asked = mixes[0].points;
        assert!(
            mixes.iter().all(|mix| mix.time_s > 0.9),
            "two rounds of each"
        );
        assert!(asked > 0 && mixes.iter().all(|mix| mix.points == asked));
        assert!(mixes.iter().all(|mix| mix.point_p95_s >= mix.point_p50_s));
        assert!(mixes[1..].iter().all(|mix| mix.read_bytes > 0));
        let changing = of(CHANGING);
        assert_eq!(changing.len(), 2, "chosen and fixed");
        // Two rounds of two phases with two clients and of two with one; two scans each.
        assert!(changing.iter().all(|point| point.scans == 24));
        let phases = |point: &Point| point.many_s.unwrap() + point.one_s.unwrap();
        assert!(changing.iter().all(|point| point.time_s >= phases(point)));
        assert_eq!(of(SLOW).len(), 3);
        let each_ended = |point: &Point| {
            let means = point.avoiding_wide_s.zip(point.avoiding_narrow_s);
            means.is_some() && point.scans >= 2 * experiments::AVOIDING_SCANS
        };
        assert!(of(SLOW).into_iter().all(each_ended), "{results:?}");
        let last = |point: &Point| point.devices.last().map(|device| device.limit);
        assert_eq!(
            of(SLOW).into_iter().map(last).collect::<Vec<_>>(),
            [Some(1_000_000), Some(1_000_000), Some(100_000)]
        );
        assert_eq!(results.claims.len(), 9, "{:?}", results.claims);
        let text = table::render(&results);
        assert!(text.contains("4 devices at 1.00 MB/s"), "{text}");

        let scan_alone = ParallelOptions {
            experiments: vec![SCAN.to_owned()],
            ..options
        };
        let results = run(&scan_alone, Arc::new(|_| ())).await.unwrap();
        assert!(results.points.iter().all(|point| point.experiment == SCAN));
        assert_eq!((results.points.len(), results.claims.len()), (2, 2));
    }
}
