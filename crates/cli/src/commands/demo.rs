//! `coscan demo`: the papers' experiment on a generated table, in a few minutes and without setup.

use std::path::PathBuf;

use clap::Args;
use coscan_bench::coop::{self, CoopOptions};
use coscan_bench::dashboard;
use coscan_bench::demo::{self, Scaling};
use coscan_bench::results::{POLICIES, WITH_FRAGMENTS};
use coscan_bench::smooth::picture;
use coscan_bench::{report, table, tpch};
use coscan_quantities as quantities;

use super::bench::smooth::make;
use super::bench::{self, WorkloadArgs};
use crate::failure::Failure;
use crate::progress;

/// Options of `coscan demo`.
#[derive(Args)]
pub(crate) struct Options {
    /// TPC-H's scale factor: 1 is a table of 200 MB.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = bench::scale)]
    scale: f64,
    /// The device's bandwidth limit [default: so that a full scan takes 3 s].
    #[arg(long, value_name = "RATE", value_parser = quantities::parse_rate)]
    bandwidth: Option<u64>,
    #[command(flatten)]
    workload: WorkloadArgs,
    /// Terms of extra arithmetic in SLOW.
    #[arg(long, value_name = "N", default_value_t = coop::SLOW_ARITHMETIC_DEFAULT)]
    slow_arithmetic: u32,
    /// Where to write the report.
    #[arg(long, value_name = "FILE", default_value = "coscan-demo.html")]
    html: PathBuf,
    /// Write the results as JSON too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to keep the generated table [default: coscan/data in the user's cache folder].
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let root = options.data.clone().unwrap_or_else(tpch::default_root);
    let chunk_bytes = demo::row_group_bytes(options.scale);
    let generate = bench::generate_options(options.scale, chunk_bytes);
    let path = bench::ensure_table(&root, tpch::Table::Lineitem, &generate)?;
    let scan_bytes = coop::full_scan_bytes(&path, &options.workload.model)?;
    let scaling = Scaling::new(scan_bytes, options.bandwidth);
    let title = format!("TPC-H lineitem, scale factor {}", options.scale);
    let mut coop = CoopOptions {
        delay: scaling.delay,
        bandwidth: Some(scaling.bandwidth),
        chunk_bytes,
        slow_arithmetic: options.slow_arithmetic,
        ..options.workload.options(path.clone(), title)
    };
    if coop.policies == POLICIES {
        coop.policies.push(WITH_FRAGMENTS.to_owned());
    }
    bench::print(&format!(
        "{} streams of {} queries over {} ({}), once under each policy; {WITH_FRAGMENTS} shares \
         the work above the scans too.\n{}\n\n",
        coop.streams,
        coop.queries,
        coop.title,
        path.display(),
        wrap(&scaling.explanation(), LINE)
    ))?;
    let results = crate::block_on(async { Ok(coop::run(&coop, progress::phases()).await?) })?;
    let tables = bench::qpipe::tpch_files(&root, options.scale)?;
    let verify = !options.workload.no_verify;
    let shared = demo::dashboard(tables, options.scale, &scaling, verify);
    let shared =
        crate::block_on(async { Ok(dashboard::run(&shared, &progress::phases()).await?) })?;
    let pictured = demo::picture(options.scale);
    let picture = crate::block_on(async {
        let table = make(&root, pictured.spec).await?;
        Ok(picture::picture(&pictured, &table, &progress::phases()).await?)
    })?;
    let paragraphs = vec![scaling.explanation(), demo::PICTURE_EXPLANATION.to_owned()];
    bench::write_report(&options.html, results.cores, paragraphs, |notes| {
        report::render(&results, Some(&shared), Some(&picture), notes)
    })?;
    if let Some(json) = &options.json {
        bench::write_json(json, &results)?;
    }
    let html = std::path::absolute(&options.html).unwrap_or_else(|_| options.html.clone());
    bench::print(&format!(
        "{}\nReport: {}\n",
        table::render(&results),
        html.display()
    ))
}

/// Breaks text into lines of at most `width` characters; longer words stay whole.
fn wrap(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// The width of a line; fits common terminals.
const LINE: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_filled_and_words_stay_whole() {
        assert_eq!(wrap("a bb ccc dddddddd e", 6), "a bb\nccc\ndddddddd\ne");
        assert_eq!(wrap("", 6), "");
    }
}
