//! A batch of a chunk in hand: the columns that a pipeline asks for, as its lease gives them.

use std::time::Instant;

use arrow::array::ArrayRef;
use coscan_storage::pool::{ChunkLease, ColumnRequest};
use datafusion::error::Result;
use datafusion::physical_plan::metrics::Time;
use futures::future::BoxFuture;

use crate::error::external;
use crate::read::pipeline::Columns;

/// See the file's header.
pub(crate) struct LeaseBatch<'a> {
    pub(crate) lease: &'a ChunkLease,
    pub(crate) batch: usize,
    /// How long was waited for decode.
    pub(crate) waited: &'a Time,
}

impl LeaseBatch<'_> {
    /// Waits for decode.
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
