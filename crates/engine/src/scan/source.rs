//! `CScan`: the data source that stands where DataFusion's Parquet scan stood.
//!
//! All planning questions (schema, statistics, orderings, partitioning) are answered by the scan that was replaced; only
//! reading is ours. One plan may be executed several times, one execution after the other: each has an [`Execution`] of
//! its own, which its streams share and keep alive.
//! Not here: when a scan is replaced (`rule.rs`), what an execution does (`execution.rs`, `stream.rs`).

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, exec_datafusion_err};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use parking_lot::Mutex;

use super::execution::Execution;
use super::spec::{Delivery, ScanPlan};
use super::stream;

/// A cooperative scan of Parquet files, as a DataFusion data source.
pub(crate) struct CScanSource {
    /// The scan that was replaced; it answers the planner's questions.
    original: FileScanConfig,
    plan: Arc<ScanPlan>,
    metrics: ExecutionPlanMetricsSet,
}

impl CScanSource {
    pub(crate) fn new(original: FileScanConfig, plan: Arc<ScanPlan>) -> Self {
        Self {
            original,
            plan,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

/// The executions of one plan, one after the other.
struct Executions {
    plan: Arc<ScanPlan>,
    metrics: ExecutionPlanMetricsSet,
    /// The execution of which not all partitions are open yet. Once they are, only its streams keep it, so that the last
    /// one to go ends the scan, however long the plan lives.
    opening: Mutex<Option<Opening>>,
}

struct Opening {
    execution: Arc<Execution>,
    opened: Vec<bool>,
}

impl Executions {
    /// The execution that this partition's stream belongs to.
    ///
    /// # Errors
    /// If the plan is executed while an execution of it has not opened all its partitions: streams of the two could not
    /// be told apart.
    fn open(&self, partition: usize) -> Result<Arc<Execution>> {
        let mut current = self.opening.lock();
        let again = current
            .as_ref()
            .is_some_and(|c| c.opened.get(partition) != Some(&false));
        if let Some(Opening { execution, .. }) = current.as_ref()
            && again
        {
            // The one reference left is ours: no stream of it lives any more.
            if Arc::strong_count(execution) > 1 {
                return Err(exec_datafusion_err!(
                    "a plan with a cooperative scan was executed again while its execution was being started; \
                     reset_plan_states makes a copy that can run beside it"
                ));
            }
            *current = None;
        }
        let opening = current.get_or_insert_with(|| Opening {
            execution: Arc::new(Execution::new(Arc::clone(&self.plan), self.metrics.clone())),
            opened: vec![false; self.plan.partitions.len()],
        });
        if let Some(opened) = opening.opened.get_mut(partition) {
            *opened = true;
        }
        let execution = Arc::clone(&opening.execution);
        if opening.opened.iter().all(|opened| *opened) {
            *current = None;
        }
        Ok(execution)
    }
}

impl DataSource for CScanSource {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let executions = args
            .sibling_state
            .and_then(|state| state.downcast::<Executions>().ok())
            .ok_or_else(|| {
                exec_datafusion_err!("a cooperative scan was opened without its execution's state")
            })?;
        let execution = executions.open(args.partition)?;
        let runtime = args.context.runtime_env();
        self.plan.engine.ensure_device(&self.plan.store, &runtime)?;
        let batch_rows = args.context.session_config().batch_size();
        Ok(stream::open(
            execution,
            args.partition,
            batch_rows,
            &self.metrics,
        ))
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        let policy = plan.settings.policy.name();
        let model = plan.settings.storage_model.name();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(
                    f,
                    "CScan: policy={policy}, model={model}, files={}",
                    plan.files.len()
                )?;
                match plan.delivery {
                    Delivery::Shared => {}
                    Delivery::Partitioned => write!(f, ", delivery=partitioned")?,
                    Delivery::Ordered => write!(f, ", delivery=ordered")?,
                }
                write!(f, ", ")?;
                self.original.fmt_as(t, f)
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "policy={policy}")?;
                writeln!(f, "model={model}")?;
                self.original.fmt_as(t, f)
            }
        }
    }

    fn output_partitioning(&self) -> Partitioning {
        self.original.output_partitioning()
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.original.eq_properties()
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        match (partition, self.plan.delivery) {
            // Which rows a partition will get is decided while it runs.
            (Some(_), Delivery::Shared) => Ok(Arc::new(Statistics::new_unknown(&self.plan.schema))),
            _ => self.original.partition_statistics(partition),
        }
    }

    fn with_fetch(&self, _limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        // Limits are pushed down before the swap, into the original.
        None
    }

    fn fetch(&self) -> Option<usize> {
        self.plan.limit
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(
        &self,
        _: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.original.apply_expressions(f)
    }

    fn create_sibling_state(&self, _: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::new(Executions {
            plan: Arc::clone(&self.plan),
            metrics: self.metrics.clone(),
            opening: Mutex::new(None),
        }))
    }
}

impl fmt::Debug for CScanSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CScanSource")
            .field("original", &self.original)
            .finish_non_exhaustive()
    }
}
