//! How does a running scan turn chunks into rows?
//!
//! | where | question |
//! |---|---|
//! | `scan/` | how do the streams of a cooperative scan take chunk after chunk? |
//! | `prune/` | which chunks hold no match, and which conjuncts hold for a whole chunk? |
//! | `pipeline/` | how do columns become selected, projected rows? |
//! | `compact.rs` | in which form is a column decoded and kept? |
//! | `integers.rs` | how are whole numbers of any width compared and widened? |
//! | `file_plan.rs` | how do the rows of one file become rows of the scan? |
//! | `wide_keys.rs` | which keys does a dictionary column have? |
//! | `parquet_scan.rs` | is a node a scan of Parquet files, and how does a rule replace it? |
//!
//! Not here: how an index scan finds its rows (`probe/`), which scans become cooperative
//! (`plan/`), operators above them (`fragment/`).

mod compact;
mod file_plan;
mod integers;
mod parquet_scan;
pub(crate) mod pipeline;
pub(crate) mod prune;
pub(crate) mod scan;
mod wide_keys;

pub(crate) use compact::widen;
pub(crate) use file_plan::{FilePlan, FilePlans, TablePlan, int96};
pub(crate) use integers::{Integers, compares, each_width, is_whole, whole_of};
pub(crate) use parquet_scan::{PART, is_part, parquet_scan, replace_scans};
pub(crate) use wide_keys::wide_keys;
