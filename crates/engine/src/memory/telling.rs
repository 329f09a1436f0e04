//! A stream of a join that tells when the join's table is complete.
//!
//! Not here: what follows (`tables.rs`).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use futures::{Stream, StreamExt};

use super::QueryMemory;

/// The rows of a join, whose first batch, or end, tells the query's memory that its table is there.
pub(crate) fn telling(
    rows: SendableRecordBatchStream,
    context: Arc<TaskContext>,
) -> SendableRecordBatchStream {
    Box::pin(Telling {
        rows,
        context: Some(context),
    })
}

struct Telling {
    rows: SendableRecordBatchStream,
    /// `None` once it has told.
    context: Option<Arc<TaskContext>>,
}

impl Telling {
    fn tell(&mut self) {
        let Some(context) = self.context.take() else {
            return;
        };
        if let Some(memory) = context.memory_pool().downcast_ref::<QueryMemory>() {
            memory.a_table_is_there();
        }
    }
}

impl Stream for Telling {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let batch = ready!(self.rows.poll_next_unpin(cx));
        self.tell();
        Poll::Ready(batch)
    }
}

impl RecordBatchStream for Telling {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.tell();
    }
}
