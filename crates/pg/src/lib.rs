//! What does a SQL text mean to PostgreSQL, and how does DataFusion give PostgreSQL's answer?
//!
//! The crate has PostgreSQL's dialect (rewrites of syntax trees, [`dialect`]), its operators,
//! casts, functions and coercions, installed into a DataFusion session by [`install`], and its
//! output of values, as text and in binary ([`output`]). Server, shell and library use the same.
//!
//! Not here: the catalogue of one server (`coscan-server`), parameters of prepared statements
//! (`coscan`).
//!
//! P1: an answer is `PostgreSQL`'s, or an error ([`PgError`]) with its SQLSTATE.
//! P2: a session into which nothing is installed is left alone.

pub mod array_types;
pub mod casts;
pub mod dialect;
mod error;
mod functions;
mod install;
pub mod numbers;
pub mod output;
mod text_planner;
mod values;

pub use error::PgError;
pub use functions::scalar::{marked_type, typed_field};
pub use install::install;
