//! What do a file's statistics say about a part of a row group?
//!
//! Row groups far above the target size are cut into chunks between pages, and chunks into
//! batches. The page index has bounds and null counts of every page. A part's bounds are those of
//! all pages that contain one of its rows. Pages of different columns begin at different rows, so
//! a column's pages may reach beyond the part. The bounds are then wider than the part's own, but
//! still hold for each of its rows. Null counts have no such slack: a count is returned only if it
//! is certain (no page has nulls, every page is all nulls, or the pages begin and end where the
//! part does).
//! Not here: what is concluded from the statistics (`prune/`); whole row groups.
//! Bounds: O(pages) per column and question.
//! I1: an unknown bound or count is null, and nothing is concluded from it. They are unknown in
//! files without a column index, and for pages without bounds or null counts.

use std::collections::HashSet;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::Schema;
use coscan_storage::{FileChunk, Piece};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;
use std::sync::Arc;

use super::floats::is_nan;

/// Parts of row groups, as the containers of a pruning predicate.
pub(crate) struct PartStatistics<'a> {
    metadata: &'a ParquetMetaData,
    schema: &'a Schema,
    parts: Vec<&'a Piece>,
}

/// One end of a page's values.
#[derive(Clone, Copy)]
enum End {
    Min,
    Max,
}

/// One column's page index in one row group.
struct Pages<'a> {
    row_group: usize,
    /// The first row of each page, and the end of the last one.
    rows: Vec<u64>,
    nulls: UInt64Array,
    converter: &'a StatisticsConverter<'a>,
}

/// The chunk's only piece, if it is a part of a row group.
pub(crate) fn part_of<'a>(metadata: &ParquetMetaData, chunk: &'a FileChunk) -> Option<&'a Piece> {
    let [piece] = chunk.pieces.as_slice() else {
        return None;
    };
    let rows = metadata.row_group(piece.row_group).num_rows();
    (piece.rows != (0..rows.unsigned_abs())).then_some(piece)
}

impl<'a> PartStatistics<'a> {
    /// The statistics of these parts; `None` if the file has no page index.
    pub(crate) fn new(
        metadata: &'a ParquetMetaData,
        schema: &'a Schema,
        parts: Vec<&'a Piece>,
    ) -> Option<Self> {
        let has_index = metadata.column_index().is_some() && metadata.offset_index().is_some();
        (has_index && !parts.is_empty()).then_some(Self {
            metadata,
            schema,
            parts,
        })
    }

    fn converter(&self, column: &Column) -> Option<StatisticsConverter<'a>> {
        let parquet = self.metadata.file_metadata().schema_descr();
        StatisticsConverter::try_new(&column.name, self.schema, parquet).ok()
    }

    /// For each part, the answer of `judge` to the column's pages in the part's row group; `None`
    /// where there is no page index.
    fn each<T>(
        &self,
        converter: &StatisticsConverter<'_>,
        end: Option<End>,
        mut judge: impl FnMut(&Pages<'_>, Option<&ArrayRef>, &Piece) -> Option<T>,
    ) -> Vec<Option<T>> {
        let mut known: Option<(Pages<'_>, Option<ArrayRef>)> = None;
        let mut all = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            if known
                .as_ref()
                .is_none_or(|(pages, _)| pages.row_group != part.row_group)
            {
                known = Pages::new(self.metadata, converter, part.row_group).and_then(|pages| {
                    let values = match end {
                        Some(end) => Some(pages.values(self.metadata, end)?),
                        None => None,
                    };
                    Some((pages, values))
                });
            }
            let found = known.as_ref();
            all.push(found.and_then(|(pages, values)| judge(pages, values.as_ref(), part)));
        }
        all
    }

    fn bounds(&self, column: &Column, end: End) -> Option<ArrayRef> {
        let converter = self.converter(column)?;
        let bounds = self.each(&converter, Some(end), |pages, values, part| {
            pages.bound(values?, part, end)
        });
        // The type of the values: for a dictionary column that of its values, not of the
        // dictionary.
        let data_type = bounds.iter().flatten().next()?.data_type();
        let none = ScalarValue::try_from(&data_type).ok()?;
        let bounds = bounds
            .into_iter()
            .map(|bound| bound.unwrap_or_else(|| none.clone()));
        ScalarValue::iter_to_array(bounds).ok()
    }
}

