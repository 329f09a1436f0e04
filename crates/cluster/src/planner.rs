//! How is a query planned for its nodes, and which of them reads which chunk?
//!
//! DataFusion plans the query as for one process. Then its Parquet scans get their pieces, all
//! scans of the query the same nodes, and the library divides the plan between these. A query
//! without Parquet scans runs in the coordinator.
//! Not here: which nodes a query has (`nodes/chosen.rs`). What it needs counts, of all its scans
//! together, as far as statistics leave it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use coscan::parts::{self, QueryWidth, Scan, ScanPiece};
use coscan::{Engine, Settings};
use coscan_pg::{Once, PgError};
use datafusion::catalog::Session;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{Explain, LogicalPlan, PlanType, StringifiedPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use crate::nodes::{Chosen, Members, Present};
use crate::placed::PlacedScanExec;

/// The most bytes of a build side that each node gets.
const BUILD_BYTES_MAX: usize = 16 << 20;
/// The same for a build side of which only the number of rows is known.
const BUILD_ROWS_MAX: usize = 1 << 18;

/// See the file's header.
pub(crate) struct Planner {
    members: Arc<Members>,
    engine: Engine,
}

impl Planner {
    pub(crate) fn new(members: Arc<Members>, engine: Engine) -> Self {
        Self { members, engine }
    }

    async fn planned(&self, plan: &LogicalPlan, state: &SessionState) -> Result<Planned> {
        refuse_once(plan)?;
        let planner = DefaultPhysicalPlanner::default();
        let mut whole = planner.create_physical_plan(plan, state).await?;
        let mut scans = scans_of(&whole)?;
        if scans.is_empty() {
            return Ok(Planned {
                plan: parts::in_coordinator(whole, state.config_options())?,
                why: None,
            });
        }
        let mut pieces = self.pieces(&scans, state).await?;
        let chosen = self.chosen(&pieces, state).await?;
        let degree = chosen.nodes.order.len();
        if degree > 1 {
            let state = for_several_nodes(state);
            whole = planner.create_physical_plan(plan, &state).await?;
            scans = scans_of(&whole)?;
            pieces = self.pieces(&scans, &state).await?;
        }
        let placed = placed(whole, &pieces, &chosen.nodes)?;
        let distribution = &self.members.distribution;
        Ok(Planned {
            plan: distribution.divide(placed, degree, state).await?,
            why: Some(chosen.why),
        })
    }

    /// The nodes of a query with these pieces.
    async fn chosen(&self, pieces: &Pieces, state: &SessionState) -> Result<Chosen> {
        let width = settings(state)?.cluster_width;
        let query = QueryWidth::of(state.config());
        let scans: Vec<&[ScanPiece]> = pieces.values().map(Vec::as_slice).collect();
        let chosen = self.members.chosen(&scans, width, query.as_deref());
        Ok(chosen.await?)
    }

    /// The pieces of scans, by their identities.
    async fn pieces(
        &self,
        scans: &[Arc<dyn ExecutionPlan>],
        state: &SessionState,
    ) -> Result<Pieces> {
        let settings = settings(state)?;
        let mut pieces = Pieces::new();
        for node in scans {
            let Some(scan) = Scan::of(node) else { continue };
            if scan.store().starts_with(JOINT) {
                let text = "a cluster does not read tables that are spread over several stores";
                return Err(PgError::unsupported(text).into());
            }
            let found = scan.pieces(&self.engine, settings).await?;
            pieces.insert(identity(node), found);
        }
        Ok(pieces)
    }

    /// The divided plan of a query as text.
    async fn explained(
        &self,
        explain: &Explain,
        state: &SessionState,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planned = self.planned(&explain.plan, state).await?;
        let mut text = self.members.distribution.shown(planned.plan.as_ref());
        if let Some(why) = planned.why {
            text = format!("{}\n{why}\n", text.trim_end());
        }
        let shown = StringifiedPlan::new(PlanType::FinalPhysicalPlan, text);
        let schema = Arc::clone(explain.schema.inner());
        Ok(Arc::new(ExplainExec::new(
            schema,
            vec![shown],
            explain.verbose,
        )))
    }
}

/// A plan for the nodes of a query.
struct Planned {
    plan: Arc<dyn ExecutionPlan>,
    /// How many nodes there are, and why; `None` in the coordinator.
    why: Option<String>,
}

/// The pieces of a plan's scans, by the scans' identities.
type Pieces = HashMap<usize, Vec<ScanPiece>>;

/// The session's settings.
fn settings(state: &SessionState) -> Result<&Settings> {
    match state.config_options().extensions.get::<Settings>() {
        Some(settings) => Ok(settings),
        None => internal_err!("a session on a cluster has no settings of Coscan's"),
    }
}

/// The plan with the scans' pieces, which these nodes read.
fn placed(
    whole: Arc<dyn ExecutionPlan>,
    pieces: &Pieces,
    nodes: &Present,
) -> Result<Arc<dyn ExecutionPlan>> {
    let degree = nodes.order.len();
    let placed = whole.transform_up(|node| {
        let Some(pieces) = pieces.get(&identity(&node)) else {
            return Ok(Transformed::no(node));
        };
        let scan = PlacedScanExec::whole(node, pieces.clone(), degree, nodes);
        Ok(Transformed::yes(Arc::new(scan) as _))
    });
    placed.data()
}

/// The beginning of the URLs of stores that are joined of several, which only their process knows.
const JOINT: &str = "joint:";

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("a session on a cluster is none of DataFusion's");
        };
        match plan {
            LogicalPlan::Explain(explain) => self.explained(explain, state).await,
            LogicalPlan::Analyze(analyze) => {
                let divided = self.planned(&analyze.input, state).await?.plan;
                let schema = Arc::clone(analyze.schema.inner());
                match self.members.distribution.analyzed(&divided, schema) {
                    Some(analyzed) => Ok(analyzed),
                    // It runs in the coordinator.
                    None => {
                        let planner = DefaultPhysicalPlanner::default();
                        let whole = planner.create_physical_plan(plan, state).await?;
                        parts::in_coordinator(whole, state.config_options())
                    }
                }
            }
            plan => Ok(self.planned(plan, state).await?.plan),
        }
    }
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner")
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

