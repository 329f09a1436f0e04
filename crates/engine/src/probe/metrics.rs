//! What does `EXPLAIN ANALYZE` show of an index scan?

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use datafusion::physical_plan::metrics::{
    Count, CustomMetricValue, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricValue, Time,
};

use super::index_used::IndexUsed;
use super::region_sizes::RegionSizes;

/// The metrics of one execution.
#[derive(Clone)]
pub(crate) struct SmoothMetrics {
    /// The index that was used.
    pub(super) index_used: Arc<IndexUsed>,
    /// Leaves of the index that may hold keys of the predicate.
    pub(crate) index_leaves: Count,
    /// Entries of the index that were read.
    pub(crate) index_entries: Count,
    /// Entries whose page had already been read.
    pub(crate) entries_seen: Count,
    /// Rows fetched one by one (mode 0).
    pub(crate) rows_fetched: Count,
    /// Pages that were in memory, decoded, or on their way when rows of them were fetched.
    pub(crate) pages_found_decoded: Count,
    /// Pages examined, and those of them that contained results. The second divided by the first
    /// is the morphing accuracy.
    pub(crate) pages_read: Count,
    pub(crate) pages_with_results: Count,
    /// Pages that statistics ruled out.
    pub(crate) pages_pruned: Count,
    /// Pages served by a chunk in memory.
    pub(crate) pages_from_buffer: Count,
    /// Pages left to a cooperative scan.
    pub(crate) pages_taken_over: Count,
    /// Pages of the chunks that this cooperative scan reads.
    pub(crate) pages_scanned: Count,
    /// Regions that were read, and the size of the largest.
    pub(crate) regions: Count,
    pub(crate) region_pages_max: Gauge,
    pub(super) region_sizes: Arc<RegionSizes>,
    pub(crate) bytes_read: Count,
    pub(crate) requests: Count,
    /// Time spent waiting for pages and for the index.
    pub(crate) waited: Time,
    /// Time spent deciding which pages to read.
    pub(crate) probing: Time,
    /// The part of `probing` that finds the pages of entries, and looks up whether they were read
    /// (Page ID cache).
    pub(crate) page_checks: Time,
}

impl SmoothMetrics {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        let count = |name: &'static str| MetricBuilder::new(set).global_counter(name);
        let time = |name: &'static str| MetricBuilder::new(set).subset_time(name, 0);
        let region_sizes = Arc::new(RegionSizes::default());
        MetricBuilder::new(set).build(MetricValue::Custom {
            name: "region_sizes".into(),
            value: Arc::clone(&region_sizes) as Arc<dyn CustomMetricValue>,
        });
        let index_used = Arc::new(IndexUsed::default());
        MetricBuilder::new(set).build(MetricValue::Custom {
            name: "index_used".into(),
            value: Arc::clone(&index_used) as Arc<dyn CustomMetricValue>,
        });
        Self {
            index_used,
            index_leaves: count("index_leaves"),
            index_entries: count("index_entries"),
            entries_seen: count("index_entries_seen"),
            rows_fetched: count("rows_fetched_singly"),
            pages_found_decoded: count("pages_found_decoded"),
            pages_read: count("pages_read"),
            pages_with_results: count("pages_with_results"),
            pages_pruned: count("pages_pruned"),
            pages_from_buffer: count("pages_from_buffer"),
            pages_taken_over: count("pages_left_to_full_scan"),
            pages_scanned: count("pages_of_full_scan"),
            regions: count("regions"),
            region_pages_max: MetricBuilder::new(set).global_gauge("region_pages_max"),
            region_sizes,
            bytes_read: count("page_bytes_read"),
            requests: count("page_requests"),
            waited: time("page_wait_time"),
            probing: time("probing_time"),
            page_checks: time("page_check_time"),
        }
    }
}

/// Rows that the limit still allows, if there is a limit.
pub(crate) struct RowsLeft(Option<AtomicU64>);

impl RowsLeft {
    pub(crate) fn new(limit: Option<usize>) -> Self {
        Self(limit.map(|limit| AtomicU64::new(limit as u64)))
    }

    /// The rows of the batch that the limit still allows; `None` if it allows none.
    pub(crate) fn of(&self, batch: RecordBatch) -> Option<RecordBatch> {
        let rows = batch.num_rows();
        match self.take(rows) {
            0 => None,
            granted if granted < rows => Some(batch.slice(0, granted)),
            _ => Some(batch),
        }
    }

    fn take(&self, rows: usize) -> usize {
        let Some(left) = &self.0 else { return rows };
        let wanted = rows as u64;
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_sub(wanted))
        });
        usize::try_from(taken.unwrap_or(0).min(wanted)).unwrap_or(rows)
    }

    /// Whether the limit allows no more rows.
    pub(crate) fn none(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|left| left.load(Ordering::Relaxed) == 0)
    }
}
