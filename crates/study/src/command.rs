//! The command line of `coscan sim`.

use clap::{Args, Subcommand};

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
}

/// Runs the command.
pub fn run(options: &Options) {
    match options.command {
        Command::List => {}
    }
}
