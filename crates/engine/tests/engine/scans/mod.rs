//! Cooperative scans: which chunks and columns are read, and the rows that they return.
//!
//! | file | what is tested |
//! |---|---|
//! | `predicates.rs`, `floats.rs`, `same_names.rs` | predicates, whatever the files hold |
//! | `pages.rs`, `blooms.rs` | pruning by page indexes and bloom filters |
//! | `join_filters.rs` | filters of joins |
//! | `few_rows.rs` | columns decoded only at few rows |
//! | `narrow_arrays.rs` | arrays of as few bytes as their values need |
//! | `idle_streams.rs`, `gives_way.rs` | streams that are not read; turns of other tasks |

mod blooms;
mod few_rows;
mod floats;
mod gives_way;
mod idle_streams;
mod join_filters;
mod narrow_arrays;
mod pages;
pub(super) mod predicates;
mod same_names;

pub(super) use predicates::{metric, rows_of_explain};
