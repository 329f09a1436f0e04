//! How does a session plan what other nodes run?
//!
//! It plans as any session does, with the scans marked that will be cooperative, but swaps none:
//! the node that runs a scan does that (`worker.rs`). Promised orders of files are forgotten,
//! because the pieces of a file are on several nodes.
//! Not here: the planner that divides the plan (`coscan-cluster`), statements that are refused
//! (`session/on_nodes.rs`).

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;

use crate::index;
use crate::plan::{FinestGroups, HideFloatBounds, MarkScans, NeedlessKeys, YieldingJoins};
use crate::read::replace_scans;
use crate::session::{Engine, OnNodes, Session, add_settings};
use crate::tables::one_listing::list_once;

/// A session whose plans other nodes run. `divide` adds the planner that divides them.
#[must_use]
pub fn session(
    engine: &Engine,
    divide: impl FnOnce(SessionStateBuilder) -> SessionStateBuilder,
) -> Session {
    engine.session_with(|mut builder| {
        let config = builder.config().get_or_insert_default();
        add_settings(config, engine);
        let turn = Arc::clone(engine.resources().turn_on_nodes());
        config.set_extension(Arc::new(OnNodes { turn }));
        let optimizers = builder.optimizer_rules().get_or_insert_default();
        optimizers.push(Arc::new(NeedlessKeys));
        optimizers.push(Arc::new(FinestGroups));
        let optimizers = builder.physical_optimizers().get_or_insert_default();
        let mut rules = std::mem::take(optimizers).rules;
        rules.insert(0, Arc::new(HideFloatBounds));
        rules.insert(1, Arc::new(ForgetOrders));
        rules.insert(2, Arc::new(MarkScans));
        *builder.physical_optimizers() = Some(PhysicalOptimizer::with_rules(rules));
        // So that statements about an index are planned, and refused by name.
        index::register_functions(&mut builder, &Arc::downgrade(engine.resources()));
        // A query in WITH that must be computed once is found here, and refused by the planner.
        coscan_pg::compute_once(&mut builder);
        let mut builder = divide(builder);
        list_once(&mut builder);
        builder
    })
}

/// Adds a table to the engine's schema `coscan`, unless it has one of this name.
///
/// # Errors
/// The catalog's.
pub fn add_system_table(engine: &Engine, name: &str, table: Arc<dyn TableProvider>) -> Result<()> {
    engine.add_system_table(name, table)
}

/// The plan of a query that runs in the coordinator, whose joins give way.
///
/// # Errors
/// If a join does not take its inputs back: a bug.
pub fn in_coordinator(
    plan: Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    YieldingJoins.optimize(plan, options)
}

/// Forgets the orders that files promise, and how their rows are divided.
#[derive(Debug)]
struct ForgetOrders;

impl PhysicalOptimizerRule for ForgetOrders {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        replace_scans(plan, |scan, _| {
            let mut scan = scan.clone();
            scan.output_ordering = vec![];
            scan.output_partitioning = None;
            scan.preserve_order = false;
            Ok(Some(scan))
        })
    }

    fn name(&self) -> &'static str {
        "CoscanForgetOrders"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
