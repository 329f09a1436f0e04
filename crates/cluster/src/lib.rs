//! One query on many nodes: the coordinator plans and merges, workers read and compute.
//!
//! | where | question |
//! |---|---|
//! | `nodes.rs` | which nodes has a cluster, and how long may they be silent? |
//! | `cluster.rs` | how does a program open a session on a cluster? |
//! | `members.rs` | what do sessions, plans and scans of a cluster have in common? |
//! | `planner.rs` | on how many nodes does a query run, and which of them reads which chunk? |
//! | `placed.rs` | the plan node of a scan that has a node to run on |
//! | `shown.rs` | what does the table `coscan.nodes` show? |
//! | `subqueries.rs` | which scalar subqueries may become joins? |
//! | `suspects.rs` | which nodes were lost lately? |
//! | `version.rs` | which version must all nodes of a cluster have? |
//! | `distribution.rs` | what does Coscan ask of the library that runs plans on many nodes? |
//! | `upstream/` | how does datafusion-distributed do that? |
//! | `worker.rs` | how does a process serve parts of queries? |
//!
//! Not here: pieces of tables and cooperative scans on workers (`coscan::parts`), the placement
//! (`coscan_core::placement`). The contract is `docs/design/cluster.md`.

mod cluster;
mod distribution;
mod error;
mod members;
mod nodes;
mod placed;
mod planner;
mod shown;
mod subqueries;
mod suspects;
mod upstream;
mod version;
mod worker;

pub use cluster::{Cluster, NodeHealth};
pub use error::{Error, Result};
pub use nodes::{Nodes, Timeouts};
pub use worker::WorkerServer;
