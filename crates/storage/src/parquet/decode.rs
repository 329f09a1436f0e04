//! How do the bytes of one root column of one chunk become arrow arrays, a batch at a time?
//!
//! Idea: parquet's own array readers do the work on a view of the file that holds just this
//! segment. The schema of that view has one root column, so the set-up does not depend on the
//! table's width. Each stretch of the chunk gets a reader of its own, so all columns of a chunk
//! have the same batch boundaries ([`crate::Batches`]) and their arrays form record batches
//! without copying.
//! Not here: the bytes of a segment (`chunk_map.rs`), page checksums (`guards/page_guard.rs`),
//! threads, caching of the arrays.
//! Speed: decoding segments one after another takes 0.91 to 1.02 times as long as parquet's reader
//! of all columns at once; decoding each column a batch at a time takes 1.00 to 1.06 times as long
//! (`examples/decode_speed.rs`). Values above 1.02 are due to the dictionary: each part of a split
//! row group decodes it, about 1 ms for one of 1 MB. So chunks far below the default target are
//! expensive (1.3 to 1.5 times at 4 MiB).
//! Bounds: holds the segment's bytes, one decompressed page and dictionary per leaf, and one
//! batch.
//! I1: a decoder yields exactly the batches of [`crate::Batches`], or an error; never other rows.
//! I2: damaged bytes give `BadPage` and never a panic, although parquet 59.3 panics on some of
//! them.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatchReader};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector,
};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::schema::types::{SchemaDescriptor, Type};

use super::batches::{rows_of, stretches};
use super::chunk_map::{FileChunk, Piece, page_index};
use super::guards::{GuardedPages, PageRules};
use super::interval::{self, INTERVAL};
use super::narrow::narrowest;
use super::one_form::{has_other_forms, in_one_form};
use super::segment_bytes::SegmentBytes;
use crate::error::{Result, StorageError};
use crate::panics::text;

/// Decodes one segment: a root column of a chunk.
pub struct SegmentDecoder {
    file: String,
    column: String,
    metadata: Arc<ParquetMetaData>,
    bytes: Arc<SegmentBytes>,
    levels: FieldLevels,
    data_type: DataType,
    /// Whether the column holds intervals, which are decoded as bytes.
    is_interval: bool,
    first_leaf: usize,
    batch_rows: usize,
    page_rules: PageRules,
    /// Whether to narrow each array as far as its values allow.
    narrow: bool,
    /// Stretches that have not begun, the next one last; each with its wanted rows, counted from
    /// the stretch's first; `None`: all rows.
    stretches: Vec<(Vec<Piece>, Option<WantedRows>)>,
    open: Option<OpenStretch>,
}

/// Rows of a stretch: ascending ranges, not empty.
type WantedRows = Vec<Range<usize>>;

struct OpenStretch {
    reader: ParquetRecordBatchReader,
    /// The first row group of the stretch.
    row_group: usize,
    rows_left: usize,
    /// Whether the stretch reads all rows of its row groups.
    whole: bool,
}

