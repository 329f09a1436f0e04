//! Strings of characters.
//!
//! | file | question |
//! |---|---|
//! | `plain.rs` | lengths, cases, paddings, replacements |
//! | `pieces.rs` | which part of a string or of bytes is taken, cut off, or replaced? |
//! | `quote.rs` | `quote_ident`, `quote_literal`, `quote_nullable`, `parse_ident` |
//! | `normal.rs` | Unicode's normal forms |
//! | `unicode.rs` | escapes of Unicode |

pub(super) mod normal;
pub(super) mod pieces;
pub(super) mod plain;
pub(super) mod quote;
pub(super) mod unicode;

pub(crate) use normal::IS_NORMALIZED;
pub(super) use quote::{identifier, literal};
pub(crate) use unicode::unescaped;
