//! `coscan sim` alone, without the engine: builds in seconds.

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: coscan_study::command::Options,
}

fn main() -> ExitCode {
    match coscan_study::command::run(&Cli::parse().options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            if let Some(source) = std::error::Error::source(&error) {
                eprintln!("  {source}");
            }
            ExitCode::from(2)
        }
    }
}
