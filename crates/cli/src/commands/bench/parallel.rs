//! `coscan bench parallel`: do scans of a table on several devices use all of them, and do they
//! slow down small queries?

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use coscan_bench::parallel::{self, EXPERIMENTS, ParallelOptions, table};
use coscan_bench::{demo, tpch};
use coscan_quantities::{self as quantities, Share};

use super::{command_line, ensure_table, generate_options, model, print, scale, write_json};
use crate::failure::Failure;
use crate::progress;

/// Options of `coscan bench parallel`.
#[derive(Args)]
pub(crate) struct Options {
    /// The experiments to run: one scan, point queries beside scans, many clients and one in turn,
    /// and scans beside a slow device.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = EXPERIMENTS, value_parser = EXPERIMENTS)]
    experiments: Vec<String>,
    /// TPC-H's scale factor.
    #[arg(long, value_name = "N", default_value_t = 2.0, value_parser = scale)]
    scale: f64,
    /// The number of devices; one disk stands in for all of them.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=64))]
    devices: u16,
    /// The bandwidth limit of each device.
    #[arg(long, value_name = "RATE", default_value = "50MB/s", value_parser = quantities::parse_rate)]
    bandwidth: u64,
    /// The seed of keys and arrivals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// What one load reads: nsm (all columns of a chunk) or dsm (the columns that scans need).
    #[arg(long, value_name = "nsm|dsm", default_value = "dsm", value_parser = model)]
    model: String,
    /// The buffer: a size, or a share of the table.
    #[arg(long, value_name = "SIZE|%", default_value = "25%")]
    buffer: Share,
    /// The target size of a chunk on disk [default: a 256th of the table].
    #[arg(long, value_name = "SIZE", value_parser = quantities::parse_bytes)]
    chunk_bytes: Option<u64>,
    /// Partitions of each query [default: the machine's number of cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    partitions: Option<u16>,
    /// Clients that scan in the mix.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// Point queries that arrive per second of the mix.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    points: u16,
    /// How long a mix is measured.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantities::parse_duration)]
    time: Duration,
    /// Fixed degrees of parallelism to compare with the chosen one.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = FIXED, value_parser = clap::value_parser!(u32).range(1..=1024))]
    fixed: Vec<u32>,
    /// How often a scan alone is measured (the median counts), and each mix (its queries are
    /// pooled).
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    /// Skip the check of every result against plain DataFusion. Results are still compared between
    /// the settings.
    #[arg(long)]
    no_verify: bool,
    /// Where to keep the table [default: coscan/data in the user's cache folder].
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const FIXED: [u32; 4] = [1, 2, 4, 8];

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let root = options.data.clone().unwrap_or_else(tpch::default_root);
    let generate = generate_options(options.scale, demo::row_group_bytes(options.scale));
    let source = ensure_table(&root, tpch::Table::Lineitem, &generate)?;
    // As many threads as a server has.
    let mut results = crate::block_on_threads(2, async {
        let (scale, devices) = (options.scale, options.devices.into());
        let folders = parallel::ensure(&root, &source, scale, devices).await?;
        let defaults = ParallelOptions::new(source, folders, scale);
        let parallel = ParallelOptions {
            experiments: options.experiments.clone(),
            seed: options.seed,
            model: options.model.clone(),
            buffer: options.buffer,
            bandwidth: options.bandwidth,
            chunk_bytes: options.chunk_bytes.unwrap_or(defaults.chunk_bytes),
            partitions: options.partitions.map_or(defaults.partitions, usize::from),
            clients: options.clients.into(),
            points_per_second: options.points.into(),
            time: options.time,
            fixed: options.fixed.clone(),
            repeats: options.repeats.into(),
            verify: !options.no_verify,
            ..defaults
        };
        Ok(parallel::run(&parallel, progress::phases()).await?)
    })?;
    results.command = command_line();
    print(&table::render(&results))?;
    match &options.json {
        Some(path) => write_json(path, &results),
        None => Ok(()),
    }
}
