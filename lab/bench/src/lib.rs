//! Workloads and experiments on the real engine.
//!
//! | module | question |
//! |---|---|
//! | [`tpch`] | where does the data come from? |
//! | [`workload`] | which queries does each stream run, over which part of the table? |
//! | [`layout`] | which of the table's bytes does a query need? |
//! | [`coop`] | how long do the queries take under each policy, and what do they read? |
//! | [`dashboard`] | which queries share operators when several people look at one dashboard? |
//! | [`demo`] | how is the same run scaled down to a smaller table and less time? |
//! | [`smooth`] | how good is a smooth scan at each selectivity, beside the other access paths? |
//! | [`qpipe`] | what do queries in flight save by sharing scans and operators? |
//! | [`parallel`] | does a table on several devices use all of them without slowing small queries?
//! |
//! | [`progress`] | what is a run doing? |
//! | [`results`] | in which form are the results of a run kept? |
//! | [`table`], [`report`] | how are they shown? |

pub mod coop;
pub mod dashboard;
pub mod demo;
mod error;
pub mod layout;
pub mod parallel;
pub mod progress;
pub mod qpipe;
mod random;
pub mod report;
pub mod results;
mod running;
pub mod smooth;
pub mod table;
pub mod tpch;
pub mod workload;

pub use error::{BenchError, Result};
