//! What plans a statement below a planner of the engine?
//!
//! A session has one query planner. Each of the engine's planners does its part, and leaves the
//! rest to the planner that the session had until then, which may be another of them. A session
//! without any has DataFusion's.
//! Not here: in which order the planners stand (`session/ext.rs`).

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

/// See the file's header. `None` stands for DataFusion's own planner.
#[derive(Debug)]
pub(crate) struct InnerPlanner(Option<Arc<dyn QueryPlanner + Send + Sync>>);

impl InnerPlanner {
    /// Replaces the planner that the builder has by the one that `outer` makes around it.
    pub(crate) fn wrap<P: QueryPlanner + Send + Sync + 'static>(
        builder: &mut SessionStateBuilder,
        outer: impl FnOnce(Self) -> P,
    ) {
        let planner = builder.query_planner();
        *planner = Some(Arc::new(outer(Self(planner.take()))));
    }

    /// The physical plan, of a session that may be another than the statement's.
    pub(crate) async fn plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match &self.0 {
            Some(inner) => inner.create_physical_plan(plan, session).await,
            None => {
                let planner = DefaultPhysicalPlanner::default();
                planner.create_physical_plan(plan, session).await
            }
        }
    }
}
