//! Rules over plans that correct DataFusion's meaning of a clause or refuse it.
//!
//! | file | question |
//! |---|---|
//! | `checks.rs` | what does PostgreSQL refuse, or DataFusion answer wrongly? |
//! | `in_lists.rs` | is -0 in a list of floats? |
//! | `set_operations.rs` | how often is a row in INTERSECT ALL and EXCEPT ALL? |

mod checks;
mod in_lists;
mod set_operations;

pub(crate) use checks::Checks;
pub(crate) use in_lists::FloatLists;
pub(crate) use set_operations::CountRows;
