//! The experiments beside the run over the selectivities.
//!
//! | file | question |
//! |---|---|
//! | `experiment_run.rs` | what does an experiment run on? |
//! | `experiments.rs` | what if keys are skewed, memory is short, or an estimate is wrong? |
//! | `together.rs` | what do concurrent index scans read? |
//! | `rival.rs` | how much of the gain over an index scan is that scan's weakness? |
//! | `tpch.rs` | what about TPC-H's queries? |

pub mod experiment_run;
pub mod experiments;
pub mod rival;
mod together;
pub mod tpch;
