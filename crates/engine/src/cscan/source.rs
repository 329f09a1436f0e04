//! `CScan`: the data source that replaces DataFusion's Parquet scan.
//!
//! The replaced scan answers all planning questions (schema, statistics, orderings, partitioning).
//! Coscan only does the reading, and for small tables not even that (`plain.rs`). A plan may be
//! executed several times, one execution after the other: each has its own [`Execution`], which
//! its streams share and keep alive (`read/scan/executions.rs`).
//! Not here: when a scan is replaced (`plan/swap_scans.rs`), what an execution does (`read/scan/`,
//! `probe/`).

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};

use super::plain;
use crate::probe::{self, ProbeSideExecution, ProbeSidePlan, SmoothExecution, SmoothPlan};
use crate::read::scan::partition::stream;
use crate::read::scan::{Delivery, Execution, Executions, ScanPlan};

/// A DataFusion data source: a cooperative scan of Parquet files, an index scan, or DataFusion's
/// own scan with errors that name the place.
pub(crate) struct CScanSource {
    /// The scan that was replaced; it answers the planner's questions.
    original: FileScanConfig,
    reads: Reads,
    metrics: ExecutionPlanMetricsSet,
}

/// How the rows are read.
#[derive(Clone)]
enum Reads {
    Whole(Arc<ScanPlan>),
    ByIndex(Arc<SmoothPlan>),
    /// Whole or by an index, decided at run time by the keys that a join's build side passes on.
    ProbeSide(Arc<ProbeSidePlan>),
    /// By DataFusion's reader; this plan reads a second time after a failure.
    Plain(Arc<ScanPlan>),
}

impl CScanSource {
    /// A full scan.
    pub(crate) fn new(original: FileScanConfig, plan: Arc<ScanPlan>) -> Self {
        Self::with(original, Reads::Whole(plan))
    }

    /// A scan by an index, over the files that it covers.
    pub(crate) fn by_index(original: FileScanConfig, plan: Arc<SmoothPlan>) -> Self {
        Self::with(original, Reads::ByIndex(plan))
    }

    /// A scan on the probe side of a join.
    pub(crate) fn probe_side(original: FileScanConfig, plan: Arc<ProbeSidePlan>) -> Self {
        Self::with(original, Reads::ProbeSide(plan))
    }

    /// A scan that [`plain::checked`] prepared.
    pub(crate) fn plain(checked: FileScanConfig, again: Arc<ScanPlan>) -> Self {
        Self {
            metrics: checked.metrics(),
            ..Self::with(checked, Reads::Plain(again))
        }
    }

