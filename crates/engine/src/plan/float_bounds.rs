//! Which statistics of floating-point columns may DataFusion itself use?
//!
//! DataFusion takes Parquet's bounds, which ignore NaN, for bounds of all values. It answers MIN
//! and MAX from them, takes a column of equal bounds for a constant, orders files by them, and its
//! reader prunes by them. So [`HideFloatBounds`] removes these bounds from a plan ahead of any
//! other rule, and [`guarded`] lets DataFusion's reader prune only by conjuncts for which bounds
//! count (`floats.rs`).
//! Not here: pruning of cooperative scans (`prune/`).
//! N1: DataFusion concludes nothing from a bound of a floating-point column beyond which a NaN may
//! lie. N2: a scan that filters keeps every conjunct that is not a hint: dynamic filters are hints,
//! checked by the operators that made them.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::read::prune::{bounds_that_count, is_float, without_float_bounds};
use crate::read::replace_scans;

/// Hides the bounds of floating-point columns from all rules that follow.
#[derive(Debug)]
pub(crate) struct HideFloatBounds;

impl PhysicalOptimizerRule for HideFloatBounds {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        replace_scans(plan, |scan, _| Ok(without_bounds(scan)))
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

/// The scan that DataFusion's reader may run: it prunes by no bound that does not count. `None` if
/// the given scan may run as it is.
pub(crate) fn guarded(scan: &FileScanConfig, source: &ParquetSource) -> Option<FileScanConfig> {
    let predicate = source.filter()?;
    let schema = source.table_schema().table_schema();
    let counting = bounds_that_count(&predicate, schema);
    if counting.is_empty() {
        return None;
    }
    let by_any = |conjunct: &Arc<dyn PhysicalExpr>| {
        let columns = collect_columns(conjunct);
        let mut ends = columns.iter().filter_map(|c| counting.get(&c.index()));
        ends.all(|ends| ends.both())
    };
    let changes = |conjunct: &Arc<dyn PhysicalExpr>| {
        DynamicFilterTracking::classify(conjunct).contains_dynamic_filter()
    };
    let conjuncts = split_conjunction(&predicate);
    let all_count = conjuncts.iter().all(|conjunct| by_any(conjunct));
    let mut options = source.table_parquet_options().clone();
    // A bloom filter compares bits, but -0 equals 0.
    options.global.bloom_filter_on_read = false;
    let filters = options.global.pushdown_filters;
    if filters && !all_count {
        // Every conjunct without a dynamic filter stays. Dynamic filters prune whatever the options
        // say, so they are dropped.
        options.global.pruning = false;
        options.global.enable_page_index = false;
    }
    let keeps = |conjunct: &&Arc<dyn PhysicalExpr>| {
        let of_floats = || {
            let columns = collect_columns(conjunct);
            columns.iter().any(|c| counting.contains_key(&c.index()))
        };
        if filters {
            // A join's list of keys compares floats by their bits.
            !changes(conjunct) || (all_count && !of_floats())
        } else {
            by_any(conjunct)
        }
    };
    let kept: Vec<_> = conjuncts.into_iter().filter(keeps).cloned().collect();
    let source = source
        .clone()
        .with_table_parquet_options(options)
        .with_predicate(conjunction(kept));
    let source: Arc<dyn FileSource> = Arc::new(source);
    let builder = FileScanConfigBuilder::from(scan.clone());
    Some(builder.with_source(source).build())
}
