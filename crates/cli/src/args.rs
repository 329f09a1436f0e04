//! Options that several subcommands share: tables, and the engine's settings.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use coscan::{Engine, EngineConfig, NamedDevice, SETTINGS, Session, Setting, Throttle, Values};
use coscan_cluster::{Cluster, Nodes};
use coscan_quantities as quantities;
use coscan_rewrite::PAGE_ROWS_MAX;

use crate::allocator;
use crate::failure::Failure;
use crate::reclaim::{self, Bound};

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
    /// A table: a Parquet file, a folder, a glob, or a URL (s3://, http://), or several of these
    /// with the same columns, on one disk or on many. May be given several times.
    #[arg(short = 't', long = "table", value_name = "NAME=PATH[,PATH...]")]
    tables: Vec<Table>,
}

impl Tables {
    /// Registers the tables for all sessions of the engine.
    pub(crate) async fn register(&self, session: &Session) -> Result<(), Failure> {
        for table in &self.tables {
            session.register(&table.name, &table.path).await?;
        }
        Ok(())
    }

    /// Declares the tables for all sessions of the engine. If a table cannot be opened, the
    /// statements that use it fail.
    pub(crate) async fn declare(&self, session: &Session) {
        for table in &self.tables {
            if let Some(error) = session.declare(&table.name, &table.path).await {
                eprintln!("coscan: {error}");
            }
        }
    }
}

/// Which nodes run the statements.
#[derive(Args, Clone, Debug)]
pub(crate) struct OnNodes {
    /// Have the workers that this file lists run the statements, or those at the addresses that a
    /// name has. They must see the tables' files under the same paths (docs/how-to/cluster.md).
    #[arg(long, value_name = "FILE|dns:NAME:PORT")]
    cluster: Option<PathBuf>,
}

impl OnNodes {
    /// A session on the listed nodes, once all have answered; one of this process if none are.
    pub(crate) async fn session(&self, engine: &Engine) -> Result<Session, Failure> {
        let Some(cluster) = self.cluster()? else {
            return Ok(engine.session());
        };
        let cluster = cluster.connected().await.map_err(Failure::new)?;
        Ok(cluster.session(engine))
    }

    /// The cluster of the listed nodes, if there is a list.
    pub(crate) fn cluster(&self) -> Result<Option<Cluster>, Failure> {
        let nodes = self.cluster.as_deref().map(Nodes::read).transpose();
        let cluster = nodes.map_err(Failure::new)?.map(Cluster::new).transpose();
        cluster.map_err(Failure::new)
    }
}

/// Makes the sessions of a server: on the nodes of a cluster, of which at least one must answer; of
/// this process without one.
pub(crate) async fn sessions(
    cluster: Option<Cluster>,
    engine: &Engine,
) -> Result<Sessions, Failure> {
    let engine = engine.clone();
    let Some(cluster) = cluster else {
        return Ok(Box::new(move || engine.session()));
    };
    let health = cluster.health().await;
    let answers = health.iter().any(|node| node.is_well.is_ok());
    for error in health.into_iter().filter_map(|node| node.is_well.err()) {
        if !answers {
            return Err(Failure::new(error));
        }
        eprintln!("coscan: left out until it answers: {error}");
    }
    Ok(Box::new(move || cluster.session(&engine)))
}

/// Makes a session for each client.
pub(crate) type Sessions = Box<dyn Fn() -> Session + Send + Sync>;

/// The configuration of an engine. Each setting is a flag with its name in SET
/// (`coscan.storage_model` is `--storage-model`); more flags give the spill folder, devices and
/// the scheduler's log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    config: EngineConfig,
}

