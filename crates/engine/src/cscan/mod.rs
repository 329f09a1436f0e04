//! `CScan`: the data source that replaces DataFusion's Parquet scan in a plan.
//!
//! | file | question |
//! |---|---|
//! | `source.rs` | what does it tell the planner, and what does it run? |
//! | `plain.rs` | which scans are left to DataFusion's reader, and how do their errors name the place? |
//! | `run_time_filters.rs` | which rows of a plain scan can the operators above it use? |
//! | `checked_reader.rs` | does that reader read the planned version of a file? |
//!
//! Not here: which scans become a `CScan` (`plan/`), how it runs (`read/`, `probe/`).

mod checked_reader;
pub(crate) mod plain;
mod run_time_filters;
mod source;

pub(crate) use source::CScanSource;
