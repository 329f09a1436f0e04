//! Streams that give way to other tasks.
//!
//! A DataFusion cooperative stream takes a unit of the task's budget before it polls the stream
//! below, and returns the unit if no batch comes. If there are as many such streams above each
//! other as the task has units, the lowest one never gets any: the task keeps waking itself and
//! makes no progress. A stream here spends a unit only after a batch has come, so one unit
//! suffices for a plan of any depth. A scan whose predicate rejects nearly all rows returns one
//! batch for thousands that it reads, so it also gives way between the batches that it reads
//! ([`give_way`]).
//! Not here: how many units a task has (`scheduled.rs`).

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::{Stream, StreamExt};
use tokio::task::coop::{has_budget_remaining, poll_proceed};

/// A stream that spends a unit for each batch, and gives way when the task has no units left.
pub(crate) fn yielding(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    Box::pin(Yielding(rows))
}

struct Yielding(SendableRecordBatchStream);

impl Stream for Yielding {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !has_budget_remaining() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let batch = ready!(self.0.poll_next_unpin(cx));
        spend(cx);
        Poll::Ready(batch)
    }
}

impl RecordBatchStream for Yielding {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

/// Spends a unit of the task's budget for work that returned no batch. If no unit is left, other
/// tasks run first.
pub(crate) async fn give_way() {
    let mut has_given_way = false;
    poll_fn(|cx| {
        // Operators above may hold all units: then each turn does one piece of work.
        if spend(cx) || std::mem::replace(&mut has_given_way, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Spends one unit of the task's budget, if there is one.
pub(crate) fn spend(cx: &mut Context<'_>) -> bool {
    if !has_budget_remaining() {
        return false;
    }
    let Poll::Ready(unit) = poll_proceed(cx) else {
        return false;
    };
    unit.made_progress();
    true
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use arrow::array::Int64Array;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::{TryStreamExt, stream};

    use super::*;

    fn batches(count: i64) -> SendableRecordBatchStream {
        let batch = |n: i64| {
            let column: Arc<dyn arrow::array::Array> = Arc::new(Int64Array::from(vec![n]));
            Ok(RecordBatch::try_from_iter([("n", column)]).unwrap())
        };
        let schema = batch(0).unwrap().schema();
        let batches = stream::iter((0..count).map(batch));
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }

    #[tokio::test]
    async fn any_depth_makes_progress_and_gives_way() {
        let deep = (0..1_000).fold(batches(300), |rows, _| yielding(rows));
        let reads = tokio::spawn(deep.try_collect::<Vec<_>>());
        let mut others = 0;
        while !reads.is_finished() && others < 1_000_000 {
            others += 1;
            tokio::task::yield_now().await;
        }
        let found = tokio::time::timeout(Duration::from_secs(60), reads);
        assert_eq!(found.await.unwrap().unwrap().unwrap().len(), 300);
        assert!(others > 2, "it gave way {others} times");
    }
}
