//! DELETE and UPDATE of a table in memory: which rows match, and what becomes of them?
//!
//! | file | question |
//! |---|---|
//! | `plan.rs` | which query finds the rows that match, and their new values? |
//! | `positions.rs` | how does that query name a row? |
//! | `apply.rs` | how do the rows change, all or none? |
//!
//! Idea: a change is a query like any other, over a scan that adds each row's position; so a
//! predicate means what it means in SELECT, with subqueries, joins and NULLs. DataFusion 55.2 hands
//! a table the filters that it finds in the plan, and there are none where a predicate became a
//! join or an empty relation.
//! O5: a row changes only if the query gave its position, and only in the version of the table that
//! the query read.

mod apply;
mod plan;
mod positions;

pub(super) use apply::RowChange;
pub(crate) use plan::ChangeByQuery;
