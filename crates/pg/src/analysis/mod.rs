//! Analyzer rules that correct DataFusion's meaning of a clause or refuse it.
//!
//! | file | question |
//! |---|---|
//! | `assignments.rs` | how is a value cast to the type of the column that stores it? |
//! | `checks.rs` | what does PostgreSQL refuse, or DataFusion answer wrongly? |
//! | `copied_uuids.rs` | how does COPY write UUIDs? |
//! | `decided.rs` | which conditions can be decided before any row is read? |
//! | `dependencies.rs` | which columns determine others? |
//! | `eliminate_cross_join.rs` | which joins may be reordered by their keys? |
//! | `eliminate_join.rs` | when may a join be removed? |
//! | `grouping.rs` | which key of a grouping set does an expression refer to? |
//! | `grouping_id.rs` | by which keys is a row of a grouping set grouped? |
//! | `mixed_types.rs` | in which type do IN, ANY and BETWEEN compare values of mixed types? |
//! | `needless_orders.rs` | which aggregates are the same in any order? |
//! | `ordered_inputs.rs` | where does the order of a subquery with ORDER BY matter? |
//! | `predicates.rs` | which predicates does the optimizer mistake for others? |
//! | `push_down.rs` | which conditions stay above groups? |
//! | `set_operations.rs` | how often does a row occur in INTERSECT ALL and EXCEPT ALL? |
//! | `single_distinct.rs` | which types do aggregates beside DISTINCT have? |
//! | `union_names.rs` | which column names do the inputs of a UNION have? |
//! | `window_frames.rs` | which rows are in a RANGE frame? |

mod aggregates;
mod assignments;
mod checks;
mod conditions;
mod copied_uuids;
mod mixed_types;
mod needless_orders;
mod ordered_inputs;
mod set_operations;
mod union_names;

pub(crate) use aggregates::{Dependencies, GroupingKeys, SingleDistinct, WindowFrames};
pub use assignments::ASSIGNMENTS;
pub(crate) use assignments::Assignments;
pub(crate) use checks::Checks;
pub(crate) use conditions::{Decided, EliminateCrossJoins, EliminateJoins, Predicates, PushDown};
pub(crate) use copied_uuids::CopiedUuids;
pub(crate) use mixed_types::MixedTypes;
pub(crate) use needless_orders::NeedlessOrders;
pub(crate) use ordered_inputs::OrderedInputs;
pub(crate) use set_operations::CountRows;
pub(crate) use union_names::UnionNames;
