//! Which bounds of a file's values are hidden from DataFusion, because they do not cover NaN?
//!
//! Not here: when such bounds count (`floats.rs`), from which plans they are removed
//! (`plan/float_bounds.rs`).

use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};

use super::floats::is_float;

/// The statistics of files of this schema without bounds that do not cover NaN; `None` if they
/// have no such bounds.
pub(crate) fn without_float_bounds(
    statistics: &Statistics,
    schema: &SchemaRef,
) -> Option<Statistics> {
    let columns = || statistics.column_statistics.iter().zip(schema.fields());
    let to_hide = |column: &ColumnStatistics| {
        column.min_value != Precision::Absent || column.max_value != Precision::Absent
    };
    if !columns().any(|(column, field)| is_float(field.data_type()) && to_hide(column)) {
        return None;
    }
    let mut hidden = statistics.clone();
    for (column, field) in hidden.column_statistics.iter_mut().zip(schema.fields()) {
        if is_float(field.data_type()) {
            column.min_value = Precision::Absent;
            column.max_value = Precision::Absent;
        }
    }
    Some(hidden)
}
