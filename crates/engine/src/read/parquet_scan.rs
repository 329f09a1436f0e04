//! Is this node a scan of Parquet files?

use std::sync::Arc;

use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

/// The configuration and the source of a scan of Parquet files; `None` for any other node.
pub(crate) fn parquet_scan(
    node: &Arc<dyn ExecutionPlan>,
) -> Option<(&FileScanConfig, &ParquetSource)> {
    node.downcast_ref::<DataSourceExec>()?
        .downcast_to_file_source::<ParquetSource>()
}
