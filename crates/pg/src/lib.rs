//! What does a SQL text mean in PostgreSQL, and how does DataFusion give PostgreSQL's answer?
//!
//! The crate contains PostgreSQL's dialect (rewrites of syntax trees, [`dialect`]), its operators,
//! casts, functions and coercions, which [`install`] adds to a DataFusion session, and its output
//! of values, as text and in binary ([`output`]). Server, shell and library use the same.
//!
//! It determines the types of operators and functions ([`resolve`]) and of a statement's
//! parameters ([`parameters`]) as PostgreSQL does.
//!
//! Not here: the catalog of a server (`coscan-server`), prepared statements (`coscan`).
//!
//! P1: an answer is `PostgreSQL`'s, or an error ([`PgError`]) with its SQLSTATE.
//! P2: a session in which nothing is installed is left alone.

#![allow(
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    reason = "tables of SQL functions need one signature"
)]
#![allow(
    clippy::similar_names,
    clippy::many_single_char_names,
    reason = "names from numeric.c, of calendar units and of operands"
)]
#![allow(
    clippy::too_many_lines,
    clippy::struct_excessive_bools,
    reason = "tables of types and fields, with an arm or flag for each"
)]
#![allow(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "texts are short, and each statement is parsed once"
)]
#![allow(
    clippy::match_bool,
    clippy::redundant_guards,
    clippy::option_option,
    clippy::items_after_statements,
    clippy::multiple_bound_locations,
    reason = "the code is easier to read as written"
)]

mod analysis;
pub mod array_types;
pub mod casts;
mod comparisons;
mod constants;
pub mod dialect;
mod error;
mod functions;
mod guards;
mod install;
mod intervals;
mod moments;
mod names;
pub mod numbers;
mod once;
mod operators;
pub mod output;
pub mod parameters;
mod parts;
mod physical;
mod planners;
mod position;
mod relations;
pub mod resolve;
mod rules;
mod sent;
mod shared;
mod subqueries;
mod time;
mod trees;
mod values;
mod visits;
mod windows;

pub use analysis::{ASSIGNMENTS, typed_frames};
pub use constants::{check_literals, read_moments};
pub use error::{Foreign, PgError, configuration_code, translate};
pub use functions::scalar::{marked_type, typed_field};
pub use install::{install, reinstall};
pub use moments::Moments;
pub use once::{Once, is_volatile};
pub use physical::{OverExec, StatedExec, Way};
pub use position::{POSITION_BYTES_MAX, position};
pub use postgres_types::Type;
pub use relations::{compute_once, marked_sets, open_undeclared, unknown_as_text};
pub use rules::typed_lists;
pub use sent::SentFunctions;
pub use shared::{canonical, may_read_the_clock};
pub use time::zone::{zone_name, zone_text};
