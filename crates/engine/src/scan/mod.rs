//! Cooperative scans as DataFusion sees them.
//!
//! | file | what it answers |
//! |---|---|
//! | `rule.rs` | which scans become cooperative |
//! | `interesting_orders.rs` | which sorts scans by an index make needless |
//! | `spec.rs` | what such a scan is to do, fixed at planning |
//! | `source.rs` | the data source that stands in the plan |
//! | `plain.rs` | scans left to DataFusion's reader, with errors that say where |
//! | `checked_reader.rs` | whether that reader gets the file that was planned on |
//! | `execution.rs` | what the streams of one execution share |
//! | `claims.rs` | who works on which chunk, for an execution |
//! | `batches.rs` | what DataFusion polls |
//! | `executions.rs` | which execution of a plan a stream belongs to |
//! | `stream.rs` | one partition: chunk after chunk, batch after batch |
//! | `file_plan.rs` | predicate and projection in terms of one file |
//! | `positions.rs` | where in its table a batch of a chunk is |
//! | `prune.rs` | chunks that hold nothing, conjuncts that hold for all |
//! | `bloom.rs` | chunks that bloom filters rule out |
//! | `chunk_bounds.rs` | what pages say about a chunk that is a part of a row group |
//! | `floats.rs` | which bounds count where there may be NaN |
//! | `float_scans.rs` | what DataFusion may conclude from such bounds |
//! | `dynamic.rs` | chunks that a dynamic filter rules out meanwhile |
//! | `pipeline.rs` | from columns to selected, projected rows |
//! | `compact.rs` | in which form columns are decoded and kept |
//! | `routed.rs`, `bits.rs` | the look-ups of a join that was built in partitions |
//! | `few_rows.rs` | rows of which a few are left, put together over batches |
//! | `metrics.rs` | what EXPLAIN ANALYZE shows |

mod batches;
mod bits;
mod bloom;
mod checked_reader;
mod chunk_bounds;
mod claims;
mod compact;
mod dynamic;
mod execution;
mod executions;
mod few_rows;
mod file_plan;
mod float_scans;
mod floats;
mod interesting_orders;
mod metrics;
mod pipeline;
mod plain;
mod positions;
mod prune;
mod routed;
mod rule;
mod source;
mod spec;
mod stream;

pub(crate) use batches::{Batches, stream_of};
pub(crate) use compact::widen;
pub(crate) use execution::{Execution, Judged, Remembers, Run, Running};
pub(crate) use executions::Executions;
pub(crate) use file_plan::FilePlan;
pub(crate) use float_scans::{HideFloatBounds, hide as without_float_bounds};
pub(crate) use metrics::PartitionMetrics;
pub(crate) use pipeline::{Columns, Pipeline, Selection};
pub(crate) use positions::Positions;
pub(crate) use prune::may_match;
pub(crate) use rule::{MarkScans, SwapScans, parquet_scan};
pub(crate) use source::CScanSource;
pub(crate) use spec::{Delivery, ScanPlan};
pub(crate) use stream::{LeaseBatch, open, open_runs};
