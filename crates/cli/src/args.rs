//! Options that several subcommands have: tables, and the engine's settings.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use coscan::rewrite::PAGE_ROWS_MAX;
use coscan::{AccessPath, Engine, EngineConfig, Policy, Session, StorageModel};
use coscan_bench::units;

use crate::failure::Failure;

/// A table, as `NAME=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    name: String,
    path: String,
}

impl FromStr for Table {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok(Self {
                name: name.to_owned(),
                path: path.to_owned(),
            }),
            _ => Err("write NAME=PATH".to_owned()),
        }
    }
}

/// The tables that statements may name.
#[derive(Args, Clone, Debug)]
pub(crate) struct Tables {
    /// A table: a Parquet file, a folder, a glob, or a URL (s3://, http://). May be given several
    /// times.
    #[arg(short = 't', long = "table", value_name = "NAME=PATH")]
    tables: Vec<Table>,
}

impl Tables {
    /// Makes the tables known to all sessions of the engine.
    pub(crate) async fn register(&self, session: &Session) -> Result<(), Failure> {
        for table in &self.tables {
            session.register(&table.name, &table.path).await?;
        }
        Ok(())
    }
}

/// The engine's settings, with the names that SET has for them (`coscan.policy` is `--policy`).
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Settings")]
pub(crate) struct Settings {
    /// Which scan is served and which chunk loaded next: normal, attach, pbm, pbm-sampling,
    /// elevator, relevance or relevance-2007.
    #[arg(long, value_name = "NAME")]
    policy: Option<Policy>,
    /// What one load brings: nsm (all columns of a chunk) or dsm (the columns that scans need).
    #[arg(long, value_name = "NAME")]
    storage_model: Option<StorageModel>,
    /// Memory for chunks, decoded columns and operators together: a size, or a share of the
    /// machine's [default: 70%, but 320 MiB are left].
    #[arg(long, value_name = "SIZE|%", value_parser = memory)]
    memory: Option<u64>,
    /// The size that a chunk is meant to have on disk [default: 16MiB].
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    chunk_bytes: Option<u64>,
    /// Scans that need less are left to DataFusion's own reader [default: 8MiB].
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    small_table_bytes: Option<u64>,
    /// Whether scans are scheduled together.
    #[arg(long, value_name = "on|off")]
    cooperative: Option<Switch>,
    /// How rows are found where an index serves the predicate: full, index, sort, switch or smooth.
    #[arg(long, value_name = "NAME")]
    access_path: Option<AccessPath>,
    /// Where indexes are kept: a folder or URL [default: the folder _coscan beside the table].
    #[arg(long, value_name = "PATH")]
    index_folder: Option<String>,
    /// Where queries put what they have no memory for [default: the system's folder for temporary
    /// files].
    #[arg(long, value_name = "FOLDER")]
    spill_folder: Option<PathBuf>,
    /// Write what the scheduler hears and decides to a log, for `coscan sim replay`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl Settings {
    /// An engine with these settings.
    pub(crate) fn engine(&self) -> Result<Engine, Failure> {
        let defaults = EngineConfig::default();
        Ok(Engine::new(EngineConfig {
            policy: self.policy.unwrap_or(defaults.policy),
            model: self.storage_model.unwrap_or(defaults.model),
            memory_bytes: self.memory,
            chunk_bytes: self.chunk_bytes.unwrap_or(defaults.chunk_bytes),
            small_table_bytes: self.small_table_bytes.unwrap_or(defaults.small_table_bytes),
            record: self.record.clone(),
            access_path: self.access_path.unwrap_or(defaults.access_path),
            index_folder: self.index_folder.clone(),
            spill_folder: self.spill_folder.clone(),
            cooperative: !matches!(self.cooperative, Some(Switch::Off)),
            ..defaults
        })?)
    }
}

/// A memory budget, as `--memory` takes it.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    coscan::parse_memory(text)
        .map_err(|_| "write a size such as 2GB, or a share such as 50%".to_owned())
}

/// Rows of a page, as `--page-rows` takes them.
pub(crate) fn page_rows(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rows) if (1..=PAGE_ROWS_MAX).contains(&rows) => Ok(rows),
        _ => Err(format!("it is a number from 1 to {PAGE_ROWS_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_name_and_a_path() {
        let table: Table = "t=s3://bucket/a=b/*.parquet".parse().unwrap();
        assert_eq!(
            (table.name.as_str(), table.path.as_str()),
            ("t", "s3://bucket/a=b/*.parquet")
        );
        for wrong in ["t", "=x", "t=", ""] {
            assert!(wrong.parse::<Table>().is_err(), "{wrong}");
        }
    }
}
