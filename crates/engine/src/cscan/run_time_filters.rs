//! Which rows of a plain scan can the operators above it use?
//!
//! A join that has read its build side tells the scan of its probe side which keys it has.
//! DataFusion's reader rules out row groups by them, and a small table often has only one. So the
//! rows are filtered here: joins above them have fewer keys then, by which scans of large tables
//! rule out chunks. Sorts with a LIMIT make such filters, too.
//!
//! Not here: filters of the statement, which an operator above the scan evaluates and which may
//! fail; filters of float columns and nested ones, which a list of keys compares by their bits.
//! RTF-I1: the filters are hints: the operator that made a filter checks every row again.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{Column, DynamicFilterTracking};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

use crate::read::prune::is_float;

/// The filters of a scan that are made while the query runs, over the columns that it returns.
pub(super) struct RunTimeFilters(Vec<Arc<dyn PhysicalExpr>>);

impl RunTimeFilters {
    /// `None` if there are none.
    ///
    /// # Errors
    /// If an expression cannot be written with other columns: a bug.
    pub(super) fn of(scan: &FileScanConfig) -> Result<Option<Self>> {
        let source = scan.file_source();
        let Some(predicate) = source.filter() else {
            return Ok(None);
        };
        let fields = source.table_schema().table_schema().fields();
        // The place of each of the table's columns in the scan's rows.
        let place = |at: usize| match source.projection() {
            None => Some(at),
            Some(columns) => columns.iter().position(|projected| {
                let column = projected.expr.downcast_ref::<Column>();
                column.is_some_and(|column| column.index() == at)
            }),
        };
        let fits = |column: &Column| {
            let held = fields.get(column.index()).map(|field| field.data_type());
            held.is_some_and(|held| !is_float(held) && !held.is_nested())
                && place(column.index()).is_some()
        };
        let mut filters = vec![];
        for conjunct in split_conjunction(&predicate) {
            if !DynamicFilterTracking::classify(conjunct).contains_dynamic_filter()
                || !collect_columns(conjunct).iter().all(fits)
            {
                continue;
            }
            let moved = Arc::clone(conjunct).transform_up(|node| {
                let column = node.downcast_ref::<Column>();
                Ok(
                    match column.and_then(|column| Some((column, place(column.index())?))) {
                        Some((column, at)) => {
                            Transformed::yes(Arc::new(Column::new(column.name(), at)))
                        }
                        None => Transformed::no(node),
                    },
                )
            });
            filters.push(moved.data()?);
        }
        Ok((!filters.is_empty()).then_some(Self(filters)))
    }

    /// The rows that pass.
    ///
    /// # Errors
    /// Those of an expression.
    pub(super) fn rows(&self, mut batch: RecordBatch) -> Result<RecordBatch> {
        for filter in &self.0 {
            let passes = filter.evaluate(&batch)?.into_array(batch.num_rows())?;
            let passes = as_boolean_array(&passes)?;
            if passes.true_count() < batch.num_rows() {
                batch = filter_record_batch(&batch, passes)?;
            }
        }
        Ok(batch)
    }
}