impl<'a> Pages<'a> {
    fn new(
        metadata: &ParquetMetaData,
        converter: &'a StatisticsConverter<'a>,
        row_group: usize,
    ) -> Option<Self> {
        let leaf = converter.parquet_column_index()?;
        let (columns, offsets) = (metadata.column_index()?, metadata.offset_index()?);
        columns.get(row_group)?.get(leaf)?;
        let locations = offsets.get(row_group)?.get(leaf)?.page_locations();
        let mut rows: Vec<u64> = locations
            .iter()
            .map(|page| page.first_row_index.unsigned_abs())
            .collect();
        rows.push(metadata.row_group(row_group).num_rows().unsigned_abs());
        // The page index of a column without bounds may have another length.
        let nulls = converter
            .data_page_null_counts(columns, offsets, [&row_group])
            .ok()
            .filter(|nulls| nulls.len() == locations.len())?;
        Some(Self {
            row_group,
            rows,
            nulls,
            converter,
        })
    }

    fn values(&self, metadata: &ParquetMetaData, end: End) -> Option<ArrayRef> {
        let (columns, offsets) = (metadata.column_index()?, metadata.offset_index()?);
        let groups = [&self.row_group];
        let values = match end {
            End::Min => self.converter.data_page_mins(columns, offsets, groups),
            End::Max => self.converter.data_page_maxes(columns, offsets, groups),
        };
        values
            .ok()
            .filter(|values| values.len() == self.nulls.len())
    }

    /// The pages that contain rows of the part.
    fn of(&self, part: &Piece) -> Range<usize> {
        let starts = &self.rows[..self.nulls.len()];
        let first = starts.partition_point(|row| *row <= part.rows.start);
        first.saturating_sub(1)..starts.partition_point(|row| *row < part.rows.end)
    }

    fn nulls(&self, page: usize) -> Option<u64> {
        self.nulls.is_valid(page).then(|| self.nulls.value(page))
    }

    fn is_all_null(&self, page: usize) -> bool {
        self.nulls(page) == Some(self.rows[page + 1] - self.rows[page])
    }

    /// The least or greatest value of the part's pages; `None` if all their values are NULL, or if
    /// the bound of a page is missing or NaN.
    fn bound(&self, values: &ArrayRef, part: &Piece, end: End) -> Option<ScalarValue> {
        let mut bound: Option<ScalarValue> = None;
        for page in self.of(part).filter(|page| !self.is_all_null(*page)) {
            let value = ScalarValue::try_from_array(values, page).ok()?;
            if value.is_null() || is_nan(&value) {
                return None;
            }
            let replaces = match &bound {
                None => true,
                Some(bound) => match end {
                    End::Min => value.partial_cmp(bound)?.is_lt(),
                    End::Max => value.partial_cmp(bound)?.is_gt(),
                },
            };
            if replaces {
                bound = Some(value);
            }
        }
        bound
    }

    /// The number of nulls in the part, if that is certain.
    fn null_count(&self, part: &Piece) -> Option<u64> {
        let pages = self.of(part);
        let rows = part.rows.end - part.rows.start;
        let counts = pages.clone().map(|page| self.nulls(page));
        let nulls: u64 = counts.sum::<Option<u64>>()?;
        let covered = self.rows[pages.start]..self.rows[pages.end];
        if nulls == 0 || covered == part.rows {
            Some(nulls)
        } else {
            (nulls == covered.end - covered.start).then_some(rows)
        }
    }
}

impl PruningStatistics for PartStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, End::Min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, End::Max)
    }

    fn num_containers(&self) -> usize {
        self.parts.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let converter = self.converter(column)?;
        let counts = self.each(&converter, None, |pages, _, part| pages.null_count(part));
        Some(Arc::new(UInt64Array::from(counts)))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows = self
            .parts
            .iter()
            .map(|part| part.rows.end - part.rows.start);
        Some(Arc::new(UInt64Array::from_iter_values(rows)))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
