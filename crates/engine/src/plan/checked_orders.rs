//! Are the rows of a scan in the order that its files promise?
//!
//! A file may say by what it is sorted (`sorting_columns`), and so may the statement that declares
//! a table (`WITH ORDER`). DataFusion then leaves sorts out. What they say may be false, so a scan
//! whose order an operator counts on is watched while it runs: a row that belongs before the one
//! ahead of it is an error, never an answer in a wrong order.
//! Not here: which promises are counted on (`needless_orders.rs`: the others are gone by now);
//! aggregates and joins chunk by chunk, which check what they need themselves (`ordered/`).
//! Bounds: O(rows), one comparison for each; the last row of a partition is kept.
//! ORDER-I1: a batch leaves the node only if it continues every promised order.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array, make_comparator};
use arrow::compute::kernels::cmp;
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use coscan_pg::{OverExec, Way};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

use crate::cscan::CScanSource;
use crate::error::Error;
use crate::ordered::{ClusteredJoinExec, OrderedAggregateExec};
use crate::read::parquet_scan;

/// Watches the scans whose promised order is counted on.
#[derive(Debug)]
pub(crate) struct CheckOrders;

impl PhysicalOptimizerRule for CheckOrders {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let checked = plan.transform_down(|node| {
            if node.is::<OrderedAggregateExec>() || node.is::<ClusteredJoinExec>() {
                return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
            }
            let Some(file) = promise(&node) else {
                return Ok(Transformed::no(node));
            };
            let watched = CheckedOrderExec::new(node, InOrder { file });
            let watched: Arc<dyn ExecutionPlan> = Arc::new(watched);
            Ok(Transformed::new(watched, true, TreeNodeRecursion::Jump))
        });
        checked.data()
    }

    fn name(&self) -> &'static str {
        "CoscanCheckOrders"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The first file of a scan that promises an order; `None` for another node. An index's order is
/// no promise of a file.
fn promise(node: &Arc<dyn ExecutionPlan>) -> Option<String> {
    let source = node.downcast_ref::<DataSourceExec>()?;
    node.output_ordering()?;
    let config: &FileScanConfig = match parquet_scan(node) {
        Some((config, _)) => config,
        None => {
            let source = source.data_source();
            match source.as_ref().downcast_ref::<CScanSource>() {
                Some(cooperative) if cooperative.is_by_index() => return None,
                Some(cooperative) => cooperative.parquet()?.0,
                None => source.as_ref().downcast_ref::<FileScanConfig>()?,
            }
        }
    };
    let file = config
        .file_groups
        .iter()
        .flat_map(datafusion::datasource::physical_plan::FileGroup::iter)
        .next()?;
    Some(format!("/{}", file.object_meta.location))
}

/// A scan that is watched.
pub(crate) type CheckedOrderExec = OverExec<InOrder>;

/// The rows of a scan as long as they are in the promised order.
#[derive(Clone, Debug)]
pub(crate) struct InOrder {
    /// The first file, which errors name.
    file: String,
}

fn orders(scan: &Arc<dyn ExecutionPlan>) -> Vec<LexOrdering> {
    let equivalences = scan.equivalence_properties();
    equivalences.oeq_class().iter().cloned().collect()
}

impl Way for InOrder {
    const NAME: &'static str = "CheckedOrderExec";

    fn over(&self, _: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        Some(self.clone())
    }

    fn execute(
        &self,
        scan: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = scan.execute(partition, context)?;
        let mut watches: Vec<Watch> = orders(scan).into_iter().map(Watch::new).collect();
        let (schema, file) = (scan.schema(), self.file.clone());
        let checked = rows.map(move |batch| {
            let batch = batch?;
            for watch in &mut watches {
                watch.see(&batch, &file)?;
            }
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, checked)))
    }

    fn show(&self, scan: &Arc<dyn ExecutionPlan>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let orders: Vec<String> = orders(scan).iter().map(ToString::to_string).collect();
        write!(f, ": [{}]", orders.join("], ["))
    }
}

/// One promised order of one partition.
struct Watch {
    order: LexOrdering,
    /// The keys of the last row.
    last: Option<Vec<ArrayRef>>,
}

impl Watch {
    fn new(order: LexOrdering) -> Self {
        Self { order, last: None }
    }