impl Settings {
    /// An engine with these settings.
    pub(crate) fn engine(&self) -> Result<Engine, Failure> {
        let engine = Engine::new(self.config.clone())?;
        engine.memory().own_process();
        engine.memory().on_limit(|bytes| {
            allocator::limited_to(bytes);
            true
        });
        let memory = Arc::downgrade(engine.memory());
        reclaim::keep_small(move || {
            memory.upgrade().map(|memory| Bound {
                is_near: memory.is_near_bound(),
                is_exceeded: memory.excess_bytes() > 0,
            })
        });
        Ok(engine)
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
                    .help("Where queries spill [default: the system's folder for temporary files]"),
            )
            .arg(
                Arg::new(DEVICE)
                    .long(DEVICE)
                    .value_name("NAME=PATH[,RATE[,TIME]]")
                    .value_parser(device)
                    .action(ArgAction::Append)
                    .help("A device with a name and the files below PATH; several paths with one name are one device. RATE (50MB/s) and TIME (5ms) slow it down. May be given several times [default: the system tells disks apart]"),
            )
            .arg(
                Arg::new(RECORD)
                    .long(RECORD)
                    .value_name("FILE")
                    .value_parser(value_parser!(PathBuf))
                    .help("Log the scheduler's events and decisions, for `coscan sim replay`"),
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
        let devices = matches.get_many::<NamedDevice>(DEVICE);
        config.devices = devices.into_iter().flatten().cloned().collect();
        Ok(())
    }
}

const SPILL_FOLDER: &str = "spill-folder";
const RECORD: &str = "record";
const DEVICE: &str = "device";

/// A device, as `NAME=PATH[,RATE[,TIME]]`.
fn device(text: &str) -> Result<NamedDevice, String> {
    let wrong =
        || "write NAME=PATH, with a rate (50MB/s) and a time (5ms) behind commas".to_owned();
    let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
    let mut words = rest.split(',');
    let path = words.next().unwrap_or_default();
    if name.is_empty() || path.is_empty() {
        return Err(wrong());
    }
    let rate = words.next().map(quantities::parse_rate).transpose();
    let rate = rate.map_err(|error| error.to_string())?;
    let latency = words.next().map(quantities::parse_duration).transpose();
    let latency = latency.map_err(|error| error.to_string())?;
    if words.next().is_some() {
        return Err(wrong());
    }
    Ok(NamedDevice {
        name: name.to_owned(),
        path: std::path::absolute(path).map_err(|error| format!("{path}: {error}"))?,
        throttle: rate.map(|bytes_per_second| Throttle {
            bytes_per_second,
            latency: latency.unwrap_or_default(),
        }),
    })
}

/// The placeholder for a setting's value in the usage line.
fn value_name(setting: &Setting) -> &'static str {
    match setting.values {
        Values::Names(_) => "NAME",
        Values::Switch => "on|off",
        Values::Kind(kind) if kind.starts_with("a size") && kind.contains("share") => "SIZE|%",
        Values::Kind(kind) if kind.starts_with("a size") => "SIZE",
        Values::Kind(kind) if kind.starts_with("auto") => "auto|N",
        Values::Kind(_) => "PATH",
    }
}

/// Returns the text if it is a valid value of this setting.
fn valid(setting: &str, text: &str) -> Result<String, String> {
    let set = EngineConfig::default().set(setting, text);
    set.map(|()| text.to_owned())
        .map_err(|error| error.strip_backtrace())
}

/// Parses a memory budget in bytes, the value of `--memory`.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    let mut config = EngineConfig::default();
    let set = config.set("memory", text);
    set.map_err(|error| error.strip_backtrace())?;
    Ok(config.memory_bytes.unwrap_or_default())
}

/// Parses the rows of a page, the value of `--page-rows`.
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
    fn a_device_has_a_name_a_path_and_perhaps_a_speed() {
        let fast = device("a=/disk1").unwrap();
        assert_eq!((fast.name.as_str(), fast.throttle), ("a", None));
        let slow = device("b=/disk 2/x,50MB/s,5ms").unwrap();
        assert_eq!(slow.path.to_str(), Some("/disk 2/x"));
        let throttle = slow.throttle.unwrap();
        assert_eq!(throttle.bytes_per_second, 50_000_000);
        assert_eq!(throttle.latency.as_millis(), 5);
        for wrong in [
            "a",
            "=x",
            "a=",
            "a=/x,fast",
            "a=/x,1MB/s,soon",
            "a=/x,1MB/s,5ms,",
        ] {
            assert!(device(wrong).is_err(), "{wrong}");
        }
    }

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
