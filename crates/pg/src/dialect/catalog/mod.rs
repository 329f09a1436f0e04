//! Rewrites queries of `pg_catalog` so that DataFusion can plan them.

mod facts;
mod folding;
mod hidden_columns;
mod oids;
mod procedures;
mod scope;

pub use facts::{EMPTY, FACTS, Fact, TABLES, is_catalog_table};
pub(super) use folding::Folding;
pub(super) use hidden_columns::HiddenColumns;
pub(super) use oids::Oids;
pub use oids::{OidKind, TYPE_NAMES};
pub(super) use procedures::Procedures;
