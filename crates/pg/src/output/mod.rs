//! Arrow columns as PostgreSQL values: the announced type of a column, and the writing of its
//! values.
//!
//! arrow-pg's encoder is not used: it writes NULL intervals as zero, fails on decimals beyond 96
//! bits and on several Arrow types, and allocates for most values.
//!
//! Every Arrow type can be written. A type that PostgreSQL lacks (union) is written as Arrow
//! displays it, in both formats.

mod as_json;
mod cell;
mod float;
mod nested;
mod numeric;
mod style;
mod text;
mod types;

pub use as_json::nested_as_json;
pub use cell::{CellWriter, cell_writer, field_writer, in_zone, texts, typed_writer, with_length};
pub use numeric::numeric_text;
pub use style::{IntervalStyle, in_style};
pub(crate) use text::interval_text;
pub use types::{modifier, pg_type, size};
