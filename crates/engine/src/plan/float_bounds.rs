//! Which statistics of floating-point columns may DataFusion itself use?
//!
//! DataFusion takes Parquet's bounds, which ignore NaN, for bounds of all values. It answers MIN
//! and MAX from them, takes a column of equal bounds for a constant, and orders files by them. So
//! [`HideFloatBounds`] removes these bounds from a plan ahead of any other rule.
//! Not here: pruning by cooperative scans (`prune/`), and by DataFusion's reader
//! (`read/adapted.rs`).
//! N1: DataFusion concludes nothing from a bound of a floating-point column beyond which a NaN may
//! lie.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::read::parquet_scan;
use crate::read::prune::{is_float, without_float_bounds};

/// Hides the bounds of floating-point columns from all rules that follow.
#[derive(Debug)]
pub(crate) struct HideFloatBounds;

impl PhysicalOptimizerRule for HideFloatBounds {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let hidden = plan.transform_up(|node| {
            let without = parquet_scan(&node).and_then(|(scan, _)| without_bounds(scan));
            Ok(match without {
                Some(scan) => Transformed::yes(DataSourceExec::from_data_source(scan) as _),
                None => Transformed::no(node),
            })
        })?;
        Ok(hidden.data)
    }

    fn name(&self) -> &'static str {
        "CoscanHideFloatBounds"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan without bounds of floating-point columns; `None` if it has none.
fn without_bounds(scan: &FileScanConfig) -> Option<FileScanConfig> {
    let schema = scan.file_source().table_schema().file_schema();
    if !schema
        .fields()
        .iter()
        .any(|field| is_float(field.data_type()))
    {
        return None;
    }
    let of_table = scan.statistics();
    let table = without_float_bounds(&of_table, schema);
    let files = || scan.file_groups.iter().flat_map(FileGroup::iter);
    let in_files = files().any(|file| {
        let statistics = file.statistics.as_deref();
        statistics.is_some_and(|statistics| without_float_bounds(statistics, schema).is_some())
    });
    let in_groups = scan.file_groups.iter().any(|group| {
        let statistics = group.file_statistics(None);
        statistics.is_some_and(|statistics| without_float_bounds(statistics, schema).is_some())
    });
    if table.is_none() && !in_files && !in_groups {
        return None;
    }
    let mut builder = FileScanConfigBuilder::from(scan.clone());
    if in_files || in_groups {
        let groups = scan.file_groups.iter().map(|group| {
            let files = group.iter().cloned().map(|mut file| {
                let statistics = file.statistics.as_deref();
                let hidden =
                    statistics.and_then(|statistics| without_float_bounds(statistics, schema));
                if let Some(hidden) = hidden {
                    file.statistics = Some(Arc::new(hidden));
                }
                file
            });
            let rebuilt = FileGroup::new(files.collect());
            match group.file_statistics(None) {
                Some(statistics) => {
                    let hidden = without_float_bounds(statistics, schema);
                    let statistics = hidden.unwrap_or_else(|| statistics.clone());
                    rebuilt.with_statistics(Arc::new(statistics))
                }
                None => rebuilt,
            }
        });
        builder = builder.with_file_groups(groups.collect());
    }
    Some(builder.with_statistics(table.unwrap_or(of_table)).build())
}