impl SegmentDecoder {
    /// A decoder of root column `column` of `chunk`, in batches of at most `batch_rows` rows.
    ///
    /// `field` is the arrow field to decode to: the file's own, or a coerced one (`Utf8View` for
    /// `Utf8`, microseconds for INT96 ...). Its name does not matter, but names of nested fields
    /// do. `buffers` are parts of the file that cover the column's ranges of this chunk, own and
    /// shared; they may touch and hold more bytes, but must not overlap.
    ///
    /// # Errors
    /// [`StorageError::BadPage`] if the column cannot be decoded to `field`'s type.
    // Each argument is one fact about the segment; a struct for them would have one user.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        file: &str,
        metadata: &Arc<ParquetMetaData>,
        column: usize,
        field: &FieldRef,
        chunk: &FileChunk,
        buffers: Vec<(Range<u64>, Bytes)>,
        batch_rows: usize,
    ) -> Result<Self> {
        let schema = metadata.file_metadata().schema_descr();
        let row_group = chunk.pieces.first().map_or(0, |piece| piece.row_group);
        let bad = |reason: String| StorageError::BadPage {
            file: file.to_owned(),
            row_group,
            column: field.name().clone(),
            reason,
        };
        let root = schema
            .root_schema()
            .get_fields()
            .get(column)
            .ok_or_else(|| bad(format!("the file has no root column {column}")))?;
        let first_leaf = (0..schema.num_columns())
            .find(|&leaf| schema.get_column_root_idx(leaf) == column)
            .ok_or_else(|| bad("a group without leaves cannot be decoded".to_owned()))?;
        let is_interval = *field.data_type() == INTERVAL && interval::is_interval(root);
        let levels = catch_unwind(AssertUnwindSafe(|| {
            if !is_interval {
                return Ok((field_levels(root, field)?, field.data_type().clone()));
            }
            let (root, data_type) = interval::as_bytes(root)?;
            let field = Arc::new(Field::clone(field).with_data_type(data_type.clone()));
            Ok((field_levels(&root, &field)?, data_type))
        }));
        let (levels, data_type) = levels
            .unwrap_or_else(|panic| Err(ParquetError::General(panic_text(&*panic))))
            .map_err(|error| bad(error.to_string()))?;
        Ok(Self {
            file: file.to_owned(),
            column: root.name().to_owned(),
            metadata: Arc::clone(metadata),
            bytes: Arc::new(SegmentBytes::new(buffers)),
            levels,
            data_type,
            is_interval,
            first_leaf,
            batch_rows: batch_rows.max(1),
            page_rules: PageRules::WITHOUT_BUDGET,
            narrow: false,
            stretches: stretches(&chunk.pieces, batch_rows.max(1))
                .into_iter()
                .rev()
                .map(|pieces| (chunk.pieces[pieces].to_vec(), None))
                .collect(),
            open: None,
        })
    }

    /// Refuses pages that do not follow these rules.
    #[must_use]
    pub fn with_page_rules(mut self, rules: PageRules) -> Self {
        self.page_rules = rules;
        self
    }

    /// Narrows each array to as few bytes per value as its values need ([`narrowest`]), so the
    /// types of arrays may differ from each other and from the requested type.
    #[must_use]
    pub fn in_few_bytes(mut self) -> Self {
        self.narrow = true;
        self
    }

    /// Returns only these rows of the chunk, counted from its first: ascending, not empty, not
    /// touching. Skipping the values of other rows is cheaper than decoding them; pages without a
    /// wanted row are not even decompressed.
    #[must_use]
    pub fn with_rows(mut self, wanted: &[Range<usize>]) -> Self {
        let mut first = 0;
        for (pieces, rows) in self.stretches.iter_mut().rev() {
            let end = first + pieces.iter().map(rows_of).sum::<usize>();
            let begin = wanted.partition_point(|range| range.end <= first);
            let own = wanted[begin..].iter().take_while(|range| range.start < end);
            let own = own.map(|range| range.start.max(first) - first..range.end.min(end) - first);
            *rows = Some(own.collect());
            first = end;
        }
        self.stretches
            .retain(|(_, rows)| rows.as_ref().is_none_or(|rows| !rows.is_empty()));
        self
    }

    /// The next array, of at most `batch_rows` rows. An array does not extend beyond its stretch.
    /// `None` at the end, and after an error.
    ///
    /// # Errors
    /// [`StorageError::BadPage`] if the bytes are damaged or do not hold the chunk's rows.
    pub fn next_batch(&mut self) -> Result<Option<ArrayRef>> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => match self.stretches.pop() {
                Some((pieces, wanted)) => self.open_stretch(&pieces, wanted.as_deref())?,
                None => return Ok(None),
            },
        };
        let rows = open.rows_left.min(self.batch_rows);
        // catch_unwind because of I2. The reader is dropped after a panic, so its state does not
        // matter.
        let array = catch_unwind(AssertUnwindSafe(|| open.reader.next()))
            .map_err(|panic| self.bad_page(open.row_group, panic_text(&*panic)))?
            .transpose()
            .map_err(|error| self.bad_page(open.row_group, error.to_string()))?
            .map(|batch| Arc::clone(batch.column(0)));
        let got = array.as_ref().map_or(0, Array::len);
        if got != rows {
            let reason = format!("{got} rows decoded where {rows} should be");
            return Err(self.bad_page(open.row_group, reason));
        }
        let open_row_group = open.row_group;
        open.rows_left -= rows;
        if open.rows_left > 0 {
            self.open = Some(open);
        } else if open.whole {
            // The footer may claim fewer rows than this column has, while other columns have the
            // claimed number.
            let more = catch_unwind(AssertUnwindSafe(|| open.reader.next().transpose()));
            if !matches!(more, Ok(Ok(None))) {
                let reason = format!("there are more rows than the {rows} that should be left");
                return Err(self.bad_page(open.row_group, reason));
            }
        }
        let array = match array {
            Some(bytes) if self.is_interval => Some(
                interval::intervals(&bytes)
                    .map_err(|error| self.bad_page(open_row_group, error.to_string()))?,
            ),
            Some(values) if has_other_forms(values.data_type()) => Some(
                in_one_form(values)
                    .map_err(|error| self.bad_page(open_row_group, error.to_string()))?,
            ),
            array => array,
        };
        Ok(if self.narrow {
            array.map(narrowest)
        } else {
            array
        })
    }

    /// Whether the decoder has returned its last array or an error.
    pub(crate) fn is_done(&self) -> bool {
        self.open.is_none() && self.stretches.is_empty()
    }

    fn open_stretch(
        &mut self,
        pieces: &[Piece],
        wanted: Option<&[Range<usize>]>,
    ) -> Result<OpenStretch> {
        let mut rows = pieces.iter().map(rows_of).sum();
        let first = pieces.first().cloned().unwrap_or_default();
        let source = StretchSource {
            metadata: &self.metadata,
            pieces,
            first_leaf: self.first_leaf,
            bytes: &self.bytes,
            page_rules: self.page_rules,
        };
        let skip = usize::try_from(first.rows.start).unwrap_or(usize::MAX);
        let selection = match wanted {
            Some(wanted) => {
                rows = wanted.iter().map(ExactSizeIterator::len).sum();
                let ranges = wanted
                    .iter()
                    .map(|range| skip + range.start..skip + range.end);
                Some(RowSelection::from_consecutive_ranges(
                    ranges,
                    source.num_rows(),
                ))
            }
            None if source.is_whole() => None,
            None => Some(RowSelection::from(vec![
                RowSelector::skip(skip),
                RowSelector::select(rows),
            ])),
        };
        let batch_rows = self.batch_rows.min(rows);
        let whole = selection.is_none();
        catch_unwind(AssertUnwindSafe(|| {
            ParquetRecordBatchReader::try_new_with_row_groups(
                &self.levels,
                &source,
                batch_rows,
                selection,
            )
        }))
        .unwrap_or_else(|panic| Err(ParquetError::General(panic_text(&*panic))))
        .and_then(|reader| {
            // parquet takes the requested type as a hint, and ignores a type that it cannot decode
            // to.
            let stored = reader.schema().field(0).data_type().clone();
            if stored == self.data_type {
                return Ok(OpenStretch {
                    reader,
                    row_group: first.row_group,
                    rows_left: rows,
                    whole,
                });
            }
            let reason = format!("{stored} cannot be read as {}", self.data_type);
            Err(ParquetError::General(reason))
        })
        .map_err(|error| self.bad_page(first.row_group, error.to_string()))
    }

    /// The error for this row group. It ends the decoding.
    fn bad_page(&mut self, row_group: usize, reason: String) -> StorageError {
        self.stretches.clear();
        StorageError::BadPage {
            file: self.file.clone(),
            row_group,
            column: self.column.clone(),
            reason,
        }
    }
}

