//! Which joins can be computed chunk by chunk, in the order of their tables?
//!
//! Hash joins of two cooperative scans whose footers prove, for one pair of columns that must be
//! equal, that the row groups of both sides are in sequence, without NULL. The scan with more rows
//! drives: its chunks are joined with the rows of the other scan that have their keys.
//! Not here: whether the chunks that remain when the files are open are in sequence
//! (`shared_state.rs`), what the surrounding plan needs (`order_aggregates.rs`). Not joined this
//! way: NOT IN with its NULLs, mark joins, limits within the join, and joins that must return
//! their rows in order.
//! Bounds: O(row groups) for each pair of columns; reads nothing.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{JoinType, internal_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSource;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, HashJoinExecBuilder, PartitionMode};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use parquet::file::metadata::ParquetMetaData;

use super::super::recognise::{bounds, column_at, footers, has_many_values, leaf_of, whole_scan};
use super::super::sequence::{Found, sequence};
use crate::read::scan::{Delivery, ScanPlan};
use crate::resources::Resources;

/// A join that can be computed chunk by chunk.
pub(super) struct JoinPlan {
    /// The scan whose chunks are joined, and the other scan.
    pub(super) driver: Side,
    pub(super) other: Side,
    /// Whether the driver is the join's left input.
    pub(super) left_drives: bool,
    /// The original plan, a hash join, which returns the same rows.
    pub(super) original: Arc<dyn ExecutionPlan>,
}

/// One of the two scans.
#[derive(Clone)]
pub(super) struct Side {
    /// The column by which the table is clustered.
    pub(super) column: Arc<str>,
    /// The position of the column in the scan's output.
    pub(super) at: usize,
    /// Whether rows without a partner are returned, too.
    pub(super) is_preserved: bool,
    /// The scan, in shared delivery.
    pub(super) scan: Arc<ScanPlan>,
    pub(super) scan_metrics: ExecutionPlanMetricsSet,
    /// The scan, as it is in the original plan.
    pub(super) input: Arc<dyn ExecutionPlan>,
}

impl JoinPlan {
    /// The scans as they are in the plan, the left one first.
    pub(super) fn inputs(&self) -> [&Arc<dyn ExecutionPlan>; 2] {
        let (driver, other) = (&self.driver.input, &self.other.input);
        if self.left_drives {
            [driver, other]
        } else {
            [other, driver]
        }
    }

    /// The join of some rows of the driver with some rows of the other side.
    ///
    /// # Errors
    /// If the rows do not have the schemas of the scans: a bug.
    pub(super) fn of_rows(
        &self,
        driver: Vec<RecordBatch>,
        other: Vec<RecordBatch>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(join) = self.original.downcast_ref::<HashJoinExec>() else {
            return internal_err!("a clustered join stands for a hash join");
        };
        let (left, right) = if self.left_drives {
            ((&self.driver, driver), (&self.other, other))
        } else {
            ((&self.other, other), (&self.driver, driver))
        };
        let rows = |(side, rows): (&Side, Vec<RecordBatch>)| {
            MemorySourceConfig::try_new_exec(&[rows], Arc::clone(&side.scan.schema), None)
        };
        let joined = HashJoinExecBuilder::new(
            rows(left)?,
            rows(right)?,
            join.on().to_vec(),
            *join.join_type(),
        );
        let joined = joined
            .with_filter(join.filter().cloned())
            .with_projection_ref(join.projection.clone())
            .with_partition_mode(PartitionMode::CollectLeft)
            .with_null_equality(join.null_equality());
        joined.build_exec()
    }
}

