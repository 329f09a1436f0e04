//! `coscan sim chaos`: thousands of random worlds with faults, on every core.
//!
//! Not here: draws and promises (coscan-sim). This file distributes seeds to threads and prints.
//! The outcome does not depend on the threads: a reported failure is always that of the lowest
//! failing seed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use coscan_core::Policy;
use coscan_sim::chaos::{self, Failure, Report, Trace};

use crate::error::StudyError;

/// Options of `coscan sim chaos`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// How many worlds.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first one's seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only this policy, whatever a seed draws.
    #[arg(long)]
    policy: Option<Policy>,
    /// Threads; as many as cores if not given.
    #[arg(long)]
    threads: Option<usize>,
    /// Write the log of the first seed to this file, or of the world that failed.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// The totals over all seeds.
#[derive(Default)]
struct Total {
    report: Report,
    seeds: u64,
    /// The seed that came closest to its bound.
    closest: u64,
}

impl Total {
    fn add(&mut self, seed: u64, report: &Report) {
        let Report {
            hash,
            events,
            actions,
            bound_used_permille,
            counts,
        } = report;
        self.seeds += 1;
        // A sum, so that the order in which threads finish does not matter.
        self.report.hash = self.report.hash.wrapping_add(*hash);
        self.report.events += events;
        self.report.actions += actions;
        if (*bound_used_permille, seed) > (self.report.bound_used_permille, self.closest) {
            self.report.bound_used_permille = *bound_used_permille;
            self.closest = seed;
        }
        self.report.counts.add(counts);
    }

    fn merge(&mut self, other: &Self) {
        let seeds = self.seeds + other.seeds;
        self.add(other.closest, &other.report);
        self.seeds = seeds;
    }
}

/// Runs the worlds and prints the result.
///
/// # Errors
/// A promise was broken, or the log cannot be written.
pub(crate) fn run(options: &Options) -> Result<(), StudyError> {
    if options.seeds == 0 {
        return Err(StudyError::NoSeeds);
    }
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = options.threads.unwrap_or_else(cores).max(1);
    let begun = Instant::now();
    // A broken promise is a caught panic; only the final report should print.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = run_all(options, threads);
    let outcome = outcome.map_err(|failure| {
        println!(
            "seed {} failed; looking for a simpler world",
            failure.options.seed
        );
        (failure.clone(), chaos::shrink(failure))
    });
    std::panic::set_hook(hook);
    match outcome {
        Ok(total) => {
            print(&total, threads, begun.elapsed().as_secs_f64());
            record(options, &world(options, options.seed))
        }
        Err((first, least)) => {
            println!("{}\n{:#?}", first.message, first.options);
            println!(
                "the simplest world found that fails:\n{}\n{:#?}",
                least.message, least.options
            );
            record(options, &least.options)?;
            Err(StudyError::Broken {
                seed: first.options.seed,
                message: first.message,
            })
        }
    }
}

fn world(options: &Options, seed: u64) -> chaos::Options {
    let mut world = chaos::Options::draw(seed);
    world.policy = options.policy.unwrap_or(world.policy);
    world
}

/// Runs all seeds; returns the failure of the lowest seed that fails.
fn run_all(options: &Options, threads: usize) -> Result<Total, Failure> {
    let next = AtomicU64::new(options.seed);
    let end = options.seed.saturating_add(options.seeds);
    // Seeds from here on need not run.
    let failed = AtomicU64::new(end);
    let work = || {
        let mut total = Total::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= failed.load(Ordering::Relaxed) {
                return Ok(total);
            }
            match chaos::run_twice(&world(options, seed)) {
                Ok(report) => total.add(seed, &report),
                Err(failure) => {
                    failed.fetch_min(seed, Ordering::Relaxed);
                    return Err(failure);
                }
            }
        }
    };
    let outcomes: Vec<Result<Total, Failure>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut all = Total::default();
    let mut least: Option<Failure> = None;
    for outcome in outcomes {
        match outcome {
            Ok(total) => all.merge(&total),
            Err(failure) => {
                let lower = |other: &Failure| failure.options.seed < other.options.seed;
                if least.as_ref().is_none_or(lower) {
                    least = Some(failure);
                }
            }
        }
    }
    least.map_or(Ok(all), Err)
}

fn print(total: &Total, threads: usize, seconds: f64) {
    let Total {
        report,
        seeds,
        closest,
    } = total;
    println!(
        "{seeds} seeds, twice each, on {threads} threads in {seconds:.1} s: every promise was kept"
    );
    println!("events {}, actions {}", report.events, report.actions);
    println!(
        "closest to a liveness bound: {:.1} % of it (seed {closest})",
        report.bound_used_permille as f64 / 10.0
    );
    for (what, count) in report.counts.named() {
        println!("  {what:<20} {count:>10}");
    }
    println!("hash {:016x}", report.hash);
}

fn record(options: &Options, world: &chaos::Options) -> Result<(), StudyError> {
    let Some(path) = &options.record else {
        return Ok(());
    };
    let mut trace = Trace::new(true);
    // The result of this world is known already.
    let _ = chaos::run(world, &mut trace);
    std::fs::write(path, trace.text()).map_err(|source| StudyError::Write {
        path: path.clone(),
        source,
    })?;
    println!("log of seed {}: {}", world.seed, path.display());
    Ok(())
}
