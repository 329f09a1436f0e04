//! The plan node: two cooperative scans and the join of their tables.
//!
//! The node replaces a hash join and the nodes that partition its inputs, and keeps them: they run
//! if the tables turn out not to be in sequence, and return the same rows.
//! Not here: which joins become this node (`recognise.rs`), what a partition does (`stream.rs`).

use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, SchedulingType, reset_plan_states,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning,
    PlanProperties, ReplaceChildrenOptions,
};

use super::recognise::{JoinPlan, recognise};
use super::shared_state::Together;
use super::stream;
use crate::read::scan::Executions;
use crate::resources::Resources;

/// Two cooperative scans and the join of their tables, computed chunk by chunk of one of them.
pub(crate) struct ClusteredJoinExec {
    plan: Arc<JoinPlan>,
    resources: Weak<Resources>,
    executions: Executions<Together>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ClusteredJoinExec {
    /// The node that replaces a join; `None` if the join cannot be computed chunk by chunk, or
    /// returns its rows in an order that a node above needs.
    pub(in crate::ordered) fn of(
        node: &Arc<dyn ExecutionPlan>,
        order_counts: bool,
        resources: &Arc<Resources>,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let plan = recognise(node, order_counts, resources)?;
        Some(Arc::new(Self::new(plan, Arc::downgrade(resources))))
    }

    fn new(plan: JoinPlan, resources: Weak<Resources>) -> Self {
        let partitions = plan.driver.scan.partitions.len();
        let properties = PlanProperties::new(
            // Rows come in the order of the driving table's chunks, which may be any.
            EquivalenceProperties::new(plan.original.schema()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let plan = Arc::new(plan);
        let own = Arc::clone(&plan);
        Self {
            executions: Executions::new(partitions, move || Together::new(Arc::clone(&own))),
            plan,
            resources,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The plan that this node replaces; it returns the same rows.
    pub(crate) fn original(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan.original
    }
}

impl DisplayAs for ClusteredJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (driver, other) = (&self.plan.driver.column, &self.plan.other.column);
        let join = self.plan.original.downcast_ref::<HashJoinExec>();
        let join_type = join.map(|join| format!("{:?}", join.join_type()));
        let join_type = join_type.unwrap_or_default();
        let keys = if self.plan.left_drives {
            format!("{driver} = {other}")
        } else {
            format!("{other} = {driver}")
        };
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(
                f,
                "ClusteredJoinExec: join_type={join_type}, order=[{keys}] (by statistics), driver={driver}"
            ),
            DisplayFormatType::TreeRender => {
                writeln!(f, "join_type={join_type}")?;
                writeln!(f, "order={keys} (by statistics)")?;
                writeln!(f, "driver={driver}")
            }
        }
    }
}

impl fmt::Debug for ClusteredJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusteredJoinExec")
            .field("original", &self.plan.original)
            .finish_non_exhaustive()
    }
}

impl ExecutionPlan for ClusteredJoinExec {
    fn name(&self) -> &'static str {
        "ClusteredJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.plan.inputs().to_vec()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.plan.original.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != 2 {
            return internal_err!("a ClusteredJoinExec has two children");
        }
        // A node that can run only once, such as a hash join, is replaced by a fresh copy.
        let original = reset_plan_states(Arc::clone(&self.plan.original))?;
        // Children are visited from left to right.
        let mut scans = children.into_iter();
        let original = original.transform_up(|node| {
            Ok(if node.is::<DataSourceExec>() {
                match scans.next() {
                    Some(scan) => Transformed::yes(scan),
                    None => return internal_err!("a clustered join of more than two scans"),
                }
            } else {
                Transformed::no(node)
            })
        });
        let original = original.data()?;
        let clustered = self
            .resources
            .upgrade()
            .and_then(|resources| Self::of(&original, false, &resources));
        // If the new scans are of another kind, the original plan stays.
        Ok(clustered.unwrap_or(original))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        for side in [&self.plan.driver, &self.plan.other] {
            side.scan.ensure_devices(&context.runtime_env())?;
        }
        let together = self.executions.open(partition)?;
        Ok(stream::open(together, partition, context, &self.metrics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
