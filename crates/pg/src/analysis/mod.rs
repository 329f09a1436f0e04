//! Analyzer rules that correct DataFusion's meaning of a clause or refuse it.
//!
//! | file | question |
//! |---|---|
//! | `aggregates/` | which keys, types and frames do groups, aggregates and windows have? |
//! | `assignments.rs` | how is a value cast to the type of the column that stores it? |
//! | `beside_sets.rs` | how often is a volatile expression beside `generate_series` computed? |
//! | `checks.rs` | what does PostgreSQL refuse, or DataFusion answer wrongly? |
//! | `conditions/` | which conditions and joins are decided, moved or removed? |
//! | `copied_uuids.rs` | how does COPY write UUIDs? |
//! | `mixed_types.rs` | in which type do IN, ANY and BETWEEN compare values of mixed types? |
//! | `needless_orders.rs` | which aggregates are the same in any order? |
//! | `ordered_inputs.rs` | where does the order of a subquery with ORDER BY matter? |
//! | `set_operations.rs` | how often does a row occur in INTERSECT ALL and EXCEPT ALL? |
//! | `sets_in_order.rs` | in which order are the elements of `unnest` beside ORDER BY? |
//! | `union_names.rs` | which column names do the inputs of a UNION have? |

mod aggregates;
mod assignments;
mod beside_sets;
mod checks;
mod conditions;
mod copied_uuids;
mod mixed_types;
mod needless_orders;
mod ordered_inputs;
mod set_operations;
mod sets_in_order;
mod union_names;

pub use aggregates::typed_frames;
pub(crate) use aggregates::{
    Dependencies, GroupingKeys, SingleDistinct, WindowFrames, called, without_keys,
};
pub use assignments::ASSIGNMENTS;
pub(crate) use assignments::Assignments;
pub(crate) use beside_sets::BesideSets;
pub(crate) use checks::Checks;
pub(crate) use conditions::{Decided, EliminateCrossJoins, EliminateJoins, Predicates, PushDown};
pub(crate) use copied_uuids::CopiedUuids;
pub(crate) use mixed_types::MixedTypes;
pub(crate) use needless_orders::NeedlessOrders;
pub(crate) use ordered_inputs::OrderedInputs;
pub(crate) use set_operations::CountRows;
pub(crate) use sets_in_order::SetsInOrder;
pub(crate) use union_names::UnionNames;
