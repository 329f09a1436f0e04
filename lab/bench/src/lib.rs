//! Workloads and experiments on the real engine.
//!
//! | module | question |
//! |---|---|
//! | [`tpch`] | where does the data come from? |
//! | [`workload`] | which queries does each stream ask, over which part of the table? |
//! | [`layout`] | which of the table's bytes does a query need? |
//! | [`coop`] | how long do they take under each policy, and what do they read? |
//! | [`dashboard`] | who shares what with whom when several people look at one dashboard? |
//! | [`demo`] | what is the same run on a smaller table, with time scaled down? |
//! | [`smooth`] | how good is a smooth scan at each selectivity, beside the other access paths? |
//! | [`qpipe`] | what do queries in flight save when they share scans and operators? |
//! | [`parallel`] | does a table on several devices use all of them and spare small queries? |
//! | [`progress`] | what is a run doing? |
//! | [`results`] | what did a run say, in the form in which it is kept? |
//! | [`table`], [`report`] | how does a person read it? |

mod answer;
mod arena;
mod clients;
pub mod coop;
mod cpu;
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
pub mod smooth;
pub mod table;
pub mod tpch;
pub mod workload;

pub use error::{BenchError, Result};
