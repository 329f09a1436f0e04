//! The plan node: a cooperative scan and the aggregate that is computed in its table's order.
//!
//! The node replaces the partial aggregate, the repartitioning and the final aggregate, and keeps
//! them: they run if the table turns out not to be in order, and return the same rows.
//! Not here: which aggregates become this node (`recognise.rs`), what a partition does
//! (`stream.rs`).

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
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning,
    PlanProperties, ReplaceChildrenOptions,
};

use super::recognise::{OrderedPlan, recognise};
use super::shared_state::Together;
use super::stream;
use crate::read::scan::Executions;
use crate::resources::Resources;

/// A cooperative scan and the aggregate on it, computed chunk by chunk in the order of the table.
pub(crate) struct OrderedAggregateExec {
    plan: Arc<OrderedPlan>,
    resources: Weak<Resources>,
    executions: Executions<Together>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl OrderedAggregateExec {
    /// The node that replaces an aggregate; `None` if the aggregate cannot be computed in order,
    /// or returns its groups in an order that a node above needs.
    ///
    /// # Errors
    /// If the plan does not fit together: a bug.
    pub(crate) fn of(
        node: &Arc<dyn ExecutionPlan>,
        order_counts: bool,
        resources: &Arc<Resources>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let plan = recognise(node, order_counts, resources)?;
        Ok(plan.map(|plan| Arc::new(Self::new(plan, Arc::downgrade(resources))) as _))
    }

    fn new(plan: OrderedPlan, resources: Weak<Resources>) -> Self {
        let partitions = plan.scan.partitions.len();
        let properties = PlanProperties::new(
            // Groups come in the order of their chunks, which may be any.
            EquivalenceProperties::new(Arc::clone(&plan.grouping.schema)),
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

impl DisplayAs for OrderedAggregateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grouping = &self.plan.grouping;
        let names = grouping.schema.fields().iter().map(|field| field.name());
        let names: Vec<&str> = names.map(String::as_str).collect();
        let (group, aggregates) = names.split_at(grouping.group.len());
        let (group, aggregates) = (group.join(", "), aggregates.join(", "));
        let column = &self.plan.column;
        let how = match self.plan.declared {
            Some(_) => "declared",
            None => "by statistics",
        };
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(
                f,
                "OrderedAggregateExec: order={column} ({how}), gby=[{group}], aggr=[{aggregates}]"
            ),
            DisplayFormatType::TreeRender => {
                writeln!(f, "order={column} ({how})")?;
                writeln!(f, "group_by={group}")?;
                writeln!(f, "aggr={aggregates}")
            }
        }
    }
}

impl fmt::Debug for OrderedAggregateExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedAggregateExec")
            .field("original", &self.plan.original)
            .finish_non_exhaustive()
    }
}

impl ExecutionPlan for OrderedAggregateExec {
    fn name(&self) -> &'static str {
        "OrderedAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.plan.original.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(scan), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("an OrderedAggregateExec has one child");
        };
        // A node that can run only once, such as a repartitioning, is replaced by a fresh copy.
        let original = reset_plan_states(Arc::clone(&self.plan.original))?;
        let original = original.transform_up(|node| {
            Ok(if node.is::<DataSourceExec>() {
                Transformed::yes(Arc::clone(&scan))
            } else {
                Transformed::no(node)
            })
        });
        let original = original.data()?;
        let ordered = match self.resources.upgrade() {
            Some(resources) => Self::of(&original, false, &resources)?,
            None => None,
        };
        // If the new scan is of another kind, the original plan stays.
        Ok(ordered.unwrap_or(original))
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
        self.plan.scan.ensure_devices(&context.runtime_env())?;
        let together = self.executions.open(partition)?;
        Ok(stream::open(together, partition, context, &self.metrics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
