//! How large a piece of a batch does a join get at a time?
//!
//! A join compares a batch of its probe side with all rows of the build side that have the same
//! key (nested loops: with all rows) before it reads on, and it gives way only where it returns
//! rows. If its filter rejects every pair, that is minutes of work for one batch of 8,192 rows: no
//! other query gets the thread, and a cancelled query keeps running. So this stream passes a batch
//! on in pieces that keep the join busy for up to [`LONGEST`], and the task may give way between
//! two of them. The time per row is measured, as the processor time until the join asks for the
//! next piece.
//! Not here: which joins need it (`plan/yielding_joins.rs`).

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread::{self, ThreadId};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use coscan_storage::threads::processor_time;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::{Stream, StreamExt};
use tokio::task::coop::has_budget_remaining;

use super::scheduled::turn;
use super::yielding::spend;

/// The time that a join may work on one piece.
const LONGEST: Duration = Duration::from_millis(200);
/// The time that nested loops may work on a piece of [`ROWS_MIN`] rows.
const LONGEST_OF_MIN: Duration = Duration::from_secs(1);
/// Nested loops in DataFusion compare one row of the build side at a time with a piece of at least
/// 745 rows. With a smaller piece they copy both sides of each pair, which takes two to four times
/// as long.
const ROWS_MIN: usize = 1 << 10;
/// After a piece that took this long, the task gives way.
const LONG: Duration = Duration::from_millis(10);
/// No piece has more rows than this.
const ROWS_MAX: usize = 1 << 20;

/// A stream that cuts batches into pieces.
pub(super) struct Pieces {
    rows: SendableRecordBatchStream,
    /// Whether small pieces cost more ([`ROWS_MIN`]).
    for_loops: bool,
    /// The rest of the current batch.
    batch: Option<RecordBatch>,
    /// The rows of the next piece.
    size: usize,
    given: Option<Given>,
}

/// A piece that was handed out, with its time.
struct Given {
    turn: Option<u64>,
    thread: ThreadId,
    at: Duration,
    rows: usize,
}

impl Pieces {
    pub(super) fn new(rows: SendableRecordBatchStream, for_loops: bool) -> Self {
        Self {
            rows,
            for_loops,
            batch: None,
            // One row may have to be compared with millions.
            size: 1,
            given: None,
        }
    }

    fn next_piece(&mut self, batch: RecordBatch) -> RecordBatch {
        self.given = Some(Given {
            turn: turn(),
            thread: thread::current().id(),
            at: processor_time(),
            rows: self.size.min(batch.num_rows()),
        });
        if batch.num_rows() <= self.size {
            return batch;
        }
        let piece = batch.slice(0, self.size);
        self.batch = Some(batch.slice(self.size, batch.num_rows() - self.size));
        piece
    }

    /// Adapts the size to the time that the last piece took, and returns that time. If the task
    /// has given way since then, no other task was held up, and the time is unknown.
    fn learn(&mut self) -> Duration {
        let Some(given) = self.given.take() else {
            return Duration::ZERO;
        };
        if given.turn.is_some() && given.turn != turn() {
            self.size = self.size.saturating_mul(2).min(ROWS_MAX);
            return Duration::ZERO;
        }
        // Without turns only the thread tells whether the task has given way. Its processor time is
        // of no use to another thread.
        if given.thread != thread::current().id() {
            return Duration::ZERO;
        }
        let took = processor_time().saturating_sub(given.at);
        // The last piece of a batch may be smaller than the others.
        let part = self.size as f64 / given.rows.max(1) as f64;
        self.size = size_after(self.size, took.mul_f64(part), self.for_loops);
        took
    }
}

/// The rows of the next piece, if a piece of `size` rows took this long.
fn size_after(size: usize, took: Duration, for_loops: bool) -> usize {
    let that_take = |time: Duration| {
        let rows = size as u128 * time.as_nanos() / took.as_nanos().max(1);
        usize::try_from(rows).unwrap_or(ROWS_MAX).clamp(1, ROWS_MAX)
    };
    let rows_min = if for_loops { ROWS_MIN } else { 1 };
    let longest = if size == rows_min {
        LONGEST_OF_MIN
    } else {
        LONGEST
    };
    if size < rows_min && that_take(2 * LONGEST_OF_MIN) >= rows_min {
        // A row of a larger piece takes half as long.
        rows_min
    } else if 2 * took <= LONGEST {
        size.saturating_mul(2).min(ROWS_MAX)
    } else if took <= longest {
        size
    } else if size > rows_min {
        that_take(LONGEST / 2).max(rows_min)
    } else {
        that_take(LONGEST / 2)
    }
}

