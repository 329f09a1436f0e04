//! How does a session plan what other nodes run, and what does it refuse?
//!
//! It plans as any session does, with the scans marked that will be cooperative, but swaps none:
//! the node that runs a scan does that (`worker.rs`). Promised orders of files are forgotten,
//! because the pieces of a file are on several nodes.
//! Not here: the planner that divides the plan (`coscan-cluster`).

use std::sync::Arc;

use coscan_pg::PgError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{DdlStatement, LogicalPlan, WriteOp};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;

use crate::plan::{HideFloatBounds, MarkScans, NeedlessKeys};
use crate::read::parquet_scan;
use crate::session::{Engine, Session, add_settings};
use crate::tables::one_listing::list_once;

/// Marks a session whose plans run on other nodes.
struct OnNodes;

/// A session whose plans other nodes run. `divide` adds the planner that divides them.
#[must_use]
pub fn session(
    engine: &Engine,
    divide: impl FnOnce(SessionStateBuilder) -> SessionStateBuilder,
) -> Session {
    engine.session_with(|mut builder| {
        let config = builder.config().get_or_insert_default();
        add_settings(config, engine);
        config.set_extension(Arc::new(OnNodes));
        let optimizers = builder.optimizer_rules().get_or_insert_default();
        optimizers.push(Arc::new(NeedlessKeys));
        let optimizers = builder.physical_optimizers().get_or_insert_default();
        let mut rules = std::mem::take(optimizers).rules;
        rules.insert(0, Arc::new(HideFloatBounds));
        rules.insert(1, Arc::new(ForgetOrders));
        rules.insert(2, Arc::new(MarkScans));
        *builder.physical_optimizers() = Some(PhysicalOptimizer::with_rules(rules));
        // A query in WITH that must be computed once is found here, and refused by the planner.
        coscan_pg::compute_once(&mut builder);
        let mut builder = divide(builder);
        list_once(&mut builder);
        builder
    })
}

/// Refuses statements that a cluster does not run, if the session is of one. `runs_once`: the
/// statement makes or drops an index.
pub(crate) fn check(state: &SessionState, plan: &LogicalPlan, runs_once: bool) -> Result<()> {
    if state.config().get_extension::<OnNodes>().is_none() {
        return Ok(());
    }
    let what = if runs_once {
        Some("an index")
    } else {
        refused(plan)
    };
    match what {
        None => Ok(()),
        Some(what) => Err(PgError::new("0A000", format!("a cluster does not run {what}")).into()),
    }
}

/// What a statement is that a cluster does not run.
fn refused(plan: &LogicalPlan) -> Option<&'static str> {
    match plan {
        LogicalPlan::Explain(explain) => refused(&explain.plan),
        LogicalPlan::Analyze(_) => Some("EXPLAIN ANALYZE"),
        LogicalPlan::Copy(_) => Some("COPY"),
        LogicalPlan::Dml(dml) => Some(match dml.op {
            WriteOp::Insert(_) => "INSERT",
            WriteOp::Update => "UPDATE",
            WriteOp::Delete => "DELETE",
            _ => "statements that change rows",
        }),
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(_)) => {
            Some("CREATE TABLE: tables of a session are in the memory of one process")
        }
        LogicalPlan::Ddl(DdlStatement::CreateIndex(_)) => Some("CREATE INDEX"),
        _ => None,
    }
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
        let forgotten = plan.transform_up(|node| {
            let Some((scan, _)) = parquet_scan(&node) else {
                return Ok(Transformed::no(node));
            };
            let mut scan = scan.clone();
            scan.output_ordering = vec![];
            scan.output_partitioning = None;
            scan.preserve_order = false;
            Ok(Transformed::yes(DataSourceExec::from_data_source(scan) as _))
        });
        forgotten.data()
    }

    fn name(&self) -> &'static str {
        "CoscanForgetOrders"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
