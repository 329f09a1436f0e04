//! How are statements that create, change or drop names checked and carried out?
//!
//! | file | question |
//! |---|---|
//! | `check.rs` | may the session do what a plan says? |
//! | `read_only.rs` | what does a READ ONLY transaction refuse? |
//! | `execute.rs` | how is a statement carried out? |
//! | `create.rs` | how is a table in memory created? |
//! | `create_exec.rs` | how are the rows of a new table collected? |
//! | `drop.rs` | what does DROP remove? |
//! | `alter.rs` | how does ALTER TABLE change the columns of a table? |
//! | `dependents.rs` | which views depend on what is dropped? |
//!
//! Not here: the names (`../catalogs.rs`), changes of rows (`../change/`).

mod alter;
mod check;
mod create;
mod create_exec;
mod dependents;
mod drop;
mod execute;
mod read_only;

pub use alter::{AlterColumns, ColumnChange, alter_own};
pub(crate) use check::{changes_memory, check, check_undoable};
pub(crate) use create::makes_rows;
pub use dependents::DatabaseName;
pub use drop::{DropNames, drop_own};
pub use execute::{Rename, execute, forget_own, rename_own};
pub(crate) use read_only::check_read_only;
pub use read_only::refused;
