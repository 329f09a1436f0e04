//! Where do rows wait that are found before their turn? In the Result Cache.
//!
//! The cache is partitioned by ranges of keys. The bounds are keys from the page index of the
//! index file, so the ranges follow the skew of the data. A range is taken out as a whole at its
//! turn, and sorted only then. When memory is short, the last ranges are written to disk first,
//! because their turn is furthest away, until half of the memory is free. A range has one file;
//! its rows are appended in no order, and are read back all at once. A range that does not fit
//! into memory is sorted in parts, which are merged. Rows are distributed to their ranges many at
//! a time ([`STAGED_ROWS`]). Once all rows have been found, several ranges at once are read back
//! and sorted ahead of their turn.
//! Not here: when a range is complete (`ordered.rs`).
//! Bounds: memory is taken from the budget before a row is kept, and is at most `bytes_max` plus
//! one batch; the other rows are on disk. In addition there are short-lived copies: of the staged
//! rows, of the rows being written, of one column of the range being returned, and of each range
//! that is sorted ahead.
//! R1: a row is in the range of its key.
//! R2: ranges are taken in the order of their keys, ascending or descending.
//! Source: [SmoothScan18 §4.1]; we differ: rows are not looked up one by one, because ranges are
//! complete when they are taken.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::make_comparator;
use arrow::array::{Array, ArrayRef, RecordBatch, new_empty_array};
use arrow::compute::{concat, sort_to_indices, take, take_record_batch};
use arrow::datatypes::SchemaRef;
use coscan_storage::without_pages;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, SpillMetrics,
};
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::spill::spill_pool::{SpillPoolSink, spsc_channel};
use datafusion::physical_plan::spill::{SpillManager, get_record_batch_memory_size};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};

use crate::probe::plan::KeyOrder;

/// Rows by ranges of keys.
pub(crate) struct ResultCache {
    schema: SchemaRef,
    /// The position of the key in the schema, and the order of rows by it.
    order: KeyOrder,
    /// The first key of each range but the first, in this order.
    bounds: Option<ArrayRef>,
    /// The number of ranges that were taken out.
    taken: usize,
    /// Ranges that were taken out ahead of their turn.
    coming: VecDeque<Coming>,
    /// The remaining ranges.
    ranges: VecDeque<Range>,
    /// Rows that are not yet in their ranges.
    staged: Range,
    staged_rows: usize,
    memory: MemoryReservation,
    /// The most bytes that are kept, even if the budget allows more.
    bytes_max: usize,
    spill: Arc<SpillManager>,
    batch_rows: usize,
    metrics: ExecutionPlanMetricsSet,
    rows: Count,
    spills: Count,
    peak: Gauge,
}

#[derive(Default)]
struct Range {
    batches: Vec<RecordBatch>,
    bytes: usize,
    /// Rows on disk.
    spilled: Option<Spilled>,
}

/// A range that is being read back and sorted.
struct Coming {
    bytes: usize,
    rows: SpawnedTask<Result<SendableRecordBatchStream>>,
}

/// Rows on disk, in no order.
struct Spilled {
    writer: SpillPoolSink,
    reader: SendableRecordBatchStream,
    rows: usize,
    /// The bytes that these rows took in memory.
    bytes: usize,
}

impl Spilled {
    /// Writes rows, in batches that can be read one at a time.
    fn append(&mut self, rows: &RecordBatch, batch_rows: usize) -> Result<()> {
        for start in (0..rows.num_rows()).step_by(batch_rows) {
            let rows = rows.slice(start, batch_rows.min(rows.num_rows() - start));
            self.writer.push_batch(&rows)?;
        }
        self.rows += rows.num_rows();
        Ok(())
    }

    /// Stops writing. Returns a reader of the rows, and the number of rows that it must return.
    fn read(self) -> (SendableRecordBatchStream, usize) {
        drop(self.writer);
        (self.reader, self.rows)
    }

    /// Reads back all rows that were written.
    async fn read_all(self, batches: &mut Vec<RecordBatch>) -> Result<()> {
        let (mut reader, expected) = self.read();
        let mut rows = 0;
        while let Some(batch) = reader.try_next().await? {
            rows += batch.num_rows();
            batches.push(batch);
        }
        all_read(rows, expected)
    }
}

