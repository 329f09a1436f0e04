//! Is this node a scan of Parquet files, and of all of them?

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

/// The mark of a scan of some pieces of its files: a key in the options for writing, which reading
/// ignores.
pub(crate) const PART: &str = "coscan.part";

/// Whether a scan may leave out parts of its files.
pub(crate) fn is_part(source: &ParquetSource) -> bool {
    let marks = &source.table_parquet_options().key_value_metadata;
    marks.contains_key(PART)
}
