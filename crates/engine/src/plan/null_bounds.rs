//! Which orders may DataFusion conclude from the bounds of files?
//!
//! The files of a group are read one after the other. DataFusion takes their rows for ordered if
//! each file's are, and the bounds of no file reach into those of the next one. Bounds say nothing
//! of NULLs, which stand at the end of a file or at its beginning: rows `1, 2, NULL` and then
//! `3, 4, NULL` are in no order. So [`HideNullBounds`] removes the bounds by which an order would
//! seem to hold that NULLs may interrupt. DataFusion counts on the order no more, and sorts.
//! Not here: bounds that ignore NaN (`float_bounds.rs`); orders that files declare falsely
//! (`checked_orders.rs`). The declared order itself stays, for aggregates and joins chunk by chunk
//! (`ordered/`).

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::ColumnStatistics;
use datafusion::common::stats::Precision;
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::read::replace_scans;

/// Hides the bounds of files that would prove an order in spite of NULLs.
#[derive(Debug)]
pub(crate) struct HideNullBounds;

impl PhysicalOptimizerRule for HideNullBounds {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        replace_scans(plan, |scan, _| Ok(without_bounds(scan)))
    }

    fn name(&self) -> &'static str {
        "CoscanHideNullBounds"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan without the bounds in question; `None` if it has none.
fn without_bounds(scan: &FileScanConfig) -> Option<FileScanConfig> {
    if scan.output_ordering.is_empty() {
        return None;
    }
    let groups = scan.file_groups.iter();
    let columns: Vec<BTreeSet<usize>> = groups
        .map(|group| in_question(&scan.output_ordering, group))
        .collect();
    if columns.iter().all(BTreeSet::is_empty) {
        return None;
    }
    let mut hidden = scan.clone();
    for (group, columns) in hidden.file_groups.iter_mut().zip(&columns) {
        if !columns.is_empty() {
            *group = without_bounds_of(group, columns);
        }
    }
    Some(hidden)
}

/// The columns of orders that NULLs may interrupt between two files of a group.
fn in_question(orders: &[LexOrdering], group: &FileGroup) -> BTreeSet<usize> {
    let mut columns = BTreeSet::new();
    for pair in group.files().windows(2) {
        if let [before, after] = pair {
            let orders = orders.iter();
            columns.extend(orders.filter_map(|order| interrupted(order, before, after)));
        }
    }
    columns
}

/// The group without the bounds of these columns in its files.
fn without_bounds_of(group: &FileGroup, columns: &BTreeSet<usize>) -> FileGroup {
    let files = group.iter().cloned().map(|mut file| {
        if let Some(statistics) = &mut file.statistics {
            let known = &mut Arc::make_mut(statistics).column_statistics;
            for column in columns {
                if let Some(column) = known.get_mut(*column) {
                    column.min_value = Precision::Absent;
                    column.max_value = Precision::Absent;
                }
            }
        }
        file
    });
    let hidden = FileGroup::new(files.collect());
    match group.file_statistics(None) {
        Some(statistics) => hidden.with_statistics(Arc::new(statistics.clone())),
        None => hidden,
    }
}

/// The first column of an order in which NULLs may stand between the values of a file and those of
/// the next one; `None` if the bounds of columns ahead of it part the files, or there is none.
fn interrupted(
    order: &LexOrdering,
    before: &PartitionedFile,
    after: &PartitionedFile,
) -> Option<usize> {
    for key in order {
        let column = key.expr.downcast_ref::<Column>()?.index();
        let Some((before, after)) = known(before, column).zip(known(after, column)) else {
            continue;
        };
        let with_nulls = if key.options.nulls_first {
            after
        } else {
            before
        };
        if with_nulls.null_count != Precision::Exact(0) {
            return Some(column);
        }
        if are_parted(key, before, after) {
            return None;
        }
    }
    None
}

fn known(file: &PartitionedFile, column: usize) -> Option<&ColumnStatistics> {
    file.statistics.as_deref()?.column_statistics.get(column)
}

