//! How large and how deep may a statement be, and how does its tree stay off small stacks?
//!
//! | file | question |
//! |---|---|
//! | `limits.rs` | which limits are there, and what does each protect? |
//! | `size.rs` | how much may it cost to parse and plan a statement? |
//! | `shape.rs` | how does a deep syntax tree become a shallow one of the same meaning? |
//! | `nodes.rs` | how deep and how large is a plan when everything that it names is written out? |
//! | `stack.rs` | how does parsing or planning get a large enough stack on any thread? |

mod limits;
mod nodes;
mod shape;
mod size;
mod stack;

pub(super) use limits::STACK_BYTES_MIN;
pub use limits::THREAD_STACK_BYTES;
pub(super) use nodes::check_plan;
pub(super) use shape::{shape, shape_part};
pub(super) use size::Sizing;
pub use size::StatementSize;
pub(super) use stack::{OnStack, with_stack};
