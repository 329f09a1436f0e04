//! How does a pipeline get the columns of a batch? From the lease of the current chunk.

use std::time::Instant;

use arrow::array::ArrayRef;
use coscan_storage::pool::{ChunkLease, ColumnRequest};
use datafusion::error::Result;
use datafusion::physical_plan::metrics::Time;
use futures::future::BoxFuture;

use crate::error::external;
use crate::read::pipeline::Columns;

/// A batch of a leased chunk.
pub(crate) struct LeaseBatch<'a> {
    pub(crate) lease: &'a ChunkLease,
    pub(crate) batch: usize,
    /// The time spent waiting for decode.
    pub(crate) waited: &'a Time,
}

impl LeaseBatch<'_> {
    /// Awaits `decode` and adds the time to `waited`.
    pub(crate) async fn timed<T>(&self, decode: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let decoded = decode.await;
        self.waited.add_duration(begun.elapsed());
        decoded
    }
}

impl Columns for LeaseBatch<'_> {
    fn fetch(&self, requests: Vec<ColumnRequest>) -> BoxFuture<'_, Result<Vec<ArrayRef>>> {
        Box::pin(async move {
            let arrays = self.timed(self.lease.batch(&requests, self.batch)).await;
            Ok(arrays.map_err(external)?.unwrap_or_default())
        })
    }
}
