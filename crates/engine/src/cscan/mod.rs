//! `CScan`: what replaces DataFusion's Parquet scan in a plan.
//!
//! | file | question |
//! |---|---|
//! | `source.rs` | what does it tell the planner, and what does it run? |
//! | `plain.rs` | which scans are left to DataFusion's reader, with errors that say where? |
//! | `checked_reader.rs` | does that reader get the file that was planned on? |
//!
//! Not here: which scans become one (`plan/`), what it does when it runs (`read/`, `probe/`).

mod checked_reader;
pub(crate) mod plain;
mod source;

pub(crate) use source::CScanSource;
