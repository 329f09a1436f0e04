//! The stream of a mention: one list from the front.
//!
//! Cancel safety: a stream that is dropped leaves the input to the other readers.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::{Stream, StreamExt};

use super::list::{List, Polled};
use super::rows::Found;
use crate::tasks::spend;

/// Numbers of readers, which differ in the whole process.
static READERS: AtomicU64 = AtomicU64::new(0);

/// The stream of a mention.
pub(super) struct Reader {
    list: Arc<List>,
    number: u64,
    /// How many batches it has given.
    at: usize,
    from: From,
    schema: SchemaRef,
    baseline: BaselineMetrics,
}

enum From {
    List,
    /// A stream of all batches, of which the first ones are skipped: they were given when they were
    /// in memory.
    Disk {
        rows: SendableRecordBatchStream,
        skip: usize,
    },
    Finished,
}

impl Reader {
    pub(super) fn new(list: Arc<List>, schema: SchemaRef, baseline: BaselineMetrics) -> Self {
        Self {
            list,
            number: READERS.fetch_add(1, Ordering::Relaxed),
            at: 0,
            from: From::List,
            schema,
            baseline,
        }
    }

    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            match &mut self.from {
                From::Disk { rows, skip } => {
                    let batch = ready!(rows.poll_next_unpin(cx));
                    if *skip == 0 || !matches!(batch, Some(Ok(_))) {
                        return Poll::Ready(batch);
                    }
                    *skip -= 1;
                }
                From::List => match self.list.at(self.at) {
                    Found::Batch(batch) => {
                        self.at += 1;
                        return Poll::Ready(Some(Ok(batch)));
                    }
                    Found::OnDisk(rows) => {
                        let (rows, skip) = (rows.read()?, self.at);
                        self.from = From::Disk { rows, skip };
                        continue;
                    }
                    Found::End => return Poll::Ready(None),
                    Found::Failed(error) => {
                        return Poll::Ready(Some(Err(DataFusionError::Shared(error))));
                    }
                    Found::Nothing => match self.list.poll(self.number, self.at, cx.waker()) {
                        Polled::Pending => return Poll::Pending,
                        Polled::More => {}
                    },
                },
                From::Finished => return Poll::Ready(None),
            }
            // A batch was written to disk or skipped: other tasks have their turn, too.
            if !spend(cx) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }
}

impl Stream for Reader {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.poll_batch(cx);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.from = From::Finished;
        }
        self.baseline.record_poll(polled)
    }
}

impl RecordBatchStream for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.list.leave(self.number);
    }
}
