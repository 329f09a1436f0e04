//! What does the engine do for a cluster, whose nodes run parts of one plan?
//!
//! | file | question |
//! |---|---|
//! | `coordinator.rs` | how does a session plan what other nodes run? |
//! | `memory.rs` | which memory have the parts of one query on a node? |
//! | `meters.rs` | how busy is this node? |
//! | `scans.rs` | of which pieces is a table, and how is a scan cut to some of them? |
//! | `worker.rs` | how does a part of a plan become cooperative on the node that runs it? |
//!
//! Not here: which node reads which piece (`coscan_core::placement`), how parts travel
//! (`coscan-cluster`).
//! PARTS-I1: the parts of a scan on all nodes are the scan: each piece is in one part.

mod coordinator;
mod memory;
mod meters;
mod scans;
mod worker;

pub use crate::lost_node::LostNode;
pub use crate::memory::{bounded_one, unbounded};
pub use crate::operators::compacted;
pub use crate::query_width::QueryWidth;
pub use crate::short_node::ShortNode;
pub use coordinator::{add_system_table, in_coordinator, session};
pub use memory::{PartsMemory, RowsAwaited, needed_on_nodes};
pub use meters::NodeMeters;
pub use scans::{Marks, Scan, ScanPiece};
pub use worker::{bound_batches, cooperative, options};
