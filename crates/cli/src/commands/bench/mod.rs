//! `coscan bench`: experiments on the real engine, with all figures in a file.
//!
//! Here: `coop`, `data`, and what the experiments share.

mod parallel;
pub(crate) mod qpipe;
pub(crate) mod smooth;
mod workload;

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use coscan::{Policy, StorageModel, UnknownName};
use coscan_bench::coop::{self, CoopOptions};
use coscan_bench::report::{self, Notes};
use coscan_bench::results::POLICIES;
use coscan_bench::workload::Mix;
use coscan_bench::{BenchError, table, tpch};
use coscan_quantities::{self as quantities, NotAQuantity, Share};

use crate::failure::Failure;
use crate::progress;

/// Options of `coscan bench`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The cooperative-scan papers' experiment: streams of FAST and SLOW queries, policy by
    /// policy.
    Coop(Box<CoopArgs>),
    /// The smooth-scan paper's micro-benchmark: each access path at each selectivity.
    Smooth(Box<smooth::Options>),
    /// The experiments of the paper on shared operators: what queries in flight save.
    Qpipe(Box<qpipe::Options>),
    /// A table on several devices: one scan, a mix with point queries, and a slow device.
    Parallel(Box<parallel::Options>),
    /// Make TPC-H tables as Parquet files.
    Data(DataArgs),
    /// Write the queries of `coop`'s streams to a file, for other engines (`lab/arena`).
    Workload(workload::Options),
    /// Write whole TPC-H queries of concurrent clients to a file of the same form.
    Mix(workload::MixOptions),
}

/// Runs the command.
pub(crate) fn run(options: Options) -> Result<(), Failure> {
    match options.command {
        Command::Coop(args) => run_coop(&args),
        Command::Smooth(options) => smooth::run(&options),
        Command::Qpipe(options) => qpipe::run(&options),
        Command::Parallel(options) => parallel::run(&options),
        Command::Data(args) => run_data(&args),
        Command::Workload(options) => workload::run(&options),
        Command::Mix(options) => workload::run_mix(&options),
    }
}

/// The options that the demo and the benchmark share.
#[derive(Args, Clone, Debug)]
pub(crate) struct WorkloadArgs {
    /// What one load reads: nsm (all columns of a chunk) or dsm (the columns that scans need).
    #[arg(long, value_name = "nsm|dsm", default_value = "dsm", value_parser = model)]
    pub(crate) model: String,
    /// The policies, in this order.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = POLICIES, value_parser = policy)]
    pub(crate) policies: Vec<String>,
    /// Streams that run at once.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) streams: u16,
    /// Queries of each stream, one after the other.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) queries: u16,
    /// The seed of the random workload.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The buffer: a size, or a share of the data that the workload could touch (nsm: the table;
    /// dsm: the columns that its queries name).
    #[arg(long, value_name = "SIZE|%", default_value = "25%")]
    pub(crate) buffer: Share,
    /// Threads of each query; the papers' queries had one.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) partitions: u16,
    /// Skip the check of every result against plain DataFusion. Results are still compared between
    /// the policies.
    #[arg(long)]
    pub(crate) no_verify: bool,
}

impl WorkloadArgs {
    /// The options of a run on `table`.
    pub(crate) fn options(&self, table: PathBuf, title: String) -> CoopOptions {
        CoopOptions {
            table,
            title,
            model: self.model.clone(),
            policies: self.policies.clone(),
            streams: self.streams.into(),
            queries: self.queries.into(),
            seed: self.seed,
            buffer: self.buffer,
            partitions: Some(self.partitions.into()),
            verify: !self.no_verify,
            ..CoopOptions::default()
        }
    }
}

#[derive(Args)]
struct CoopArgs {
    /// TPC-H lineitem: a Parquet file or a folder of them, ordered by `l_orderkey`.
    #[arg(long, value_name = "PATH")]
    table: PathBuf,
    #[command(flatten)]
    workload: WorkloadArgs,
    /// SPEED-SIZE as in the paper's Figure 5, such as FFS-M; the size T is Table 2's.
    #[arg(long, value_name = "MIX", default_value = "FS-T")]
    mix: Mix,
    /// Time between two streams' starts.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = quantities::parse_duration)]
    delay: Duration,
    /// The device's bandwidth limit, or `none`.
    #[arg(long, value_name = "RATE", default_value = "200MB/s")]
    bandwidth: Bandwidth,
    /// Time added to each request to the device.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = quantities::parse_duration)]
    latency: Duration,
    /// The target size of a chunk on disk.
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = quantities::parse_bytes)]
    chunk_bytes: u64,
    /// Terms of extra arithmetic in SLOW.
    #[arg(long, value_name = "N", default_value_t = coop::SLOW_ARITHMETIC_DEFAULT)]
    slow_arithmetic: u32,
    /// Find and use the amount of arithmetic with which SLOW takes RATIO times as long as FAST
    /// alone, and print it.
    #[arg(long, value_name = "RATIO", num_args = 0..=1, default_missing_value = "1.7")]
    calibrate_slow: Option<f64>,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Log the scheduler's events and decisions under each policy, for `coscan sim replay`; with
    /// several policies to FILE.POLICY.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Write the workload in the form that lab/arena/peers.py reads, and run nothing.
    #[arg(long, value_name = "FILE")]
    dump_workload: Option<PathBuf>,
}

#[derive(Args)]
struct DataArgs {
    /// TPC-H's scale factor.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = scale)]
    scale: f64,
    /// The tables to make.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["lineitem"])]
    tables: Vec<tpch::Table>,
    /// Where to keep them [default: coscan/data in the user's cache folder].
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// The target size of a row group on disk.
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = quantities::parse_bytes)]
    row_group_bytes: u64,
}

