//! `coscan spread`: writes a table as files in several folders, one on each disk.

use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use coscan::{Engine, EngineConfig};
use coscan_quantities as quantities;
use coscan_rewrite::{PageCompression, PageLayout, Spread, SpreadBy, SpreadOptions};

use super::bench;
use crate::failure::Failure;
use crate::{args, progress};

/// Options of `coscan spread`.
#[derive(Args)]
pub(crate) struct Options {
    /// The source: a Parquet file, a folder, a glob, or a URL (s3://, http://). It is not changed.
    #[arg(value_name = "SRC")]
    source: String,
    /// The folders, which must exist. Each gets a file; all files appear when all are complete.
    #[arg(
        long,
        value_name = "DIR,DIR...",
        value_delimiter = ',',
        required = true
    )]
    to: Vec<PathBuf>,
    /// How rows are distributed: round-robin (runs of rows in turn), or range(COLUMN) (sorted by
    /// the column, an equal part to each folder, so that a predicate on the column reads few of
    /// them).
    #[arg(long, value_name = "HOW", default_value = "round-robin")]
    by: By,
    /// The compression of pages: snappy, zstd or none.
    #[arg(long, value_name = "NAME", default_value = "zstd")]
    compression: PageCompression,
    /// Memory to use: a size, or a share of the machine's [default: 80%, but at least 320 MiB are
    /// left free].
    #[arg(long, value_name = "SIZE|%", value_parser = args::memory)]
    memory: Option<u64>,
    /// Where a sort spills [default: the system's folder for temporary files].
    #[arg(long, value_name = "FOLDER")]
    spill_folder: Option<PathBuf>,
}

/// How rows are distributed, parsed from the option.
#[derive(Clone, Debug)]
struct By(SpreadBy);

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "round-robin" {
            return Ok(Self(SpreadBy::RoundRobin));
        }
        let column = text.strip_prefix("range(");
        let column = column.and_then(|rest| rest.strip_suffix(')'));
        match column {
            Some(column) if !column.is_empty() => Ok(Self(SpreadBy::Range(column.to_owned()))),
            _ => Err("it is round-robin or range(COLUMN)".to_owned()),
        }
    }
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let spread = crate::block_on(async {
        let engine = Engine::new(EngineConfig {
            memory_bytes: options.memory,
            spill_folder: options.spill_folder.clone(),
            ..EngineConfig::default()
        })?;
        let bar = progress::rows("spread");
        let how = SpreadOptions {
            by: options.by.0.clone(),
            layout: PageLayout {
                compression: options.compression,
                ..PageLayout::default()
            },
        };
        let on_progress = |progress: coscan_rewrite::RewriteProgress| {
            if let Some(total) = progress.rows_total {
                bar.set_length(2 * total);
                bar.set_position(progress.rows_read + progress.rows_written);
            }
        };
        let spread =
            coscan_rewrite::spread(&engine, &options.source, &options.to, &how, on_progress).await;
        bar.finish_and_clear();
        spread.map_err(Failure::new)
    })?;
    if let Some((one, other)) = on_one_disk(&options.to) {
        eprintln!("coscan: {one} and {other} are on one disk");
    }
    bench::print(&summary(&spread))
}

fn summary(spread: &Spread) -> String {
    let mut text = String::new();
    if spread.finished {
        text.push_str("an interrupted spread is finished:\n");
    }
    for (file, written) in &spread.files {
        let rows = if spread.finished {
            String::new()
        } else {
            format!("{} rows, ", quantities::count(written.rows))
        };
        let bytes = quantities::bytes(written.bytes);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}: {rows}{bytes}", file.display());
    }
    text
}

/// Two folders that are on one disk, according to the system.
fn on_one_disk(folders: &[PathBuf]) -> Option<(String, String)> {
    let number = |folder: &PathBuf| std::fs::metadata(folder).map(|data| data.dev()).ok();
    let mut pairs = folders.iter().enumerate().flat_map(|(at, one)| {
        let others = folders[at + 1..].iter();
        others.map(move |other| (one, other))
    });
    let same =
        |(one, other): &(&PathBuf, &PathBuf)| number(one).is_some() && number(one) == number(other);
    let (one, other) = pairs.find(same)?;
    Some((one.display().to_string(), other.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_round_robin_or_by_range() {
        let by = |text: &str| text.parse::<By>().map(|by| by.0);
        assert_eq!(by("round-robin"), Ok(SpreadBy::RoundRobin));
        assert_eq!(
            by("range(l_shipdate)"),
            Ok(SpreadBy::Range("l_shipdate".to_owned()))
        );
        for wrong in ["", "range", "range()", "range(x", "hash(x)"] {
            assert!(by(wrong).is_err(), "{wrong}");
        }
    }
}