/// Refuses queries in WITH that must be computed once: two stages would compute them twice.
fn refuse_once(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| match Once::of(node) {
        Some(once) => {
            let text = format!(
                "a cluster does not run WITH {}: it is named more than once, and two \
                 computations of it could differ",
                once.name()
            );
            Err(PgError::unsupported(text).into())
        }
        None => Ok(TreeNodeRecursion::Continue),
    })?;
    Ok(())
}

/// The session for a query on several nodes, where a join's build side is sent to each of them, and
/// each keeps all of it. Larger sides are divided among the nodes by hash. A plan of one partition
/// would not be divided.
fn for_several_nodes(state: &SessionState) -> SessionState {
    let mut state = state.clone();
    let options = state.config_mut().options_mut();
    let partitions = &mut options.execution.target_partitions;
    *partitions = (*partitions).max(2);
    let optimizer = &mut options.optimizer;
    for (threshold, most) in [
        (
            &mut optimizer.hash_join_single_partition_threshold,
            BUILD_BYTES_MAX,
        ),
        (
            &mut optimizer.hash_join_single_partition_threshold_rows,
            BUILD_ROWS_MAX,
        ),
    ] {
        *threshold = (*threshold).min(most);
    }
    state
}

/// The Parquet scans of a plan.
fn scans_of(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    let mut found = vec![];
    plan.apply(|node| {
        if Scan::of(node).is_some() {
            found.push(Arc::clone(node));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Tells a node from others that are alike.
fn identity(node: &Arc<dyn ExecutionPlan>) -> usize {
    Arc::as_ptr(node).cast::<()>().addr()
}