impl Range {
    fn add(&mut self, batch: RecordBatch, bytes: usize) {
        self.bytes += bytes;
        self.batches.push(batch);
    }
}

/// The rows that are sorted and distributed to their ranges at a time: enough that each range gets
/// a run that is worth an array.
const STAGED_ROWS: usize = 64 << 10;

/// The most ranges that are read back and sorted ahead of their turn. Together with the work on
/// the rows that are being returned, this is enough for a few cores.
const AHEAD_MAX: usize = 2;

/// The size at which a range starts another file, so that the disk space of rows that were read
/// back is freed.
const SPILL_FILE_BYTES: usize = 64 << 20;

impl ResultCache {
    /// An empty cache of one range. `bytes_max` bounds its memory.
    pub(crate) fn new(
        schema: &SchemaRef,
        order: KeyOrder,
        bytes_max: Option<u64>,
        context: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Self {
        let memory = MemoryConsumer::new("ResultCache").with_can_spill(true);
        let spills = SpillMetrics::new(metrics, 0);
        Self {
            schema: Arc::clone(schema),
            order,
            bounds: None,
            taken: 0,
            coming: VecDeque::new(),
            ranges: VecDeque::from([Range::default()]),
            staged: Range::default(),
            staged_rows: 0,
            memory: memory.register(context.memory_pool()),
            bytes_max: bytes_max.map_or(usize::MAX, narrow),
            spill: Arc::new(SpillManager::new(
                context.runtime_env(),
                spills,
                Arc::clone(schema),
            )),
            batch_rows: context.session_config().batch_size(),
            metrics: metrics.clone(),
            rows: MetricBuilder::new(metrics).global_counter("result_cache_rows"),
            spills: MetricBuilder::new(metrics).global_counter("result_cache_spills"),
            peak: MetricBuilder::new(metrics).global_gauge("result_cache_bytes_max"),
        }
    }

    /// Divides the keys into ranges at these bounds, which must be in the order of the rows. Call
    /// it before anything is inserted.
    pub(crate) fn set_bounds(&mut self, bounds: ArrayRef) {
        self.ranges.resize_with(bounds.len() + 1, Range::default);
        self.bounds = Some(bounds);
    }

    /// The end of the first remaining range: an array of bounds, and a position in it; `None` for
    /// the last range.
    pub(crate) fn bound(&self) -> Option<(ArrayRef, usize)> {
        let bounds = self.bounds.as_ref()?;
        (self.taken < bounds.len()).then(|| (Arc::clone(bounds), self.taken))
    }

    /// Whether all ranges were taken out.
    pub(crate) fn is_over(&self) -> bool {
        self.ranges.is_empty() && self.coming.is_empty()
    }

    /// Keeps rows.
    ///
    /// # Errors
    /// If the rows can neither be kept in memory nor written to disk; `Internal` for a row of a
    /// range that was already taken out.
    pub(crate) fn insert(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.rows.add(batch.num_rows());
        let batch = compact(batch)?;
        let bytes = get_record_batch_memory_size(&batch);
        if !self.takes(bytes) {
            self.make_room()?;
            self.memory.try_grow(bytes)?;
            self.peak.set_max(self.memory.size());
        }
        self.staged_rows += batch.num_rows();
        self.staged.add(batch, bytes);
        if self.staged_rows >= STAGED_ROWS {
            self.distribute()?;
        }
        Ok(())
    }

    /// Distributes the staged rows to their ranges.
    fn distribute(&mut self) -> Result<()> {
        self.staged_rows = 0;
        let staged = std::mem::take(&mut self.staged);
        let bounds = match &self.bounds {
            Some(bounds) if !staged.batches.is_empty() => Arc::clone(bounds),
            _ => {
                if let Some(range) = self.ranges.front_mut() {
                    range.bytes += staged.bytes;
                    range.batches.extend(staged.batches);
                }
                return Ok(());
            }
        };
        let all = joined(&self.schema, staged.batches)?;
        let keys = all.column(self.order.column);
        let indices = sort_to_indices(keys, Some(self.order.options), None)?;
        let sorted = take(keys, &indices, None)?;
        let compare = make_comparator(&sorted, &bounds, self.order.options)?;
        let (mut start, mut bytes) = (0, 0);
        while start < sorted.len() {
            // The range of the first key, and the end of that range's keys.
            let range = first(bounds.len(), |bound| {
                compare(start, bound) == Ordering::Less
            });
            let end = if range == bounds.len() {
                sorted.len()
            } else {
                start
                    + first(sorted.len() - start, |row| {
                        compare(start + row, range) != Ordering::Less
                    })
            };
            let rows = take_record_batch(&all, &indices.slice(start, end - start))?;
            let rows = compact(rows)?;
            let left = range
                .checked_sub(self.taken)
                .and_then(|at| self.ranges.get_mut(at));
            let Some(range) = left else {
                let message = "R2: a row of a range that was given already".to_owned();
                return Err(DataFusionError::Internal(message));
            };
            let size = get_record_batch_memory_size(&rows);
            range.add(rows, size);
            bytes += size;
            start = end;
        }
        // The rows are the same; only the rounded-up sizes of arrays differ.
        self.memory
            .resize(self.memory.size() - staged.bytes + bytes);
        self.peak.set_max(self.memory.size());
        Ok(())
    }

    /// Writes the last ranges to disk until half of the memory in use is free.
    fn make_room(&mut self) -> Result<()> {
        self.distribute()?;
        let enough = self.memory.size() / 2;
        for at in (0..self.ranges.len()).rev() {
            if self.memory.size() <= enough {
                break;
            }
            let range = &mut self.ranges[at];
            if range.bytes == 0 {
                continue;
            }
            let rows = joined(&self.schema, std::mem::take(&mut range.batches))?;
            let spilled = range.spilled.get_or_insert_with(|| {
                let (writer, reader) = spsc_channel(SPILL_FILE_BYTES, Arc::clone(&self.spill));
                Spilled {
                    writer,
                    reader,
                    rows: 0,
                    bytes: 0,
                }
            });
            spilled.append(&rows, self.batch_rows)?;
            spilled.bytes += range.bytes;
            self.memory.shrink(std::mem::take(&mut range.bytes));
            self.spills.add(1);
        }
        Ok(())
    }

    /// Takes memory from the budget; false if there is not enough.
    fn takes(&mut self, bytes: usize) -> bool {
        let fits = self.memory.size().saturating_add(bytes) <= self.bytes_max
            && self.memory.try_grow(bytes).is_ok();
        self.peak.set_max(self.memory.size());
        fits
    }

    /// Takes out the first range, sorted. `found_all`: no more rows will be inserted.
    ///
    /// # Errors
    /// If the range cannot be read back.
    pub(crate) async fn take_first(
        &mut self,
        found_all: bool,
    ) -> Result<SendableRecordBatchStream> {
        self.distribute()?;
        let Some(coming) = self.coming.pop_front() else {
            let first = self.take_range().await?;
            if found_all {
                self.take_ahead();
            }
            return Ok(first);
        };
        self.take_ahead();
        let sorted = coming.rows.join().await;
        sorted.map_err(|error| {
            DataFusionError::Execution(format!("sorting a range of keys failed: {error}"))
        })?
    }

    /// Takes out the next ranges and sorts them ahead, as far as memory allows.
    fn take_ahead(&mut self) {
        while self.coming.len() < AHEAD_MAX
            && let Some(range) = self.ranges.front()
        {
            let on_disk = range.spilled.as_ref().map_or(0, |spilled| spilled.bytes);
            let ahead: usize = self.coming.iter().map(|coming| coming.bytes).sum();
            let free = self.bytes_max.saturating_sub(self.memory.size() + ahead);
            if on_disk > free || !self.takes(on_disk) {
                break;
            }
            let Some(mut range) = self.ranges.pop_front() else {
                break;
            };
            self.taken += 1;
            let bytes = range.bytes + on_disk;
            let (sorting, memory) = (self.sorting(), self.memory.split(bytes));
            let rows = SpawnedTask::spawn(async move {
                if let Some(spilled) = range.spilled.take() {
                    spilled.read_all(&mut range.batches).await?;
                }
                let rows: Vec<_> = sorting.in_order(range.batches)?.collect();
                Ok(sorting.stream(rows.into_iter(), memory))
            });
            self.coming.push_back(Coming { bytes, rows });
        }
    }

    async fn take_range(&mut self) -> Result<SendableRecordBatchStream> {
        let mut range = self.ranges.pop_front().unwrap_or_default();
        self.taken += 1;
        let Some(spilled) = range.spilled.take() else {
            return self.sorted(range.batches, range.bytes);
        };
        let mut fits = self.takes(spilled.bytes);
        if !fits {
            self.make_room()?;
            fits = self.takes(spilled.bytes);
        }
        if !fits {
            return self.merged(range, spilled).await;
        }
        range.bytes += spilled.bytes;
        spilled.read_all(&mut range.batches).await?;
        self.sorted(range.batches, range.bytes)
    }

    fn sorting(&self) -> Sorting {
        Sorting {
            schema: Arc::clone(&self.schema),
            order: self.order,
            batch_rows: self.batch_rows,
        }
    }

    /// The rows of a range in memory, sorted, and copied batch by batch as they are polled. Their
    /// memory moves to the stream, which frees it at its end.
    fn sorted(&self, batches: Vec<RecordBatch>, bytes: usize) -> Result<SendableRecordBatchStream> {
        let sorting = self.sorting();
        let rows = sorting.in_order(batches)?;
        Ok(sorting.stream(rows, self.memory.split(bytes)))
    }

    /// A range that does not fit into memory: its parts are sorted, then merged.
    async fn merged(
        &mut self,
        mut range: Range,
        spilled: Spilled,
    ) -> Result<SendableRecordBatchStream> {
        // Batches that were read together share memory, so only their total size is known.
        let row_bytes = spilled.bytes.div_ceil(spilled.rows.max(1));
        let (mut reader, expected) = spilled.read();
        let (mut runs, mut rows) = (Vec::new(), 0);
        while let Some(batch) = reader.try_next().await? {
            rows += batch.num_rows();
            let bytes = batch.num_rows() * row_bytes;
            if !self.takes(bytes) {
                self.write_run(&mut range, &mut runs).await?;
                self.memory.try_grow(bytes)?;
            }
            range.add(batch, bytes);
        }
        all_read(rows, expected)?;
        // The merge needs this memory.
        self.write_run(&mut range, &mut runs).await?;
        let runs = runs
            .into_iter()
            .map(|run| self.spill.read_spill_as_stream(run, None));
        let runs = runs.collect::<Result<Vec<_>>>()?;
        let key = Column::new(
            self.schema.field(self.order.column).name(),
            self.order.column,
        );
        let by_key = PhysicalSortExpr::new(Arc::new(key), self.order.options);
        let ordering = LexOrdering::new([by_key])
            .ok_or_else(|| DataFusionError::Internal("an ordering of nothing".to_owned()))?;
        StreamingMergeBuilder::new()
            .with_streams(runs)
            .with_schema(Arc::clone(&self.schema))
            .with_expressions(&ordering)
            .with_metrics(BaselineMetrics::new(&self.metrics, 0))
            .with_batch_size(self.batch_rows)
            .with_reservation(self.memory.new_empty())
            .build()
    }

    /// Writes the rows of a range that are in memory as a sorted run.
    async fn write_run(
        &mut self,
        range: &mut Range,
        runs: &mut Vec<Arc<dyn SpillFile>>,
    ) -> Result<()> {
        let (batches, bytes) = (std::mem::take(&mut range.batches), range.bytes);
        range.bytes = 0;
        let mut sorted = self.sorted(batches, bytes)?;
        let mut file = self.spill.create_in_progress_file("ResultCache")?;
        while let Some(batch) = sorted.try_next().await? {
            file.append_batch(&batch)?;
        }
        runs.extend(file.finish()?);
        self.spills.add(1);
        Ok(())
    }
}

/// The parameters for sorting the rows of a range.
struct Sorting {
    schema: SchemaRef,
    order: KeyOrder,
    batch_rows: usize,
}

impl Sorting {
    /// The rows in the order of their keys, copied batch by batch as they are polled.
    fn in_order(
        &self,
        batches: Vec<RecordBatch>,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + Send + 'static> {
        let all = joined(&self.schema, batches)?;
        let keys = all.column(self.order.column);
        let indices = sort_to_indices(keys, Some(self.order.options), None)?;
        let batch_rows = self.batch_rows;
        let starts = (0..indices.len()).step_by(batch_rows);
        Ok(starts.map(move |start| {
            let rows = indices.slice(start, batch_rows.min(indices.len() - start));
            Ok(take_record_batch(&all, &rows)?)
        }))
    }

