//! Passes that give columns and relations the names that DataFusion resolves as PostgreSQL does.
//!
//! | pass | from | to |
//! |---|---|---|
//! | `column_names` | columns without a name, or of one name | unique names, PostgreSQL's on the wire |
//! | `having` | columns of the result that HAVING names | columns that it cannot name |
//! | `hidden_names` | a query in WITH that hides an outer one of its name | a name of its own |
//! | `order_by` | names in ORDER BY | names of the result's columns that mean what they mean |
//! | `outer_names` | `(SELECT count(*) …) q` | `(SELECT …) q (count)` |
//! | `table_names` | tables that subqueries name | tables of names that no column has |
//! | `mentions` | queries in WITH that are named twice | the same, marked |

pub(super) mod column_names;
pub(super) mod having;
pub(super) mod hidden_names;
mod mentions;
pub(super) mod order_by;
pub(super) mod outer_names;
pub(super) mod table_names;

pub(crate) use column_names::folded;
pub(super) use column_names::{first_select, is_wild};
pub(super) use mentions::mark_mentions;
pub(super) use mentions::mentions;
pub(crate) use mentions::{is_marked, take_mark};
