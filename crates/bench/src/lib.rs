//! Workloads and experiments on the real engine.
//!
//! | module | question |
//! |---|---|
//! | [`workload`] | which queries does each stream ask, over which part of the table? |
//! | [`results`] | what did a run say, in the form in which it is kept? |
//! | [`table`], [`report`] | how does a person read it? |
//! | [`units`] | how are sizes, rates and times written? |

mod error;
mod random;
pub mod report;
pub mod results;
pub mod table;
pub mod units;
pub mod workload;

pub use error::{BenchError, Result};
