//! Arrow columns as PostgreSQL values: which type a column is announced as, and how its cells are
//! written.
//!
//! arrow-pg's encoder is not used: it writes NULL intervals as zero, fails on decimals beyond 96
//! bits and on several Arrow types, and goes through a heap value for most cells.
//!
//! Every Arrow type can be written. One without a counterpart (union) is text, as Arrow displays
//! it, in both formats.

mod as_json;
mod cell;
mod float;
mod nested;
mod numeric;
mod text;
mod types;

pub use as_json::nested_as_json;
pub use cell::{CellWriter, cell_writer, field_writer, in_zone, typed_writer, with_length};
pub use numeric::numeric_text;
pub(crate) use text::interval_text;
pub use types::{modifier, pg_type, size};
