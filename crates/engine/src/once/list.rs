//! Who computes the next batch of a list, and who waits for it?
//!
//! Whoever needs a batch that is not there polls the input, and all readers find what it gives.
//! So rows are computed when they are asked for, and a reader that is polled never depends on one
//! that is not: not on one that its consumer left aside, not on one that was dropped. Refused: the
//! first reader fills the list while the others wait for it. A join that has polled that reader and
//! then reads its other side first would wait forever.
//!
//! ONCE-I1: the input is polled by one reader at a time. A reader that finds it busy is woken when
//! that poll is over.
//! ONCE-I2: if the input is pending, its waker wakes every reader that waits.
//! ONCE-I3: the input has no reader's waker: it outlives each of them.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use arrow::array::RecordBatch;
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::SpillMetrics;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use parking_lot::Mutex;

use super::rows::{Found, Rows};

/// The rows of one partition, for any number of readers.
pub(super) struct List {
    input: Mutex<Input>,
    rows: Mutex<Rows>,
    waiting: Mutex<Vec<Waiting>>,
    /// Of the input, and wakes all that wait.
    waker: Waker,
}

enum Input {
    New {
        plan: Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    },
    Runs(SendableRecordBatchStream),
    /// It is being polled, or a poll has panicked.
    Polled,
    Ended,
}

/// A reader that waits.
struct Waiting {
    reader: u64,
    waker: Waker,
    /// It found the input busy.
    has_missed: bool,
}

/// What became of a poll.
pub(super) enum Polled {
    /// The list has more, or has ended.
    More,
    /// The reader will be woken.
    Pending,
}

impl List {
    pub(super) fn new(
        plan: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: &Arc<TaskContext>,
        metrics: SpillMetrics,
    ) -> Arc<Self> {
        let input = Input::New {
            plan: Arc::clone(plan),
            partition,
            context: Arc::clone(context),
        };
        let lists = plan.output_partitioning().partition_count();
        let rows = Rows::new(context, lists, plan.schema(), metrics);
        Arc::new_cyclic(|list| Self {
            input: Mutex::new(input),
            rows: Mutex::new(rows),
            waiting: Mutex::new(vec![]),
            waker: Waker::from(Arc::new(Ready(Weak::clone(list)))),
        })
    }

    /// What stands at a place of the list.
    pub(super) fn at(&self, number: usize) -> Found {
        self.rows.lock().at(number)
    }

    /// Polls the input for a reader that found nothing at a place. It waits if nothing comes.
    pub(super) fn poll(&self, reader: u64, number: usize, waker: &Waker) -> Polled {
        self.wait(reader, waker, true);
        let Some(mut input) = self.input.try_lock() else {
            return Polled::Pending;
        };
        self.wait(reader, waker, false);
        // Another reader may have polled it meanwhile.
        if !matches!(self.at(number), Found::Nothing) {
            drop(input);
            self.leave(reader);
            return Polled::More;
        }
        let polled = input.poll(&mut Context::from_waker(&self.waker));
        let polled = match polled {
            Poll::Ready(given) => {
                let goes_on = matches!(given, Some(Ok(_)));
                if !self.rows.lock().take(given) || !goes_on {
                    *input = Input::Ended;
                }
                Polled::More
            }
            Poll::Pending => Polled::Pending,
        };
        drop(input);
        match polled {
            Polled::More => self.leave(reader),
            Polled::Pending => self.wake(|waiting| waiting.has_missed),
        }
        polled
    }

    /// A reader waits no more, and leaves the input to the others.
    pub(super) fn leave(&self, reader: u64) {
        self.waiting.lock().retain(|of| of.reader != reader);
        self.wake(|_| true);
    }

    fn wait(&self, reader: u64, waker: &Waker, has_missed: bool) {
        let mut waiting = self.waiting.lock();
        match waiting.iter_mut().find(|of| of.reader == reader) {
            Some(known) => {
                known.waker.clone_from(waker);
                known.has_missed = has_missed;
            }
            None => waiting.push(Waiting {
                reader,
                waker: waker.clone(),
                has_missed,
            }),
        }
    }

    fn wake(&self, which: impl Fn(&Waiting) -> bool) {
        let woken: Vec<Waiting> = {
            let mut waiting = self.waiting.lock();
            waiting.extract_if(.., |of| which(of)).collect()
        };
        for of in woken {
            of.waker.wake();
        }
    }
}

impl Input {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let mut stream = match std::mem::replace(self, Self::Polled) {
            Self::New {
                plan,
                partition,
                context,
            } => match plan.execute(partition, context) {
                Ok(stream) => stream,
                Err(error) => return Poll::Ready(Some(Err(error))),
            },
            Self::Runs(stream) => stream,
            Self::Polled => {
                let error = internal_datafusion_err!("the computation of a query in WITH panicked");
                return Poll::Ready(Some(Err(error)));
            }
            Self::Ended => {
                *self = Self::Ended;
                return Poll::Ready(None);
            }
        };
        let polled = stream.poll_next_unpin(cx);
        *self = Self::Runs(stream);
        polled
    }
}

/// ONCE-I2.
struct Ready(Weak<List>);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(list) = self.0.upgrade() {
            list.wake(|_| true);
        }
    }
}
