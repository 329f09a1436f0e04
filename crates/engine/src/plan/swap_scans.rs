//! Which scans become cooperative?
//!
//! Two rules. [`MarkScans`] runs first: it marks the Parquet scans that will be replaced, and has
//! every conjunct that the Parquet reader could evaluate pushed down into them, because our scan
//! evaluates conjuncts exactly, proves some of them by statistics, and decodes a column only where
//! an earlier conjunct left something. Scans that are not marked (small tables, cooperative scans
//! switched off, anything not understood) are planned as by stock DataFusion, with the filter above
//! them. [`SwapScans`] runs last and replaces the marked scans by [`CScanSource`], in order where
//! an operator counts on a promised order. Scans of small tables stay DataFusion's, within a source
//! whose errors say where they failed.
//!
//! The mark is a key in the scan's write options, which reading ignores: it survives whatever
//! planning does to the scan. A marked scan that is not replaced is still a correct DataFusion
//! scan, which filters exactly too.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use arrow::datatypes::FieldRef;
use coscan_storage::INTERVAL;
use datafusion::common::config::ConfigOptions;
use datafusion::common::not_impl_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::physical_plan::parquet::{ParquetAccessPlan, ParquetRowSelection};
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::error::Result;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

use super::float_bounds::guarded;
use super::{interesting_orders, needless_orders};
use crate::cscan::{CScanSource, plain};
use crate::probe::{ProbeSidePlan, SmoothPlan};
use crate::read::scan::{Delivery, ScanPlan, files_of};
use crate::read::{is_part, parquet_scan, replace_scans};
use crate::resources::Resources;
use crate::settings::Settings;
use crate::tables::metadata::UNREADABLE;

/// Marks the scans that are to be cooperative, before anything is pushed down.
#[derive(Debug)]
pub(crate) struct MarkScans;

/// Replaces marked scans, after everything else.
#[derive(Debug)]
pub(crate) struct SwapScans {
    resources: Weak<Resources>,
}

/// The mark: a key in `TableParquetOptions::key_value_metadata`.
pub(crate) const MARK: &str = "coscan.cooperative";
/// The mark's value where no sort of the statement is above the scan, or only above an aggregate
/// whose groups come in no order.
const IN_ANY_ORDER: &str = "in any order";
/// Bytes of a string in an array, beside its letters, and of a value of unknown width.
const VIEW_WIDTH: usize = 16;

impl PhysicalOptimizerRule for MarkScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(settings) = config.extensions.get::<Settings>() else {
            return Ok(plan);
        };
        if !settings.cooperative {
            return Ok(plan);
        }
        marked(&plan, settings, false)
    }

    fn name(&self) -> &'static str {
        "CoscanMarkScans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with marked scans. `sorted`: the statement sorts the plan's rows. The plan is as
/// DataFusion made it, before any sort has turned out to be needless.
fn marked(
    node: &Arc<dyn ExecutionPlan>,
    settings: &Settings,
    sorted: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some((scan, source)) = parquet_scan(node) {
        let is_large = || needed_bytes(scan, source) > settings.small_table_bytes;
        let is_ours = || has_intervals(source) || is_large();
        return Ok(if understood(scan, source) && is_ours() {
            mark(scan, source, sorted)
        } else {
            Arc::clone(node)
        });
    }
    let before = node.children();
    if before.is_empty() {
        return Ok(Arc::clone(node));
    }
    let sorted = node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || sorted && !(node.is::<AggregateExec>() && node.maintains_input_order() == [false]);
    let children = before
        .into_iter()
        .map(|child| marked(child, settings, sorted))
        .collect::<Result<_>>()?;
    replace_children_if_necessary(Arc::clone(node), children)
}

impl SwapScans {
    pub(crate) fn new(resources: Weak<Resources>) -> Self {
        Self { resources }
    }
}

