//! `to_char`, `to_date`, `to_timestamp` and `to_number`: values by a pattern.
//!
//! | file | question |
//! |---|---|
//! | `patterns.rs` | which fields does a pattern of dates and times have? |
//! | `write_pattern.rs` | `to_char` of timestamps and intervals |
//! | `read_pattern.rs` | `to_date` and `to_timestamp` |
//! | `number_pattern.rs` | `to_char` of numbers |
//! | `read_number.rs` | `to_number` |

mod number_pattern;
mod patterns;
mod read_number;
pub(crate) mod read_pattern;
mod write_pattern;

pub(crate) use number_pattern::{Number, NumberPattern};
pub(crate) use write_pattern::Pattern;
