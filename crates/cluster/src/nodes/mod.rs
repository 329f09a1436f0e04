//! Which nodes has a cluster, and which of them get parts of queries?
//!
//! | file | question |
//! |---|---|
//! | `list.rs` | which nodes does a cluster have, and how are they reached? |
//! | `names.rs` | which nodes are behind the names of a list? |
//! | `links.rs` | how do the processes of a cluster reach and know each other? |
//! | `members.rs` | on which of them is a query planned? |
//! | `chosen.rs` | on which of those does a query run? |
//! | `suspects.rs` | which nodes were lost lately? |
//! | `loads.rs` | how busy are the nodes, as far as they have said? |
//! | `report.rs` | how does what a node says of its load travel? |
//! | `shown.rs` | what does the table `coscan.nodes` show? |

mod chosen;
mod links;
mod list;
mod loads;
mod members;
mod names;
pub(crate) mod report;
mod shown;
mod suspects;

pub(crate) use chosen::Chosen;
pub use links::{Links, Timeouts, Tls, TlsFiles};
pub use list::Nodes;
pub(crate) use list::name;
pub(crate) use members::{Members, Present};
pub(crate) use names::NodeList;
pub(crate) use shown::NodesTable;
pub(crate) use suspects::Suspects;

/// The name of the table of nodes in the schema `coscan`.
pub(crate) const TABLE: &str = "nodes";