    fn with(original: FileScanConfig, reads: Reads) -> Self {
        Self {
            original,
            reads,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The plan, if this is a full scan of the chunks that statistics do not exclude.
    pub(crate) fn whole(&self) -> Option<&Arc<ScanPlan>> {
        match &self.reads {
            Reads::Whole(plan) => Some(plan),
            _ => None,
        }
    }

    /// The scan that was replaced.
    pub(crate) fn parquet(&self) -> Option<(&FileScanConfig, &ParquetSource)> {
        let source = self.original.file_source();
        Some((
            &self.original,
            source.as_ref().downcast_ref::<ParquetSource>()?,
        ))
    }

    /// The order of the rows, as far as it differs between scans of the same table.
    pub(crate) fn order_of_rows(&self) -> String {
        match &self.reads {
            Reads::Whole(plan) | Reads::Plain(plan) => format!("{:?}", plan.delivery),
            Reads::ProbeSide(plan) => format!("{:?}", plan.whole.delivery),
            Reads::ByIndex(plan) => format!("{:?} {:?}", plan.ordered_by, plan.limit),
        }
    }

    pub(crate) fn is_by_index(&self) -> bool {
        matches!(self.reads, Reads::ByIndex(_))
    }

    /// The plan of the full scan; for an index scan, over the files that the index covers.
    fn plan(&self) -> &ScanPlan {
        match &self.reads {
            Reads::Whole(plan) | Reads::Plain(plan) => plan,
            Reads::ByIndex(plan) => &plan.covered,
            Reads::ProbeSide(plan) => &plan.whole,
        }
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
        let runtime = args.context.runtime_env();
        let plan = self.plan();
        plan.ensure_devices(&runtime)?;
        match &self.reads {
            Reads::Whole(_) => {
                let execution = Executions::<Execution>::of(&args)?;
                let batch_rows = args.context.session_config().batch_size();
                Ok(stream::open(
                    execution,
                    args.partition,
                    batch_rows,
                    &self.metrics,
                ))
            }
            Reads::ByIndex(_) => {
                let execution = Executions::<SmoothExecution>::of(&args)?;
                Ok(probe::open(
                    execution,
                    args.partition,
                    &args.context,
                    &self.metrics,
                ))
            }
            Reads::ProbeSide(_) => {
                let execution = Executions::<ProbeSideExecution>::of(&args)?;
                Ok(probe::open_probe_side(
                    execution,
                    args.partition,
                    &args.context,
                    &self.metrics,
                ))
            }
            Reads::Plain(again) => plain::open(&self.original, again, args),
        }
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (how, then): (&dyn fmt::Display, _) = match &self.reads {
            Reads::Plain(_) => return self.original.fmt_as(t, f),
            Reads::Whole(_) => (&"CScan", ":"),
            Reads::ByIndex(smooth) => (smooth, ","),
            Reads::ProbeSide(plan) => (plan, ","),
        };
        let plan = self.plan();
        let policy = plan.settings.policy.name();
        let model = plan.settings.storage_model.name();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let files = plan.files.len();
                write!(
                    f,
                    "{how}{then} policy={policy}, model={model}, files={files}"
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
                if let Reads::ByIndex(smooth) = &self.reads {
                    writeln!(f, "{smooth}")?;
                }
                writeln!(f, "policy={policy}")?;
                writeln!(f, "model={model}")?;
                self.original.fmt_as(t, f)
            }
        }
    }

    fn output_partitioning(&self) -> Partitioning {
        match &self.reads {
            Reads::ByIndex(plan) if plan.ordered_by.is_some() => {
                Partitioning::UnknownPartitioning(1)
            }
            _ => self.original.output_partitioning(),
        }
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        let mut properties = self.original.eq_properties();
        if let Reads::ByIndex(plan) = &self.reads {
            properties.add_orderings(plan.ordering());
        }
        properties
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        match (partition, self.plan().delivery) {
            _ if matches!(self.reads, Reads::Plain(_)) => {
                self.original.partition_statistics(partition)
            }
            // Which rows a partition returns is decided at run time.
            (Some(_), Delivery::Shared) => {
                Ok(Arc::new(Statistics::new_unknown(&self.plan().schema)))
            }
            _ => self.original.partition_statistics(partition),
        }
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        match &self.reads {
            // Limits are pushed down into the original before the swap.
            Reads::Whole(_) | Reads::ProbeSide(_) | Reads::Plain(_) => None,
            // A limit above a sort is pushed down later, when the sort turns out to be
            // unnecessary.
            Reads::ByIndex(plan) => {
                let plan = SmoothPlan {
                    limit: limit.into_iter().chain(plan.limit).min(),
                    ..SmoothPlan::clone(plan)
                };
                Some(Arc::new(Self::by_index(
                    self.original.clone(),
                    Arc::new(plan),
                )))
            }
        }
    }

    fn fetch(&self) -> Option<usize> {
        match &self.reads {
            Reads::ByIndex(plan) => plan.limit,
            Reads::Whole(_) | Reads::ProbeSide(_) | Reads::Plain(_) => self.original.fetch(),
        }
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn DataSource>>> {
        let Reads::ByIndex(plan) = &self.reads else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        Ok(match plan.in_order(order) {
            Some(ordered) => SortOrderPushdownResult::Exact {
                inner: Arc::new(Self::by_index(self.original.clone(), Arc::new(ordered))),
            },
            None => SortOrderPushdownResult::Unsupported,
        })
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

    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        let metrics = self.metrics.clone();
        Some(match &self.reads {
            Reads::Plain(_) => return self.original.create_sibling_state(config),
            Reads::Whole(plan) => {
                let plan = Arc::clone(plan);
                let make = move || Execution::new(Arc::clone(&plan), metrics.clone());
                Arc::new(Executions::new(self.plan().partitions.len(), make))
            }
            Reads::ByIndex(plan) => {
                let (partitions, plan) = (plan.partitions(), Arc::clone(plan));
                let make = move || SmoothExecution::new(Arc::clone(&plan), metrics.clone());
                Arc::new(Executions::new(partitions, make))
            }
            Reads::ProbeSide(plan) => {
                let plan = Arc::clone(plan);
                let make = move || ProbeSideExecution::new(Arc::clone(&plan), metrics.clone());
                Arc::new(Executions::new(self.plan().partitions.len(), make))
            }
        })
    }
}

impl fmt::Debug for CScanSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CScanSource")
            .field("original", &self.original)
            .finish_non_exhaustive()
    }
}
