//! What DataFusion is told of the values of a file, without bounds that a NaN may lie beyond.
//!
//! Not here: when such bounds count (`floats.rs`), whose plans they are taken out of
//! (`plan/float_bounds.rs`).

use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};

use super::floats::is_float;

/// The statistics of files of this schema without bounds that NaN may lie beyond; `None` if there
/// are none.
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