    /// # Errors
    /// [`Error::NotInOrder`].
    fn see(&mut self, batch: &RecordBatch, file: &str) -> Result<()> {
        let rows = batch.num_rows();
        let Some(end) = rows.checked_sub(1) else {
            return Ok(());
        };
        let keys = self.order.iter().map(|key| {
            let values = key.expr.evaluate(batch)?.into_array(rows)?;
            Ok(one_zero(values))
        });
        let keys: Vec<ArrayRef> = keys.collect::<Result<_>>()?;
        let options: Vec<SortOptions> = self.order.iter().map(|key| key.options).collect();
        let begins = match &self.last {
            Some(last) => in_order(last, &keys, &options, 0..1)?,
            None => true,
        };
        if !begins || !continues(&keys, &options)? {
            return Err(DataFusionError::External(Box::new(Error::NotInOrder {
                file: file.to_owned(),
                order: self.order.to_string(),
            })));
        }
        let end = UInt32Array::from(vec![u32::try_from(end).unwrap_or(u32::MAX)]);
        let last = keys.iter().map(|key| Ok(take(key, &end, None)?));
        self.last = Some(last.collect::<Result<_>>()?);
        Ok(())
    }
}

/// Whether no row of the keys belongs before the one ahead of it.
fn continues(keys: &[ArrayRef], options: &[SortOptions]) -> Result<bool> {
    let rows = keys.first().map_or(0, arrow::array::Array::len);
    if rows < 2 {
        return Ok(true);
    }
    if let ([key], [options]) = (keys, options)
        && key.null_count() == 0
        && !key.data_type().is_nested()
    {
        let (ahead, behind) = (key.slice(0, rows - 1), key.slice(1, rows - 1));
        let wrong = if options.descending {
            cmp::lt(&ahead, &behind)?
        } else {
            cmp::gt(&ahead, &behind)?
        };
        return Ok(!wrong.has_true());
    }
    let behind: Vec<ArrayRef> = keys.iter().map(|key| key.slice(1, rows - 1)).collect();
    in_order(keys, &behind, options, 0..rows - 1)
}

/// Whether no row of `behind` belongs before the row of `ahead` with the same number.
fn in_order(
    ahead: &[ArrayRef],
    behind: &[ArrayRef],
    options: &[SortOptions],
    rows: std::ops::Range<usize>,
) -> Result<bool> {
    let pairs = ahead.iter().zip(behind).zip(options);
    let compare = pairs.map(|((ahead, behind), options)| make_comparator(ahead, behind, *options));
    let compare: Vec<_> = compare.collect::<Result<_, _>>()?;
    let mut rows = rows;
    Ok(rows.all(|row| {
        let mut of_keys = compare.iter().map(|compare| compare(row, row));
        let first = of_keys.find(|order| *order != Ordering::Equal);
        first != Some(Ordering::Greater)
    }))
}

/// The values with 0 in the place of -0, which is equal to it: a writer may have put either first.
fn one_zero(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>();
            Arc::new(values.unary::<_, Float64Type>(|value| value + 0.0))
        }
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>();
            Arc::new(values.unary::<_, Float32Type>(|value| value + 0.0))
        }
        _ => values,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array};

    use super::*;

    fn is_in_order(keys: &[ArrayRef], descending: bool, nulls_first: bool) -> bool {
        let options = SortOptions {
            descending,
            nulls_first,
        };
        let keys: Vec<ArrayRef> = keys.iter().cloned().map(one_zero).collect();
        continues(&keys, &vec![options; keys.len()]).is_ok_and(|continues| continues)
    }

    fn numbers(values: Vec<Option<i64>>) -> ArrayRef {
        Arc::new(Int64Array::from(values))
    }

    #[test]
    fn a_row_that_belongs_before_another_is_seen() {
        let plain = |values: &[i64]| numbers(values.iter().copied().map(Some).collect());
        assert!(is_in_order(&[plain(&[1, 1, 2, 5])], false, false));
        assert!(!is_in_order(&[plain(&[1, 2, 1])], false, false));
        assert!(is_in_order(&[plain(&[3, 2, 2])], true, false));
        assert!(!is_in_order(&[plain(&[2, 3])], true, false));
        let with_null = numbers(vec![None, Some(1), Some(2)]);
        assert!(is_in_order(&[Arc::clone(&with_null)], false, true));
        assert!(!is_in_order(&[with_null], false, false));
        let (a, b) = (plain(&[1, 1, 2]), plain(&[7, 8, 1]));
        assert!(is_in_order(&[Arc::clone(&a), Arc::clone(&b)], false, false));
        assert!(!is_in_order(&[b, a], false, false));
        let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, 0.0, f64::NAN]));
        assert!(is_in_order(&[zeros], false, false));
    }
}
