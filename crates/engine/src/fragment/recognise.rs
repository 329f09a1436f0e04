//! Which part of a plan is a fragment?
//!
//! A fragment is a partial aggregate over a cooperative scan in shared delivery, with only
//! projections and round-robin repartitions between them. Its states for a set of chunks are a
//! merge of its states for each chunk. The pair becomes a `FragmentExec` (`exec.rs`); the final
//! aggregate above it stays DataFusion's, and `evaluation/merge.rs` says how many states a batch
//! for it may have.
//! Not fragments: grouping sets, aggregates that depend on an order, limits, scans with dynamic
//! filters (which rows pass depends on when they are read), and expressions without a key.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::udaf::AggregateFunctionExpr;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

use super::board::Board;
use super::evaluation::{FragmentPlan, KeyWriter, merge_of};
use super::over_scan::{over_scan, spread};
use crate::cscan::CScanSource;
use crate::read::scan::{Delivery, ScanPlan};

/// The options and the board with which a session's fragments are shared.
#[derive(Clone)]
pub(crate) struct SharingOptions {
    pub(crate) board: Arc<Board>,
    /// The bytes that the session allows the state cache; with 0 it neither reads nor fills it.
    pub(crate) cache_bytes: u64,
    /// The session's time zone and style of intervals, on which functions may depend in addition
    /// to their arguments.
    pub(crate) shown: String,
}

/// A scan and the partial aggregate on it.
#[derive(Clone)]
pub(crate) struct Fragment {
    /// The scan, as it is in the plan without sharing.
    pub(crate) input: Arc<dyn ExecutionPlan>,
    /// The partial aggregate on the scan, as it is in the plan without sharing.
    pub(crate) partial: Arc<dyn ExecutionPlan>,
    pub(crate) plan: Arc<FragmentPlan>,
    pub(crate) scan: Arc<ScanPlan>,
    pub(crate) scan_metrics: ExecutionPlanMetricsSet,
}

/// The fragment of a partial aggregate; `None` if `node` is not one or cannot be shared.
///
/// # Errors
/// If the plan does not fit together: a bug.
pub(crate) fn fragment(
    node: &Arc<dyn ExecutionPlan>,
    sharing: &SharingOptions,
) -> Result<Option<Fragment>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    let ordered = |function: &Arc<AggregateFunctionExpr>| {
        !function.order_bys().is_empty() || !function.order_sensitivity().is_insensitive()
    };
    let suits = *aggregate.mode() == AggregateMode::Partial
        && aggregate.group_expr().is_single()
        && aggregate.limit_options().is_none()
        && matches!(aggregate.input_order_mode(), InputOrderMode::Linear)
        && !aggregate.aggr_expr().iter().any(ordered);
    if !suits {
        return Ok(None);
    }
    let grouped = !aggregate.group_expr().is_true_no_grouping();
    let Some(merge) = merge_of(aggregate.aggr_expr(), grouped) else {
        return Ok(None);
    };
    let over = over_scan(aggregate)?;
    let Some((scan, source)) = cooperative_scan(&over.input) else {
        return Ok(None);
    };
    // Only the types of the file's columns decide whether an expression has a key.
    let keyed = |expr: &Arc<dyn PhysicalExpr>| KeyWriter::key_of(expr, &scan.schema).is_some();
    if !over.expressions().all(keyed) {
        return Ok(None);
    }
    let plan = FragmentPlan {
        group: over.group,
        aggregates: over.aggregates,
        schema: node.schema(),
        merge,
        shown: sharing.shown.clone(),
    };
    let partial = Arc::clone(node).transform_up(|node| {
        Ok(match spread(&node) {
            Some(input) => Transformed::yes(Arc::clone(input)),
            None => Transformed::no(node),
        })
    });
    Ok(Some(Fragment {
        input: Arc::clone(&over.input),
        partial: partial.data()?,
        plan: Arc::new(plan),
        scan: Arc::clone(scan),
        scan_metrics: source.metrics(),
    }))
}

/// A cooperative scan in shared delivery, where every partition takes whichever chunk comes next.
/// It has no limit and no dynamic filter, so the rows that it reads do not change while it runs.
fn cooperative_scan(node: &Arc<dyn ExecutionPlan>) -> Option<(&Arc<ScanPlan>, &CScanSource)> {
    let source = node.downcast_ref::<DataSourceExec>()?.data_source();
    let source = source.as_ref().downcast_ref::<CScanSource>()?;
    let plan = source.whole()?;
    let changes = plan.table.predicate.as_ref().is_some_and(|predicate| {
        DynamicFilterTracking::classify(predicate).contains_dynamic_filter()
    });
    (plan.delivery == Delivery::Shared && plan.limit.is_none() && !changes)
        .then_some((plan, source))
}
