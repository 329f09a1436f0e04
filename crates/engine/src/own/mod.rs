//! What sessions make, who sees it, and what they may do to others.
//!
//! A session that is held to rights (`confined.rs`) sees the names that all share through a layer
//! of its own (`catalogs.rs`). What it makes goes into the layer, is seen by nobody else, is
//! accounted for (`allowance.rs`) and goes with the session. A session of the user's own process
//! has no layer: all sessions of its engine see what it makes.
//! Tables in memory are counted in either case (`table.rs`); DELETE and UPDATE change their rows
//! (`change/`). ROLLBACK brings back what there was (`saved.rs`).
//! A view reads the tables that have its names now (`views.rs`).
//! A statement is checked (`check.rs`, `dependents.rs`) and carried out (`execute.rs`, `drop.rs`)
//! as a plan. A transaction may be READ ONLY (`read_only.rs`) or REPEATABLE READ
//! (`snapshot.rs`).
//! Not here: what rights there are (`../right.rs`, `../rights/`).

mod allowance;
mod catalogs;
mod change;
mod check;
mod confined;
mod dependents;
mod drop;
mod execute;
mod read_only;
mod saved;
mod snapshot;
mod table;
mod unique;
mod views;

pub use catalogs::TEMPORARY_SCHEMA;
pub(crate) use change::ChangeByQuery;
pub use check::check;
pub(crate) use check::check_undoable;
pub use confined::Confinement;
pub use drop::{DropNames, drop_own};
pub use execute::{Rename, execute, forget_own, makes_rows, rename_own};
pub(crate) use read_only::check_read_only;
pub use read_only::refused as refused_read_only;
pub use saved::{SavedOwn, commit_own, save_own};
pub use snapshot::Snapshot;
pub(crate) use table::MemoryTable;
