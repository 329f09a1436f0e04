//! Statements that run concurrently, while their rows are printed in the order of the statements.
//!
//! The statement whose turn it is returns its rows as they are fetched. The others keep running,
//! because they share reads with it: each keeps up to `BATCHES_AHEAD` batches of rows in memory
//! and writes more rows to a temporary file of the engine. So however large the results are,
//! memory is bounded and no statement waits for another. Planning errors come before any row; an
//! error of a running statement comes in its turn, after its rows. Rejected: making the other
//! statements wait. That would end the sharing, and they would hold operator memory that the
//! statement whose turn it is may need. Cancel safety: dropping a [`Running`] ends its statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use coscan::Session;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::spill_pool::{self, SpillPoolSink};
use futures::TryStreamExt;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::failure::Failure;

/// The running statements.
pub(crate) struct Statements {
    /// In the order of the statements.
    pub(crate) running: Vec<Running>,
}

/// A running statement.
pub(crate) struct Running {
    pub(crate) schema: SchemaRef,
    number: usize,
    turn: Arc<AtomicUsize>,
    parts: mpsc::Receiver<Part>,
    rest: Option<SendableRecordBatchStream>,
    task: SpawnedTask<Result<Duration, Failure>>,
}

enum Part {
    Batch(RecordBatch),
    /// All remaining rows.
    Rest(SendableRecordBatchStream),
}

impl Statements {
    /// Starts all statements.
    ///
    /// # Errors
    /// The parsing or planning error of the first statement that cannot run.
    pub(crate) async fn start(session: &Session, statements: &[&str]) -> Result<Self, Failure> {
        let turn = Arc::new(AtomicUsize::new(0));
        let mut starting = Vec::with_capacity(statements.len());
        for (number, statement) in statements.iter().enumerate() {
            let (planned, schema) = oneshot::channel();
            let (sender, parts) = mpsc::channel(BATCHES_AHEAD + 1);
            let producer = Producer {
                session: session.clone(),
                number,
                turn: Arc::clone(&turn),
                parts: sender,
            };
            let task = SpawnedTask::spawn(producer.run((*statement).to_owned(), planned));
            starting.push((schema, parts, task));
        }
        let mut running = Vec::with_capacity(starting.len());
        for (number, (schema, parts, task)) in starting.into_iter().enumerate() {
            let Ok(schema) = schema.await else {
                end(task).await?;
                return Err(Failure::new("a statement ended before it was planned"));
            };
            running.push(Running {
                schema,
                number,
                turn: Arc::clone(&turn),
                parts,
                rest: None,
                task,
            });
        }
        Ok(Self { running })
    }
}

impl Running {
    /// Makes it this statement's turn, and returns the next rows. `None` at the end.
    ///
    /// # Errors
    /// If rows cannot be read back from the file.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, Failure> {
        self.turn.store(self.number, Ordering::Relaxed);
        loop {
            if let Some(rest) = &mut self.rest {
                return Ok(rest.try_next().await?);
            }
            match self.parts.recv().await {
                Some(Part::Batch(batch)) => return Ok(Some(batch)),
                Some(Part::Rest(rest)) => self.rest = Some(rest),
                None => return Ok(None),
            }
        }
    }

    /// How long the statement took. Call this after all its rows were taken.
    ///
    /// # Errors
    /// The error of the statement, if it failed.
    pub(crate) async fn end(self) -> Result<Duration, Failure> {
        end(self.task).await
    }
}

async fn end(task: SpawnedTask<Result<Duration, Failure>>) -> Result<Duration, Failure> {
    let failed = |error| Failure::new(format!("a statement's task: {error}"));
    task.join().await.map_err(failed)?
}

/// The task that runs a statement.
struct Producer {
    session: Session,
    number: usize,
    /// The statement whose turn it is. If this changes at the wrong moment, rows that fit in
    /// memory may go to a file, which does no harm.
    turn: Arc<AtomicUsize>,
    parts: mpsc::Sender<Part>,
}

