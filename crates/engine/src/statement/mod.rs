//! How are statements cut out of a text, measured, parsed and planned without risk to the process?
//!
//! No statement may harm the process. Derived code (`Clone`, `Drop`, `Eq`) calls itself once for
//! each level of a tree, the parser makes trees as deep as a chain of operators is long, and a
//! stack overflow ends the process. So a statement takes these steps:
//!
//! 1. A scan reads the text and keeps nothing. It finds the statement's *size*, which bounds the
//!    memory and the depth of its tree.
//! 2. The statement is parsed on a stack that holds a tree of that depth.
//! 3. On the same stack, long chains of AND, OR and UNION are balanced; a tree that stays deep is
//!    refused and dropped.
//! 4. The statement is planned, also on a large stack; `changes.rs` plans changes of rows in forms
//!    that DataFusion does not know, `checks.rs` CHECK constraints, `sequences.rs` and `given.rs`
//!    `serial` and identities, and `drop_functions.rs` DROP FUNCTION. Views and common table
//!    expressions are written out in the plan; if it is deep or has too many nodes, it is refused.
//!
//! T1: a syntax tree or plan that leaves this module is so shallow that a thread with 2 MiB of
//! stack can clone, run and drop it.
//! Bounds: `bounds/`, each in `bounds/limits.rs`.

mod bounds;
mod changes;
mod checks;
mod copy;
mod drop_functions;
mod error;
mod given;
mod parse;
mod postgres;
mod scan;
mod sequences;
mod split;

pub use bounds::{StatementSize, THREAD_STACK_BYTES};
pub(crate) use checks::{Check, plan_checks, split_defaults, take_of_column};
pub(crate) use copy::with_postgres_columns;
pub use error::StatementError;
pub use parse::{
    on_large_stack, parse_statement, plan_statement, reserve_statement, shape_datafusion,
    shape_statement,
};
pub use postgres::parse_postgresql;
pub(crate) use sequences::{is_identity, with_begun};
pub(crate) use split::first_words;
pub use split::{StatementText, StatementTexts, split_statements, statement_texts};
