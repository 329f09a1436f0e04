//! Which types do a statement's parameters have, and what are their values?
//!
//! | file | question |
//! |---|---|
//! | `types.rs` | which type does a client's, a cast's or a column's type give a parameter? |
//! | `infer.rs` | which type does PostgreSQL give to a parameter by the way it is used? |
//! | `planner.rs` | which type does an operator give to a parameter beside it? |
//! | `plan.rs` | how does a statement get a plan whose parameters all have types? |
//! | `write.rs` | how does the planner learn the types? |
//! | `value.rs` | what is the value that a client sends, as text or in binary? |
//! | `numeric.rs` | what is a numeric's value, with exactly the digits it is sent with? |
//!
//! The types are known before a statement is planned, and the plan is made for exactly these types:
//! a value is never cast to what the planner would have guessed without it.
//! PA1: a value enters the plan as the type that the plan was made for, without loss, or not at
//! all.

mod infer;
mod numeric;
mod plan;
mod planner;
mod types;
mod value;
mod write;

pub use infer::{Inferred, infer};
pub(crate) use infer::{bare, output};
pub use plan::{Typed, plan_typed};
pub(crate) use planner::OpenParameters;
pub use types::{Kind, cast_to, kinds, nominal, sql_name};
pub use value::{Encoding, value};
pub use write::{PlanKinds, fill, read_kinds, write_kinds};
