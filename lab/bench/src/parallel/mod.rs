//! A table on several devices: do scans use them all, and do those who ask for little notice?
//!
//! Idea: the same files and queries on devices that are held to a bandwidth in process, so that one
//! disk can stand for several. What differs between two points of an experiment is where the files
//! are said to be, from how many devices a scan reads at a time, or how fast one device is, and
//! nothing else. Tasks run in turn, as in a server. Nothing is kept for queries to come
//! (`coscan.state_cache` is 0), and every point begins with an engine that has nothing in memory.
//!
//! | file | question |
//! |---|---|
//! | `data.rs` | where is the table? |
//! | `queries.rs` | what is asked? |
//! | `ground.rs` | on what is it measured, and are the rows the same? |
//! | `load.rs` | who asks, for how long, and what do the devices do meanwhile? |
//! | `experiments.rs` | which points are measured? |
//! | `results.rs` | what did a run say, in the form in which it is kept? |
//! | `claims.rs` | does it show what it is to show? |
//! | `table.rs` | how does a person read it? |
//!
//! Not here: the paper's figures, which are simulated (`coscan sim`).
//! Source: [RahmStohr94 §4.4, §5]; we differ: pages are asked for by an index, not by transactions.

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

use crate::arena::reads_whole_rows;
use crate::demo;
use crate::error::Result;
use crate::progress::OnProgress;
use crate::smooth::results::Machine;
use results::ParallelResults;

pub use data::ensure;

/// What is run.
#[derive(Clone, Debug)]
pub struct ParallelOptions {
    /// TPC-H's lineitem in one file, which plain DataFusion reads.
    pub source: PathBuf,
    /// The same rows in each folder's parts ([`ensure`]); a device for each.
    pub folders: Vec<PathBuf>,
    /// TPC-H's scale factor.
    pub scale: f64,
    /// What keys and arrivals are drawn from.
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
    /// Point queries that arrive in a second.
    pub points_per_second: f64,
    /// For how long a mix of queries is measured.
    pub time: Duration,
    /// Degrees of parallelism that the chosen one is compared with.
    pub fixed: Vec<u32>,
    /// How often one scan alone is measured, of which the median counts, and each mix of scans and
    /// point queries, whose queries are taken together.
    pub repeats: usize,
    /// Whether plain DataFusion answers every query too.
    pub verify: bool,
}

impl ParallelOptions {
    /// The defaults on these files.
    #[must_use]
    pub fn new(source: PathBuf, folders: Vec<PathBuf>, scale: f64) -> Self {
        Self {
            source,
            folders,
            scale,
            seed: 1,
            model: "dsm".to_owned(),
            buffer: Share::Fraction(0.25),
            bandwidth: 50_000_000,
            chunk_bytes: demo::row_group_bytes(scale),
            partitions: crate::cpu::cores(),
            clients: 8,
            points_per_second: 20.0,
            time: Duration::from_secs(10),
            fixed: vec![1, 2, 4, 8],
            repeats: 3,
            verify: true,
        }
    }
}

/// Runs the experiments, one after the other.
///
/// Cancel safety: dropping the future cancels all queries.
///
/// # Errors
/// A file cannot be read, a query fails, or [`crate::BenchError::Mismatch`] if its rows are not
/// those that another run of it, or plain DataFusion, gave.
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

    use super::results::{MIX, Point, SCAN, SLOW};
    use super::*;
    use crate::tpch::{self, Generate, Table};

    /// At scale 0.01, on devices on which a scan takes some tenths of a second. Times mean nothing
    /// here; that a limited device gives no more than its limit, and who read what from where,
    /// would be the same if the machine stood still for a moment.
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
        assert_eq!(of(SLOW).len(), 3);
        let last = |point: &Point| point.devices.last().map(|device| device.limit);
        assert_eq!(
            of(SLOW).into_iter().map(last).collect::<Vec<_>>(),
            [Some(1_000_000), Some(1_000_000), Some(100_000)]
        );
        assert_eq!(results.claims.len(), 6, "{:?}", results.claims);
        let text = table::render(&results);
        assert!(text.contains("4 devices at 1.00 MB/s"), "{text}");
    }
}
