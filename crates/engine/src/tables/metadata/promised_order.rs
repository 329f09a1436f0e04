//! Which order does a file promise as a whole?
//!
//! `sorting_columns` declare the order within each row group. DataFusion 55.2 takes them for the
//! order of the file. That is right only if the row groups follow each other, which their bounds
//! may prove.
//! Not here: whether the rows within a row group are sorted; that is checked when they are read
//! (`plan/checked_orders.rs`).
//! ORDER-I2: an order over several row groups is promised only if bounds prove that no row of one
//! belongs before a row of the previous one.

use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use parquet::file::metadata::ParquetMetaData;

use crate::read::prune::column_bounds::of_row_groups;

/// The part of the declared order that holds over row groups.
pub(in crate::tables) fn over_row_groups(
    declared: LexOrdering,
    footer: &ParquetMetaData,
    schema: &SchemaRef,
) -> Option<LexOrdering> {
    let mut keys: Vec<PhysicalSortExpr> = declared.into_iter().collect();
    keys.truncate(named_keys(&keys, footer)?);
    if footer.num_row_groups() < 2 {
        return LexOrdering::new(keys);
    }
    let first = keys.first()?;
    let (descending, nulls_first) = (first.options.descending, first.options.nulls_first);
    let column = first.expr.downcast_ref::<Column>()?;
    let groups = of_row_groups(footer, schema, column.name());
    let groups: Vec<_> = groups.into_iter().filter(|group| group.rows > 0).collect();
    let mut ties = false;
    for pair in groups.windows(2) {
        let ((low, high), (next_low, next_high)) =
            (pair[0].values.as_ref()?, pair[1].values.as_ref()?);
        let (end, begin) = if descending {
            (next_high, low)
        } else {
            (high, next_low)
        };
        if end.partial_cmp(begin)?.is_gt() {
            return None;
        }
        // Bounds may be wider than the values, so equal bounds may hide no tie; but a tie always
        // has equal bounds.
        ties |= end == begin;
        // NULLs must all be at one end of the file.
        let misplaced = if nulls_first { &pair[1] } else { &pair[0] };
        if misplaced.nulls != Some(0) {
            return None;
        }
    }
    if ties {
        keys.truncate(1);
    }
    LexOrdering::new(keys)
}

/// The number of keys that all row groups declare. DataFusion reads only the first row group,
/// leaves out columns that the table does not have, and names nested columns by their last part.
fn named_keys(keys: &[PhysicalSortExpr], footer: &ParquetMetaData) -> Option<usize> {
    let mut groups = footer.row_groups().iter();
    let declared = groups.next()?.sorting_columns()?;
    if groups.any(|group| group.sorting_columns() != Some(declared)) {
        return None;
    }
    let columns = footer.file_metadata().schema_descr();
    let same = declared.iter().zip(keys).take_while(|(declared, key)| {
        let leaf = usize::try_from(declared.column_idx).ok();
        let leaf = leaf.filter(|leaf| *leaf < columns.num_columns());
        let key = key.expr.downcast_ref::<Column>().map(Column::name);
        leaf.is_some_and(|leaf| {
            let path = columns.column(leaf).path().parts().to_vec();
            key.is_some_and(|key| path == [key])
        })
    });
    Some(same.count())
}