fn run_coop(args: &CoopArgs) -> Result<(), Failure> {
    let title = args
        .table
        .file_name()
        .unwrap_or(args.table.as_os_str())
        .to_string_lossy();
    let mut options = CoopOptions {
        mix: args.mix.clone(),
        delay: args.delay,
        bandwidth: args.bandwidth.0,
        latency: args.latency,
        chunk_bytes: args.chunk_bytes,
        slow_arithmetic: args.slow_arithmetic,
        record: args.record.clone(),
        ..args
            .workload
            .options(args.table.clone(), title.into_owned())
    };
    let results = crate::block_on(async {
        if let Some(ratio) = args.calibrate_slow {
            let found = coop::calibrate_slow(&options, ratio, progress::phases()).await?;
            eprintln!(
                "--slow-arithmetic {} makes SLOW {:.2} times as slow as FAST",
                found.slow_arithmetic, found.ratio
            );
            options.slow_arithmetic = found.slow_arithmetic;
        }
        if let Some(path) = &args.dump_workload {
            write_json(path, &coop::workload(&options)?.dump())?;
            return Ok(None);
        }
        Ok(Some(coop::run(&options, progress::phases()).await?))
    })?;
    let Some(results) = results else {
        return Ok(());
    };
    print(&table::render(&results))?;
    if let Some(path) = &args.json {
        write_json(path, &results)?;
    }
    if let Some(path) = &args.html {
        write_report(path, results.cores, Vec::new(), |notes| {
            report::render(&results, None, None, notes)
        })?;
    }
    Ok(())
}

fn run_data(args: &DataArgs) -> Result<(), Failure> {
    let root = args.data.clone().unwrap_or_else(tpch::default_root);
    let generate = generate_options(args.scale, args.row_group_bytes);
    for table in &args.tables {
        let path = ensure_table(&root, *table, &generate)?;
        print(&format!("{}\n", path.display()))?;
    }
    Ok(())
}

/// Options to make row groups of this size on all cores.
pub(crate) fn generate_options(scale: f64, row_group_bytes: u64) -> tpch::Generate {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    tpch::Generate {
        scale,
        row_group_bytes,
        threads,
    }
}

/// Makes a table if it is missing, with a progress bar; an interrupt leaves no file behind.
pub(crate) fn ensure_table(
    root: &Path,
    table: tpch::Table,
    generate: &tpch::Generate,
) -> Result<PathBuf, Failure> {
    let (root, generate) = (root.to_owned(), generate.clone());
    // Not `crate::block_on`, which would return at once: this must wait for the thread, which
    // removes its unfinished file.
    crate::runtime("coscan", 1)?.block_on(async move {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let mut work = tokio::task::spawn_blocking(move || {
            let stopped = std::sync::Mutex::new(stopped);
            let bar = progress::rows(table.name());
            let made = tpch::ensure(&root, table, &generate, &|done, all| {
                bar.set_length(all);
                bar.set_position(done);
                let signal = stopped.lock().map(|stopped| stopped.try_recv());
                match signal {
                    Ok(Err(std::sync::mpsc::TryRecvError::Empty)) => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                }
            });
            bar.finish_and_clear();
            made
        });
        let made = tokio::select! {
            made = &mut work => made,
            _ = tokio::signal::ctrl_c() => {
                drop(stop);
                work.await
            }
        };
        match made {
            Ok(Err(BenchError::Stopped)) => Err(Failure::Interrupted),
            Ok(made) => Ok(made?),
            Err(error) => Err(Failure::new(error)),
        }
    })
}

/// Writes a report with the command line and the machine's data.
pub(crate) fn write_report(
    path: &Path,
    cores: usize,
    paragraphs: Vec<String>,
    render: impl FnOnce(&Notes) -> String,
) -> Result<(), Failure> {
    let notes = Notes {
        command: command_line(),
        machine: format!(
            "Coscan {}, {cores} cores, {}.",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::ARCH
        ),
        paragraphs,
    };
    write(path, render(&notes).as_bytes())
}

/// The command line of this run.
fn command_line() -> String {
    let command: Vec<String> = std::iter::once("coscan".to_owned())
        .chain(std::env::args().skip(1))
        .map(|argument| {
            if argument.contains(' ') {
                format!("'{argument}'")
            } else {
                argument
            }
        })
        .collect();
    command.join(" ")
}

/// Writes a value as one line of JSON.
pub(crate) fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_vec(value).map_err(Failure::new)?;
    text.push(b'\n');
    write(path, &text)
}

fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, content)
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// Writes to standard output; a closed reader is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// A rate, or `none`.
#[derive(Clone, Copy, Debug)]
struct Bandwidth(Option<u64>);

impl FromStr for Bandwidth {
    type Err = NotAQuantity;

    fn from_str(text: &str) -> Result<Self, NotAQuantity> {
        match text {
            "none" => Ok(Self(None)),
            rate => quantities::parse_rate(rate).map(|rate| Self(Some(rate))),
        }
    }
}

/// Parses a scale factor that the generator accepts.
pub(crate) fn scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.001..=10_000.0).contains(&scale) => Ok(scale),
        _ => Err("it is a number from 0.001 to 10000".to_owned()),
    }
}

fn policy(text: &str) -> Result<String, UnknownName> {
    text.parse().map(|policy: Policy| policy.to_string())
}

fn model(text: &str) -> Result<String, UnknownName> {
    text.parse().map(|model: StorageModel| model.to_string())
}
