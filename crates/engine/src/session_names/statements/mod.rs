//! How are statements that create, change or drop names checked and carried out?
//!
//! | file | question |
//! |---|---|
//! | `check.rs` | may the session do what a plan says? |
//! | `read_only.rs` | what does a READ ONLY transaction refuse? |
//! | `execute.rs` | how is a statement carried out? |
//! | `drop.rs` | what does DROP remove? |
//! | `dependents.rs` | which views depend on what is dropped? |
//!
//! Not here: the names (`../catalogs.rs`), changes of rows (`../change/`).

mod check;
mod dependents;
mod drop;
mod execute;
mod read_only;

pub use check::check;
pub(crate) use check::check_undoable;
pub use drop::{DropNames, drop_own};
pub use execute::{Rename, execute, forget_own, makes_rows, rename_own};
pub(crate) use read_only::check_read_only;
pub use read_only::refused;
