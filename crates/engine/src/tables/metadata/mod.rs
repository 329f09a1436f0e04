//! What do the footers of files say of a table: columns, types, statistics, order?
//!
//! | file | question |
//! |---|---|
//! | `columns.rs` | which columns does a file have, and which a table of files? |
//! | `wider.rs` | which type has a column whose files store it differently? |
//! | `statistics.rs` | what do a file's statistics say about the table's columns? |
//! | `promised_order.rs` | which order does a file promise as a whole? |
//! | `footers.rs` | which footers does DataFusion plan with? |
//!
//! Not here: the format that DataFusion asks for them (`../parquet_format.rs`).

pub(super) mod columns;
pub(crate) mod footers;
mod promised_order;
mod statistics;
mod wider;

pub(crate) use columns::UNREADABLE;
pub(super) use columns::without_views;
pub(super) use promised_order::over_row_groups;
pub(super) use statistics::of_file;
