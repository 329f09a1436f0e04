//! How do the rows of a result reach the client, or a file?
//!
//! | file | question |
//! |---|---|
//! | `encode/columns.rs` | how are the columns of a result described? |
//! | `encode/rows.rs` | how are rows encoded and sent? |
//! | `encode/copy.rs`, `encode/copy_file.rs` | how does COPY write rows, to the client and to a file? |
//! | `encode/latin1.rs` | how is a row written in LATIN1, and why is it not written at all? |
//! | `encode/cursor.rs` | which rows of a cursor do FETCH and MOVE ask for? |
//! | `encode/held.rs` | where are the rows of a cursor WITH HOLD after COMMIT? |
//!
//! Not here: values as text and in binary (coscan-pg).

mod columns;
mod copy;
pub(super) mod copy_file;
pub(super) mod cursor;
mod held;
mod latin1;
mod rows;

pub(super) use columns::{columns, description};
pub(super) use copy::{CopyFormat, as_csv, copy_to_file, copy_to_stdout};
pub(super) use cursor::{Declared, Scroll, Steps, Walk};
pub(super) use rows::{Rows, Source};