/// Whether each value of a file's column belongs ahead of each one of the next file's.
fn are_parted(key: &PhysicalSortExpr, before: &ColumnStatistics, after: &ColumnStatistics) -> bool {
    let (low, high) = if key.options.descending {
        (&after.max_value, &before.min_value)
    } else {
        (&before.max_value, &after.min_value)
    };
    let bounds = low.get_value().zip(high.get_value());
    bounds.is_some_and(|(low, high)| low < high)
}

#[cfg(test)]
mod tests {
    use arrow::compute::SortOptions;
    use datafusion::common::{ScalarValue, Statistics};

    use super::*;

    /// A file of columns with these bounds and numbers of NULLs.
    fn file(columns: &[(i64, i64, usize)]) -> PartitionedFile {
        let exact = |value: i64| Precision::Exact(ScalarValue::Int64(Some(value)));
        let columns = columns.iter().map(|&(min, max, nulls)| ColumnStatistics {
            null_count: Precision::Exact(nulls),
            min_value: exact(min),
            max_value: exact(max),
            ..ColumnStatistics::default()
        });
        let mut file = PartitionedFile::new("a.parquet", 1);
        file.statistics = Some(Arc::new(Statistics {
            num_rows: Precision::Absent,
            total_byte_size: Precision::Absent,
            column_statistics: columns.collect(),
        }));
        file
    }

    fn by(keys: usize, descending: bool, nulls_first: bool) -> LexOrdering {
        let options = SortOptions {
            descending,
            nulls_first,
        };
        let keys = (0..keys).map(|at| {
            let column = Column::new(&format!("c{at}"), at);
            PhysicalSortExpr::new(Arc::new(column), options)
        });
        LexOrdering::new(keys).unwrap()
    }

    #[test]
    fn nulls_between_files_interrupt_an_order() {
        let (few, more) = (file(&[(1, 2, 0)]), file(&[(3, 4, 0)]));
        let (few_null, more_null) = (file(&[(1, 2, 1)]), file(&[(3, 4, 1)]));
        let last = by(1, false, false);
        assert_eq!(interrupted(&last, &few, &more_null), None);
        assert_eq!(interrupted(&last, &few_null, &more), Some(0));
        let first = by(1, false, true);
        assert_eq!(interrupted(&first, &few_null, &more), None);
        assert_eq!(interrupted(&first, &few, &more_null), Some(0));
        let down = by(1, true, true);
        assert_eq!(interrupted(&down, &more_null, &few), None);
        assert_eq!(interrupted(&down, &more, &few_null), Some(0));
    }

    #[test]
    fn nulls_of_a_later_key_count_where_the_first_one_does_not_part_the_files() {
        let order = by(2, false, false);
        let before = file(&[(1, 2, 0), (1, 2, 1)]);
        let parted = file(&[(3, 4, 0), (3, 4, 1)]);
        assert_eq!(interrupted(&order, &before, &parted), None);
        let touches = file(&[(2, 4, 0), (3, 4, 0)]);
        assert_eq!(interrupted(&order, &before, &touches), Some(1));
        let down = by(2, true, false);
        assert_eq!(interrupted(&down, &parted, &before), None);
    }

    #[test]
    fn only_the_bounds_of_the_column_are_hidden() {
        let group = FileGroup::new(vec![
            file(&[(1, 2, 1), (5, 6, 0)]),
            file(&[(3, 4, 1), (7, 8, 0)]),
        ]);
        let columns = in_question(&[by(1, false, false)], &group);
        assert_eq!(columns, BTreeSet::from([0]));
        let hidden = without_bounds_of(&group, &columns);
        for (hidden, file) in hidden.iter().zip(group.iter()) {
            let column = known(hidden, 0).unwrap();
            assert_eq!(column.max_value, Precision::Absent);
            assert_eq!(column.null_count, Precision::Exact(1));
            assert_eq!(known(hidden, 1), known(file, 1));
        }
        let one = FileGroup::new(vec![file(&[(1, 2, 1)])]);
        assert!(in_question(&[by(1, false, false)], &one).is_empty());
    }
}