/// A copy of a few rows without the pages that their strings were decoded from. String views would
/// keep these pages in memory, uncounted.
#[must_use]
pub fn without_pages(rows: ArrayRef) -> ArrayRef {
    match rows.data_type() {
        DataType::Utf8View => Arc::new(rows.as_string_view().gc()),
        DataType::BinaryView => Arc::new(rows.as_binary_view().gc()),
        _ => rows,
    }
}

/// The levels for decoding a file whose only column is `root`.
fn field_levels(root: &Arc<Type>, field: &FieldRef) -> Result<FieldLevels, ParquetError> {
    let schema = Type::group_type_builder("segment")
        .with_fields(vec![Arc::clone(root)])
        .build()?;
    let schema = SchemaDescriptor::new(Arc::new(schema));
    let hint = Fields::from(vec![Field::clone(field).with_name(root.name())]);
    parquet_to_arrow_field_levels(&schema, ProjectionMask::all(), Some(&hint))
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    format!("the Parquet reader panicked: {}", text(panic))
}

/// A stretch of one root column, in the form that parquet's array readers expect: row groups whose
/// leaves are the root's.
struct StretchSource<'a> {
    metadata: &'a Arc<ParquetMetaData>,
    /// One piece, or several whole row groups.
    pieces: &'a [Piece],
    first_leaf: usize,
    bytes: &'a Arc<SegmentBytes>,
    page_rules: PageRules,
}