impl PhysicalOptimizerRule for SwapScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(settings) = config.extensions.get::<Settings>() else {
            return Ok(plan);
        };
        let Some(resources) = self.resources.upgrade() else {
            return Ok(plan);
        };
        refuse_unreadable(&plan)?;
        let plan = needless_orders::forget(&plan, false, is_free)?;
        let mut by_index = false;
        let mut plan = replace_scans(plan, |scan, source| {
            if !is_marked(source) || !understood(scan, source) {
                return Ok(None);
            }
            let swapped = swap(&resources, settings, scan, source)?;
            by_index |= swapped.as_ref().is_some_and(CScanSource::is_by_index);
            Ok(swapped)
        })?;
        if by_index {
            // Scans by an index can return rows in the index's order, which makes some sorts
            // needless.
            plan = interesting_orders::push_down(plan, config)?;
        }
        let left = plan.transform_up(|node| {
            let guarded = parquet_scan(&node).and_then(|(scan, source)| guarded(scan, source));
            let node = match guarded {
                Some(scan) => Transformed::yes(DataSourceExec::from_data_source(scan) as _),
                None => Transformed::no(node),
            };
            let unread = parquet_scan(&node.data).is_some_and(|(_, source)| has_intervals(source));
            if unread {
                return not_impl_err!(
                    "intervals in Parquet files are read by cooperative scans only"
                );
            }
            if !settings.cooperative {
                return Ok(node);
            }
            Ok(
                match left_to_datafusion(&resources, settings, &node.data)? {
                    Some(source) => Transformed::yes(DataSourceExec::from_data_source(source)),
                    None => node,
                },
            )
        })?;
        Ok(left.data)
    }

    fn name(&self) -> &'static str {
        "CoscanSwapScans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A Parquet scan that was not replaced, with errors that name the place; `None` if the scan is not
/// understood.
fn left_to_datafusion(
    resources: &Arc<Resources>,
    settings: &Settings,
    node: &Arc<dyn ExecutionPlan>,
) -> Result<Option<CScanSource>> {
    let Some((scan, source)) = parquet_scan(node).filter(|(scan, source)| understood(scan, source))
    else {
        return Ok(None);
    };
    let checked = plain::checked(resources, settings, scan, source)?;
    Ok(checked.map(|(scan, again)| CScanSource::plain(scan, again)))
}

