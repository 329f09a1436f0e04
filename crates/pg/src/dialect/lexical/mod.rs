//! Rewrites of a statement's tokens, before sqlparser reads it.
//!
//! | file | question |
//! |---|---|
//! | `tokens.rs` | which words does sqlparser not know, and which does it get in their place? |
//! | `words.rs` | words among tokens |
//! | `phrases.rs` | phrases of queries that sqlparser does not read |
//! | `create_as.rs` | CREATE TABLE … AS in forms that it does not read |
//! | `exclusion.rs` | `EXCLUDE` of a window's frame |
//! | `group_keys.rs` | `CUBE ((a)::date, b)` |
//! | `uescape.rs` | `U&'d!0061ta' UESCAPE '!'` |
//! | `grammar.rs` | PostgreSQL's grammar, where that of sqlparser differs |
//! | `reserved.rs` | which keywords may be names? |
//!
//! Not here: passes over syntax trees (the modules beside this one).

mod create_as;
mod exclusion;
mod grammar;
mod group_keys;
mod phrases;
mod reserved;
pub(super) mod tokens;
mod uescape;
mod words;

pub(crate) use exclusion::Excluded;
pub(super) use exclusion::{is_mark, marks};
pub use grammar::Grammar;
pub(super) use phrases::VARIADIC;
pub(super) use reserved::refuse_names;
pub use tokens::is_every_column;
