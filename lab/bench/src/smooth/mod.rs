//! The smooth scan's benchmarks on one table with one indexed column: every selectivity by every
//! access path, and the paper's other experiments.
//!
//! | file | question |
//! |---|---|
//! | `data.rs` | what is in the table? |
//! | `checksum.rs` | are these the rows that the query asked for? |
//! | `measure.rs` | how long does one query take, and what does it read? |
//! | `run.rs` | how long does a query take by each path, at each selectivity? |
//! | `experiment_run.rs` | what does an experiment run on? |
//! | `experiments.rs` | and where keys are skewed, memory is short, or an estimate is wrong? |
//! | `picture.rs` | which page is read when? |
//! | `together.rs` | what do concurrent queries by an index read? |
//! | `tpch.rs` | and TPC-H's queries? |
//! | `figures.rs` | what did an experiment say? |
//! | `results.rs` | what did a run over the selectivities say, in the form in which it is kept? |
//! | `verdict.rs` | is a smooth scan as good as was promised? |
//! | `table.rs` | how does a person read it? |
//!
//! Source: [SmoothScan18 §7.3 to §7.7].

mod checksum;
pub mod data;
pub mod experiment_run;
pub mod experiments;
pub mod figures;
mod measure;
pub mod picture;
pub mod results;
pub mod run;
pub mod table;
mod together;
pub mod tpch;
pub mod verdict;

pub use measure::DeviceKind;
