//! Rewrites queries of `pg_catalog` so that DataFusion can plan them.

mod facts;
mod folding;
mod oids;
mod procedures;
mod scope;
mod tableoid;

pub use facts::{EMPTY, FACTS, Fact, TABLES, is_catalog_table};
pub(super) use folding::Folding;
pub use oids::OidKind;
pub(super) use oids::Oids;
pub(super) use procedures::Procedures;
pub(super) use tableoid::TableOid;
