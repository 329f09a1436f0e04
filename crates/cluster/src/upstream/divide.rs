//! How is a plan divided into stages, and where do their tasks run?
//!
//! The library cuts the plan at hash repartitions, at build sides that are broadcast, and where
//! partitions are merged. Every stage with a Parquet scan has as many tasks as the query's degree,
//! and task `i` runs on node `i` of the order. A stage without a scan runs on the nodes of the
//! stage below. The library leaves a plan of a single task in the coordinator; here it becomes one
//! stage on the first node, whose memory serves the query.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{exec_err, internal_err};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{
    ChannelResolver, DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExec,
    DistributedExt, DistributedLeafExec, NetworkBoundary, NetworkBoundaryExt, NetworkCoalesceExec,
    RouteTasksEvent, RouteTasksEventResponse, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
    SessionStateBuilderExt, Stage, WorkerResolver, display_plan_ascii,
};
use url::Url;
use uuid::Uuid;

use super::analyze::AnalyzeOnNodesExec;
use super::channel::Channels;
use super::codec::WholeCodec;
use super::unrepeatable::read_once;
use crate::distribution::{Distribution, NodeStatus};
use crate::error::Result;
use crate::nodes::{Links, NodeList, Suspects};
use crate::placed::PlacedScanExec;

/// Bytes that a connection buffers of one task's output. The library's 64 MiB are taken without
/// asking, once for each pair of tasks.
const CONNECTION_BYTES: usize = 4 << 20;

/// datafusion-distributed, with connections to the nodes.
#[derive(Debug)]
pub(crate) struct Upstream {
    listed: Listed,
    channels: Arc<Channels>,
}

impl Upstream {
    /// # Errors
    /// [`Error::Thread`](crate::Error::Thread), [`Error::Tls`](crate::Error::Tls).
    pub(crate) fn new(list: Arc<NodeList>, suspects: Arc<Suspects>, links: &Links) -> Result<Self> {
        let channels = Channels::new(links, Arc::clone(&suspects))?;
        Ok(Self {
            listed: Listed { list, suspects },
            channels: Arc::new(channels),
        })
    }
}

#[async_trait]
impl Distribution for Upstream {
    fn session(&self, builder: SessionStateBuilder) -> SessionStateBuilder {
        let builder = builder
            .with_distributed_worker_resolver(self.listed.clone())
            .with_distributed_channel_resolver(
                Arc::clone(&self.channels) as Arc<dyn ChannelResolver + Send + Sync>
            )
            .with_distributed_user_codec(WholeCodec)
            .with_distributed_desired_task_count_handler(desired)
            .with_distributed_scale_up_leaf_node_handler(scaled)
            .with_distributed_route_tasks_handler(routed)
            .with_query_planner(Arc::new(Planned));
        let mut builder = builder.with_distributed_planner();
        let divides = builder.query_planner().take();
        let config = builder.config().get_or_insert_default();
        config.set_extension(Arc::new(Divides(divides)));
        // Metrics are matched by the place of their node, which rewriting on the worker changes.
        // The branches of a UNION must not have nodes of their own.
        for (option, value) in [
            ("distributed.collect_metrics", "false"),
            ("distributed.children_isolator_unions", "false"),
            (
                "distributed.worker_connection_buffer_budget_bytes",
                &CONNECTION_BYTES.to_string(),
            ),
        ] {
            let set = config.options_mut().set(option, value);
            set.expect("an option of the library's, and a value that it takes");
        }
        builder
    }

    async fn divide(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        degree: usize,
        state: &SessionState,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        if degree == 1 {
            return on_one_node(plan);
        }
        let divides = state.config().get_extension::<Divides>();
        let Some(divides) = divides.as_ref().and_then(|divides| divides.0.as_ref()) else {
            return internal_err!("a session on a cluster does not divide plans");
        };
        let mut with_plan = state.clone();
        let original = Original(Arc::clone(&plan));
        with_plan.config_mut().set_extension(Arc::new(original));
        let nothing = LogicalPlanBuilder::empty(false).build()?;
        let stages = divides.create_physical_plan(&nothing, &with_plan).await?;
        if stages.is::<DistributedExec>() && !reads_in_coordinator(&stages)? {
            read_once(stages)
        } else {
            on_one_node(plan)
        }
    }

    async fn status(&self, node: &Url) -> Result<NodeStatus> {
        self.channels.status(node).await
    }

    fn keep(&self, nodes: &[Url]) {
        self.channels.keep(nodes);
    }

    fn analyzed(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let analyzed = AnalyzeOnNodesExec::new(plan, schema)?;
        Some(Arc::new(analyzed))
    }

    fn shown(&self, plan: &dyn ExecutionPlan) -> String {
        display_plan_ascii(plan, false)
    }
}

/// The planner that divides the plan in [`Original`].
struct Divides(Option<Arc<dyn QueryPlanner + Send + Sync>>);

/// The plan that is to be divided.
struct Original(Arc<dyn ExecutionPlan>);

/// Returns the plan that is to be divided: it is planned already.
#[derive(Debug)]
struct Planned;

