//! `coscan bench smooth`: every access path at every selectivity, or another of the paper's
//! experiments, with all figures in a file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use coscan_bench::smooth::data::{Keys, Spec, Table};
use coscan_bench::smooth::experiment_run::ExperimentOptions;
use coscan_bench::smooth::experiments::Experiment;
use coscan_bench::smooth::figures::Figures;
use coscan_bench::smooth::paths::PATHS;
use coscan_bench::smooth::picture::{PictureOptions, picture};
use coscan_bench::smooth::results::SmoothResults;
use coscan_bench::smooth::run::{self, SmoothOptions};
use coscan_bench::smooth::tpch::TpchOptions;
use coscan_bench::smooth::{self, DeviceKind, table};
use coscan_bench::{report, tpch};
use coscan_quantities as quantities;
use coscan_rewrite::PAGE_ROWS_DEFAULT;

use crate::commands::bench;
use crate::failure::Failure;
use crate::{args, progress};

/// Options of `coscan bench smooth`.
#[derive(Args)]
pub(crate) struct Options {
    /// The experiment: every selectivity by every access path, or another of the paper's
    /// experiments.
    #[arg(long, value_enum, value_name = "NAME", default_value = "selectivities")]
    experiment: What,
    /// Rows of the table.
    #[arg(long, value_name = "N", default_value_t = 20_000_000, value_parser = clap::value_parser!(u32).range(1..=ROWS_MAX))]
    rows: u32,
    /// Rows of a page.
    #[arg(long, value_name = "N", default_value_t = PAGE_ROWS_DEFAULT, value_parser = args::page_rows)]
    page_rows: usize,
    /// The seed of the table's values; of `--experiment rival` the seed of the queries' ranges.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// TPC-H's scale factor, for `--experiment tpch` and `rival`.
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = bench::scale)]
    scale: f64,
    /// Selectivities of the queries, in percent of the rows.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = SELECTIVITIES, value_parser = percent)]
    selectivities: Vec<f64>,
    /// Access paths: full, index-plain, index (which keeps decoded pages), sort, switch, smooth.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = PATHS, value_parser = PATHS)]
    paths: Vec<String>,
    /// Whether queries order their rows by the indexed column.
    #[arg(long, value_enum, value_name = "yes|no|both", default_value = "both")]
    order_by: OrderBy,
    /// The device: the machine's as it is, or slowed down to seek like a disk.
    #[arg(long, value_enum, value_name = "plain|disk", default_value = "plain")]
    device: Device,
    /// The bandwidth limit of `--device disk`.
    #[arg(long, value_name = "RATE", default_value = "200MB/s", value_parser = quantities::parse_rate)]
    bandwidth: u64,
    /// The latency that `--device disk` adds to each request [default: such that a single page
    /// costs as much as ten pages in sequence].
    #[arg(long, value_name = "TIME", value_parser = quantities::parse_duration)]
    latency: Option<Duration>,
    /// The engine's memory: a size, or a share of the machine's.
    #[arg(long, value_name = "SIZE|%", default_value = "256MiB", value_parser = args::memory)]
    memory: u64,
    /// How often each point is measured; the median counts.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    /// How long a query may take before it is cancelled.
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = quantities::parse_duration)]
    limit: Duration,
    /// Where to keep the table and its index [default: coscan/data in the user's cache folder].
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report of the selectivities, with a picture of the pages that each access path
    /// reads over time.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The selectivities of the paper's figure.
const SELECTIVITIES: [&str; 12] = [
    "0", "0.001", "0.01", "0.1", "1", "2.5", "5", "10", "20", "50", "75", "100",
];

/// Row numbers are 32-bit integers.
const ROWS_MAX: i64 = i32::MAX as i64;

