//! `coscan bench qpipe`: what do concurrent queries save when they share scans, fragments and
//! operators?

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use coscan_bench::demo;
use coscan_bench::qpipe::{self, FIGURES, QpipeOptions, table, wisconsin};
use coscan_bench::tpch;
use coscan_quantities::{self as quantities, Share};

use super::{Bandwidth, command_line, ensure_table, model, print, scale, write_json};
use crate::failure::Failure;
use crate::progress;

/// Options of `coscan bench qpipe`.
#[derive(Args)]
pub(crate) struct Options {
    /// The paper's figures to run, and `open`: arrivals at 1.5 times the rate that isolated
    /// execution sustains.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = FIGURES, value_parser = FIGURES)]
    figures: Vec<String>,
    /// TPC-H's scale factor; the Wisconsin benchmark's tables grow with it.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = scale)]
    scale: f64,
    /// The seed of queries, their parameters, think times and arrivals, and of the Wisconsin
    /// benchmark's tables.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// What one load reads: nsm (all columns of a chunk) or dsm (the columns that scans need).
    #[arg(long, value_name = "nsm|dsm", default_value = "dsm", value_parser = model)]
    model: String,
    /// The buffer: a size, or a share of all data that an experiment's queries read.
    #[arg(long, value_name = "SIZE|%", default_value = "25%")]
    buffer: Share,
    /// The device's bandwidth limit, or `none`.
    #[arg(long, value_name = "RATE", default_value = "200MB/s")]
    bandwidth: Bandwidth,
    /// Time added to each request to the device.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = quantities::parse_duration)]
    latency: Duration,
    /// The target size of a chunk on disk [default: a 256th of lineitem].
    #[arg(long, value_name = "SIZE", value_parser = quantities::parse_bytes)]
    chunk_bytes: Option<u64>,
    /// Partitions of each query [default: the machine's number of cores]. With one partition no
    /// join is a merge join.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=256))]
    partitions: Option<u16>,
    /// The numbers of clients in Figure 12.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = CLIENTS, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: Vec<u16>,
    /// Queries of each client at the largest number of clients in Figure 12; fewer clients run the
    /// same queries.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    queries: u16,
    /// Sets of parameters for each query of the mix [default: new ones for each run of the query].
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    sets: u16,
    /// Times between arrivals in figures 8 to 11, as fractions of the query's time alone.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = INTERARRIVALS, value_parser = times)]
    interarrivals: Vec<f64>,
    /// Mean think times in Figure 13, as multiples of a query's mean time alone.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = THINKS, value_parser = times)]
    thinks: Vec<f64>,
    /// How often each point is measured; the median counts.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    /// Skip the check of every result against plain DataFusion. Results are still compared between
    /// the variants.
    #[arg(long)]
    no_verify: bool,
    /// Log the scheduler's events and decisions in the last run of each variant, for `coscan sim
    /// replay`; to FILE with the variant's name added.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Where to keep the tables [default: coscan/data in the user's cache folder].
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const CLIENTS: [u16; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
const INTERARRIVALS: [f64; 8] = [0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2];
const THINKS: [f64; 5] = [0.0, 1.0, 2.0, 5.0, 10.0];

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let mut qpipe = QpipeOptions {
        figures: options.figures.clone(),
        scale: options.scale,
        seed: options.seed,
        model: options.model.clone(),
        buffer: options.buffer,
        bandwidth: options.bandwidth.0,
        latency: options.latency,
        chunk_bytes: options
            .chunk_bytes
            .unwrap_or_else(|| demo::row_group_bytes(options.scale)),
        clients: options.clients.iter().map(|n| usize::from(*n)).collect(),
        queries: options.queries.into(),
        sets: options.sets.into(),
        interarrivals: options.interarrivals.clone(),
        thinks: options.thinks.clone(),
        repeats: options.repeats.into(),
        verify: !options.no_verify,
        record: options.record.clone(),
        ..QpipeOptions::default()
    };
    if let Some(partitions) = options.partitions {
        qpipe.partitions = partitions.into();
    }
    let root = options.data.clone().unwrap_or_else(tpch::default_root);
    if qpipe.needs_tpch() {
        qpipe.tpch = tpch_files(&root, options.scale)?;
    }
    let mut results = crate::block_on(async {
        if qpipe.needs_wisconsin() {
            qpipe.wisconsin = wisconsin_files(&root, options.scale, options.seed).await?;
        }
        Ok(qpipe::run(&qpipe, progress::phases()).await?)
    })?;
    results.command = command_line();
    print(&table::render(&results))?;
    match &options.json {
        Some(path) => write_json(path, &results),
        None => Ok(()),
    }
}

/// The TPC-H tables that the experiments read, made if they are missing.
pub(crate) fn tpch_files(root: &Path, scale: f64) -> Result<Vec<(String, PathBuf)>, Failure> {
    let generate = qpipe::generate(scale);
    let file = |table: tpch::Table| {
        let path = ensure_table(root, table, &generate)?;
        Ok((table.name().to_owned(), path))
    };
    qpipe::tpch_tables().map(file).collect()
}

async fn wisconsin_files(
    root: &Path,
    scale: f64,
    seed: u64,
) -> Result<Vec<(String, PathBuf)>, Failure> {
    let mut files = Vec::new();
    for table in wisconsin::tables(scale, seed) {
        let bar = progress::rows(table.name);
        bar.set_length(table.rows.into());
        let made = table.ensure(root, |rows| bar.set_position(rows)).await;
        bar.finish_and_clear();
        files.push((table.name.to_owned(), made?));
    }
    Ok(files)
}

/// Parses a multiple of a time.
fn times(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(times) if (0.0..=1000.0).contains(&times) => Ok(times),
        _ => Err("it is a number from 0 to 1000".to_owned()),
    }
}
