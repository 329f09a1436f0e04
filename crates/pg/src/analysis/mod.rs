//! Rules over plans that correct DataFusion's meaning of a clause or refuse it.
//!
//! | file | question |
//! |---|---|
//! | `checks.rs` | what does PostgreSQL refuse, or DataFusion answer wrongly? |
//! | `predicates.rs` | which predicates does the optimizer take for others? |
//! | `set_operations.rs` | how often is a row in INTERSECT ALL and EXCEPT ALL? |

mod checks;
mod predicates;
mod set_operations;

pub(crate) use checks::Checks;
pub(crate) use predicates::Predicates;
pub(crate) use set_operations::CountRows;
