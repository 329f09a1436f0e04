//! Which aggregates can be computed in the order of their table?
//!
//! Aggregates over a cooperative scan that are grouped by a key column with many values, by which
//! the table is in order: the footers prove that its row groups are in sequence, or its order is
//! declared. Groups by further columns are separated within each value of the key. If the key has
//! few values, there are few groups or long runs, and a fragment (`fragment/`) is faster.
//! Not here: whether the chunks that remain when the files are open are in sequence
//! (`shared_state.rs`), what the surrounding plan needs (`order_aggregates.rs`).
//! Not ordered: grouping sets, aggregates that depend on an order, limits within the aggregate,
//! and aggregates that must return their groups in order, which an ordered scan provides.
//! Bounds: O(row groups) for each grouping column; reads nothing, so footers that are not in
//! memory are unknown.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::udaf::AggregateFunctionExpr;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, InputOrderMode, Partitioning,
};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::sequence::{Declared, DeclaredOf, Found, sequence};
use crate::cscan::CScanSource;
use crate::fragment::{FragmentExec, OverScan, PlannedAggregate, merge_of, over_scan};
use crate::read::prune::column_bounds::{self, ColumnBounds};
use crate::read::prune::ordered;
use crate::read::scan::{Delivery, ScanPlan};
use crate::resources::Resources;

/// An aggregate that can be computed in the order of its table.
#[derive(Clone)]
pub(super) struct OrderedPlan {
    pub(super) grouping: Arc<Grouping>,
    /// The column by which the table is in order.
    pub(super) column: Arc<str>,
    /// The position of the column in the scan's output.
    pub(super) at: usize,
    /// The declared order, if there is one.
    pub(super) declared: Option<Declared>,
    /// The scan, in shared delivery.
    pub(super) scan: Arc<ScanPlan>,
    pub(super) scan_metrics: ExecutionPlanMetricsSet,
    /// The scan, as it is in the original plan.
    pub(super) input: Arc<dyn ExecutionPlan>,
    /// The original plan, which returns the same rows.
    pub(super) original: Arc<dyn ExecutionPlan>,
}

/// How rows are grouped and aggregated.
pub(super) struct Grouping {
    /// The grouping expressions, over the scan's output.
    pub(super) group: Vec<Arc<dyn PhysicalExpr>>,
    /// The position in `group` of the column by which the table is in order.
    pub(super) key: usize,
    pub(super) aggregates: Arc<[PlannedAggregate]>,
    /// The schema of the groups: the grouping columns, then the aggregates.
    pub(super) schema: SchemaRef,
}

/// The aggregate with `node` at its top, if it can be computed in order. `order_counts`: a node
/// above needs the order of the groups, if `node` returns them in one.
///
/// # Errors
/// If the plan does not fit together: a bug.
pub(super) fn recognise(
    node: &Arc<dyn ExecutionPlan>,
    order_counts: bool,
    resources: &Resources,
) -> Result<Option<OrderedPlan>> {
    let Some((top, over_rows)) = aggregate(node, order_counts) else {
        return Ok(None);
    };
    let over = over_scan(&over_rows)?;
    let Some((plan, source)) = whole_scan(&over.input) else {
        return Ok(None);
    };
    let Some((config, _)) = source.parquet() else {
        return Ok(None);
    };
    let Some(key) = key(&over, plan, config, resources) else {
        return Ok(None);
    };
    // In the plan, a partition is a file group. That has no meaning if every partition takes
    // whichever chunk comes next.
    let partitions = node.output_partitioning().partition_count();
    let partitions = partitions.max(plan.partitions.len());
    let scan = ScanPlan {
        delivery: Delivery::Shared,
        partitions: vec![Vec::new(); partitions],
        ..ScanPlan::clone(plan)
    };
    Ok(Some(OrderedPlan {
        column: key.column.into(),
        at: key.at,
        declared: key.declared,
        scan: Arc::new(scan),
        scan_metrics: source.metrics(),
        input: Arc::clone(&over.input),
        original: Arc::clone(node),
        grouping: Arc::new(Grouping {
            group: over.group,
            key: key.group,
            aggregates: over.aggregates.into(),
            schema: top.schema(),
        }),
    }))
}

