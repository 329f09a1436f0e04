//! `coscan bench workload` and `coscan bench mix`: write the queries to a file, so that other
//! engines can run the same ones (`lab/arena`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use coscan_bench::coop;
use coscan_bench::workload::{Mix, WholeSpec, Workload, WorkloadSpec};
use coscan_quantities as quantities;
use serde::Serialize;

use super::{print, scale, write_json};
use crate::failure::Failure;

/// Options of `coscan bench workload`.
#[derive(Args)]
pub(crate) struct Options {
    /// SPEED-SIZE as in the paper's Figure 5, such as FFS-M; the size T is Table 2's.
    #[arg(long, value_name = "MIX", default_value = "FS-T")]
    mix: Mix,
    /// Streams that run at once.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    streams: u16,
    /// Queries of each stream, one after the other.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    queries: u16,
    /// Time between two streams' starts.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = quantities::parse_duration)]
    delay: Duration,
    /// The seed of the random workload.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// TPC-H's scale factor of the table.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = scale)]
    scale: f64,
    /// The table's name in the statements.
    #[arg(long, value_name = "NAME", default_value = "lineitem")]
    table: String,
    /// Terms of extra arithmetic in SLOW.
    #[arg(long, value_name = "N", default_value_t = coop::SLOW_ARITHMETIC_DEFAULT)]
    slow_arithmetic: u32,
    /// Give no two queries a date in common, so that no query computes what another needs.
    #[arg(long)]
    distinct: bool,
    /// The file to write [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Options of `coscan bench mix`.
#[derive(Args)]
pub(crate) struct MixOptions {
    /// Clients, which all begin at once.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// Queries of each client, one after the other.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    queries: u16,
    /// Sets of parameters for each query [default: new ones for each run of the query].
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    sets: u16,
    /// The seed of the random workload.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The file to write [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// TPC-H's keys are sparse: 8 of every 32 are used, so the 1,500,000 orders of scale factor 1 end
/// here.
const KEYS_PER_SCALE: f64 = 6_000_000.0;

/// Writes a workload of the papers' queries.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    #[expect(clippy::cast_possible_truncation, reason = "scale factors are small")]
    let last = (options.scale * KEYS_PER_SCALE) as i64;
    let workload = Workload::draw(WorkloadSpec {
        mix: options.mix.clone(),
        streams: options.streams.into(),
        queries: options.queries.into(),
        delay: options.delay,
        seed: options.seed,
        keys: 1..=last,
        slow_arithmetic: options.slow_arithmetic,
        table: options.table.clone(),
        distinct: options.distinct,
    })?;
    write(options.out.as_deref(), &workload.dump())
}

/// Writes a workload of whole TPC-H queries.
pub(crate) fn run_mix(options: &MixOptions) -> Result<(), Failure> {
    let spec = WholeSpec {
        clients: options.clients.into(),
        queries: options.queries.into(),
        sets: options.sets.into(),
        seed: options.seed,
    };
    write(options.out.as_deref(), &spec.draw())
}

fn write(path: Option<&Path>, workload: &impl Serialize) -> Result<(), Failure> {
    match path {
        Some(path) => write_json(path, workload),
        None => {
            let text = serde_json::to_string(workload).map_err(Failure::new)?;
            print(&format!("{text}\n"))
        }
    }
}
