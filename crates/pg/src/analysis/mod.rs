//! Rules over plans that correct DataFusion's meaning of a clause or refuse it.
//!
//! | file | question |
//! |---|---|
//! | `assignments.rs` | what does a column of another type hold of a value? |
//! | `checks.rs` | what does PostgreSQL refuse, or DataFusion answer wrongly? |
//! | `copied_uuids.rs` | how does COPY write UUIDs? |
//! | `conditions/` | which conditions and joins are decided, moved or removed? |
//! | `aggregates/` | what do groups, aggregates and windows mean? |
//! | `mixed_types.rs` | in which type are dates beside timestamps, and floats beside numerics, compared by IN and BETWEEN? |
//! | `ordered_inputs.rs` | who sees the order of a subquery with ORDER BY? |
//! | `set_operations.rs` | how often is a row in INTERSECT ALL and EXCEPT ALL? |
//! | `union_names.rs` | which names have the inputs of a UNION? |

mod aggregates;
mod assignments;
mod checks;
mod conditions;
mod copied_uuids;
mod mixed_types;
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
pub(crate) use ordered_inputs::OrderedInputs;
pub(crate) use set_operations::CountRows;
pub(crate) use union_names::UnionNames;
