//! Random worlds with faults: does the core keep its promises whatever happens?
//!
//! Idea: a seed draws a world ([`Options`]) and everything that happens in it. In the safety phase
//! scans start, stall, hoard, are cancelled and fail; loads fail, complete late, in parts and out
//! of order; budgets shrink below what is pinned; tables grow, change version and are dropped;
//! pages are requested, and chunk jobs begin and end. After every event `check()` and the driver's
//! own books (`memory.rs`, `books.rs`) must agree with the core. In the liveness phase
//! (`liveness.rs`) there are no faults, and every scan must end within a stated bound.
//! Not here: printing, threads, wall-clock time (coscan-study). Contract: `docs/design/chaos.md`.
//! A seed fixes every event: two runs have the same trace.

mod books;
mod driver;
mod faults;
mod jobs;
mod liveness;
mod memory;
mod options;
mod trace;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use options::{Faults, Options};
pub use trace::Trace;

use driver::Driver;

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The hash of the trace.
    pub hash: u64,
    /// The number of events.
    pub events: u64,
    /// The number of actions.
    pub actions: u64,
    /// The largest part of a liveness bound that was used, of 1000.
    pub bound_used_permille: u64,
    /// How often each thing happened.
    pub counts: Counts,
}

macro_rules! counts {
    ($($name:ident),* $(,)?) => {
        /// How often each thing happened; shows that the run covers it.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each is a number of what its name says")]
        pub struct Counts {
            $(pub $name: u64,)*
        }

        impl Counts {
            /// Adds the counts of another run.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// The counts with their names.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

counts! {
    scans, scans_ended, scans_failed, cancels, stalls, lapses, frozen, jobs, jobs_without_leader, jobs_lapsed, members, members_in_hand, members_served, members_given_back, leaders_given_back, hosts_stopped, hoards, requests_withdrawn, withdrawals, loads, load_failures, deliveries, evictions, budgets, versions, tables_dropped, pages, pages_served,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The world in which it broke.
    pub options: Box<Options>,
    /// The promise, as the message of the assertion.
    pub message: String,
}

/// Runs a world. The trace is filled even if the run fails.
///
/// # Errors
/// A promise was broken.
pub fn run(options: &Options, trace: &mut Trace) -> Result<Report, Failure> {
    let world = || {
        let mut driver = Driver::new(options, trace);
        driver.begin();
        while driver.step(options.safety_ns) {}
        let bound_used_permille = driver.liveness();
        Report {
            bound_used_permille,
            ..driver.report()
        }
    };
    catch_unwind(AssertUnwindSafe(world)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Failure {
            options: Box::new(options.clone()),
            message: text.unwrap_or_default(),
        }
    })
}

/// Runs a world twice.
///
/// # Errors
/// A promise was broken, or the two runs differ.
pub fn run_twice(options: &Options) -> Result<Report, Failure> {
    let first = run(options, &mut Trace::new(false))?;
    let second = run(options, &mut Trace::new(false))?;
    if first == second {
        return Ok(first);
    }
    Err(Failure {
        options: Box::new(options.clone()),
        message: format!("two runs differ: {first:?} and {second:?}"),
    })
}

/// The simplest world found that also breaks a promise, starting from one that does.
#[must_use]
pub fn shrink(failure: Failure) -> Failure {
    let mut least = failure;
    for _ in 0..SHRINKS_MAX {
        let mut simpler = least.options.simpler().into_iter();
        let Some(next) = simpler.find_map(|options| run_twice(&options).err()) else {
            break;
        };
        least = next;
    }
    least
}

/// The most simplifications in a row, each found by at most a few dozen runs.
const SHRINKS_MAX: usize = 60;
