//! `coscan sim`: the papers' experiments in the simulator, their claims, and faults by the
//! thousand.
//!
//! Idea: what an experiment is and what it must show stands here, once, as data: figures beside the
//! paper's, claims with their evidence, plots. The machine is `coscan-sim`'s, the decisions are
//! `coscan-core`'s. Everything is fixed by (commit, seed), but for `thread_clock`, which times the
//! scheduler itself.

mod beyond;
mod catalog;
mod chaos;
pub mod command;
mod coop;
mod counts;
mod error;
mod figure;
mod number;
mod plot;
mod replay;
mod report;
mod scale;
mod shared_disk;
mod smooth;
mod statistics;
mod thread_clock;

pub use catalog::{Experiment, experiment, experiments};
pub use counts::{Counts, Tolerance};
pub use error::StudyError;
pub use report::{Claim, Report, Row, Source};
pub use statistics::percentile;
