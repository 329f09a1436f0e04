//! Options that several subcommands have: tables, and the engine's settings.

use std::path::PathBuf;
use std::str::FromStr;

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use coscan::{Engine, EngineConfig, SETTINGS, Session, Setting, Values};
use coscan_rewrite::PAGE_ROWS_MAX;

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

/// What an engine is configured with: the settings of an engine, each a flag with the name that SET
/// has for it (`coscan.storage_model` is `--storage-model`), and two places for files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    config: EngineConfig,
}

impl Settings {
    /// An engine with these settings.
    pub(crate) fn engine(&self) -> Result<Engine, Failure> {
        Ok(Engine::new(self.config.clone())?)
    }
}

impl Args for Settings {
    fn augment_args(command: Command) -> Command {
        let flags = SETTINGS.iter().filter(|setting| setting.is_of_engine());
        let flags = flags.map(|setting| {
            let default = match setting.default {
                "" => String::new(),
                default => format!(" [default: {default}]"),
            };
            let name = setting.name;
            Arg::new(name)
                .long(name.replace('_', "-"))
                .value_name(value_name(setting))
                .value_parser(move |text: &str| valid(name, text))
                .help(format!("{}{default}", setting.help))
        });
        command
            .next_help_heading("Settings")
            .args(flags)
            .arg(
                Arg::new(SPILL_FOLDER)
                    .long(SPILL_FOLDER)
                    .value_name("FOLDER")
                    .value_parser(value_parser!(PathBuf))
                    .help("Where queries put what they have no memory for [default: the system's folder for temporary files]"),
            )
            .arg(
                Arg::new(RECORD)
                    .long(RECORD)
                    .value_name("FILE")
                    .value_parser(value_parser!(PathBuf))
                    .help("Write what the scheduler hears and decides to a log, for `coscan sim replay`"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut settings = Self::default();
        settings.update_from_arg_matches(matches)?;
        Ok(settings)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let config = &mut self.config;
        for setting in SETTINGS.iter().filter(|setting| setting.is_of_engine()) {
            if let Some(value) = matches.get_one::<String>(setting.name) {
                let set = config.set(setting.name, value);
                set.map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, error))?;
            }
        }
        config.spill_folder = matches.get_one(SPILL_FOLDER).cloned();
        config.record = matches.get_one(RECORD).cloned();
        Ok(())
    }
}

const SPILL_FOLDER: &str = "spill-folder";
const RECORD: &str = "record";

/// What a value of the setting is called in the usage line.
fn value_name(setting: &Setting) -> &'static str {
    match setting.values {
        Values::Names(_) => "NAME",
        Values::Switch => "on|off",
        Values::Kind(kind) if kind.starts_with("a size") && kind.contains("share") => "SIZE|%",
        Values::Kind(kind) if kind.starts_with("a size") => "SIZE",
        Values::Kind(_) => "PATH",
    }
}

/// The text, if it is a value of this setting.
fn valid(setting: &str, text: &str) -> Result<String, String> {
    let set = EngineConfig::default().set(setting, text);
    set.map(|()| text.to_owned())
        .map_err(|error| error.strip_backtrace())
}

/// A memory budget in bytes, as `--memory` takes it.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    let mut config = EngineConfig::default();
    let set = config.set("memory", text);
    set.map_err(|error| error.strip_backtrace())?;
    Ok(config.memory_bytes.unwrap_or_default())
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
