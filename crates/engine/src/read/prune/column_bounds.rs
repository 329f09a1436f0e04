//! What do statistics say about one column, row group by row group or chunk by chunk?
//!
//! Callers compare chunks with each other by these bounds; `prune/` judges each chunk alone.
//! I1: only certain facts are stated, as in a proof. Bounds may be wider than the values; a null
//! count is exact. A column whose type is not `ordered` has neither.

use arrow::array::Array;
use arrow::datatypes::Schema;
use coscan_storage::FileChunk;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use parquet::file::metadata::ParquetMetaData;

use super::chunk_bounds::{PartStatistics, part_of};
use super::{RowGroupStatistics, ordered};

/// The facts about a column in some rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnBounds {
    /// The least and the greatest value that the rows can have.
    pub(crate) values: Option<(ScalarValue, ScalarValue)>,
    pub(crate) nulls: Option<u64>,
    pub(crate) rows: u64,
    /// The row group of these rows, if it has other rows, too.
    pub(crate) part_of: Option<usize>,
}

impl ColumnBounds {
    fn unknown(rows: u64) -> Self {
        Self {
            values: None,
            nulls: None,
            rows,
            part_of: None,
        }
    }

    /// Whether no row has a value.
    pub(crate) fn is_all_null(&self) -> bool {
        self.nulls == Some(self.rows)
    }

    /// The bounds of both sets of rows together.
    fn and(self, other: Self) -> Self {
        let rows = self.rows + other.rows;
        let nulls = self.nulls.zip(other.nulls).map(|(a, b)| a + b);
        let values = if self.is_all_null() {
            other.values
        } else if other.is_all_null() {
            self.values
        } else {
            let wider = |(a, b): ((ScalarValue, ScalarValue), (ScalarValue, ScalarValue))| {
                let low = if a.0 <= b.0 { a.0 } else { b.0 };
                let high = if a.1 >= b.1 { a.1 } else { b.1 };
                (low, high)
            };
            self.values.zip(other.values).map(wider)
        };
        Self {
            values,
            nulls,
            rows,
            part_of: None,
        }
    }
}

/// The facts about a column of a file, by row group. `schema` is the file's, as it is decoded.
pub(crate) fn of_row_groups(
    metadata: &ParquetMetaData,
    schema: &Schema,
    column: &str,
) -> Vec<ColumnBounds> {
    let groups = metadata.row_groups();
    let rows = groups.iter().map(|group| group.num_rows().unsigned_abs());
    let mut bounds: Vec<ColumnBounds> = rows.map(ColumnBounds::unknown).collect();
    let known = schema.field_with_name(column);
    if !known.is_ok_and(|field| ordered(field.data_type())) {
        return bounds;
    }
    let parquet = metadata.file_metadata().schema_descr();
    let statistics = RowGroupStatistics {
        groups,
        parquet,
        schema,
    };
    fill(&mut bounds, &statistics, column);
    bounds
}

/// The facts about a column of a file, by chunk.
pub(crate) fn of_chunks(
    metadata: &ParquetMetaData,
    chunks: &[FileChunk],
    schema: &Schema,
    column: &str,
) -> Vec<ColumnBounds> {
    let groups = of_row_groups(metadata, schema, column);
    let mut bounds: Vec<ColumnBounds> = Vec::with_capacity(chunks.len());
    let mut parts = Vec::new();
    for (at, chunk) in chunks.iter().enumerate() {
        if let Some(part) = part_of(metadata, chunk) {
            let group = &groups[part.row_group];
            let mut own = ColumnBounds::unknown(chunk.rows);
            own.part_of = Some(part.row_group);
            own.nulls = match group.nulls {
                Some(0) => Some(0),
                Some(_) if group.is_all_null() => Some(chunk.rows),
                _ => None,
            };
            bounds.push(own);
            // If the row group's bounds cannot be trusted, those of its pages cannot either.
            if group.values.is_some() {
                parts.push((at, part));
            }
            continue;
        }
        let own = chunk.pieces.iter();
        let own = own.map(|piece| groups[piece.row_group].clone());
        let own = own.reduce(ColumnBounds::and);
        bounds.push(own.unwrap_or_else(|| ColumnBounds::unknown(chunk.rows)));
    }
    let (at, parts): (Vec<usize>, Vec<_>) = parts.into_iter().unzip();
    if let Some(statistics) = PartStatistics::new(metadata, schema, parts) {
        let mut known: Vec<ColumnBounds> = at.iter().map(|at| bounds[*at].clone()).collect();
        fill(&mut known, &statistics, column);
        for (at, known) in at.into_iter().zip(known) {
            bounds[at] = known;
        }
    }
    bounds
}

fn fill<S: PruningStatistics>(bounds: &mut [ColumnBounds], statistics: &S, column: &str) {
    let column = Column::from_name(column);
    if let Some(nulls) = statistics.null_counts(&column)
        && let Some(nulls) = nulls
            .as_any()
            .downcast_ref::<arrow::array::UInt64Array>()
            .filter(|nulls| nulls.len() == bounds.len())
    {
        for (bounds, nulls) in bounds.iter_mut().zip(nulls) {
            bounds.nulls = nulls.or(bounds.nulls);
        }
    }
    let low = statistics.min_values(&column);
    let high = statistics.max_values(&column);
    let Some((low, high)) = low.zip(high) else {
        return;
    };
    if low.len() != bounds.len() || high.len() != bounds.len() {
        return;
    }
    for (at, bounds) in bounds.iter_mut().enumerate() {
        if low.is_null(at) || high.is_null(at) {
            continue;
        }
        let value = |values| ScalarValue::try_from_array(values, at).ok();
        bounds.values = value(&low).zip(value(&high));
    }
}
