//! How does a scan get its chunks, and what does its consumer hold meanwhile?
//!
//! | file | what it answers |
//! |---|---|
//! | `scan.rs`, `spec.rs` | a scan, and what it needs of the core |
//! | `hand_out.rs` | how consumers get their chunks |
//! | `lease.rs` | how a consumer gets a chunk's arrays |
//! | `pick.rs` | how a consumer gets a few rows of a chunk |
//! | `job.rs` | how one consumer's work on a chunk serves other scans |
//! | `place.rs` | what a consumer holds meanwhile, and when the pool takes it back |
//!
//! Not here: which chunk comes next (coscan-core), predicates (the engine).

mod hand_out;
mod job;
mod lease;
mod pick;
mod place;
mod scan;
mod spec;

pub use job::ChunkJob;
pub use lease::ChunkLease;
pub use scan::Scan;
pub use spec::{ScanPart, ScanRequest};
