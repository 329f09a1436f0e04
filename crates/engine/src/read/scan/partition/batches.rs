//! How do batches that are found one after the other become a stream?

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};

/// A source of batches. Dropping it cancels its work.
pub(crate) trait Batches: Send + 'static {
    /// The next batch; `None` at the end. Boxed: the compiler cannot prove the nested futures
    /// `Send` for every lifetime at once.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<RecordBatch>>>;

    /// The metrics that count the returned rows.
    fn baseline(&self) -> &BaselineMetrics;
}

/// The batches as a stream that DataFusion can poll.
pub(crate) fn stream_of(schema: SchemaRef, batches: impl Batches) -> SendableRecordBatchStream {
    let batches = stream::try_unfold(batches, |mut batches| async move {
        Ok(batches.next().await?.map(|batch| {
            batches.baseline().record_output(batch.num_rows());
            (batch, batches)
        }))
    });
    Box::pin(cooperative(RecordBatchStreamAdapter::new(
        schema,
        batches.boxed(),
    )))
}