impl StretchSource<'_> {
    fn row_group(&self, piece: &Piece) -> &RowGroupMetaData {
        self.metadata.row_group(piece.row_group)
    }

    fn rows_of_group(&self, piece: &Piece) -> u64 {
        self.row_group(piece).num_rows().unsigned_abs()
    }

    fn is_whole(&self) -> bool {
        let mut pieces = self.pieces.iter();
        pieces.all(|piece| piece.rows == (0..self.rows_of_group(piece)))
    }

    /// The pages of a leaf that hold rows of the piece, and the row at which the last of them ends.
    ///
    /// Row numbers count from the row group's start, because the leaves of a nested column begin
    /// their pages at different rows and one selection has to suit them all. If the piece begins
    /// after the first page, the first page is listed too: the reader finds the dictionary by it,
    /// assumes that it lasts until the first page of the piece, and skips it unread. So pages that
    /// are not in memory are never requested (the problem of arrow-rs #10648).
    fn pages(&self, piece: &Piece, leaf: usize) -> Result<(Vec<PageLocation>, u64), ParquetError> {
        let all = page_index(self.metadata, piece.row_group)
            .map(|index| index[leaf].page_locations().as_slice())
            .ok_or_else(|| {
                ParquetError::General("part of a row group, but no offset index".to_owned())
            })?;
        let rows = &piece.rows;
        let first_row = |location: &PageLocation| location.first_row_index.unsigned_abs();
        let first = all
            .partition_point(|page| first_row(page) <= rows.start)
            .saturating_sub(1);
        let last = all.partition_point(|page| first_row(page) < rows.end);
        let end = all.get(last);
        let end = end.map_or_else(|| self.rows_of_group(piece), first_row);
        let mut pages = Vec::with_capacity(last - first + 1);
        pages.extend((first > 0).then(|| all[0].clone()));
        pages.extend_from_slice(&all[first..last]);
        Ok((pages, end))
    }

    fn reader(&self, piece: &Piece, leaf: usize) -> Result<Box<dyn PageReader>, ParquetError> {
        let rows = self.rows_of_group(piece);
        let (pages, rows) = if piece.rows == (0..rows) {
            (None, rows)
        } else {
            let (pages, end) = self.pages(piece, leaf)?;
            (Some(pages), end)
        };
        let column = self.row_group(piece).column(leaf);
        let (bytes, rows) = (Arc::clone(self.bytes), usize::try_from(rows)?);
        let pages = GuardedPages::new(bytes, column, rows, pages, self.page_rules)?;
        Ok(Box::new(pages))
    }
}

impl RowGroups for StretchSource<'_> {
    fn num_rows(&self) -> usize {
        let rows: u64 = self
            .pieces
            .iter()
            .map(|piece| self.rows_of_group(piece))
            .sum();
        usize::try_from(rows).unwrap_or(0)
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        let leaf = self.first_leaf + leaf;
        let readers = self.pieces.iter().map(|piece| self.reader(piece, leaf));
        let readers: Vec<_> = readers.collect::<Result<_, _>>()?;
        Ok(Box::new(Readers(readers.into_iter())))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.pieces.iter().map(|piece| self.row_group(piece)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

/// A reader for each column chunk of a leaf.
struct Readers(std::vec::IntoIter<Box<dyn PageReader>>);

impl Iterator for Readers {
    type Item = Result<Box<dyn PageReader>, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

impl PageIterator for Readers {}
