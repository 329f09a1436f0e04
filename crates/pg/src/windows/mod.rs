//! Window functions over frames that DataFusion does not support.
//!
//! | what | DataFusion |
//! |---|---|
//! | `EXCLUDE` | does not support such frames |
//! | aggregates that cannot remove rows (`bool_or`, `string_agg`) over sliding frames | refuses them |
//! | sums of floats over sliding frames | subtracts the values that leave the frame |
//! | `nth_value(x, n)`, `lag(x, n)`, `lead(x, n)` and `ntile(n)` with an `n` that is not constant | refuses it |
//! | `lag(x, NULL)` | takes NULL for 1 |
//! | any frame of an aggregate whose result depends on the order of its rows | may reverse both |
//!
//! `dialect/lexical/exclusion.rs` marks a window with EXCLUDE by a constant in its PARTITION BY.
//! `rule.rs` replaces the function in the plan with our own window function, which `evaluator.rs`
//! computes; an aggregate that DataFusion must not reverse is wrapped (`in_order.rs`). Functions
//! that ignore the frame (`rank`, `lag`) only lose the mark.

mod evaluator;
mod in_order;
mod rule;

pub(crate) use in_order::in_order;
pub(crate) use rule::Frames;
