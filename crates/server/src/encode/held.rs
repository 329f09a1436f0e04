//! Where are the rows of a cursor WITH HOLD after its transaction has committed?
//!
//! As in PostgreSQL, COMMIT computes them, so that a row that cannot be computed makes the COMMIT
//! fail while there is still a transaction to roll back. The first rows stay in memory, if there
//! is some; the rest, where there are many, go to one file on disk.
//! Not here: SCROLL cursors, which have all their rows in memory (`cursor.rs`).
//!
//! S11: at most `MEMORY_BYTES` of rows wait in memory, plus one batch that was put back.

use std::collections::VecDeque;
use std::sync::Arc;

use coscan::running::ended;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use futures::StreamExt;
use futures::lock::Mutex;
use tokio::task::spawn_blocking;

use crate::failure::Failure;
use crate::net::{Held, Ledger, Sending};

/// Enough for most cursors; for more rows, computing them costs more than a file.
const MEMORY_BYTES: usize = 1 << 20;
const WHAT: &str = "a cursor WITH HOLD";

/// The rows of a cursor that were left at COMMIT.
pub(crate) struct HeldRows {
    first: VecDeque<RecordBatch>,
    /// The memory of the first rows.
    _held: Vec<Held>,
    /// The rows on disk. Only the owner reads the stream; the mutex makes `HeldRows` shareable.
    rest: Option<Mutex<SendableRecordBatchStream>>,
}

impl HeldRows {
    /// Computes all remaining rows of a query.
    ///
    /// # Errors
    /// Errors of the query, and of the disk.
    pub(crate) async fn of(
        running: &mut Sending,
        ledger: &Ledger,
        environment: Arc<RuntimeEnv>,
    ) -> Result<Self, Failure> {
        let (mut first, mut held, mut bytes) = (VecDeque::new(), vec![], 0);
        let mut rest = None;
        while let Some(batch) = running.next().await? {
            bytes += batch.get_array_memory_size();
            let memory =
                (bytes <= MEMORY_BYTES).then(|| ledger.hold(WHAT, batch.get_array_memory_size()));
            if let Some(Ok(memory)) = memory {
                held.push(memory);
                first.push_back(batch);
            } else {
                rest = Some(Mutex::new(on_disk(batch, running, environment).await?));
                break;
            }
        }
        Ok(Self {
            first,
            _held: held,
            rest,
        })
    }

    /// The next batch. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, Failure> {
        match (self.first.pop_front(), &mut self.rest) {
            (Some(batch), _) => Ok(Some(batch)),
            (None, Some(rest)) => Ok(rest.get_mut().next().await.transpose()?),
            (None, None) => Ok(None),
        }
    }

    /// Puts the rest of a batch back, as the next one.
    pub(crate) fn put_aside(&mut self, rest: RecordBatch) {
        self.first.push_front(rest);
    }
}

/// Writes a batch and all later ones to a file, and returns a stream that reads them.
async fn on_disk(
    mut batch: RecordBatch,
    running: &mut Sending,
    environment: Arc<RuntimeEnv>,
) -> Result<SendableRecordBatchStream, Failure> {
    let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    let schema = Arc::clone(running.schema());
    let files = SpillManager::new(environment, metrics, schema);
    let mut file = files.create_in_progress_file(WHAT)?;
    loop {
        // Other queries send rows meanwhile.
        running.give_up_turn();
        let write = move || file.append_batch(&batch).map(|_| file);
        file = spawn_blocking(write).await.map_err(ended)??;
        batch = match running.next().await? {
            Some(next) => next,
            None => break,
        };
    }
    let write = move || file.finish();
    let written = spawn_blocking(write).await.map_err(ended)??;
    let written = written.ok_or_else(|| Failure::new("58030", "the rows of a cursor are lost"))?;
    Ok(files.read_spill_as_stream_unbuffered(written, None)?)
}
