//! How long will a plan take?
//!
//! A rough estimate tells plans that end in a moment from others: each row that a node returns
//! takes some nanoseconds. Rows are those of DataFusion's statistics; a node without statistics
//! counts no rows.
//! Not here: what follows from it (`coscan_core::tasks`).

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

/// What a row of one node takes: TPC-H Q6 takes 16 ns a row of lineitem with decode, filter and
/// sum, which are two nodes.
const NS_PER_ROW: u64 = 10;

/// Processor time that a plan is expected to use, in nanoseconds.
pub(super) fn expected_ns(plan: &dyn ExecutionPlan) -> u64 {
    rows(plan, &StatisticsContext::new()).saturating_mul(NS_PER_ROW)
}

/// Rows that all nodes of a plan return.
fn rows(plan: &dyn ExecutionPlan, statistics: &StatisticsContext) -> u64 {
    let own = statistics.compute(plan, &StatisticsArgs::new());
    // Statistics that fail say nothing, and are no reason to fail.
    let own = own.ok().and_then(|own| own.num_rows.get_value().copied());
    let children = plan.children().into_iter();
    children
        .map(|child| rows(child.as_ref(), statistics))
        .fold(own.unwrap_or(0) as u64, u64::saturating_add)
}
