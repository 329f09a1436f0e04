//! The `coscan` command.
//!
//! One module per subcommand, in `commands/`; each turns its options into calls of a library
//! crate and shows the results. Results go to standard output, everything else to standard error.
//! Exit codes: 0 for success, 1 for a failure, 2 for inconsistent options, 130 after an
//! interrupt.

mod allocator;
mod args;
mod commands;
mod concurrent;
mod descriptors;
mod failure;
mod log_lines;
mod output;
mod progress;
mod reclaim;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use failure::Failure;

/// Analytical SQL in which concurrent queries share one read of a table.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the effect of sharing reads: the papers' workload under four policies, as a table and
    /// a report.
    Demo(commands::demo::Options),
    /// Run SQL over Parquet files.
    Sql(commands::sql::Options),
    /// Rewrite Parquet so that pages begin at the same rows in every column.
    Rewrite(commands::rewrite::Options),
    /// Spread a table over several folders, one on each disk.
    Spread(commands::spread::Options),
    /// Serve SQL over Parquet files to PostgreSQL clients.
    Serve(commands::serve::Options),
    /// Run parts of the queries of a cluster, for `--cluster` of other commands.
    Worker(commands::worker::Options),
    /// The nodes of a cluster.
    Cluster(commands::cluster::Options),
    /// Secondary indexes of Parquet tables.
    Index(commands::index::Options),
    /// Experiments on the real engine.
    Bench(commands::bench::Options),
    /// The papers' experiments in the simulator, and thousands of injected faults.
    Sim(coscan_study::command::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Demo(options) => commands::demo::run(&options),
        Command::Sql(options) => commands::sql::run(&options),
        Command::Rewrite(options) => commands::rewrite::run(&options),
        Command::Spread(options) => commands::spread::run(&options),
        Command::Serve(options) => commands::serve::run(options),
        Command::Worker(options) => commands::worker::run(&options),
        Command::Cluster(options) => commands::cluster::run(&options),
        Command::Index(options) => commands::index::run(&options),
        Command::Bench(options) => commands::bench::run(options),
        Command::Sim(options) => coscan_study::command::run(&options).map_err(Failure::from),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                eprintln!("coscan: {message}");
            }
            failure.exit_code()
        }
    }
}

/// How long tasks that were cancelled may take to end.
const SHUTDOWN_MAX: Duration = Duration::from_millis(100);

/// Runs a future on a new multi-threaded runtime until it ends or the user interrupts it.
///
/// An interrupt drops the future, which cancels the queries in it; a second interrupt ends the
/// process at once, as usual.
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    block_on_threads(1, work)
}

/// Like [`block_on`], with `per_core` threads per core.
fn block_on_threads<T>(
    per_core: usize,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime = runtime("coscan", per_core)?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = work => outcome,
            _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
        }
    });
    // Tasks that are under way may hold the engine, whose end removes its folders. Blocking tasks
    // that do not notice the cancellation must not delay the exit.
    runtime.shutdown_timeout(SHUTDOWN_MAX);
    outcome
}

/// A runtime with `per_core` threads per core.
fn runtime(name: &str, per_core: usize) -> Result<tokio::runtime::Runtime, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(per_core * cores)
        .enable_all()
        .thread_name(name)
        .thread_stack_size(coscan::THREAD_STACK_BYTES)
        .build()
        .map_err(|error| Failure::new(format!("threads cannot be started: {error}")))
}
