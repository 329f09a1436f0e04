//! Which sorts are needless because scans can return their rows in order?
//!
//! A scan by an index returns rows in the order of its key if it is asked to. DataFusion does not
//! know that when it makes a plan, so it puts sorts where they are needless. This file removes
//! them: above the scan, and above a hash repartitioning of its rows, which merge joins have.
//! Not here: what such an order costs (`probe/streams/ordered.rs`).
//! Source: [SmoothScan18 §4.2], interesting orders.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::pushdown_sort::PushdownSort;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, SortOrderPushdownResult,
};

/// The plan without the sorts that its scans make needless.
pub(super) fn push_down(
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    if !config.optimizer.enable_sort_pushdown {
        return Ok(plan);
    }
    let below_repartitioning = plan.transform_up(|node| {
        let ordered = ordered_before_repartitioning(&node)?;
        Ok(ordered.map_or(Transformed::no(node), Transformed::yes))
    })?;
    let plan = PushdownSort::new().optimize(below_repartitioning.data, config)?;
    let single = plan.transform_up(|node| {
        let single = without_merge_of_one(&node);
        Ok(single.map_or(Transformed::no(node), Transformed::yes))
    })?;
    Ok(single.data)
}

/// The plan without a sort of repartitioned rows, if these can come in order: one ordered stream is
/// repartitioned, and each partition is in order too.
fn ordered_before_repartitioning(
    node: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(sort) = node.downcast_ref::<SortExec>() else {
        return Ok(None);
    };
    let Some(repartition) = sort.input().downcast_ref::<RepartitionExec>() else {
        return Ok(None);
    };
    let by_hash = matches!(repartition.partitioning(), Partitioning::Hash(..));
    if !by_hash || sort.fetch().is_some() {
        return Ok(None);
    }
    let SortOrderPushdownResult::Exact { inner } =
        repartition.input().try_pushdown_sort(sort.expr())?
    else {
        return Ok(None);
    };
    if inner.output_partitioning().partition_count() != 1 {
        return Ok(None);
    }
    let divided = RepartitionExec::try_new(inner, repartition.partitioning().clone())?;
    Ok(Some(Arc::new(divided)))
}

/// The input of a merge of one partition. Where `PushdownSort` replaces a sort by a scan in the
/// wanted order, it leaves a merge above the scan, and a buffer that holds up to a gigabyte.
fn without_merge_of_one(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let merge = node.downcast_ref::<SortPreservingMergeExec>()?;
    let buffer = merge.input().downcast_ref::<BufferExec>()?;
    let input = *buffer.children().first()?;
    if input.output_partitioning().partition_count() != 1 {
        return None;
    }
    Some(match merge.fetch() {
        Some(fetch) => Arc::new(GlobalLimitExec::new(Arc::clone(input), 0, Some(fetch))),
        None => Arc::clone(input),
    })
}
