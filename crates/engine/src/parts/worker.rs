//! How does a part of a plan become cooperative on the node that runs it?
//!
//! The coordinator has planned and marked it. Here the marked scans become cooperative scans of
//! this node's engine, and the partial aggregates on them fragments, so that all queries share
//! this node's reads and its work on chunks; joins give way, so that a part ends when its query
//! does.
//! A query that runs on one node has whole scans, and gets all rules of a session of this process:
//! aggregates and joins in the tables' order, and operators that queries share. The order of a
//! table is known once its footers were read here.
//! Not here: operators that the parts of queries on several nodes share. Their keys would have to
//! leave out the part's place in its query.

use std::sync::Arc;

use datafusion::common::config::{ConfigNonZeroUsize, ConfigOptions};
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

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
    let mut plan = plan;
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
