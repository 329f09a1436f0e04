//! How do single rows come out of a page that is decoded once for all of them?
//!
//! A page is decoded with every column that the scan needs. A job copies its rows out of it, so
//! that the page can go while the rows wait for the stream.
//! Not here: which pages are in memory (`kept_pages.rs`), reading them (`../execution.rs`).
//! Bounds: a page on its way takes its bytes and its arrays; a picked row copies its values, and
//! refers to the whole dictionary where a column is a dictionary.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::take;
use coscan_storage::pool::ColumnRequest;
use coscan_storage::without_pages;
use datafusion::error::{DataFusionError, Result};
use futures::future::{BoxFuture, ready};

use crate::read::pipeline::{Columns, Pipeline, Selection};

/// All rows of a page.
pub(crate) struct DecodedPage {
    /// The position of the first row.
    first: u64,
    columns: DecodedColumns,
    /// Whether a row of the page is known to be in the result.
    has_results: Arc<AtomicBool>,
}

/// Some rows of a page.
pub(crate) struct PickedRows {
    pub(crate) rows: usize,
    pub(crate) columns: DecodedColumns,
    page_has_results: Arc<AtomicBool>,
}

/// Columns that are decoded.
pub(crate) struct DecodedColumns {
    pub(crate) pipeline: Arc<Pipeline>,
    /// In the order of [`Pipeline::columns`].
    arrays: Vec<ArrayRef>,
}

impl DecodedPage {
    /// A page whose first row is at position `first`, with the arrays of all columns of the
    /// pipeline.
    pub(crate) fn new(first: u64, pipeline: Arc<Pipeline>, arrays: Vec<ArrayRef>) -> Self {
        Self {
            first,
            columns: DecodedColumns { pipeline, arrays },
            has_results: Arc::default(),
        }
    }

    /// The bytes of the arrays.
    pub(crate) fn bytes(&self) -> u64 {
        let arrays = self.columns.arrays.iter();
        arrays
            .map(|array| array.get_array_memory_size() as u64)
            .sum()
    }

    /// The rows at these positions, in this order.
    ///
    /// # Errors
    /// If a column cannot be copied.
    pub(crate) fn pick(&self, positions: &[u64]) -> Result<PickedRows> {
        let offsets = positions.iter().map(|position| position - self.first);
        let offsets = UInt64Array::from_iter_values(offsets);
        let arrays = self.columns.arrays.iter();
        let arrays = arrays.map(|array| Ok(without_pages(take(array, &offsets, None)?)));
        Ok(PickedRows {
            rows: positions.len(),
            columns: DecodedColumns {
                pipeline: Arc::clone(&self.columns.pipeline),
                arrays: arrays.collect::<Result<_>>()?,
            },
            page_has_results: Arc::clone(&self.has_results),
        })
    }
}

impl PickedRows {
    /// Whether these selected rows are the first result of their page.
    pub(crate) fn is_first_result(&self, selected: &Selection) -> bool {
        selected.count(self.rows) > 0 && !self.page_has_results.swap(true, Ordering::Relaxed)
    }
}

impl Columns for DecodedColumns {
    fn fetch(&self, requests: Vec<ColumnRequest>) -> BoxFuture<'_, Result<Vec<ArrayRef>>> {
        let of = |request: &ColumnRequest| {
            let mut columns = self.pipeline.columns.iter();
            let at = columns.position(|column| {
                column.name == request.name && column.field.data_type() == request.field.data_type()
            });
            let array = at.map(|at| Arc::clone(&self.arrays[at]));
            array.ok_or_else(|| {
                let name = &request.name;
                DataFusionError::Internal(format!("{name} is not a column of the pipeline"))
            })
        };
        let arrays: Result<Vec<ArrayRef>> = requests.iter().map(of).collect();
        Box::pin(ready(arrays))
    }
}
