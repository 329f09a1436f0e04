//! The smooth scan's benchmarks on one table with one indexed column: every selectivity by every
//! access path, and the paper's other experiments.
//!
//! | file | question |
//! |---|---|
//! | `data.rs` | what is in the table? |
//! | `checksum.rs` | are these the rows of the query? |
//! | `measure.rs` | how long does one query take, and what does it read? |
//! | `run.rs` | how long does a query take by each path, at each selectivity? |
//! | `experiment_run.rs` | what does an experiment run on? |
//! | `experiments.rs` | what if keys are skewed, memory is short, or an estimate is wrong? |
//! | `paths.rs` | which access paths are compared, and what does the index scan owe to its weakness? |
//! | `picture.rs` | which page is read when? |
//! | `together.rs` | what do concurrent index scans read? |
//! | `rival.rs` | how much of the gain over an index scan is that scan's weakness? |
//! | `tpch.rs` | what about TPC-H's queries? |
//! | `figures.rs` | in which form are an experiment's results kept? |
//! | `results.rs` | in which form are the results of a run over the selectivities kept? |
//! | `verdict.rs` | is a smooth scan as good as promised? |
//! | `table.rs` | how are the results shown? |
//!
//! Source: [SmoothScan18 §7.3 to §7.7].

mod checksum;
pub mod data;
pub mod experiment_run;
pub mod experiments;
pub mod figures;
mod measure;
pub mod paths;
pub mod picture;
pub mod results;
pub mod rival;
pub mod run;
pub mod table;
mod together;
pub mod tpch;
pub mod verdict;

pub use measure::DeviceKind;
