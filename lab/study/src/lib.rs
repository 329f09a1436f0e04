//! `coscan sim`: the papers' experiments in the simulator with their claims, and random worlds with
//! faults.
//!
//! Idea: an experiment and its claims are defined here, once, as data: figures beside the paper's,
//! claims with their evidence, plots. `coscan-sim` models the machine, `coscan-core` decides.
//! (commit, seed) fixes everything, except `thread_clock`, which times the scheduler itself.

mod beyond;
mod catalog;
pub mod command;
mod coop;
mod counts;
mod error;
mod report;
mod seeds;
mod shared_disk;
mod smooth;
mod thread_clock;

pub use catalog::{Experiment, experiment, experiments};
pub use counts::{Counts, Tolerance};
pub use error::StudyError;
pub use report::claim::{Claim, Fresh, Mutation, Source};
pub use report::statistics::percentile;
pub use report::{Report, Row};
