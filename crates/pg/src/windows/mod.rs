//! Functions over frames that DataFusion does not have.
//!
//! | what | DataFusion |
//! |---|---|
//! | `EXCLUDE` of rows of the frame | has no such frames |
//! | aggregates that take no row back (`bool_or`, `string_agg`) over frames that slide | refuses |
//! | sums of floats over frames that slide | subtracts what leaves the frame |
//! | `nth_value(x, n)` whose `n` is no constant | refuses |
//!
//! `dialect/lexical/exclusion.rs` marks a window with EXCLUDE by a constant in its PARTITION BY.
//! `rule.rs` gives the function in the plan to a window function of ours, which `evaluator.rs`
//! computes. Functions that see no frame (`rank`, `lag`) lose the mark only.

mod evaluator;
mod rule;

pub(crate) use rule::Frames;