impl Stream for Pieces {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Tokio gives a task a number of calls per turn, and each call may take this long.
        if self.learn() > LONG || !has_budget_remaining() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let batch = match self.batch.take() {
            Some(batch) => batch,
            None => match ready!(self.rows.poll_next_unpin(cx)) {
                Some(Ok(batch)) => batch,
                ended => return Poll::Ready(ended),
            },
        };
        spend(cx);
        Poll::Ready(Some(Ok(self.next_piece(batch))))
    }
}

impl RecordBatchStream for Pieces {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::{FutureExt, stream};

    use super::*;
    use crate::tasks::TaskQueue;

    const ROWS: i64 = 1_000;

    fn batches(count: i64) -> SendableRecordBatchStream {
        let batch = |n: i64| {
            let column = Int64Array::from_iter_values(n * ROWS..(n + 1) * ROWS);
            let column: Arc<dyn arrow::array::Array> = Arc::new(column);
            Ok(RecordBatch::try_from_iter([("n", column)]).unwrap())
        };
        let schema = batch(0).unwrap().schema();
        let batches = stream::iter((0..count).map(batch));
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }

    /// Reads all pieces and works this long on each row; returns the rows of each piece.
    async fn read(mut rows: Pieces, per_row: Duration, read: Arc<AtomicUsize>) -> Vec<usize> {
        let (mut pieces, mut expected) = (vec![], 0);
        while let Some(piece) = rows.next().await {
            let piece = piece.unwrap();
            for value in piece.column(0).as_primitive::<Int64Type>().values() {
                assert_eq!(*value, expected);
                expected += 1;
            }
            let work = per_row * u32::try_from(piece.num_rows()).unwrap();
            let begun = processor_time();
            while processor_time().saturating_sub(begun) < work {
                std::hint::spin_loop();
            }
            pieces.push(piece.num_rows());
            read.fetch_add(piece.num_rows(), Ordering::SeqCst);
        }
        pieces
    }

    #[tokio::test]
    async fn pieces_take_about_as_long_as_they_should() {
        let queue = TaskQueue::new(1, 1, None);
        for (per_row, batches_read, largest) in [
            (Duration::from_millis(3), 1, 1..=64),
            (Duration::ZERO, 40, 1_000..=1_000),
        ] {
            let work = read(
                Pieces::new(batches(batches_read), true),
                per_row,
                Arc::default(),
            );
            let pieces = tokio::spawn(queue.begin().schedule(work.boxed()));
            let pieces = pieces.await.unwrap();
            let all = usize::try_from(batches_read * ROWS).unwrap();
            assert_eq!(pieces.iter().sum::<usize>(), all);
            // Other programs on the machine may make a few pieces larger or smaller.
            let mut sorted = pieces.clone();
            sorted.sort_unstable();
            let most = sorted[sorted.len() - 1 - sorted.len() / 50];
            assert!(largest.contains(&most), "{per_row:?}: {most} of {pieces:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_task_that_is_cancelled_stops_between_two_pieces() {
        let queue = TaskQueue::new(1, 1, None);
        let done = Arc::<AtomicUsize>::default();
        // Minutes of work, for one batch.
        let work = read(
            Pieces::new(batches(1), false),
            Duration::from_millis(20),
            Arc::clone(&done),
        );
        let task = tokio::spawn(queue.begin().schedule(work.boxed()));
        while done.load(Ordering::SeqCst) < 20 {
            tokio::task::yield_now().await;
        }
        task.abort();
        let before = done.load(Ordering::SeqCst);
        assert!(task.await.unwrap_err().is_cancelled());
        let after = done.load(Ordering::SeqCst) - before;
        assert!(after < 80, "{after} rows");
    }

    #[test]
    fn sizes() {
        let ms = Duration::from_millis;
        for (rows, took, next) in [
            (1, ms(0), ROWS_MIN),
            (1, ms(80), 2),
            (2, ms(150), 2),
            (1, ms(150), 1),
            (1, ms(5_000), 1),
            (100, ms(300), 33),
            // 1,024 rows would take a second, as each costs half as much.
            (64, ms(120), ROWS_MIN),
            (64, ms(130), 64),
            (ROWS_MIN, ms(90), 2 * ROWS_MIN),
            (ROWS_MIN, ms(900), ROWS_MIN),
            (ROWS_MIN, ms(2_000), 51),
            (4 * ROWS_MIN, ms(150), 4 * ROWS_MIN),
            (4 * ROWS_MIN, ms(4_000), ROWS_MIN),
            (ROWS_MAX, ms(0), ROWS_MAX),
        ] {
            assert_eq!(size_after(rows, took, true), next, "{rows} rows, {took:?}");
        }
        assert_eq!(size_after(1, ms(0), false), 2);
        assert_eq!(size_after(64, ms(120), false), 64);
        assert_eq!(size_after(ROWS_MIN, ms(900), false), 113);
    }
}
