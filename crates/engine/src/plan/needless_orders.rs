//! Which scans promise an order that nobody counts on?
//!
//! A file that says by what it is sorted (`coscan spread --by range`, `coscan rewrite --sort-by`)
//! makes DataFusion promise that order of its scans, whoever is above them. In order, a scan shares
//! neither reads nor work, and reads from one device after the other. So a promise goes that
//! nothing in the plan counts on: an operator counts on it that requires it, a sort that begins
//! with it, and whoever is above an operator that keeps it. What the statement itself gives is in
//! order only if it asks for one.
//! Not here: orders that an index can give (`interesting_orders.rs`).
//! O1: the rows of a statement that sorts come in the order that they would.

use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::read::parquet_scan;

/// Whether a plan that has not been optimized yet sorts anything: a statement's order is in it as a
/// sort, which may turn out to be needless.
pub(super) fn sorts(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.children().into_iter().any(sorts)
}

/// The plan without the orders that its scans promise and nobody counts on. `counts`: whoever reads
/// the plan's rows counts on their order.
pub(super) fn forget(
    node: &Arc<dyn ExecutionPlan>,
    counts: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some((scan, _)) = parquet_scan(node) {
        if counts || scan.output_ordering.is_empty() {
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
        let requires = required.get(at).is_none_or(Option::is_some);
        let passes_on = counts && keeps.get(at).is_none_or(|keeps| *keeps);
        let counts = requires || passes_on || counts_silently(node, child, counts);
        children.push(forget(child, counts)?);
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
        // What is sorted by the beginning already is sorted piece by piece.
        let is_first = sort.expr().iter().next();
        let promised = child
            .output_ordering()
            .and_then(|order| order.iter().next());
        return is_first.is_some_and(|first| Some(first) == promised);
    }
    // Its rows are those of its input; a file is written in the order in which rows come; and what
    // is below a recursion is run several times.
    node.is::<AnalyzeExec>() && counts
        || node.is::<DataSinkExec>()
        || node.is::<RecursiveQueryExec>()
}
