//! How does a cooperative scan run?
//!
//! | file | question |
//! |---|---|
//! | `spec.rs` | what does planning fix about a scan? |
//! | `execution.rs` | what do the streams of one execution share? |
//! | `executions.rs` | which execution of a plan does a stream belong to? |
//! | `claims.rs` | which worker processes a chunk, for an execution? |
//! | `partition/` | how does one partition process its chunks and return rows? |
//! | `positions.rs` | where in its table is a batch of a chunk? |
//! | `dynamic.rs` | which chunks does a dynamic filter rule out while the scan runs? |
//! | `wanted.rs` | which chunks do statistics leave for a scan that is not run here? |
//! | `metrics.rs` | what does EXPLAIN ANALYZE show? |

mod claims;
mod dynamic;
mod execution;
mod executions;
mod metrics;
pub(crate) mod partition;
mod positions;
mod spec;
mod wanted;

pub(crate) use execution::{Execution, Judged, Remembers, Run, Running, begin};
pub(crate) use executions::Executions;
pub(crate) use metrics::PartitionMetrics;
pub(crate) use partition::{Batches, ByChunk, LeaseBatch, News, open, open_runs, stream_of};
pub(crate) use positions::Positions;
pub(crate) use spec::{Delivery, ScanPlan, files_of, in_own_store, key_of_listed};
pub(crate) use wanted::wanted_chunks;
