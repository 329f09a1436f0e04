//! How does an index scan return its rows in the order of the key?
//!
//! The index lists rows in the order of their keys, ascending or descending, but a page that is
//! read for one row contains other rows whose turn comes later. These wait in the [`ResultCache`],
//! in ranges of keys. The scan reads the index up to the end of a range. By then it has found all
//! rows of that range, because the index lists each of them, and returns them sorted. So the scan
//! sorts one range at a time, which fits into memory, and never all rows. When a cooperative scan
//! takes over, its rows come in any order: they go into the cache, and are returned range by range
//! at the end of that scan. There is one partition. Files that the index does not cover would
//! break the order, so such scans are not planned.
//! Source: [SmoothScan18 §4.2].

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use futures::StreamExt;
use futures::future::BoxFuture;

use super::reader::{Found, Reader};
use super::result_cache::ResultCache;
use crate::probe::execution::SmoothExecution;
use crate::probe::plan::KeyOrder;
use crate::read::scan::{Batches, stream_of};

/// The stream of the one partition.
pub(crate) fn open(
    execution: Arc<SmoothExecution>,
    reader: Reader,
    order: KeyOrder,
    context: &Arc<TaskContext>,
    metrics: &ExecutionPlanMetricsSet,
    baseline: BaselineMetrics,
) -> SendableRecordBatchStream {
    let schema = Arc::clone(&execution.plan.covered.schema);
    let bytes_max = execution.plan.covered.settings.smooth_cache;
    let state = Ordered {
        cache: ResultCache::new(&schema, order, bytes_max, context, metrics),
        execution,
        context: Arc::clone(context),
        reader,
        baseline,
        at: At::Start,
    };
    stream_of(schema, state)
}

struct Ordered {
    execution: Arc<SmoothExecution>,
    context: Arc<TaskContext>,
    reader: Reader,
    cache: ResultCache,
    baseline: BaselineMetrics,
    at: At,
}

/// The state of the scan.
enum At {
    Start,
    /// Finding the rows of the cache's first range.
    Finding,
    /// Returning these rows. `found_all`: no more rows will be found, in any range.
    Giving {
        rows: SendableRecordBatchStream,
        found_all: bool,
    },
    Finished,
}

impl Batches for Ordered {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<RecordBatch>>> {
        Box::pin(self.next_batch())
    }

    fn baseline(&self) -> &BaselineMetrics {
        &self.baseline
    }
}

impl Ordered {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.execution.rows_left.none() {
                return Ok(None);
            }
            match std::mem::replace(&mut self.at, At::Finished) {
                At::Start => {
                    let open = self.execution.open(&self.context).await?;
                    if let Some(bounds) = open.bounds().await {
                        self.cache.set_bounds(bounds);
                    }
                    open.go_on_to(self.cache.bound()).await?;
                    self.at = At::Finding;
                }
                At::Finding => match self.reader.next().await? {
                    Found::Rows(batches) => {
                        for batch in batches {
                            let _timer = self.baseline.elapsed_compute().timer();
                            self.cache.insert(batch)?;
                        }
                        self.at = At::Finding;
                    }
                    Found::Bound => self.give(false).await?,
                    Found::End => self.give(true).await?,
                },
                At::Giving {
                    mut rows,
                    found_all,
                } => match rows.next().await {
                    Some(batch) => {
                        self.at = At::Giving { rows, found_all };
                        if let Some(batch) = self.execution.rows_left.of(batch?) {
                            return Ok(Some(batch));
                        }
                    }
                    None if self.cache.is_over() => {}
                    None if found_all => self.give(true).await?,
                    None => {
                        let open = self.execution.open(&self.context).await?;
                        open.go_on_to(self.cache.bound()).await?;
                        self.at = At::Finding;
                    }
                },
                At::Finished => return Ok(None),
            }
        }
    }

    async fn give(&mut self, found_all: bool) -> Result<()> {
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let rows = self.cache.take_first(found_all).await?;
        self.at = At::Giving { rows, found_all };
        Ok(())
    }
}
