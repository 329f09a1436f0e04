//! `coscan rewrite`: rewrites Parquet files as one file whose pages begin at the same rows in
//! every column.

use std::path::PathBuf;

use clap::Args;
use coscan::{Engine, EngineConfig};
use coscan_quantities as quantities;
use coscan_rewrite::{
    PAGE_ROWS_DEFAULT, PageCompression, PageLayout, ROW_GROUP_ROWS_DEFAULT, RewriteError,
    RewriteOptions, RewriteProgress, Rewritten,
};
use indicatif::ProgressBar;

use super::bench;
use crate::failure::Failure;
use crate::{args, progress};

/// Options of `coscan rewrite`.
#[derive(Args)]
pub(crate) struct Options {
    /// The source: a Parquet file, a folder, a glob, or a URL (s3://, http://).
    #[arg(value_name = "SRC")]
    source: String,
    /// The file to write, or its URL. It appears once it is complete.
    #[arg(value_name = "DST")]
    target: String,
    /// Rows of a page.
    #[arg(long, value_name = "N", default_value_t = PAGE_ROWS_DEFAULT, value_parser = args::page_rows)]
    page_rows: usize,
    /// Sort by these columns, ascending, NULL last [default: keep the order of the rows].
    #[arg(long, value_name = "COL[,COL...]", value_delimiter = ',')]
    sort_by: Vec<String>,
    /// The largest target size of a row group on disk.
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = quantities::parse_bytes)]
    row_group_bytes: u64,
    /// The most rows of a row group, in whole pages.
    #[arg(long, value_name = "N", default_value_t = ROW_GROUP_ROWS_DEFAULT, value_parser = rows)]
    row_group_rows: usize,
    /// The compression of pages: snappy, zstd or none.
    #[arg(long, value_name = "NAME", default_value = "zstd")]
    compression: PageCompression,
    /// Replace DST if it exists.
    #[arg(long)]
    force: bool,
    /// Memory to use: a size, or a share of the machine's [default: 80%, but at least 320 MiB are
    /// left free].
    #[arg(long, value_name = "SIZE|%", value_parser = args::memory)]
    memory: Option<u64>,
    /// Where a sort spills [default: the system's folder for temporary files].
    #[arg(long, value_name = "FOLDER")]
    spill_folder: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let rewritten = crate::block_on(async {
        let engine = Engine::new(EngineConfig {
            memory_bytes: options.memory,
            spill_folder: options.spill_folder.clone(),
            ..EngineConfig::default()
        })?;
        let plan = RewriteOptions {
            layout: PageLayout {
                page_rows: options.page_rows,
                row_group_rows: options.row_group_rows,
                row_group_bytes: options.row_group_bytes,
                compression: options.compression,
            },
            sort_by: options.sort_by.clone(),
            replace: options.force,
        };
        let bar = progress::rows("rewrite");
        let on_progress = |progress| show(&bar, progress);
        let (source, target) = (&options.source, &options.target);
        let rewritten = coscan_rewrite::rewrite(&engine, source, target, &plan, on_progress).await;
        bar.finish_and_clear();
        rewritten.map_err(|error| explained(&error))
    })?;
    bench::print(&summary(options, &rewritten))
}

/// Shows progress: reading a row is half of the work, writing it the other half. If the total is
/// unknown the bar stays empty.
fn show(bar: &ProgressBar, progress: RewriteProgress) {
    if let Some(total) = progress.rows_total {
        bar.set_length(2 * total);
        bar.set_position(progress.rows_read + progress.rows_written);
    }
}

fn explained(error: &RewriteError) -> Failure {
    match error {
        RewriteError::Exists { .. } => Failure::new(format!("{error}; --force replaces it")),
        _ => Failure::new(error),
    }
}

fn summary(options: &Options, rewritten: &Rewritten) -> String {
    let counted = |count: u64, what: &str| {
        let plural = if count == 1 { "" } else { "s" };
        format!("{} {what}{plural}", quantities::count(count))
    };
    format!(
        "{}: {} in {} and {} of {}, {}\n",
        options.target,
        counted(rewritten.rows, "row"),
        counted(rewritten.row_groups, "row group"),
        counted(rewritten.pages, "page"),
        counted(options.page_rows as u64, "row"),
        quantities::bytes(rewritten.bytes),
    )
}

fn rows(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("it is a number from 1".to_owned()),
        Ok(rows) => Ok(rows),
    }
}
