//! The command line of `coscan sim`.

mod chaos;
mod replay;
mod scale;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::catalog::{experiment, experiments};
use crate::error::StudyError;

/// Options of `coscan sim`.
#[derive(Args, Debug)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List the experiments.
    List,
    /// Run an experiment: figures beside the paper's, and the claims that hold or not.
    Run(RunOptions),
    /// Run random worlds with faults: every promise of the core must be kept.
    Chaos(chaos::Options),
    /// Run the core again on a log that it left: every action must be the same.
    Replay(replay::Options),
    /// Time the core with many scans over many chunks.
    Scale(scale::Options),
}

/// Options of `coscan sim run`.
#[derive(Args, Debug)]
struct RunOptions {
    /// Its name; `coscan sim list` has them all.
    experiment: String,
    /// Random arrangements to run it over.
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Further runs in which every claim is judged, each with seeds that no other run has.
    #[arg(long, default_value_t = 0)]
    fresh: u64,
    /// The number of seeds of each of these runs.
    #[arg(long, default_value_t = 1)]
    fresh_seeds: u64,
    /// Write figures and claims to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the figure into this file.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// [`StudyError`]: the request is wrong, or a file cannot be written. A claim that does not hold is
/// a result, not an error.
pub fn run(options: &Options) -> Result<(), StudyError> {
    match &options.command {
        Command::List => {
            list();
            Ok(())
        }
        Command::Run(options) => run_experiment(options),
        Command::Chaos(options) => chaos::run(options),
        Command::Replay(options) => replay::run(options),
        Command::Scale(options) => {
            scale::run(options);
            Ok(())
        }
    }
}

fn list() {
    let names = experiments().iter().map(|e| e.name.len());
    let width = names.max().unwrap_or(0);
    for experiment in experiments() {
        println!("{:width$}  {}", experiment.name, experiment.title);
    }
}

fn run_experiment(options: &RunOptions) -> Result<(), StudyError> {
    let experiment = experiment(&options.experiment)?;
    if options.seeds == 0 {
        return Err(StudyError::NoSeeds);
    }
    let report = match options.fresh {
        0 => experiment.run(options.seeds),
        fresh => experiment.run_again(options.seeds, fresh, options.fresh_seeds),
    };
    print!(
        "{} over {} seeds\n{}",
        report.experiment,
        report.seeds,
        report.text()
    );
    if let Some(path) = &options.json {
        let json =
            serde_json::to_string_pretty(&report).expect("reports have nothing JSON has not");
        write(path, &json)?;
    }
    if let Some(path) = &options.plot {
        write(path, &report.svg()?)?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), StudyError> {
    std::fs::write(path, text).map_err(|source| StudyError::Write {
        path: path.to_owned(),
        source,
    })
}
