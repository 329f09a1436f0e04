//! Plain scans: scans of small tables, which are left to DataFusion's own reader.
//!
//! DataFusion's reader opens a file by its path, whatever file is there at that moment, and its
//! error for a damaged page names neither the file nor the place. So its reads are checked
//! (`checked_reader.rs`), and after a failure Coscan's reader reads the same columns a second
//! time: its errors name file, row group and column. A scan that succeeds costs nothing extra. A
//! panic counts as an error. Values with the same meaning get the same form, as in Coscan's reader
//! (`coscan_storage::in_one_form`).
//! Not here: which scans are plain (`plan/swap_scans.rs`), what they tell the planner
//! (`source.rs`).
//! Bounds: at most one second read per stream that failed.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use coscan_storage::{has_other_forms, in_one_form};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{FutureExt, StreamExt, TryStreamExt};

use super::checked_reader::CheckedReaders;
use super::run_time_filters::RunTimeFilters;
use crate::error::{external, storage_error};
use crate::read::scan::partition::stream;
use crate::read::scan::{Delivery, Execution, ScanPlan};
use crate::resources::Resources;
use crate::settings::Settings;

/// The scan with readers that check, and the plan by which Coscan's reader reads the same columns
/// of the same files. `plan/swap_scans.rs` has found that Coscan understands the scan. `None` if
/// the scan does not cover each of its files exactly once.
///
/// # Errors
/// If the projection or an option is invalid.
pub(crate) fn checked(
    resources: &Arc<Resources>,
    settings: &Settings,
    scan: &FileScanConfig,
    source: &ParquetSource,
) -> Result<Option<(FileScanConfig, Arc<ScanPlan>)>> {
    let (resources, settings) = (Arc::clone(resources), settings.clone());
    let (own, own_settings) = (Arc::clone(&resources), settings.clone());
    let plan = ScanPlan::new(own, own_settings, Delivery::Shared, scan, source)?;
    let Some(plan) = plan else {
        return Ok(None);
    };
    let mut builder = FileScanConfigBuilder::from(scan.clone());
    if let Some(readers) = source.parquet_file_reader_factory() {
        let store = scan.object_store_url.clone();
        let readers = CheckedReaders::new(Arc::clone(readers), resources, settings, store);
        let source = source
            .clone()
            .with_parquet_file_reader_factory(Arc::new(readers));
        builder = builder.with_source(Arc::new(source));
    }
    Ok(Some((builder.build(), Arc::new(plan.of_whole_columns()?))))
}

/// The rows of one partition of the scan. After a failure, `plan` reads it a second time.
///
/// # Errors
/// If the scan cannot be opened.
pub(crate) fn open(
    scan: &FileScanConfig,
    plan: &Arc<ScanPlan>,
    args: OpenArgs,
) -> Result<SendableRecordBatchStream> {
    let batch_rows = args.context.session_config().batch_size();
    let rows = scan.open_with_args(args)?;
    let schema = rows.schema();
    let plan = Arc::clone(plan);
    let files = some_names(&plan);
    let rows = AssertUnwindSafe(rows).catch_unwind().map(move |rows| {
        rows.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let text = text.unwrap_or("no message");
            Err(DataFusionError::Execution(format!(
                "{files}: the Parquet reader panicked: {text}"
            )))
        })
    });
    let rows = rows.or_else(move |error| {
        let located = located(Arc::clone(&plan), batch_rows, error);
        located.map(Err).boxed()
    });
    let mut fields = schema.fields().iter();
    let rows = if fields.any(|field| has_other_forms(field.data_type())) {
        rows.map(|batch| one_form(batch?)).boxed()
    } else {
        rows.boxed()
    };
    let rows = match RunTimeFilters::of(scan)? {
        Some(filters) => rows.map(move |batch| filters.rows(batch?)).boxed(),
        None => rows,
    };
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

fn one_form(batch: RecordBatch) -> Result<RecordBatch> {
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let (schema, columns, _) = batch.into_parts();
    let columns = columns.into_iter().map(in_one_form);
    let columns = columns.collect::<Result<_, _>>()?;
    Ok(RecordBatch::try_new_with_options(schema, columns, &rows)?)
}

/// The names of at most [`NAMES_MAX`] of the scan's files, for an error that the second read may
/// not reproduce.
fn some_names(plan: &ScanPlan) -> String {
    let names = plan.files.iter().take(NAMES_MAX).map(|file| {
        let location = &file.object_meta.location;
        location.filename().unwrap_or_default()
    });
    let mut text = names.collect::<Vec<_>>().join(", ");
    if plan.files.len() > NAMES_MAX {
        text.push_str(", …");
    }
    text
}

/// The most files named by an error that comes from one of them.
const NAMES_MAX: usize = 4;

/// The error of a scan, with the place where it failed if the second read finds it.
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
