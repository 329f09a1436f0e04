//! Below which mention does EXPLAIN show the query?
//!
//! Below one. Mentions are leaves until all other rules have run, so that no rule sees the plan of
//! a query twice, or below two nodes.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use super::exec::{OnceExec, Shared};

/// Shows the plan of each query below the first of its mentions. Runs before operators are shared,
/// which a change below them would undo.
#[derive(Debug)]
pub(crate) struct ShowOnce;

impl PhysicalOptimizerRule for ShowOnce {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // The plans of queries were shown when these were planned, and show those that they name.
        let mut shown = vec![];
        each(&plan, &mut |once| {
            each(once.shared().input(), &mut |within| {
                if within.shows() {
                    shown.push(Arc::clone(within.shared()));
                }
            });
        });
        let is_shown = |shown: &[Arc<Shared>], once: &OnceExec| {
            shown.iter().any(|known| Arc::ptr_eq(known, once.shared()))
        };
        let plan = plan.transform_down(|node| {
            let Some(once) = node.downcast_ref::<OnceExec>() else {
                return Ok(Transformed::no(node));
            };
            if once.shows() || is_shown(&shown, once) {
                return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
            }
            shown.push(Arc::clone(once.shared()));
            let node: Arc<dyn ExecutionPlan> = Arc::new(once.showing());
            Ok(Transformed::new(node, true, TreeNodeRecursion::Jump))
        });
        plan.data()
    }

    fn name(&self) -> &'static str {
        "CoscanShowOnce"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Calls `see` for each mention in a plan, those in shown plans included.
fn each(plan: &Arc<dyn ExecutionPlan>, see: &mut dyn FnMut(&OnceExec)) {
    if let Some(once) = plan.downcast_ref::<OnceExec>() {
        see(once);
    }
    for child in plan.children() {
        each(child, see);
    }
}
