//! How does a part of a plan become cooperative on the node that runs it?
//!
//! The coordinator has planned and marked it. Here the marked scans become cooperative scans of
//! this node's engine, and the partial aggregates on them fragments, so that all queries share
//! this node's reads and its work on chunks; joins give way, so that a part ends when its query
//! does. Filters return no more rows together than a batch of this node has: they count in rows of
//! the session that planned them.
//! A query that runs on one node has whole scans, and gets all rules of a session of this process:
//! aggregates and joins in the tables' order, and operators that queries share. The order of a
//! table is known once its footers were read here.
//! Not here: operators that the parts of queries on several nodes share. Their keys would have to
//! leave out the part's place in its query.

use std::sync::Arc;

use datafusion::common::config::{ConfigNonZeroUsize, ConfigOptions};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;

use crate::fragment::ShareFragments;
use crate::memory::batch_rows_max;
use crate::plan::{SwapScans, YieldingJoins};
use crate::read::{is_part, parquet_scan};
use crate::session::{Engine, of_planned};

/// The part of a plan with this engine's cooperative scans and fragments. `options` are those of
/// the session that runs it; `reads_no_others` says that no rows of other nodes come into the part,
/// and that it has one partition, whose rows need not be divided as the plan was.
///
/// # Errors
/// If a scan names an option or a column that cannot be read.
pub fn cooperative(
    engine: &Engine,
    plan: Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
    reads_no_others: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut plan = bound_filters(plan, options.execution.batch_size.get())?;
    if reads_no_others && !reads_parts(&plan)? {
        for rule in of_planned(engine) {
            plan = rule.optimize(plan, options)?;
        }
        return Ok(plan);
    }
    let swap = SwapScans::new(Arc::downgrade(engine.resources()));
    let share = ShareFragments::new(Arc::downgrade(engine.board()));
    plan = share.optimize(swap.optimize(plan, options)?, options)?;
    YieldingJoins.optimize(plan, options)
}

/// The plan with filters whose batches have at most so many rows: they fill batches of their own
/// number, which is the coordinator's.
fn bound_filters(plan: Arc<dyn ExecutionPlan>, most: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let bounded = plan.transform_up(|node| {
        let filter = node.downcast_ref::<FilterExec>();
        let Some(filter) = filter.filter(|filter| filter.batch_size() > most) else {
            return Ok(Transformed::no(node));
        };
        let filter = filter.with_batch_size(most)?;
        Ok(Transformed::yes(Arc::new(filter) as _))
    })?;
    Ok(bounded.data)
}

/// Whether the plan reads a part of a table.
fn reads_parts(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| {
        let is_part = parquet_scan(node).is_some_and(|(_, source)| is_part(source));
        Ok(is_part)
    })
}

/// The options of this engine's sessions.
#[must_use]
pub fn options(engine: &Engine) -> ConfigOptions {
    let config = engine.session().context().copied_config();
    ConfigOptions::clone(config.options())
}

/// Bounds the rows of a query's batches by what the memory of this engine had room for when it
/// began. Their number comes with the query, and its coordinator may have more memory.
pub fn bound_batches(engine: &Engine, options: &mut ConfigOptions) -> Result<()> {
    let limit = engine.resources().config().memory_bytes;
    let limit = limit.unwrap_or_else(|| engine.memory().limit());
    let most = ConfigNonZeroUsize::try_new(batch_rows_max(limit))?;
    let rows = &mut options.execution.batch_size;
    *rows = (*rows).min(most);
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{col, is_not_null};
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::limit::LocalLimitExec;

    use super::*;

    #[test]
    fn filters_of_a_plan_that_came_have_no_more_rows_than_batches_here() {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true)]));
        let predicate = is_not_null(col("k", &schema).unwrap()).unwrap();
        let nothing = Arc::new(EmptyExec::new(schema));
        let filter = FilterExec::try_new(predicate, nothing).unwrap();
        for (planned, most, rows) in [(8192, 2048, 2048), (100, 2048, 100)] {
            let filter = filter.with_batch_size(planned).unwrap();
            let limit: Arc<dyn ExecutionPlan> = Arc::new(LocalLimitExec::new(Arc::new(filter), 7));
            let plan = bound_filters(limit, most).unwrap();
            let children = plan.children();
            let filter = children[0].downcast_ref::<FilterExec>().unwrap();
            assert_eq!(filter.batch_size(), rows, "{planned} rows planned");
        }
    }
}