/// The aggregate that returns values, and the one over raw rows; they may be the same.
fn aggregate(
    node: &Arc<dyn ExecutionPlan>,
    order_counts: bool,
) -> Option<(&AggregateExec, AggregateExec)> {
    let top = node.downcast_ref::<AggregateExec>()?;
    let gives_order = !matches!(top.input_order_mode(), InputOrderMode::Linear);
    if !suits(top) || order_counts && gives_order {
        return None;
    }
    let below = match top.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => {
            return Some((top, top.clone()));
        }
        AggregateMode::FinalPartitioned => {
            let repartition = top.input().downcast_ref::<RepartitionExec>()?;
            if !matches!(repartition.partitioning(), Partitioning::Hash(..)) {
                return None;
            }
            repartition.input()
        }
        AggregateMode::Final => match top.input().downcast_ref::<CoalescePartitionsExec>() {
            Some(merge) => merge.input(),
            None => top.input(),
        },
        AggregateMode::Partial | AggregateMode::PartialReduce => return None,
    };
    let partial = match below.downcast_ref::<FragmentExec>() {
        Some(fragment) => fragment.partial(),
        None => below,
    };
    let partial = partial.downcast_ref::<AggregateExec>()?;
    let is_partial = *partial.mode() == AggregateMode::Partial && suits(partial);
    is_partial.then(|| (top, partial.clone()))
}

fn suits(aggregate: &AggregateExec) -> bool {
    let ordered = |function: &Arc<AggregateFunctionExpr>| {
        !function.order_bys().is_empty() || !function.order_sensitivity().is_insensitive()
    };
    let group = aggregate.group_expr();
    group.is_single()
        && !group.is_true_no_grouping()
        && aggregate.limit_options().is_none()
        && aggregate.fetch().is_none()
        && !aggregate.aggr_expr().iter().any(ordered)
        && merge_of(aggregate.aggr_expr(), true).is_some()
}

/// A cooperative scan without a limit on whose partitions no node depends.
pub(super) fn whole_scan(node: &Arc<dyn ExecutionPlan>) -> Option<(&Arc<ScanPlan>, &CScanSource)> {
    let source = node.downcast_ref::<DataSourceExec>()?.data_source();
    let source = source.as_ref().downcast_ref::<CScanSource>()?;
    let plan = source.whole()?;
    (plan.delivery != Delivery::Partitioned && plan.limit.is_none()).then_some((plan, source))
}

/// The column by which a table is in order.
struct Key {
    /// Its position in the grouping expressions.
    group: usize,
    /// Its position in the scan's output.
    at: usize,
    column: String,
    declared: Option<Declared>,
}

fn key(
    over: &OverScan,
    plan: &ScanPlan,
    config: &FileScanConfig,
    resources: &Resources,
) -> Option<Key> {
    let table = plan.table.schema.file_schema();
    let columns = over.group.iter().enumerate().filter_map(|(group, expr)| {
        let at = expr.downcast_ref::<Column>()?.index();
        Some((group, at, column_at(plan, at)?))
    });
    let columns: Vec<(usize, usize, usize)> = columns.collect();
    if columns.is_empty() {
        return None;
    }
    let footers = footers(plan, resources)?;
    let mut keys = columns.into_iter().filter_map(|(group, at, index)| {
        let column = table.field(index).name().clone();
        let bounds = bounds(&footers, table, &column);
        let leaf = |footer: &ParquetMetaData| leaf_of(footer, table, &column);
        let declared = declared(config, index, &footers, leaf);
        let stands = match sequence(&bounds, declared) {
            // A single row group is in sequence, whatever the order of its rows.
            Found::InOrder(sequence) => declared.is_some() || sequence.units.len() > 1,
            Found::False { .. } => true,
            Found::No => false,
        };
        (stands && has_many_values(&footers, &bounds, leaf)).then_some(Key {
            group,
            at,
            column,
            declared,
        })
    });
    keys.next()
}

/// If there are more rows than this per value on average, the key has few values.
const ROWS_PER_GROUP: u64 = 8;

/// The column of the table at position `at` of a scan's output, if statistics know the order of
/// its type.
pub(super) fn column_at(plan: &ScanPlan, at: usize) -> Option<usize> {
    let projected = plan.table.projection.iter().nth(at)?;
    let index = projected.expr.downcast_ref::<Column>()?.index();
    let field = plan.table.schema.file_schema().fields().get(index)?;
    ordered(field.data_type()).then_some(index)
}

/// The bounds of a column in the footers, by file and row group.
pub(super) fn bounds(
    footers: &[Arc<ParquetMetaData>],
    table: &Schema,
    column: &str,
) -> Vec<Vec<ColumnBounds>> {
    let footers = footers.iter();
    footers
        .map(|footer| column_bounds::of_row_groups(footer, table, column))
        .collect()
}

/// The leaf column of a file that contains a column of the table.
pub(super) fn leaf_of(footer: &ParquetMetaData, table: &Schema, column: &str) -> Option<usize> {
    let parquet = footer.file_metadata().schema_descr();
    parquet::arrow::parquet_column(parquet, table, column).map(|(leaf, _)| leaf)
}

