//! Rules for conditions and joins: which are decided, moved or removed?
//!
//! | file | question |
//! |---|---|
//! | `decided.rs` | which conditions are decided before a row is read? |
//! | `predicates.rs` | which predicates does the optimizer take for others? |
//! | `push_down.rs` | which conditions stay above groups? |
//! | `eliminate_cross_join.rs` | which joins may be put together by their keys? |
//! | `eliminate_join.rs` | when may a join be removed? |

mod decided;
mod eliminate_cross_join;
mod eliminate_join;
mod predicates;
mod push_down;

pub(crate) use decided::Decided;
pub(crate) use eliminate_cross_join::EliminateCrossJoins;
pub(crate) use eliminate_join::EliminateJoins;
pub(crate) use predicates::Predicates;
pub(crate) use push_down::PushDown;