#[async_trait]
impl QueryPlanner for Planned {
    async fn create_physical_plan(
        &self,
        _: &LogicalPlan,
        session: &dyn Session,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        match session.config().get_extension::<Original>() {
            Some(original) => Ok(Arc::clone(&original.0)),
            None => internal_err!("there is no plan to divide"),
        }
    }
}

/// The nodes of the cluster, and those of them that were lost.
#[derive(Clone, Debug)]
struct Listed {
    list: Arc<NodeList>,
    suspects: Arc<Suspects>,
}

impl WorkerResolver for Listed {
    fn get_urls(&self) -> PlanResult<Vec<Url>> {
        let all = self.list.urls();
        let present = self.suspects.without(&all);
        // Plans are made when a node has answered; the library wants one at least.
        Ok(if present.is_empty() { all } else { present })
    }
}

/// Whether the coordinator would read a table. The library leaves some plans there: those of joins
/// whose sides have one partition each.
fn reads_in_coordinator(stages: &Arc<dyn ExecutionPlan>) -> PlanResult<bool> {
    let mut reads = false;
    stages.apply(|node| {
        if node.as_network_boundary().is_some() {
            return Ok(TreeNodeRecursion::Jump);
        }
        reads |= node.is::<PlacedScanExec>() || node.is::<DistributedLeafExec>();
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(reads)
}

/// The plan as one stage on the first node.
fn on_one_node(plan: Arc<dyn ExecutionPlan>) -> PlanResult<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|node| {
        let Some(placed) = node.downcast_ref::<PlacedScanExec>() else {
            return Ok(Transformed::no(node));
        };
        let part = placed.parts(1)?.pop();
        Ok(part.map_or_else(|| Transformed::no(Arc::clone(&node)), Transformed::yes))
    });
    let mut plan = plan.data()?;
    if plan.output_partitioning().partition_count() > 1 {
        plan = Arc::new(CoalescePartitionsExec::new(plan));
    }
    let boundary = NetworkCoalesceExec::try_new(plan, 1, 1)?;
    let Stage::Local(stage) = boundary.input_stage() else {
        return internal_err!("a new stage is on a node already");
    };
    let mut stage = stage.clone();
    stage.query_id = Uuid::new_v4();
    stage.num = 1;
    let boundary = boundary.with_input_stage(Stage::Local(stage))?;
    // EXPLAIN finds stages below the plan's root only.
    let merged = CoalescePartitionsExec::new(boundary);
    Ok(Arc::new(DistributedExec::new(Arc::new(merged))))
}

/// A stage with a scan has as many tasks as the query's degree.
fn desired(event: DesiredTaskCountEvent<'_>) -> Option<PlanResult<DesiredTaskCountEventResponse>> {
    let scan = event.plan.downcast_ref::<PlacedScanExec>()?;
    Some(Ok(DesiredTaskCountEventResponse::maximum(scan.degree())))
}

/// A scan becomes a part for each task.
fn scaled(event: ScaleUpLeafNodeEvent<'_>) -> Option<PlanResult<ScaleUpLeafNodeEventResponse>> {
    let scan = event.plan.downcast_ref::<PlacedScanExec>()?;
    let parts = scan.parts(event.task_count);
    let leaf = parts.and_then(|parts| DistributedLeafExec::try_new(Arc::clone(event.plan), parts));
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}

/// The tasks of a stage with a scan run on the nodes of its parts, those of others on the nodes of
/// the stage below.
#[allow(clippy::needless_pass_by_value, reason = "the library's signature")]
fn routed(event: RouteTasksEvent<'_>) -> Option<PlanResult<RouteTasksEventResponse>> {
    let mut own = None;
    let mut below = None;
    let found = event.plan.apply(|node| {
        if let Some(leaf) = node.downcast_ref::<DistributedLeafExec>()
            && let Some(urls) = leaf
                .variants()
                .iter()
                .map(node_of)
                .collect::<Option<Vec<Url>>>()
        {
            own = Some(urls);
            return Ok(TreeNodeRecursion::Stop);
        }
        if let Some(url) = node_of(node) {
            own = Some(vec![url]);
            return Ok(TreeNodeRecursion::Stop);
        }
        if let Some(boundary) = node.as_network_boundary() {
            if let Stage::Remote(stage) = boundary.input_stage() {
                below.get_or_insert_with(|| stage.workers.clone());
            }
            return Ok(TreeNodeRecursion::Jump);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    if let Err(error) = found {
        return Some(Err(error));
    }
    let urls = match (own, below) {
        (Some(own), _) if own.len() == event.task_count => own,
        (Some(own), _) => {
            let (parts, tasks) = (own.len(), event.task_count);
            return Some(exec_err!(
                "a scan has {parts} parts, and its stage {tasks} tasks"
            ));
        }
        (None, Some(below)) if !below.is_empty() => {
            below.into_iter().cycle().take(event.task_count).collect()
        }
        // The stage reads nothing: any node will do.
        (None, _) => return None,
    };
    Some(Ok::<_, DataFusionError>(RouteTasksEventResponse::new(urls)))
}

fn node_of(node: &Arc<dyn ExecutionPlan>) -> Option<Url> {
    node.downcast_ref::<PlacedScanExec>()?.node().cloned()
}
