//! A batch that is retained for other queries: in memory, or in a file of the engine's spill
//! folder.
//!
//! The bytes of a batch are those of its buffers that the batch before it in the list does not
//! refer to. Operators return slices of one large batch, whose memory counts once.
//! Not here: whether a batch goes to memory or to disk, and how long it is retained (the core).

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::take;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};

/// A column is copied if it holds more than this many times the bytes that it refers to, beyond
/// [`SMALL_BYTES`].
const WASTE_MAX: usize = 3;
/// Bytes that are not worth a copy.
const SMALL_BYTES: usize = 4096;

/// A retained batch.
#[derive(Clone)]
pub(super) enum Kept {
    Memory { batch: RecordBatch, bytes: u64 },
    Disk(Spilled),
}

/// A batch in a file, which is deleted when nothing refers to it.
#[derive(Clone)]
pub(super) struct Spilled {
    file: Arc<dyn SpillFile>,
    manager: Arc<SpillManager>,
}

impl Spilled {
    /// Writes a batch. Blocks, as DataFusion's own operators do.
    ///
    /// # Errors
    /// If the disk refuses it, or the session's runtime does: it has a limit for spilled bytes.
    pub(super) fn write(batch: &RecordBatch, context: &TaskContext) -> Result<Self> {
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let manager = SpillManager::new(context.runtime_env(), metrics, batch.schema());
        let batches = std::slice::from_ref(batch);
        let file = manager.spill_record_batch_and_finish(batches, "a shared operator")?;
        let Some(file) = file else {
            return internal_err!("a batch was written to no file");
        };
        Ok(Self {
            file,
            manager: Arc::new(manager),
        })
    }

    /// A stream of the one batch. The file stays until the stream is dropped.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(super) fn read(&self) -> Result<SendableRecordBatchStream> {
        let file = Arc::clone(&self.file);
        self.manager.read_spill_as_stream_unbuffered(file, None)
    }
}

/// The batch without memory that it holds but does not refer to. Without this a top of ten rows
/// would keep the strings of ten chunks, and the dozen rows of a join the buffers made for
/// thousands.
///
/// # Errors
/// If a column cannot be copied: a bug.
pub fn compacted(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(compacted_column);
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        batch.schema(),
        columns,
        &rows,
    )?)
}

fn compacted_column(column: &ArrayRef) -> Result<ArrayRef> {
    let mut buffers = Vec::new();
    collect(&column.to_data(), &mut buffers);
    let held: usize = buffers.iter().map(|(_, bytes)| bytes).sum();
    let wastes = |used: usize| held > WASTE_MAX * used + SMALL_BYTES;
    let views = size_of::<u128>() * column.len();
    if let Some(strings) = column.as_string_view_opt() {
        let wastes = wastes(views + strings.total_buffer_bytes_used());
        return Ok(if wastes {
            Arc::new(strings.gc())
        } else {
            Arc::clone(column)
        });
    }
    if let Some(bytes) = column.as_binary_view_opt() {
        let wastes = wastes(views + bytes.total_buffer_bytes_used());
        return Ok(if wastes {
            Arc::new(bytes.gc())
        } else {
            Arc::clone(column)
        });
    }
    if column.data_type().is_nested() || !wastes(column.to_data().get_slice_memory_size()?) {
        return Ok(Arc::clone(column));
    }
    let rows = UInt64Array::from_iter_values(0..column.len() as u64);
    Ok(take(column, &rows, None)?)
}

/// The buffers that a batch refers to: address and bytes, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Buffers(Vec<(usize, usize)>);

impl Buffers {
    pub(crate) fn of(batch: &RecordBatch) -> Self {
        let mut found = Vec::new();
        for column in batch.columns() {
            collect(&column.to_data(), &mut found);
        }
        found.sort_unstable();
        found.dedup_by_key(|(address, _)| *address);
        Self(found)
    }

    /// Bytes of the buffers that `before` does not have.
    pub(crate) fn bytes_beyond(&self, before: &Self) -> u64 {
        let known = |address: &usize| before.0.binary_search_by_key(address, |b| b.0).is_ok();
        let new = self.0.iter().filter(|(address, _)| !known(address));
        new.map(|(_, bytes)| *bytes as u64).sum()
    }
}

fn collect(data: &ArrayData, found: &mut Vec<(usize, usize)>) {
    let nulls = data.nulls().map(NullBuffer::buffer);
    for buffer in data.buffers().iter().chain(nulls) {
        found.push((buffer.data_ptr().as_ptr().addr(), buffer.capacity()));
    }
    for child in data.child_data() {
        collect(child, found);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use datafusion::prelude::SessionContext;
    use futures::TryStreamExt;

    use super::*;

    fn batch() -> RecordBatch {
        let numbers = Int64Array::from_iter((0..1_000).map(|n| (n % 7 != 0).then_some(n)));
        let words = (0..1_000).map(|n| format!("a word that is not inlined, {n}"));
        let words = StringViewArray::from_iter_values(words);
        RecordBatch::try_from_iter([
            ("n", Arc::new(numbers) as Arc<dyn Array>),
            ("w", Arc::new(words)),
        ])
        .unwrap()
    }

    #[test]
    fn slices_of_a_batch_take_its_memory_once() {
        let whole = batch();
        let (first, second) = (whole.slice(0, 500), whole.slice(500, 500));
        let buffers = Buffers::of(&first);
        let bytes = buffers.bytes_beyond(&Buffers::default());
        assert!(bytes >= 8_000 + 16_000 + 30_000, "{bytes}");
        assert_eq!(Buffers::of(&second).bytes_beyond(&buffers), 0);
        assert_eq!(Buffers::of(&batch()).bytes_beyond(&buffers), bytes);
    }

    #[test]
    fn a_few_rows_of_many_are_copied() {
        let bytes = |batch: &RecordBatch| Buffers::of(batch).bytes_beyond(&Buffers::default());
        let few = batch().slice(100, 3);
        let kept = compacted(&few).unwrap();
        assert_eq!(kept, few);
        assert!(bytes(&few) > 54_000 && bytes(&kept) < 1_000);
        let most = batch().slice(100, 500);
        let kept = compacted(&most).unwrap();
        assert_eq!(Buffers::of(&kept), Buffers::of(&most), "it is the same");
    }

    #[tokio::test]
    async fn what_was_written_is_read_any_number_of_times() {
        let context = SessionContext::new().task_ctx();
        let batch = batch().slice(100, 300);
        let spilled = Spilled::write(&batch, &context).unwrap();
        for _ in 0..2 {
            let read: Vec<_> = spilled.read().unwrap().try_collect().await.unwrap();
            assert_eq!(read, std::slice::from_ref(&batch));
        }
    }
}
