//! How do DELETE and UPDATE change a table in memory?
//!
//! | file | question |
//! |---|---|
//! | `plan.rs` | which query finds the rows that match, and their new values? |
//! | `positions.rs` | how does that query name a row? |
//! | `checked.rs` | which query says whether rows violate a CHECK constraint, also those of INSERT? |
//! | `apply.rs` | how do the rows change, all or none? |
//!
//! Idea: a change is an ordinary query over a scan that adds each row's position. So a predicate
//! means the same as in SELECT, with subqueries, joins and NULLs. DataFusion 55.2 passes to a
//! table only the filters that it finds in the plan, and finds none where a predicate became a
//! join or an empty relation.
//! O5: a row changes only if the query returned its position, and only in the version of the table
//! that the query read.

mod apply;
mod checked;
mod plan;
mod positions;

pub(super) use apply::RowChange;
pub(crate) use plan::ChangeByQuery;
