//! How does a scan avoid decoding whole columns for few rows of a chunk?
//!
//! Idea: the conjuncts are evaluated over the whole chunk first, and the rows that pass are put
//! aside. If there are few at the end of the chunk, the other columns are decoded only at these
//! rows. If another scan wants these columns too, their decode is shared instead, batch by batch
//! (`ChunkLease::pick` decides). As soon as there are too many rows, the columns are decoded batch
//! by batch as usual, and only the wait was wasted.
//! Not here: the conjuncts (`pipeline/`), the decode (coscan-storage).
//! Bounds: at most one in [`FEW_ONE_IN`] of a chunk's rows is put aside, and at most one batch
//! more than a limit needs.
//! I1: rows are returned in the chunk's order, each once.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use coscan_storage::Batches;
use datafusion::error::Result;
use datafusion::physical_plan::metrics::Time;

use super::lease_batch::LeaseBatch;
use crate::error::external;
use crate::read::pipeline::{Choices, Found, Pipeline, Selection};

/// Rows are few if they are at most one in this many of the chunk's rows.
const FEW_ONE_IN: usize = 64;

/// A batch of the current chunk, and the pipeline that makes rows of it.
pub(crate) struct BatchWork<'a> {
    pub(crate) source: LeaseBatch<'a>,
    pub(crate) pipeline: &'a Pipeline,
    /// The schema of the rows.
    pub(crate) schema: &'a SchemaRef,
    /// Times the work on the columns.
    pub(crate) computing: &'a Time,
}

/// The rows of a chunk that were put aside.
pub(crate) struct FewRows {
    /// By batch. The same output columns are known in all of them.
    found: Vec<(usize, Found)>,
    /// The choices made for these batches.
    choices: Choices,
    rows: usize,
    /// The most rows that count as few; 0 once rows of this chunk are no longer put aside.
    rows_max: usize,
    /// The number of rows at which the search for more stops: the limit.
    enough: usize,
}

impl FewRows {
    /// A state without rows, for a chunk with these batches, with or without a limit.
    pub(crate) fn of(batches: &Batches, limit: Option<usize>) -> Self {
        Self {
            found: Vec::new(),
            choices: Choices::default(),
            rows: 0,
            rows_max: batches.rows() / FEW_ONE_IN,
            enough: limit.unwrap_or(usize::MAX),
        }
    }

    /// Evaluates the conjuncts over this batch of the chunk, and returns the rows that are
    /// complete.
    ///
    /// # Errors
    /// As [`Pipeline::rows`].
    pub(crate) async fn look_at(&mut self, work: &BatchWork<'_>) -> Result<Vec<RecordBatch>> {
        let (source, pipeline) = (&work.source, work.pipeline);
        let rows = source.lease.batches().rows_of(source.batch);
        if self.found.is_empty() {
            self.choices = Choices::default();
        }
        let examined = pipeline
            .examine(
                source,
                rows,
                Selection::All,
                &mut self.choices,
                work.computing,
            )
            .await?;
        let found = examined.selection.count(rows);
        if found == 0 {
            return Ok(Vec::new());
        }
        if self.rows + found <= self.rows_max && pipeline.lacks_output(&examined) {
            let kept = pipeline.found(&examined, rows)?;
            let may_wait = match self.found.first() {
                Some((_, first)) => first.knows_as(&kept),
                // A scan that shares its decode with others must not fall behind them: arrays are
                // dropped when all scans have passed them.
                None => !source.lease.is_shared(&pipeline.missing(&kept)),
            };
            if may_wait {
                self.rows += found;
                self.found.push((source.batch, kept));
                return if self.rows < self.enough {
                    Ok(Vec::new())
                } else {
                    self.settle(work).await
                };
            }
        }
        self.rows_max = 0;
        let mut out = self.whole(work).await?;
        out.push(
            pipeline
                .finish(source, examined, rows, work.schema, work.computing)
                .await?,
        );
        Ok(out)
    }

    /// The rows that were put aside, with all columns of the output.
    ///
    /// # Errors
    /// As [`Pipeline::rows`].
    pub(crate) async fn settle(&mut self, work: &BatchWork<'_>) -> Result<Vec<RecordBatch>> {
        let Some((_, first)) = self.found.first() else {
            return Ok(Vec::new());
        };
        let (source, requests) = (&work.source, work.pipeline.missing(first));
        let wanted = self.ranges(source.lease.batches());
        let picked = source
            .timed(source.lease.pick(&requests, &wanted))
            .await
            .map_err(external)?;
        let Some(arrays) = picked else {
            return self.whole(work).await;
        };
        let _timer = work.computing.timer();
        let found: Vec<Found> = self.found.drain(..).map(|(_, found)| found).collect();
        self.rows = 0;
        Ok(vec![work.pipeline.gather(&found, arrays, work.schema)?])
    }

    /// The rows that were put aside, from whole columns of their batches.
    async fn whole(&mut self, work: &BatchWork<'_>) -> Result<Vec<RecordBatch>> {
        let mut out = Vec::with_capacity(self.found.len());
        self.rows = 0;
        for (batch, found) in std::mem::take(&mut self.found) {
            let source = LeaseBatch {
                batch,
                ..work.source
            };
            let arrays = work.pipeline.fetch_found(&source, &found).await?;
            let _timer = work.computing.timer();
            out.push(work.pipeline.gather(&[found], arrays, work.schema)?);
        }
        Ok(out)
    }

    /// The rows that were put aside, as ranges of the chunk, ascending and not touching.
    fn ranges(&self, batches: &Batches) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (batch, found) in &self.found {
            let first = batches.range_of(*batch).start;
            for range in found.ranges() {
                let range = first + range.start..first + range.end;
                match ranges.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => ranges.push(range),
                }
            }
        }
        ranges
    }
}
