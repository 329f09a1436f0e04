//! Which nodes has a cluster, and which of them get parts of queries?
//!
//! | file | question |
//! |---|---|
//! | `list.rs` | which nodes does a cluster have, and how long may they be silent? |
//! | `members.rs` | on which of them is a query planned? |
//! | `suspects.rs` | which nodes were lost lately? |
//! | `shown.rs` | what does the table `coscan.nodes` show? |

mod list;
mod members;
mod shown;
mod suspects;

pub(crate) use list::name;
pub use list::{Nodes, Timeouts};
pub(crate) use members::{Members, Present};
pub(crate) use shown::NodesTable;
pub(crate) use suspects::Suspects;

/// The name of the table of nodes in the schema `coscan`.
pub(crate) const TABLE: &str = "nodes";
