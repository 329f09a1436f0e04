//! Which types do a statement's parameters have, and what are their values?
//!
//! | file | question |
//! |---|---|
//! | `types.rs` | which type does a parameter get from a client, a cast or a column? |
//! | `infer.rs` | which type does PostgreSQL infer for a parameter from its uses? |
//! | `planner.rs` | which type does an operator give to a parameter? |
//! | `plan.rs` | how is a statement planned so that all parameters have types? |
//! | `write.rs` | how does the planner receive the types? |
//! | `value.rs` | which value does a client send, as text or in binary? |
//! | `frames.rs` | which parameters are offsets of window frames? |
//! | `numeric.rs` | which numeric does a client send, with its exact digits? |
//!
//! The types are determined before a statement is planned, and the plan is made for exactly these
//! types: a value is never cast to a type that the planner would have guessed.
//! PA1: a value enters the plan only if it fits the type for which the plan was made, without
//! loss.

mod frames;
mod infer;
mod numeric;
mod plan;
mod planner;
mod types;
mod value;
mod write;

pub(crate) use frames::has_open_frame;
pub use infer::{Inferred, infer};
pub(crate) use infer::{bare, output};
pub use plan::{Typed, plan_typed};
pub(crate) use planner::OpenParameters;
pub use types::{Kind, cast_to, kinds, nominal, sql_name};
pub use value::{Encoding, value};
pub use write::{PlanKinds, fill, read_kinds, write_kinds};