    /// A stream of the rows that holds their memory until its end.
    fn stream(
        &self,
        rows: impl Iterator<Item = Result<RecordBatch>> + Send + 'static,
        memory: MemoryReservation,
    ) -> SendableRecordBatchStream {
        let rows = rows.inspect(move |_| {
            let _held = &memory;
        });
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            stream::iter(rows),
        ))
    }
}

/// All rows as one batch. Columns are joined one after the other, so that at most one is in memory
/// twice.
fn joined(schema: &SchemaRef, batches: Vec<RecordBatch>) -> Result<RecordBatch> {
    let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::new(); schema.fields().len()];
    for batch in batches {
        for (column, array) in columns.iter_mut().zip(batch.columns()) {
            column.push(Arc::clone(array));
        }
    }
    let mut all = Vec::with_capacity(columns.len());
    for (field, arrays) in schema.fields().iter().zip(columns) {
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        all.push(match arrays.as_slice() {
            [] => new_empty_array(field.data_type()),
            arrays => concat(arrays)?,
        });
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), all)?)
}

/// Checks that all rows came back from disk.
fn all_read(rows: usize, written: usize) -> Result<()> {
    if rows == written {
        return Ok(());
    }
    Err(DataFusionError::Execution(format!(
        "{written} rows were written to a temporary file and {rows} could be read back"
    )))
}

