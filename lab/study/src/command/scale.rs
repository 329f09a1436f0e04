//! `coscan sim scale`: events per second and memory of the core with many scans over many chunks.
//!
//! Not here: the worlds (coscan-sim). This file reads the clock and `/proc`, and prints.

use std::time::Instant;

use clap::Args;
use coscan_core::{Policy, StorageModel};
use coscan_sim::{Scale, ScaleOptions};

/// Options of `coscan sim scale`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Scans at a time and chunks of the table, such as 64x100000. May be given several times.
    #[arg(long = "world", value_name = "SCANSxCHUNKS", value_parser = world, default_values = ["64x100000", "1000x10000"])]
    worlds: Vec<(u64, u32)>,
    /// How the core decides.
    #[arg(long, default_value = "relevance")]
    policy: Policy,
    /// Events that are timed, after a tenth as many that are not.
    #[arg(long, default_value_t = 2_000_000)]
    events: u64,
    /// Every scan wants the whole table; otherwise a scan wants 1, 10, 50 or 100 % of it.
    #[arg(long)]
    whole: bool,
}

fn world(text: &str) -> Result<(u64, u32), String> {
    let both = text.split_once('x');
    let both = both.and_then(|(scans, chunks)| Some((scans.parse().ok()?, chunks.parse().ok()?)));
    let world = both.filter(|&(scans, chunks)| scans > 0 && chunks > 0);
    world.ok_or_else(|| "not of the form 64x100000".to_owned())
}

/// Runs the worlds and prints one line for each.
pub(crate) fn run(options: &Options) {
    println!("world          policy      model  events/s  ns/event  scans ended  memory MiB");
    for &(scans, chunks) in &options.worlds {
        for model in StorageModel::ALL {
            let world = ScaleOptions {
                policy: options.policy,
                model,
                scans,
                chunks,
                whole: options.whole,
                seed: 1,
            };
            time(world, options.events);
        }
    }
}

fn time(options: ScaleOptions, events: u64) {
    let before = resident_mib();
    let mut world = Scale::new(options);
    while world.events() < events / 10 {
        world.step();
    }
    let (from, ended) = (world.events(), world.scans_ended());
    let begun = Instant::now();
    while world.events() < from + events {
        world.step();
    }
    let seconds = begun.elapsed().as_secs_f64();
    let events = (world.events() - from) as f64;
    let memory = match (before, resident_mib()) {
        (Some(before), Some(after)) => format!("{:.0}", after - before),
        _ => "?".to_owned(),
    };
    world.check();
    let ScaleOptions {
        policy,
        model,
        scans,
        chunks,
        ..
    } = options;
    println!(
        "{:<13}  {:<10}  {:<5}  {:>8.0}  {:>8.0}  {:>11}  {memory:>10}",
        format!("{scans}x{chunks}"),
        policy.name(),
        model.name(),
        events / seconds,
        seconds * 1e9 / events,
        world.scans_ended() - ended,
    );
}

/// Resident memory of this process, where the system reports it.
fn resident_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}
