//! How does one partition of a cooperative scan process its chunks and return rows?
//!
//! | file | question |
//! |---|---|
//! | `by_chunk.rs` | how does one partition process its chunks, batch by batch? |
//! | `lease_batch.rs` | how does a pipeline get the columns of a batch? |
//! | `few_rows.rs` | how does a scan avoid decoding whole columns for few rows? |
//! | `stream.rs` | how do the rows of one partition become a stream? |
//! | `batches.rs` | what does DataFusion poll? |
//!
//! Not here: what the streams of one execution share (`../execution.rs`).

mod batches;
mod by_chunk;
mod few_rows;
mod lease_batch;
pub(crate) mod stream;

pub(crate) use batches::{Batches, stream_of};
pub(crate) use by_chunk::{ByChunk, News};
pub(crate) use lease_batch::LeaseBatch;
pub(crate) use stream::{open, open_runs};
