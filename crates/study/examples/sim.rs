//! `coscan sim` alone, without the engine: builds in seconds.

use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: coscan_study::command::Options,
}

fn main() {
    coscan_study::command::run(&Cli::parse().options);
}
