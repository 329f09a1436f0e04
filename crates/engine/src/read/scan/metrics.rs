//! What does `EXPLAIN ANALYZE` show of a cooperative scan?

use coscan_core::LoadOrigin;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};

use super::execution::Run;

/// The metrics of one partition of a scan.
pub(crate) struct PartitionMetrics {
    /// The time to open files and judge their row groups, until the scan was announced.
    pub(crate) opening: Time,
    /// The time spent waiting for a chunk.
    pub(crate) waited_for_chunk: Time,
    /// The time spent waiting for columns to be decoded, by the pool's threads or for another
    /// scan.
    pub(crate) waited_for_decode: Time,
    from_buffer: Count,
    loaded_for_me: Count,
    loaded_for_others: Count,
    without_bytes: Count,
    withdrawn: Count,
    batches_ruled_out: Count,
    bytes_read: Count,
    decode_begun: Count,
    decode_shared: Count,
    rows_picked: Count,
}

impl PartitionMetrics {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let time = |name: &'static str| MetricBuilder::new(set).subset_time(name, partition);
        let count = |name: &'static str| MetricBuilder::new(set).counter(name, partition);
        Self {
            opening: time("opening_time"),
            waited_for_chunk: time("chunk_wait_time"),
            waited_for_decode: time("decode_wait_time"),
            from_buffer: count("chunks_from_buffer"),
            loaded_for_me: count("chunks_loaded_for_me"),
            loaded_for_others: count("chunks_loaded_for_others"),
            without_bytes: count("chunks_without_bytes"),
            withdrawn: count("chunks_withdrawn"),
            batches_ruled_out: count("batches_ruled_out"),
            bytes_read: count("bytes_read"),
            decode_begun: count("decode_begun"),
            decode_shared: count("decode_shared"),
            rows_picked: count("rows_picked"),
        }
    }

    /// A chunk was handed out; `origin` says where it came from, if it has bytes at all.
    pub(crate) fn chunk(&self, origin: Option<LoadOrigin>) {
        match origin {
            Some(LoadOrigin::FromBuffer) => self.from_buffer.add(1),
            Some(LoadOrigin::LoadedForMe) => self.loaded_for_me.add(1),
            Some(LoadOrigin::LoadedForOthers) => self.loaded_for_others.add(1),
            None => self.without_bytes.add(1),
        }
    }

    /// Chunks were withdrawn.
    pub(crate) fn withdrew(&self, chunks: usize) {
        self.withdrawn.add(chunks);
    }

    /// Batches of a chunk were ruled out by the page index.
    pub(crate) fn ruled_out(&self, batches: usize) {
        self.batches_ruled_out.add(batches);
    }

    /// Adds the work of the run's scan since the last report of any partition.
    pub(crate) fn report(&self, run: &Run) {
        let Some(news) = run.news() else { return };
        let add = |count: &Count, n: u64| count.add(usize::try_from(n).unwrap_or(usize::MAX));
        add(&self.bytes_read, news.load_bytes);
        add(&self.decode_begun, news.decode_begun);
        add(&self.decode_shared, news.decode_shared);
        add(&self.rows_picked, news.rows_picked);
    }
}
