//! What sessions make: tables in memory, views, schemas, and who sees them.
//!
//! A session that is held to rights (`../rights/`) sees the names that all share through a layer of
//! its own (`catalogs.rs`). What it makes goes into the layer, is seen by nobody else, is paid for
//! (`allowance.rs`) and goes with the session. A session of the user's own process has no layer:
//! what it makes, all sessions of its engine see.
//! Tables in memory are counted in either case (`table.rs`).

mod allowance;
mod catalogs;
mod execute;
mod table;

pub(crate) use allowance::Allowance;
pub(crate) use catalogs::{OwnCatalogs, OwnSchema};
pub use execute::{execute, forget_own};
pub(crate) use table::MemoryTable;
