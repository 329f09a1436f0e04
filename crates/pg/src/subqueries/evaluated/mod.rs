//! Subqueries that are not joins already: evaluated for all outer rows at once, and their value.
//!
//! | file | question |
//! |---|---|
//! | `domain.rs` | how is a subquery evaluated for all outer rows at once? |
//! | `source.rs` | from which relation are the outer columns' values taken? |
//! | `grouping.rs` | what are GROUPING SETS there? |
//! | `scalar.rs`, `predicate.rs` | what is the subquery's value where it stands? |
//!
//! Not here: subqueries that are joins already (`../pulled.rs`).

mod domain;
mod grouping;
pub(super) mod predicate;
pub(super) mod scalar;
mod source;

pub(super) use predicate::{Predicate, Prepared, prepare};
pub(super) use scalar::aggregated;