/// The join at `node`, if it can be computed chunk by chunk. `order_counts`: a node above needs
/// the order of the rows, if `node` returns them in one.
pub(super) fn recognise(
    node: &Arc<dyn ExecutionPlan>,
    order_counts: bool,
    resources: &Resources,
) -> Option<JoinPlan> {
    let join = node.downcast_ref::<HashJoinExec>()?;
    let (left_preserved, right_preserved) = preserved(*join.join_type())?;
    if join.null_aware || node.fetch().is_some() {
        return None;
    }
    if order_counts && node.output_ordering().is_some() {
        return None;
    }
    let (left, right) = (scan_below(join.left()), scan_below(join.right()));
    let pairs = join.on().iter().filter_map(|(left, right)| {
        let at = |expr: &Arc<dyn datafusion::physical_expr::PhysicalExpr>| {
            expr.downcast_ref::<Column>().map(Column::index)
        };
        Some((at(left)?, at(right)?))
    });
    let partitions = node.output_partitioning().partition_count();
    for (left_at, right_at) in pairs {
        let sides = (
            side(left, left_at, left_preserved, resources),
            side(right, right_at, right_preserved, resources),
        );
        let (Some((left, left_rows)), Some((right, right_rows))) = sides else {
            continue;
        };
        let key = |side: &Side| side.scan.schema.field(side.at).data_type().clone();
        if key(&left) != key(&right) {
            continue;
        }
        let left_drives = left_rows > right_rows;
        let (mut driver, mut other) = if left_drives {
            (left, right)
        } else {
            (right, left)
        };
        let partitions = partitions.max(driver.scan.partitions.len());
        for side in [&mut driver, &mut other] {
            // In the plan, a partition is a file group. That has no meaning if every partition
            // takes whichever chunk comes next.
            side.scan = Arc::new(ScanPlan {
                delivery: Delivery::Shared,
                partitions: vec![Vec::new(); partitions],
                ..ScanPlan::clone(&side.scan)
            });
        }
        return Some(JoinPlan {
            driver,
            other,
            left_drives,
            original: Arc::clone(node),
        });
    }
    None
}

/// Whether rows of the left and of the right input without a partner are returned; `None` for a
/// type of join that cannot be computed here.
fn preserved(join_type: JoinType) -> Option<(bool, bool)> {
    Some(match join_type {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => (false, false),
        JoinType::Left | JoinType::LeftAnti => (true, false),
        JoinType::Right | JoinType::RightAnti => (false, true),
        JoinType::Full => (true, true),
        JoinType::LeftMark | JoinType::RightMark => return None,
    })
}

/// The first node below that does more than repartition or merge rows.
fn scan_below(mut node: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    loop {
        if let Some(repartition) = node.downcast_ref::<RepartitionExec>() {
            node = repartition.input();
        } else if let Some(merge) = node.downcast_ref::<CoalescePartitionsExec>()
            && node.fetch().is_none()
        {
            node = merge.input();
        } else {
            return node;
        }
    }
}

/// A side of the join, and the number of rows in its table; `None` if it is not a scan of a table
/// that is clustered by the column.
fn side(
    input: &Arc<dyn ExecutionPlan>,
    at: usize,
    is_preserved: bool,
    resources: &Resources,
) -> Option<(Side, u64)> {
    let (scan, source) = whole_scan(input)?;
    let table = scan.table.schema.file_schema();
    let column = table.field(column_at(scan, at)?).name().clone();
    let footers = footers(scan, resources)?;
    let bounds = bounds(&footers, table, &column);
    let leaf = |footer: &ParquetMetaData| leaf_of(footer, table, &column);
    let Found::InOrder(sequence) = sequence(&bounds, None) else {
        return None;
    };
    let units = || bounds.iter().flatten();
    let has_nulls = units().any(|unit| unit.rows > 0 && unit.nulls != Some(0));
    if sequence.units.len() < 2 || has_nulls || !has_many_values(&footers, &bounds, leaf) {
        return None;
    }
    let rows = units().map(|unit| unit.rows).sum();
    let side = Side {
        column: column.into(),
        at,
        is_preserved,
        scan: Arc::clone(scan),
        scan_metrics: source.metrics(),
        input: Arc::clone(input),
    };
    Some((side, rows))
}
