//! What do sessions create, who sees it, and what may they change?
//!
//! A restricted session (`confined.rs`) sees the shared names through its own layer
//! (`catalogs.rs`). The names that it creates go into the layer: only it sees them, their memory
//! is accounted for (`allowance.rs`), and they are dropped with the session. A session in the
//! user's own process has no layer: all sessions of its engine see what it creates. The memory of
//! tables is accounted for in either case (`table.rs`); DELETE and UPDATE change their rows
//! (`change/`), ALTER TABLE their columns (`columns.rs`, `statements/alter.rs`), ROLLBACK restores
//! them (`saved.rs`). Indexes on them are names (`index_names.rs`). A view reads the tables that
//! have its names now (`views.rs`). A statement is checked (`statements/check.rs`,
//! `statements/dependents.rs`) and carried out (`statements/execute.rs`, `statements/drop.rs`) as a
//! plan. A transaction may be READ ONLY (`statements/read_only.rs`) or REPEATABLE READ
//! (`snapshot.rs`).
//! Not here: the rights themselves (`../right.rs`, `../rights/`), transactions
//! (`../session/block/`).

mod allowance;
mod catalogs;
mod change;
mod columns;
mod confined;
mod index_names;
mod saved;
mod snapshot;
mod statements;
mod table;
mod unique;
mod views;

pub use catalogs::TEMPORARY_SCHEMA;
pub(crate) use change::ChangeByQuery;
pub use confined::Confinement;
pub(crate) use index_names::IndexNames;
pub(crate) use saved::{SavedOwn, commit_own, save_own};
pub use snapshot::Snapshot;
pub use statements::{
    AlterColumns, ColumnChange, DatabaseName, DropNames, Rename, alter_own, drop_own, execute,
    forget_own, refused as refused_read_only, rename_own,
};
pub(crate) use statements::{changes_memory, check, check_read_only, check_undoable, makes_rows};
pub(crate) use table::MemoryTable;
