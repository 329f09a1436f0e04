//! How long will a plan take?
//!
//! A rough estimate tells plans that end in a moment from all others: each row that a node returns
//! takes some nanoseconds. The numbers of rows are those of DataFusion's statistics; a node
//! without statistics counts as no rows.
//! Not here: what the estimate decides (`coscan_core::tasks`).

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

/// The time per row and node. TPC-H Q6 takes 16 ns per row of lineitem for decode, filter and sum,
/// which are two nodes.
const NS_PER_ROW: u64 = 10;

/// The processor time that a plan is expected to use, in nanoseconds.
pub(super) fn expected_ns(plan: &dyn ExecutionPlan) -> u64 {
    rows(plan, &StatisticsContext::new()).saturating_mul(NS_PER_ROW)
}

/// The rows that all nodes of a plan return, added up.
fn rows(plan: &dyn ExecutionPlan, statistics: &StatisticsContext) -> u64 {
    let own = statistics.compute(plan, &StatisticsArgs::new());
    // If statistics fail, the plan may still run, so the node counts as no rows.
    let own = own.ok().and_then(|own| own.num_rows.get_value().copied());
    let children = plan.children().into_iter();
    children
        .map(|child| rows(child.as_ref(), statistics))
        .fold(own.unwrap_or(0) as u64, u64::saturating_add)
}