/// Whether a column may have so many values that each has few rows.
pub(super) fn has_many_values(
    footers: &[Arc<ParquetMetaData>],
    bounds: &[Vec<ColumnBounds>],
    leaf: impl Fn(&ParquetMetaData) -> Option<usize>,
) -> bool {
    let rows: u64 = bounds.iter().flatten().map(|unit| unit.rows).sum();
    groups_max(footers, bounds, leaf).saturating_mul(ROWS_PER_GROUP) >= rows
}

/// The footers of a scan's files; `None` unless all of them are in memory.
pub(super) fn footers(plan: &ScanPlan, resources: &Resources) -> Option<Vec<Arc<ParquetMetaData>>> {
    let pool = resources.pool(&plan.settings);
    let known = pool.shared().files();
    let files = plan.files.iter();
    files.map(|file| known.footer(&plan.key(file))).collect()
}

/// The declared order of a table's files, or of their row groups, by a column.
fn declared(
    config: &FileScanConfig,
    column: usize,
    footers: &[Arc<ParquetMetaData>],
    leaf: impl Fn(&ParquetMetaData) -> Option<usize>,
) -> Option<Declared> {
    let first = config.output_ordering.iter().map(LexOrdering::first);
    let of_files = first
        .filter(|first| {
            let sorted = first.expr.downcast_ref::<Column>();
            sorted.is_some_and(|sorted| sorted.index() == column)
        })
        .map(|first| first.options)
        .next();
    // DataFusion takes the declared order of a file's first row group for that of the file.
    let is_taken_over = of_files == sorted_by(footers, 1, &leaf);
    let (options, of) = match of_files {
        Some(options) if !is_taken_over => (options, DeclaredOf::Files),
        _ => (
            sorted_by(footers, usize::MAX, &leaf)?,
            DeclaredOf::RowGroups,
        ),
    };
    Some(Declared { options, of })
}

/// The order by a column that the first `count` row groups of each of these files declare.
fn sorted_by(
    footers: &[Arc<ParquetMetaData>],
    count: usize,
    leaf: impl Fn(&ParquetMetaData) -> Option<usize>,
) -> Option<SortOptions> {
    let mut order = None;
    for footer in footers {
        let leaf = leaf(footer)?;
        for group in footer.row_groups().iter().take(count) {
            let first = group.sorting_columns()?.first()?;
            let own = SortOptions {
                descending: first.descending,
                nulls_first: first.nulls_first,
            };
            let is_leaf = usize::try_from(first.column_idx) == Ok(leaf);
            if !is_leaf || order.is_some_and(|order| order != own) {
                return None;
            }
            order = Some(own);
        }
    }
    order
}

/// An upper bound of the number of values in a column, summed over the row groups.
fn groups_max(
    footers: &[Arc<ParquetMetaData>],
    bounds: &[Vec<ColumnBounds>],
    leaf: impl Fn(&ParquetMetaData) -> Option<usize>,
) -> u64 {
    let files = footers.iter().zip(bounds);
    let of_file = files.map(|(footer, bounds)| {
        let leaf = leaf(footer);
        let groups = footer.row_groups().iter().zip(bounds);
        let of_group = groups.map(|(group, bounds)| {
            let span = bounds.values.as_ref().and_then(|(a, b)| span(a, b));
            let bytes = || leaf.map(|leaf| values_by_bytes(group, leaf));
            span.or_else(bytes).unwrap_or(u64::MAX).min(bounds.rows)
        });
        of_group.sum::<u64>()
    });
    of_file.sum()
}

/// The number of values from one to the other, inclusive, if they can be counted.
fn span(from: &ScalarValue, to: &ScalarValue) -> Option<u64> {
    if from == to {
        return Some(1);
    }
    if matches!(from, ScalarValue::Boolean(_)) {
        return Some(2);
    }
    let number = |value: &ScalarValue| {
        let data_type = value.data_type();
        let counts = data_type.is_integer() || matches!(data_type, DataType::Date32);
        let value = counts.then(|| value.cast_to(&DataType::Int64).ok())??;
        match value {
            ScalarValue::Int64(value) => value,
            _ => None,
        }
    };
    Some(number(from)?.abs_diff(number(to)?).saturating_add(1))
}

/// An upper bound of the number of values in a column chunk: each takes at least one byte, in a
/// dictionary or outside of one.
fn values_by_bytes(group: &RowGroupMetaData, leaf: usize) -> u64 {
    let bytes = group.column(leaf).uncompressed_size();
    u64::try_from(bytes).unwrap_or(0)
}
