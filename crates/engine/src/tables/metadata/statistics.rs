//! What do a file's statistics say about the table's columns?
//!
//! DataFusion answers count, min and max from them, skips files by them, and plans by them. It
//! reads a file's statistics as values of the table's type, although the file may store a narrower
//! type (`wider.rs`); it then loses bounds and still calls them exact. Here they are read in the
//! file's own type and then cast. Bounds that do not cover NaN are dropped
//! (`read/prune/floats.rs`), once per file rather than in each plan.
//! Not here: which statistics of a footer are trusted (coscan-storage, `trusted.rs`).
//! S1: statistics marked exact hold for every row of the file: a bound is the least or greatest
//! value, a count is exact.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::error::Result;
use parquet::arrow::{parquet_column, parquet_to_arrow_schema};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics as Parquet;

use super::wider::is_text;
use crate::read::prune::without_float_bounds;
use crate::read::wide_keys;

/// The statistics of a file of a table with these columns.
///
/// # Errors
/// Parquet's and DataFusion's, for types that they do not know.
pub(in crate::tables) fn of_file(
    footer: &ParquetMetaData,
    table: &SchemaRef,
) -> Result<Statistics> {
    let file = footer.file_metadata();
    let stored = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata())?;
    let own = in_own_types(table, &stored);
    let mut statistics = DFParquetMetadata::statistics_from_parquet_metadata(footer, &own)?;
    let rows = statistics.num_rows.get_value().copied();
    let columns = statistics.column_statistics.iter_mut();
    for (column, (own, wanted)) in columns.zip(own.fields().iter().zip(table.fields())) {
        if stored.field_with_name(wanted.name()).is_err() {
            *column = missing(rows, wanted.data_type());
            continue;
        }
        match parquet_column(file.schema_descr(), &stored, wanted.name()) {
            Some((leaf, _)) => forget_partly_known(column, footer.row_groups(), leaf),
            None => forget_values(column),
        }
        if own.data_type() != wanted.data_type() {
            cast(column, wanted.data_type(), rows);
        }
    }
    Ok(without_float_bounds(&statistics, table).unwrap_or(statistics))
}

/// The table's columns, with the file's type wherever the file stores another one. Text and binary
/// keep the table's type, because DataFusion reads every form of them into it; so do dictionaries,
/// whose statistics are of their values.
fn in_own_types(table: &SchemaRef, stored: &Schema) -> SchemaRef {
    let mut differs = false;
    let fields = table.fields().iter().map(|field| {
        let own = stored.field_with_name(field.name());
        let Some(own) = own.ok().filter(|own| read_otherwise(own, field)) else {
            return Arc::clone(field);
        };
        differs = true;
        Arc::new(Field::clone(field).with_data_type(own.data_type().clone()))
    });
    let fields: Vec<_> = fields.collect();
    if differs {
        Arc::new(Schema::new(fields))
    } else {
        Arc::clone(table)
    }
}

fn read_otherwise(stored: &Field, wanted: &Field) -> bool {
    let (stored, wanted) = (stored.data_type(), wanted.data_type());
    let views = |of: &DataType| matches!(of, DataType::Binary | DataType::LargeBinary);
    let as_view = views(stored) && (*wanted == DataType::BinaryView || is_text(wanted));
    let as_text =
        matches!(stored, DataType::Utf8 | DataType::LargeUtf8) && *wanted == DataType::Utf8View;
    let other_keys = wide_keys(stored) == *wanted;
    stored != wanted && !as_view && !as_text && !other_keys
}

/// Drops statistics that some row group lacks: DataFusion ignores row groups without statistics.
fn forget_partly_known(column: &mut ColumnStatistics, groups: &[RowGroupMetaData], leaf: usize) {
    let (mut low, mut high, mut counted) = (true, true, true);
    for group in groups.iter().filter(|group| group.num_rows() > 0) {
        let chunk = group.column(leaf);
        let statistics = chunk.statistics();
        let nulls = statistics.and_then(Parquet::null_count_opt);
        let all_null = nulls == Some(chunk.num_values().unsigned_abs());
        low &= all_null || statistics.is_some_and(|known| known.min_bytes_opt().is_some());
        high &= all_null || statistics.is_some_and(|known| known.max_bytes_opt().is_some());
        counted &= nulls.is_some();
    }
    if !low {
        column.min_value = Precision::Absent;
    }
    if !high {
        column.max_value = Precision::Absent;
    }
    if !counted {
        column.null_count = Precision::Absent;
    }
}

/// Drops all but the size: Parquet's statistics describe the leaves of a nested column.
fn forget_values(column: &mut ColumnStatistics) {
    let byte_size = column.byte_size;
    *column = ColumnStatistics::new_unknown();
    column.byte_size = byte_size;
}

/// A column that the file lacks: NULL in each row.
fn missing(rows: Option<usize>, data_type: &DataType) -> ColumnStatistics {
    let mut column = ColumnStatistics::new_unknown();
    if let Some(rows) = rows {
        column.null_count = Precision::Exact(rows);
        column.byte_size = bytes(rows, data_type);
    }
    column
}

/// Casts statistics to a wider type, which keeps the order of values.
fn cast(column: &mut ColumnStatistics, to: &DataType, rows: Option<usize>) {
    let value = |bound: &Precision<ScalarValue>| match bound {
        Precision::Exact(value) => value
            .cast_to(to)
            .map_or(Precision::Absent, Precision::Exact),
        Precision::Inexact(value) => value
            .cast_to(to)
            .map_or(Precision::Absent, Precision::Inexact),
        Precision::Absent => Precision::Absent,
    };
    column.min_value = value(&column.min_value);
    column.max_value = value(&column.max_value);
    column.sum_value = Precision::Absent;
    if let Some(rows) = rows
        && to.primitive_width().is_some()
    {
        column.byte_size = bytes(rows, to);
    }
}

fn bytes(rows: usize, data_type: &DataType) -> Precision<usize> {
    data_type
        .primitive_width()
        .map_or(Precision::Absent, |width| {
            Precision::Exact(width.saturating_mul(rows))
        })
}
