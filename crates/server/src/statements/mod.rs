//! From a statement's text to its rows: what is asked for, and how is it planned and started?
//!
//! | file | question |
//! |---|---|
//! | `statements/parse.rs` | what are the statements of a text, and what memory do they take? |
//! | `statements/known.rs` | which queries did clients send before? |
//! | `statements/statement.rs` | which action does a statement's text ask for? |
//! | `statements/explain.rs` | which options does an EXPLAIN set? |
//! | `statements/show_create.rs` | which statement made a table or view? |
//! | `statements/portal.rs` | which statements and portals does a connection remember? |
//! | `statements/session.rs` | how is a statement planned and started in the connection's session? |
//! | `statements/transaction.rs` | what does ROLLBACK restore? |
//!
//! Not here: SET and SHOW (`coscan::session_settings`), the messages (`../protocol`).

mod explain;
mod known;
mod parse;
mod portal;
mod session;
mod show_create;
mod statement;
mod transaction;

pub(super) use known::KnownTexts;
pub(super) use parse::Parsed;
pub(super) use portal::{Life, Portal, Portals, Prepared, State};
pub(super) use session::{Outcome, Session};
pub(super) use statement::{ALTER_TABLE, Action, drop_tag, rename_tag};
pub(super) use transaction::Transaction;
