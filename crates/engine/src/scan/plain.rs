//! Plain scans: those of small tables, which are left to DataFusion's own reader.
//!
//! It reads a file by its path, whatever is there by now, and says of a damaged page neither the file nor the place. So what it reads is
//! checked (`checked_reader.rs`), and a scan that failed is looked into: the columns it reads are read once more by our own
//! reader, whose errors name file, row group and column. A scan that succeeds pays nothing for that.
//! Not here: which scans are plain (`rule.rs`).
//! Bounds: at most one second read per stream that failed.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{FutureExt, StreamExt, TryStreamExt};

use super::checked_reader::CheckedReaders;
use super::execution::Execution;
use super::spec::{Delivery, ScanPlan};
use super::stream;
use crate::engine::Engine;
use crate::error::{external, storage_error};
use crate::settings::Settings;

/// DataFusion's scan of Parquet files, with errors that say where.
pub(crate) struct PlainSource {
    /// The scan, with readers that check.
    scan: FileScanConfig,
    /// The same columns of the same files, read by us.
    again: Arc<ScanPlan>,
}

impl PlainSource {
    /// The scan that `rule.rs` found to be understood. `None` if its files are not each covered exactly once.
    ///
    /// # Errors
    /// If the projection or an option is invalid.
    pub(crate) fn new(
        engine: &Engine,
        settings: &Settings,
        scan: &FileScanConfig,
        source: &ParquetSource,
    ) -> Result<Option<Self>> {
        let (engine, settings) = (engine.clone(), settings.clone());
        let plan = ScanPlan::new(engine.clone(), settings, Delivery::Shared, scan, source)?;
        let Some(plan) = plan else {
            return Ok(None);
        };
        let mut builder = FileScanConfigBuilder::from(scan.clone());
        if let Some(readers) = source.parquet_file_reader_factory() {
            let store = scan.object_store_url.clone();
            let readers = CheckedReaders::new(Arc::clone(readers), engine, store);
            let source = source
                .clone()
                .with_parquet_file_reader_factory(Arc::new(readers));
            builder = builder.with_source(Arc::new(source));
        }
        Ok(Some(Self {
            scan: builder.build(),
            again: Arc::new(plan.of_whole_columns()?),
        }))
    }
}

/// The error of a scan, with the place where it failed if reading again finds it.
async fn located(
    plan: Arc<ScanPlan>,
    batch_rows: usize,
    error: DataFusionError,
) -> DataFusionError {
    if let Some(known) = storage_error(&error) {
        return external(known.clone());
    }
    if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) {
        return error;
    }
    let metrics = ExecutionPlanMetricsSet::new();
    let execution = Arc::new(Execution::new(plan, metrics.clone()));
    let mut rows = stream::open(execution, 0, batch_rows, &metrics);
    while let Some(batch) = rows.next().await {
        if let Err(again) = batch {
            return storage_error(&again).cloned().map_or(error, external);
        }
    }
    error
}

impl DataSource for PlainSource {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let runtime = args.context.runtime_env();
        self.again
            .engine
            .ensure_device(&self.again.store, &runtime)?;
        let batch_rows = args.context.session_config().batch_size();
        let rows = self.scan.open_with_args(args)?;
        let schema = rows.schema();
        let plan = Arc::clone(&self.again);
        let rows = rows.or_else(move |error| {
            let located = located(Arc::clone(&plan), batch_rows, error);
            located.map(Err).boxed()
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scan.fmt_as(t, f)
    }

    fn output_partitioning(&self) -> Partitioning {
        self.scan.output_partitioning()
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.scan.eq_properties()
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.scan.scheduling_type()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.scan.partition_statistics(partition)
    }

    fn with_fetch(&self, _: Option<usize>) -> Option<Arc<dyn DataSource>> {
        None // Pushed down before, into the scan.
    }

    fn fetch(&self) -> Option<usize> {
        self.scan.fetch()
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.scan.metrics()
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
        self.scan.apply_expressions(f)
    }

    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        self.scan.create_sibling_state(config)
    }
}

impl fmt::Debug for PlainSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainSource")
            .field("scan", &self.scan)
            .finish_non_exhaustive()
    }
}
