//! How does a part of a plan become cooperative on the node that runs it?
//!
//! The coordinator has planned and marked it. Here the marked scans become cooperative scans of
//! this node's engine, and the partial aggregates on them fragments, so that all queries share
//! this node's reads and its work on chunks; joins give way, so that a part ends when its query
//! does.
//! Not here: operators that queries share. Their keys would have to leave out the part's place in
//! its query.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::fragment::ShareFragments;
use crate::plan::{SwapScans, YieldingJoins};
use crate::session::Engine;

/// The part of a plan with this engine's cooperative scans and fragments. `options` are those of
/// the session that runs it.
///
/// # Errors
/// If a scan names an option or a column that cannot be read.
pub fn cooperative(
    engine: &Engine,
    plan: Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let swap = SwapScans::new(Arc::downgrade(engine.resources()));
    let share = ShareFragments::new(Arc::downgrade(engine.board()));
    let shared = share.optimize(swap.optimize(plan, options)?, options)?;
    YieldingJoins.optimize(shared, options)
}

/// The options of this engine's sessions.
#[must_use]
pub fn options(engine: &Engine) -> ConfigOptions {
    let config = engine.session().context().copied_config();
    ConfigOptions::clone(config.options())
}
