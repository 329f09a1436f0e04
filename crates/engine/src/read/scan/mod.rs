//! How does a cooperative scan run?
//!
//! | file | question |
//! |---|---|
//! | `spec.rs` | what does planning fix about a scan? |
//! | `execution.rs` | what do the streams of one execution share? |
//! | `executions.rs` | which execution of a plan does a stream belong to? |
//! | `claims.rs` | which worker processes a chunk, for an execution? |
//! | `by_chunk.rs` | how does one partition process its chunks, batch by batch? |
//! | `stream.rs` | how do the rows of one partition become a stream? |
//! | `batches.rs` | what does DataFusion poll? |
//! | `lease_batch.rs` | how does a pipeline get the columns of a batch? |
//! | `few_rows.rs` | how does a scan avoid decoding whole columns for few rows? |
//! | `positions.rs` | where in its table is a batch of a chunk? |
//! | `dynamic.rs` | which chunks does a dynamic filter rule out while the scan runs? |
//! | `metrics.rs` | what does EXPLAIN ANALYZE show? |

mod batches;
mod by_chunk;
mod claims;
mod dynamic;
mod execution;
mod executions;
mod few_rows;
mod lease_batch;
mod metrics;
mod positions;
mod spec;
pub(crate) mod stream;

pub(crate) use batches::{Batches, stream_of};
pub(crate) use by_chunk::{ByChunk, News};
pub(crate) use execution::{Execution, Judged, Remembers, Run, Running};
pub(crate) use executions::Executions;
pub(crate) use lease_batch::LeaseBatch;
pub(crate) use metrics::PartitionMetrics;
pub(crate) use positions::Positions;
pub(crate) use spec::{Delivery, ScanPlan, files_of, in_own_store, key_of_listed};
pub(crate) use stream::{open, open_runs};
