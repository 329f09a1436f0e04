//! Which scans promise an order that no operator counts on?
//!
//! A file that declares by what it is sorted (`coscan spread --by range`,
//! `coscan rewrite --sort-by`) makes DataFusion promise that order of its scans, whatever is above
//! them. A scan in order shares neither reads nor work, and reads from one device after the other.
//! So the promise is removed where no operator counts on it. An operator counts on an order that it
//! requires. A sort counts on an order that its own order begins with. A limit counts on the order
//! in which it takes the first rows. An operator that keeps its input's order passes on what is
//! counted on above it.
//! A scan below a sort of the statement keeps its promise (`swap_scans.rs` marks the others): the
//! sort may have turned out to be needless, and then the plan does not show who counts on the
//! order.
//! Not here: orders that an index can give (`interesting_orders.rs`).

use std::sync::Arc;

use datafusion::datasource::physical_plan::{FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::read::parquet_scan;

/// The plan without the needless promises of its scans. `counts`: the reader of the plan's rows
/// counts on their order. `is_free`: whether a scan may lose its promise at all.
pub(super) fn forget(
    node: &Arc<dyn ExecutionPlan>,
    counts: bool,
    is_free: fn(&ParquetSource) -> bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some((scan, source)) = parquet_scan(node) {
        let promises = scan.preserve_order || !scan.output_ordering.is_empty();
        if counts || !promises || scan.limit.is_some() || !is_free(source) {
            return Ok(Arc::clone(node));
        }
        let scan = FileScanConfigBuilder::from(scan.clone())
            .with_output_ordering(Vec::new())
            .with_preserve_order(false)
            .build();
        return Ok(DataSourceExec::from_data_source(scan));
    }
    let before = node.children();
    if before.is_empty() {
        return Ok(Arc::clone(node));
    }
    let (required, keeps) = (node.required_input_ordering(), node.maintains_input_order());
    let mut children = Vec::with_capacity(before.len());
    for (at, child) in before.into_iter().enumerate() {
        let needs = required.get(at).is_none_or(Option::is_some);
        let passes_on = counts && keeps.get(at).is_none_or(|keeps| *keeps);
        let counts = needs || passes_on || counts_silently(node, child, counts);
        children.push(forget(child, counts, is_free)?);
    }
    replace_children_if_necessary(Arc::clone(node), children)
}

/// Whether an operator makes use of an order that it neither requires nor keeps.
fn counts_silently(
    node: &Arc<dyn ExecutionPlan>,
    child: &Arc<dyn ExecutionPlan>,
    counts: bool,
) -> bool {
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        // Rows that are already in the order of the first sort key are sorted piece by piece.
        let is_first = sort.expr().iter().next();
        let promised = child
            .output_ordering()
            .and_then(|order| order.iter().next());
        return is_first.is_some_and(|first| Some(first) == promised);
    }
    if node.fetch().is_some() || node.is::<GlobalLimitExec>() || node.is::<LocalLimitExec>() {
        return true;
    }
    // ANALYZE returns the rows of its input; a sink writes a file in the order in which rows come;
    // a recursive query runs the plan below it several times.
    node.is::<AnalyzeExec>() && counts
        || node.is::<DataSinkExec>()
        || node.is::<RecursiveQueryExec>()
}