impl Producer {
    async fn run(
        self,
        statement: String,
        planned: oneshot::Sender<SchemaRef>,
    ) -> Result<Duration, Failure> {
        let started = Instant::now();
        let prepared = self.session.prepare(&statement, &[]).await?;
        let mut rows = prepared.execute(vec![]).await?;
        let schema = rows.schema();
        // If the receiver is gone, this task is being dropped too.
        let _ = planned.send(SchemaRef::clone(&schema));
        let Ok(place) = self.parts.clone().reserve_owned().await else {
            return Ok(started.elapsed());
        };
        while let Some(batch) = rows.try_next().await? {
            let Some(batch) = self.pass_on(batch).await else {
                continue;
            };
            let (sink, rest) = self.file(&schema);
            place.send(Part::Rest(rest));
            sink.push_batch(&batch)?;
            while let Some(batch) = rows.try_next().await? {
                sink.push_batch(&batch)?;
            }
            break;
        }
        Ok(started.elapsed())
    }

    /// Passes rows on; returns them if there is no room and it is another statement's turn.
    async fn pass_on(&self, batch: RecordBatch) -> Option<RecordBatch> {
        match self.parts.try_send(Part::Batch(batch)) {
            Err(TrySendError::Full(Part::Batch(batch))) => {
                if self.turn.load(Ordering::Relaxed) != self.number {
                    return Some(batch);
                }
                let _ = self.parts.send(Part::Batch(batch)).await;
                None
            }
            _ => None,
        }
    }

    /// A file to write rows to, and the stream that reads them.
    fn file(&self, schema: &SchemaRef) -> (SpillPoolSink, SendableRecordBatchStream) {
        let runtime = Arc::clone(self.session.engine().runtime());
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let spill = SpillManager::new(runtime, metrics, SchemaRef::clone(schema));
        spill_pool::spsc_channel(FILE_BYTES, Arc::new(spill))
    }
}

/// Enough for the small results of dashboards, and little enough for hundreds of statements: a
/// batch takes some 100 KB.
const BATCHES_AHEAD: usize = 4;

/// The size of a temporary file. Each file is removed as soon as it has been read.
const FILE_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: i64 = 500_000;

    fn count(batch: &RecordBatch) -> i64 {
        i64::try_from(batch.num_rows()).unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn statements_end_even_if_the_first_is_not_read() {
        let session = Session::open().unwrap();
        let many = format!("SELECT value, value % 7 FROM generate_series(1, {MANY}) AS g(value)");
        let statements = [many.as_str(), &many, "SELECT 1", &many];
        let mut statements = Statements::start(&session, &statements).await.unwrap();
        let mut first = statements.running.remove(0);
        let mut rows = count(&first.next().await.unwrap().unwrap());
        for other in &statements.running {
            while !other.task_is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        // It is still the first statement's turn, and that statement waits.
        assert!(!first.task_is_finished());
        for (mut other, expected) in statements.running.into_iter().zip([MANY, 1, MANY]) {
            let mut rows = 0;
            while let Some(batch) = other.next().await.unwrap() {
                rows += count(&batch);
            }
            assert_eq!(rows, expected);
            other.end().await.unwrap();
        }
        while let Some(batch) = first.next().await.unwrap() {
            rows += count(&batch);
        }
        assert_eq!(rows, MANY);
        first.end().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn planning_errors_come_first_and_others_in_their_turn() {
        let session = Session::open().unwrap();
        let statements = ["SELECT 1", "SELECT nothing FROM nowhere"];
        let refused = Statements::start(&session, &statements).await;
        let message = refused.err().unwrap();
        assert!(message.message().unwrap().contains("nowhere"));

        let divide = "SELECT 1 / (value - 400000) FROM generate_series(1, 500000) AS g(value)";
        let statements = [divide, divide];
        let statements = Statements::start(&session, &statements).await.unwrap();
        for mut running in statements.running {
            let mut rows = 0;
            while let Some(batch) = running.next().await.unwrap() {
                rows += count(&batch);
            }
            assert!(rows < MANY, "{rows}");
            let message = running.end().await.unwrap_err();
            assert!(message.message().unwrap().contains("division by zero"));
        }
    }

    impl Running {
        fn task_is_finished(&self) -> bool {
            self.parts.is_closed()
        }
    }
}
