//! Is this node a scan of Parquet files, and of all of them? How does a rule replace it?

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;

/// The configuration and the source of a scan of Parquet files; `None` for any other node.
pub(crate) fn parquet_scan(
    node: &Arc<dyn ExecutionPlan>,
) -> Option<(&FileScanConfig, &ParquetSource)> {
    node.downcast_ref::<DataSourceExec>()?
        .downcast_to_file_source::<ParquetSource>()
}

/// The plan with other sources in place of its scans of Parquet files. A scan stays for which
/// `source_for` gives `None`.
///
/// # Errors
/// Those of `source_for`.
pub(crate) fn replace_scans<S: DataSource + 'static>(
    plan: Arc<dyn ExecutionPlan>,
    mut source_for: impl FnMut(&FileScanConfig, &ParquetSource) -> Result<Option<S>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = plan.transform_up(|node| {
        let source = match parquet_scan(&node) {
            Some((scan, source)) => source_for(scan, source)?,
            None => None,
        };
        Ok(match source {
            Some(source) => Transformed::yes(DataSourceExec::from_data_source(source) as _),
            None => Transformed::no(node),
        })
    });
    replaced.data()
}

/// The mark of a scan of some pieces of its files: a key in the options for writing, which reading
/// ignores.
pub(crate) const PART: &str = "coscan.part";

/// Whether a scan may leave out parts of its files.
pub(crate) fn is_part(source: &ParquetSource) -> bool {
    let marks = &source.table_parquet_options().key_value_metadata;
    marks.contains_key(PART)
}
