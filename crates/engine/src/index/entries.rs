//! Which entries do a table's files have?
//!
//! A cooperative scan of the column returns each key with its row's position, without NULL keys,
//! in the order in which the chunks come.
//! Not here: the order of entries (`build.rs`), which files are scanned (`merge.rs`).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::{filter, is_not_null};
use arrow::datatypes::SchemaRef;
use coscan_storage::pool::ChunkLease;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::future::BoxFuture;
use futures::{StreamExt, stream};

use crate::error::external;
use crate::index_catalog::{Manifest, Progress};
use crate::read::pipeline::Selection;
use crate::read::scan::{Execution, Positions, Run, Running};

/// The entries of the index, unsorted, in as many partitions as the scan has.
pub(super) fn entries(
    execution: &Arc<Execution>,
    running: &Arc<Running>,
    manifest: &Manifest,
    schema: SchemaRef,
    progress: &Arc<Progress>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let first_rows = manifest.first_rows(&running.files);
    let partitions = (0..execution.plan.partitions.len())
        .map(|number| {
            Arc::new(EntriesOf {
                execution: Arc::clone(execution),
                running: Arc::clone(running),
                first_rows: Arc::clone(&first_rows),
                number,
                schema: Arc::clone(&schema),
                progress: Arc::clone(progress),
            }) as Arc<dyn PartitionStream>
        })
        .collect();
    let source = StreamingTableExec::try_new(schema, partitions, None, [], false, None)?;
    Ok(Arc::new(source))
}

/// One partition of the entries.
struct EntriesOf {
    execution: Arc<Execution>,
    running: Arc<Running>,
    /// The position of the first row of each of the scan's files.
    first_rows: Arc<[u64]>,
    number: usize,
    schema: SchemaRef,
    progress: Arc<Progress>,
}

impl PartitionStream for EntriesOf {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let entries = EntryStream {
            _execution: Arc::clone(&self.execution),
            runs: self.running.runs(self.number).to_vec().into(),
            running: Arc::clone(&self.running),
            first_rows: Arc::clone(&self.first_rows),
            schema: Arc::clone(&self.schema),
            progress: Arc::clone(&self.progress),
            batch_rows: context.session_config().batch_size(),
            chunk: None,
        };
        let batches = stream::try_unfold(entries, |mut entries| async move {
            // Boxed: the compiler cannot prove the nested futures `Send` for every lifetime at
            // once.
            let next: BoxFuture<'_, Result<Option<RecordBatch>>> = Box::pin(entries.next());
            Ok(next.await?.map(|batch| (batch, entries)))
        });
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches.boxed(),
        ))
    }
}

impl fmt::Debug for EntriesOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntriesOf")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// Reads entries chunk after chunk, batch after batch.
struct EntryStream {
    /// Keeps the scan alive.
    _execution: Arc<Execution>,
    running: Arc<Running>,
    first_rows: Arc<[u64]>,
    schema: SchemaRef,
    progress: Arc<Progress>,
    batch_rows: usize,
    runs: VecDeque<Arc<Run>>,
    /// The current chunk, the positions of its batches, and the number of finished batches.
    chunk: Option<(ChunkLease, Positions, usize)>,
}

impl EntryStream {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((lease, positions, done)) = &mut self.chunk {
                let at = *done;
                *done += 1;
                let pipeline = &self.running.pipelines[lease.index()];
                if let (Some(position), Some(pipeline)) = (positions.first_of(at), pipeline) {
                    let rows = lease.batches().rows_of(at);
                    let arrays = lease.batch(&pipeline.columns, at).await.map_err(external)?;
                    let arrays = arrays.unwrap_or_default();
                    let arrays = pipeline
                        .output
                        .columns
                        .iter()
                        .map(|c| Arc::clone(&arrays[*c]));
                    let schema = &self.running.schema;
                    let keys =
                        pipeline
                            .output
                            .project(arrays.collect(), rows, &Selection::All, schema)?;
                    let entries = entries_of(&self.schema, keys.column(0), position)?;
                    self.progress.add_read(rows, entries.num_rows());
                    return Ok(Some(entries));
                }
                self.chunk = None;
            }
            let Some(run) = self.runs.front() else {
                return Ok(None);
            };
            let scan = self.running.scan(run).await?;
            match scan.next_chunk().await.map_err(external)? {
                Some(mut lease) => {
                    lease.set_batch_rows(self.batch_rows);
                    let first_row = self.first_rows[self.running.file_of(lease.index())];
                    let positions = Positions::of(lease.info(), first_row, lease.batches());
                    self.chunk = Some((lease, positions, 0));
                }
                None => {
                    self.runs.pop_front();
                }
            }
        }
    }
}

/// The entries of a batch of keys whose first key is at position `first`.
fn entries_of(schema: &SchemaRef, keys: &ArrayRef, first: u64) -> Result<RecordBatch> {
    let positions = UInt64Array::from_iter_values(first..first + keys.len() as u64);
    let mut columns: Vec<ArrayRef> = vec![Arc::clone(keys), Arc::new(positions)];
    if keys.null_count() > 0 {
        let wanted = is_not_null(keys)?;
        for column in &mut columns {
            *column = filter(column, &wanted)?;
        }
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