fn narrow(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The same rows, without memory of other rows: string views share the buffers of all rows from
/// which they were taken, and other strings are copied into buffers as large as those.
fn compact(batch: RecordBatch) -> Result<RecordBatch> {
    let (schema, columns, _) = batch.into_parts();
    let columns = columns.into_iter().map(|column| {
        let mut column = without_pages(column);
        column.shrink_to_fit();
        column
    });
    Ok(RecordBatch::try_new(schema, columns.collect())?)
}

/// The first of `count` numbers for which `holds` is true; `holds` must then be true for all later
/// ones. `count` if it is true for none.
fn first(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = usize::midpoint(low, high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use arrow::array::{AsArray, Int32Array, StringArray};
    use arrow::compute::SortOptions;
    use arrow::datatypes::{DataType, Field, Int32Type, Schema};
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::prelude::SessionConfig;

    use super::*;

    fn cache(bytes: usize, bytes_max: Option<u64>, descending: bool) -> ResultCache {
        let schema: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("v", DataType::Utf8, false),
            Field::new("k", DataType::Int32, false),
        ]));
        let pool = Arc::new(GreedyMemoryPool::new(bytes));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(pool)
            .build_arc()
            .unwrap();
        // A merge from disk has a batch of each run in memory, and whatever the reader read along
        // with it.
        let config = SessionConfig::new().with_batch_size(256);
        let context = TaskContext::default()
            .with_runtime(runtime)
            .with_session_config(config);
        ResultCache::new(
            &schema,
            KeyOrder {
                column: 1,
                options: SortOptions {
                    descending,
                    nulls_first: descending,
                },
            },
            bytes_max,
            &Arc::new(context),
            &ExecutionPlanMetricsSet::new(),
        )
    }

    fn batch(cache: &ResultCache, keys: &[i32]) -> RecordBatch {
        let texts = StringArray::from_iter_values(keys.iter().map(|k| format!("row {k}")));
        let keys = Int32Array::from(keys.to_vec());
        RecordBatch::try_new(
            Arc::clone(&cache.schema),
            vec![Arc::new(texts), Arc::new(keys)],
        )
        .unwrap()
    }

    async fn first_range(cache: &mut ResultCache, found_all: bool) -> Vec<i32> {
        let batches: Vec<RecordBatch> = cache
            .take_first(found_all)
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        let keys = batches.iter().flat_map(|batch| {
            let (texts, keys) = (batch.column(0).as_string::<i32>(), batch.column(1));
            let keys = keys.as_primitive::<Int32Type>().values().to_vec();
            assert!(
                keys.iter()
                    .zip(texts)
                    .all(|(k, text)| text == Some(&format!("row {k}")))
            );
            keys
        });
        keys.collect()
    }

    /// With the larger memory all rows are kept; with the smaller one, or a small `bytes_max`,
    /// nearly all are written to disk.
    #[tokio::test]
    async fn ranges_come_sorted_and_whole_whatever_the_memory() {
        for (bytes, bytes_max, found_all) in [
            (256 << 20, None, false),
            (256 << 20, None, true),
            (4 << 20, None, false),
            (4 << 20, None, true),
            (256 << 20, Some(4 << 20), true),
        ] {
            let mut cache = cache(bytes, bytes_max, false);
            cache.set_bounds(Arc::new(Int32Array::from(vec![100, 200, 900])));
            for round in 0..500 {
                let keys: Vec<i32> = (0..1000).map(|n| (n * 37 + round * 911) % 1000).collect();
                let batch = batch(&cache, &keys);
                cache.insert(batch).unwrap();
            }
            let little = bytes.min(bytes_max.map_or(bytes, narrow));
            assert_eq!(cache.spills.value() > 0, little < 64 << 20);
            assert!(cache.peak.value() <= little, "{}", cache.peak.value());
            let mut all = Vec::new();
            for bound in [100, 200, 900, 1000] {
                assert!(!cache.is_over());
                let keys = first_range(&mut cache, found_all).await;
                assert!(keys.iter().all(|key| *key < bound), "{bound}: {keys:?}");
                all.extend(keys);
            }
            assert!(cache.is_over() && all.is_sorted() && all.len() == 500_000);
            assert_eq!(cache.memory.size(), 0);
        }
    }

    /// Like the previous test, from the highest range down: here the lowest ranges are written to
    /// disk.
    #[tokio::test]
    async fn ranges_come_in_descending_order_too() {
        for (bytes, found_all) in [(256 << 20, false), (4 << 20, true)] {
            let mut cache = cache(bytes, None, true);
            cache.set_bounds(Arc::new(Int32Array::from(vec![900, 200, 100])));
            for round in 0..500 {
                let keys: Vec<i32> = (0..1000).map(|n| (n * 37 + round * 911) % 1000).collect();
                let batch = batch(&cache, &keys);
                cache.insert(batch).unwrap();
            }
            assert_eq!(cache.spills.value() > 0, bytes < 64 << 20);
            let first = cache.ranges.front().unwrap();
            let in_memory = first.spilled.is_none();
            assert!(in_memory, "what is given first is written last");
            let mut all = Vec::new();
            for bound in [900, 200, 100, -1] {
                let keys = first_range(&mut cache, found_all).await;
                assert!(keys.iter().all(|key| *key > bound), "{bound}: {keys:?}");
                all.extend(keys);
            }
            all.reverse();
            assert!(cache.is_over() && all.is_sorted() && all.len() == 500_000);
        }
    }

    #[tokio::test]
    async fn rows_of_a_range_that_was_taken_are_refused() {
        let mut cache = cache(1 << 20, None, false);
        cache.set_bounds(Arc::new(Int32Array::from(vec![10])));
        let rows = batch(&cache, &[10, 9, 3]);
        cache.insert(rows).unwrap();
        assert_eq!(cache.bound().unwrap().1, 0);
        assert_eq!(first_range(&mut cache, false).await, [3, 9]);
        assert!(cache.bound().is_none());
        let late = batch(&cache, &[11, 9]);
        cache.insert(late).unwrap();
        assert!(cache.take_first(false).await.is_err());
    }
}
