//! How does EXPLAIN ANALYZE show what nodes did?
//!
//! When a task has ended, its node sends its plan as text, with the metrics of every operator: the
//! plan as it was there, after the scans became cooperative. It comes beside the library's own
//! metrics, as a label of the root's ([`SentErrors`](super::errors::SentErrors)); the
//! library would put these at the nodes of the plan as it was sent.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{Count, Label, Metric, MetricValue, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_distributed::{DistributedExec, TaskKey, TaskMetrics, display_plan_ascii};
use futures::StreamExt;
use parking_lot::Mutex;

/// The label whose value is a task's plan.
const PLAN: &str = "coscan_plan";

/// The plans of a query's tasks, by stage and task: the node, and the text.
#[derive(Debug, Default)]
pub(super) struct TaskPlans(Mutex<BTreeMap<(usize, usize), (String, String)>>);

impl TaskPlans {
    /// Takes the plan of a task out of what its node has sent.
    pub(super) fn take(&self, key: TaskKey, node: &str, metrics: &TaskMetrics) {
        let sets = metrics.pre_order_plan_metrics.iter();
        let labels = sets.flat_map(MetricsSet::iter).flat_map(|m| m.labels());
        for label in labels.filter(|label| label.name() == PLAN) {
            let (node, text) = (node.to_owned(), label.value().to_owned());
            let place = (key.stage_id, key.task_number);
            self.0.lock().insert(place, (node, text));
        }
    }

    fn shown(&self) -> String {
        let mut shown = String::new();
        for ((stage, task), (node, text)) in &*self.0.lock() {
            // Writing to a String cannot fail.
            let _ = write!(shown, "\nStage {stage}, task {task} on {node}:\n{text}");
        }
        shown
    }
}

/// A plan with what it has counted, as a metric that travels.
pub(super) fn as_metrics(plan: &dyn ExecutionPlan) -> MetricsSet {
    let text = DisplayableExecutionPlan::with_metrics(plan);
    let text = text.indent(false).to_string();
    let value = MetricValue::Count {
        name: PLAN.into(),
        count: Count::new(),
    };
    let metric = Metric::new_with_labels(value, None, vec![Label::new(PLAN, text)]);
    let mut set = MetricsSet::new();
    set.push(Arc::new(metric));
    set
}

/// Runs a divided plan, and returns it as text, and those of its tasks.
#[derive(Debug)]
pub(super) struct AnalyzeOnNodesExec {
    plan: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl AnalyzeOnNodesExec {
    /// `None` if the plan is not divided. `schema`: that of EXPLAIN's rows.
    pub(super) fn new(plan: &Arc<dyn ExecutionPlan>, schema: SchemaRef) -> Option<Self> {
        if !plan.is::<DistributedExec>() {
            return None;
        }
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Some(Self {
            plan: Arc::clone(plan),
            properties: Arc::new(properties),
        })
    }
}

impl DisplayAs for AnalyzeOnNodesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for AnalyzeOnNodesExec {
    fn name(&self) -> &'static str {
        "AnalyzeOnNodesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let plans = Arc::<TaskPlans>::default();
        let context = collecting(&context, Arc::clone(&plans))?;
        let mut rows = self.plan.execute(0, context)?;
        let (plan, schema) = (Arc::clone(&self.plan), self.schema());
        let analyzed = async move {
            while let Some(batch) = rows.next().await {
                batch?;
            }
            // The rows end when all nodes have sent what they had to send.
            let text = display_plan_ascii(plan.as_ref(), false) + &plans.shown();
            let columns = [vec!["Plan with Metrics".to_owned()], vec![text]];
            let columns = columns.map(|column| Arc::new(StringArray::from(column)) as _);
            Ok(RecordBatch::try_new(schema, columns.into())?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            futures::stream::once(analyzed),
        )))
    }
}

/// The context of a query whose tasks send their plans to `plans`.
fn collecting(context: &TaskContext, plans: Arc<TaskPlans>) -> Result<Arc<TaskContext>> {
    let mut config = context.session_config().clone().with_extension(plans);
    let options = config.options_mut();
    options.set("distributed.collect_metrics", "true")?;
    Ok::<_, DataFusionError>(Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    )))
}
