//! The smooth scan's benchmarks on one table with one indexed column: every selectivity by every
//! access path, and the paper's other experiments.
//!
//! | where | question |
//! |---|---|
//! | `query/` | which queries run, over which table, by which paths, and how is one measured? |
//! | `run.rs` | how long does a query take by each path, at each selectivity? |
//! | `picture.rs` | which page is read when? |
//! | `studies/` | what do the paper's other experiments give, and TPC-H's queries? |
//! | `outcome/` | how are results kept, judged and shown? |
//!
//! Source: [SmoothScan18 §7.3 to §7.7].

mod outcome;
pub mod picture;
mod query;
pub mod run;
mod studies;

pub use outcome::{figures, results, table, verdict};
pub use query::measure::DeviceKind;
pub use query::{data, paths};
pub use studies::{experiment_run, experiments, rival, tpch};