/// Refuses scans that project or filter by a column that cannot be read.
fn refuse_unreadable(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    plan.apply(|node| {
        let Some((_, source)) = parquet_scan(node) else {
            return Ok(TreeNodeRecursion::Continue);
        };
        let fields = source.table_schema().table_schema().fields();
        let marked = |field: &FieldRef| field.metadata().contains_key(UNREADABLE);
        if fields.iter().any(marked) {
            for column in needed_columns(source) {
                if fields.get(column).is_some_and(marked) {
                    let name = fields[column].name();
                    return not_impl_err!("column {name:?} has a type that is not supported");
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The positions of the columns that a scan projects or filters by.
fn needed_columns(source: &ParquetSource) -> BTreeSet<usize> {
    let projected = source
        .projection()
        .into_iter()
        .flat_map(ProjectionExprs::iter);
    let filter = source.filter();
    let exprs = projected
        .map(|projected| &projected.expr)
        .chain(filter.iter());
    let columns = exprs.flat_map(collect_columns);
    columns.map(|column| column.index()).collect()
}

/// Whether a table has intervals, of which DataFusion's reader drops the months.
fn has_intervals(source: &ParquetSource) -> bool {
    let fields = source.table_schema().file_schema().fields();
    fields.iter().any(|field| *field.data_type() == INTERVAL)
}

/// Whether our reader does all that a scan asks for.
fn understood(scan: &FileScanConfig, source: &ParquetSource) -> bool {
    let files = || scan.file_groups.iter().flat_map(FileGroup::iter);
    let selects_rows = files().any(|file| {
        file.extensions.contains::<ParquetAccessPlan>()
            || file.extensions.contains::<ParquetRowSelection>()
    });
    let crypto = &source.table_parquet_options().crypto;
    let encrypted = crypto.file_decryption.is_some() || crypto.factory_id.is_some();
    let names = source.table_schema().file_schema().fields();
    // Columns are identified by their names.
    let mut distinct: Vec<&str> = names.iter().map(|field| field.name().as_str()).collect();
    distinct.sort_unstable();
    distinct.dedup();
    scan.file_compression_type == FileCompressionType::UNCOMPRESSED
        && source.table_schema().virtual_columns().is_empty()
        && distinct.len() == names.len()
        && !selects_rows
        && !encrypted
        && files_of(scan, is_part(source)).is_some_and(|(files, _)| !files.is_empty())
}

/// About how many bytes the columns take that a scan projects or filters by: in its files or as
/// arrays, whichever is more. Files may be ten times smaller than their arrays.
pub(crate) fn needed_bytes(scan: &FileScanConfig, source: &ParquetSource) -> u64 {
    let files = scan.file_groups.iter().flat_map(FileGroup::iter);
    let file_bytes: u64 = files
        .map(datafusion::datasource::listing::PartitionedFile::effective_size)
        .sum();
    let fields = source.table_schema().file_schema().fields();
    let columns = fields.len();
    let needed_columns = needed_columns(source);
    let statistics = scan.statistics();
    let rows = statistics.num_rows.get_value();
    let views = rows.map_or(1, |rows| rows.saturating_mul(VIEW_WIDTH));
    let array_bytes = |column: usize| -> u64 {
        let known = statistics.column_statistics.get(column);
        let known = known.and_then(|column| column.byte_size.get_value().copied());
        let is_text = fields[column].data_type().is_string();
        let bytes = match known {
            Some(known) if is_text => known.max(views),
            known => known.unwrap_or(views),
        };
        bytes as u64
    };
    let all: u64 = (0..columns).map(array_bytes).sum();
    let part: u64 = (0..columns)
        .filter(|column| needed_columns.contains(column))
        .map(array_bytes)
        .sum();
    if all == 0 {
        return file_bytes;
    }
    let share = u128::from(file_bytes) * u128::from(part) / u128::from(all);
    let arrays = if rows.is_some() { part } else { 0 };
    u64::try_from(share).unwrap_or(file_bytes).max(arrays)
}

fn is_marked(source: &ParquetSource) -> bool {
    source
        .table_parquet_options()
        .key_value_metadata
        .contains_key(MARK)
}

/// Whether a scan is marked, and no sort of the statement may count on its order.
fn is_free(source: &ParquetSource) -> bool {
    let marks = &source.table_parquet_options().key_value_metadata;
    matches!(marks.get(MARK), Some(Some(how)) if how == IN_ANY_ORDER)
}

fn mark(scan: &FileScanConfig, source: &ParquetSource, sorted: bool) -> Arc<dyn ExecutionPlan> {
    let mut options = source.table_parquet_options().clone();
    let how = (!sorted).then(|| IN_ANY_ORDER.to_owned());
    options.key_value_metadata.insert(MARK.to_owned(), how);
    options.global.pushdown_filters = true;
    let source: Arc<dyn FileSource> = Arc::new(source.clone().with_table_parquet_options(options));
    let scan = FileScanConfigBuilder::from(scan.clone())
        .with_source(source)
        .build();
    DataSourceExec::from_data_source(scan)
}

fn swap(
    resources: &Arc<Resources>,
    settings: &Settings,
    scan: &FileScanConfig,
    source: &ParquetSource,
) -> Result<Option<CScanSource>> {
    let promised = scan.eq_properties();
    let delivery = if scan.preserve_order || promised.output_ordering().is_some() {
        Delivery::Ordered
    } else if scan.output_partitioning.is_some() {
        Delivery::Partitioned
    } else {
        Delivery::Shared
    };
    let plan = ScanPlan::new(
        Arc::clone(resources),
        settings.clone(),
        delivery,
        scan,
        source,
    )?;
    Ok(plan.map(|plan| {
        if plan.is_part {
            // An index is of all files of its table.
            return CScanSource::new(scan.clone(), Arc::new(plan));
        }
        if let Some(smooth) = SmoothPlan::choose(&plan) {
            return CScanSource::by_index(scan.clone(), Arc::new(smooth));
        }
        match ProbeSidePlan::choose(&plan) {
            Some(probe_side) => CScanSource::probe_side(scan.clone(), Arc::new(probe_side)),
            None => CScanSource::new(scan.clone(), Arc::new(plan)),
        }
    }))
}
