//! One query on many nodes: the coordinator plans and merges, workers read and compute.
//!
//! | where | question |
//! |---|---|
//! | `nodes/` | which nodes has a cluster, and which of them get parts of a query? |
//! | `cluster.rs` | how does a program open a session on a cluster? |
//! | `planner.rs` | how is a query planned for its nodes, and which of them reads which chunk? |
//! | `placed.rs` | the plan node of a scan that has a node to run on |
//! | `subqueries.rs` | which scalar subqueries may become joins? |
//! | `version.rs` | which version must all nodes of a cluster have? |
//! | `distribution.rs` | what does Coscan ask of the library that runs plans on many nodes? |
//! | `upstream/` | how does datafusion-distributed do that? |
//! | `worker.rs` | how does a process serve parts of queries? |
//!
//! Not here: pieces of tables and cooperative scans on workers (`coscan::parts`), the placement
//! (`coscan_core::placement`), what nodes' load means (`coscan_core::parallelism::nodes`). The
//! contract is `docs/design/cluster.md`.

mod cluster;
mod distribution;
mod error;
mod nodes;
mod placed;
mod planner;
mod subqueries;
mod upstream;
mod version;
mod worker;

pub use cluster::{Cluster, NodeHealth};
pub use coscan_core::parallelism::nodes::NodeReport;
pub use error::{Error, Result};
pub use nodes::{Links, Nodes, Timeouts, Tls, TlsFiles};
pub use worker::WorkerServer;