/// The experiment to run.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Every selectivity by every access path, with and without ORDER BY.
    Selectivities,
    /// Matching rows dense in the first hundredth of the table, and rare after it.
    Skew,
    /// ORDER BY with less and less memory for rows that wait for their position.
    Cache,
    /// Selectivities around an estimate: switch scan against smooth scan.
    Cliff,
    /// The cost model against the measurement; needs --device disk.
    Model,
    /// Sixteen queries by an index and four full scans, all at once.
    Together,
    /// TPC-H's Q1, Q4, Q6, Q7 and Q14 with indexes, by full, index and smooth scan.
    Tpch,
    /// Few rows of TPC-H's lineitem in large pages: both index scans beside full and smooth scan.
    Rival,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OrderBy {
    Yes,
    No,
    Both,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Device {
    Plain,
    Disk,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    if options.html.is_some() && !matches!(options.experiment, What::Selectivities) {
        return Err(Failure::Usage(
            "--html draws the selectivities; no other experiment has a report".to_owned(),
        ));
    }
    let what = match options.experiment {
        What::Selectivities => return selectivities(options),
        What::Skew => Experiment::Skew,
        What::Cache => Experiment::Cache,
        What::Cliff => Experiment::Cliff,
        What::Model => Experiment::Model,
        What::Together => Experiment::Together,
        What::Tpch | What::Rival => return tpch_queries(options),
    };
    let on = ExperimentOptions {
        spec: spec(options),
        device: device(options),
        memory_bytes: options.memory,
        repeats: options.repeats.into(),
        limit: options.limit,
    };
    let figures = crate::block_on(async {
        let table = table_of(options, what.spec(&on)).await?;
        Ok(what.run(&on, &table, progress::phases()).await?)
    })?;
    show(options, &figures)
}

fn tpch_queries(options: &Options) -> Result<(), Failure> {
    let on = TpchOptions {
        scale: options.scale,
        seed: options.seed,
        memory_bytes: options.memory,
        device: device(options),
        repeats: options.repeats.into(),
        limit: options.limit,
    };
    let root = root(options);
    let figures = crate::block_on(async {
        let phases = progress::phases();
        Ok(match options.experiment {
            What::Rival => smooth::rival::run(&on, &root, phases).await?,
            _ => smooth::tpch::run(&on, &root, phases).await?,
        })
    })?;
    show(options, &figures)
}

fn show(options: &Options, figures: &Figures) -> Result<(), Failure> {
    bench::print(&figures.render())?;
    match &options.json {
        Some(path) => bench::write_json(path, figures),
        None => Ok(()),
    }
}

fn selectivities(options: &Options) -> Result<(), Failure> {
    let smooth = SmoothOptions {
        spec: spec(options),
        selectivities: options.selectivities.clone(),
        paths: options.paths.clone(),
        order_by: match options.order_by {
            OrderBy::Yes => vec![true],
            OrderBy::No => vec![false],
            OrderBy::Both => vec![false, true],
        },
        device: device(options),
        memory_bytes: options.memory,
        repeats: options.repeats.into(),
        limit: options.limit,
    };
    let results = crate::block_on(async {
        let table = table_of(options, smooth.spec).await?;
        let mut results = run::run(&smooth, &table, progress::phases()).await?;
        if options.html.is_some() {
            let pictured = PictureOptions {
                spec: smooth.spec,
                device: smooth.device,
                memory_bytes: smooth.memory_bytes,
                limit: smooth.limit,
            };
            results.picture = Some(picture(&pictured, &table, &progress::phases()).await?);
        }
        Ok(results)
    })?;
    bench::print(&table::render(&results))?;
    if let Some(path) = &options.json {
        bench::write_json(path, &results)?;
    }
    if let Some(path) = &options.html {
        bench::write_report(path, results.machine.cores, Vec::new(), |notes| {
            report::smooth::render(&results, notes)
        })?;
    }
    failed(&results)
}

fn spec(options: &Options) -> Spec {
    Spec {
        rows: options.rows,
        page_rows: options.page_rows,
        seed: options.seed,
        keys: Keys::Uniform,
    }
}

fn device(options: &Options) -> DeviceKind {
    match options.device {
        Device::Plain => DeviceKind::Plain,
        Device::Disk => DeviceKind::Disk {
            bandwidth: options.bandwidth,
            latency: options.latency,
        },
    }
}

fn root(options: &Options) -> PathBuf {
    options.data.clone().unwrap_or_else(tpch::default_root)
}

/// The table, made if it is missing.
async fn table_of(options: &Options, spec: Spec) -> Result<Table, Failure> {
    make(&root(options), spec).await
}

/// The table in a folder, made if it is missing, with a progress bar.
pub(crate) async fn make(root: &Path, spec: Spec) -> Result<Table, Failure> {
    let bar = progress::rows("table");
    bar.set_length(spec.rows.into());
    let made = spec.ensure(root, |rows| bar.set_position(rows)).await;
    bar.finish_and_clear();
    Ok(made?)
}

/// Fails the command if a query failed; the table and the file show failed queries too.
fn failed(results: &SmoothResults) -> Result<(), Failure> {
    let mut failed = results.points.iter().filter_map(|point| {
        let error = point.error.as_ref()?;
        let order = if point.order_by { ", ordered" } else { "" };
        Some(format!("{} %{order}: {error}", point.selectivity))
    });
    let Some(first) = failed.next() else {
        return Ok(());
    };
    let others = match failed.count() {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    Err(Failure::new(format!("{first}{others}")))
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("it is a number from 0 to 100".to_owned()),
    }
}
