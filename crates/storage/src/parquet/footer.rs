//! How is a Parquet file's footer read and validated, with its page indexes?
//!
//! Idea: one speculative read of the file's tail contains the whole footer of most files;
//! otherwise a second read fetches the rest of the footer, and a third the indexes. Everything
//! that later code relies on is checked here, once per file version, so that a damaged footer is
//! one clear error and not a panic somewhere in a scan. Some bytes would make parquet 59.3 abort:
//! `guards/thrift_bounds.rs` refuses them beforehand. On others it panics, which becomes an error
//! here.
//! Not here: devices (the caller provides a [`RangeRead`]), caching, encrypted footers (refused),
//! which statistics are trusted (`guards/trusted.rs`).
//! Bounds: at most 3 rounds of reads; a footer larger than [`FOOTER_BYTES_MAX`] is refused. Page
//! indexes that are larger than that, or scattered over more than [`INDEX_SPREAD_MAX`], are
//! ignored, and their location is removed from the returned metadata.
//! I1: every column chunk lies between the leading magic and the footer, and no two overlap.
//! I2: row counts are not negative and add up; flat columns have one value per row, nested columns
//! at least one. No row group has more than [`ROW_GROUP_ROWS_MAX`] rows, nor more than its bytes
//! can hold.
//! I3: page locations lie inside their column chunk, ascend in offset and row, and start at row 0.

use std::future::Future;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parquet::DecodeResult;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::Type;
use parquet::file::metadata::{
    ColumnChunkMetaData, ColumnChunkMetaDataBuilder, FileMetaData, FooterTail, KeyValue,
    PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder, ParquetMetaDataReader,
    RowGroupMetaData,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;

use super::decode::panic_text;
use super::guards::{
    Flaw, check_column_index, check_file_metadata, check_offset_index, trusted, trusted_pages,
};
use crate::error::{Result, StorageError};

/// Reads byte ranges of one file.
pub trait RangeRead: Send + Sync {
    /// The bytes of each range, in the order of `ranges`.
    fn read(&self, ranges: &[Range<u64>]) -> impl Future<Output = Result<Vec<Bytes>>> + Send;
}

/// The size of the first read, at the file's end: it contains the footers of 9 of 10 files, and
/// costs a device little more than its smallest read.
pub const TAIL_BYTES: u64 = 64 << 10;

/// All known writers write page indexes contiguously. When the indexes span this many bytes more
/// than they have, reading the span would mean reading the data.
pub const INDEX_SPREAD_MAX: u64 = 1 << 20;

/// The largest footer. A file with 10,000 columns and 50 row groups takes half of it.
const FOOTER_BYTES_MAX: u64 = 256 << 20;

/// The most rows of a row group: parquet-mr writes no more, and far fewer by default.
const ROW_GROUP_ROWS_MAX: i64 = i32::MAX as i64;

/// Validates the bytes of a page index.
type Check = fn(&[u8]) -> Result<(), Flaw>;

/// The longest values of `FIXED_LEN_BYTE_ARRAY`, because parquet allocates memory for a batch of
/// them whatever the page holds. Vectors of 16,384 floats fit.
const FIXED_BYTES_MAX: i32 = 64 << 10;

/// A page has at least this many bytes, its header included, and at most 2^31 values.
const PAGE_BYTES_MIN: u64 = 8;
/// The most values that a page header can count.
const PAGE_VALUES_MAX: u64 = i32::MAX as u64;

/// The key under which Arrow's writers record types that Parquet lacks.
const ARROW_NOTES: &str = "ARROW:schema";

/// The key for the record of types that `arrow` lacks.
pub const UNKNOWN_TYPES: &str = "coscan.unknown_types";

/// The footer's own length and the magic at the file's end.
const TRAILER_BYTES: u64 = 8;
/// The magic at the file's start.
const MAGIC_BYTES: u64 = 4;

/// The metadata of a Parquet file of `file_bytes` bytes, with column and offset indexes if the
/// file has them for all columns. Its column chunks may take `memory_max` bytes of memory.
///
/// Cancel safe: a dropped call abandons only its reads.
///
/// # Errors
/// [`StorageError::BadFooter`] if the file is not Parquet or its footer or an index is damaged;
/// errors of the reader.
pub async fn read_footer<R: RangeRead + ?Sized>(
    reader: &R,
    file: &str,
    file_bytes: u64,
    memory_max: u64,
) -> Result<Arc<ParquetMetaData>> {
    let bad = |reason: String| StorageError::BadFooter {
        file: file.to_owned(),
        reason,
    };
    if file_bytes < MAGIC_BYTES + TRAILER_BYTES {
        return Err(bad(format!(
            "not a Parquet file: it has only {file_bytes} bytes"
        )));
    }
    let mut tail = Tail::read(
        reader,
        file,
        file_bytes,
        file_bytes.saturating_sub(TAIL_BYTES),
    )
    .await?;
    let trailer = tail.slice(&(file_bytes - TRAILER_BYTES..file_bytes));
    let footer_start = footer_start(&trailer, file_bytes).map_err(bad)?;
    tail.extend(reader, file, footer_start).await?;

    let footer = tail.slice(&(footer_start..file_bytes - TRAILER_BYTES));
    let metadata = decoded(footer, footer_start, memory_max)
        .map_err(|flaw| bad(format!("damaged footer: {flaw}")))?;

    let index = index_ranges(&metadata, footer_start)
        .map_err(|flaw| bad(format!("damaged footer: {flaw}")))?;
    if index.is_empty() {
        return Ok(Arc::new(metadata));
    }
    let Some(span) = span_of(&index) else {
        return Ok(Arc::new(without_page_index(metadata)));
    };
    tail.extend(reader, file, span.start).await?;
    for (range, check) in &index {
        check(&tail.slice(range)).map_err(|flaw| bad(format!("damaged page index: {flaw}")))?;
    }
    let metadata = caught(|| with_page_index(metadata, &tail, file_bytes))
        .map_err(|reason| bad(format!("damaged page index: {reason}")))?;
    check_page_index(&metadata).map_err(|flaw| bad(format!("damaged page index: {flaw}")))?;
    Ok(Arc::new(trusted_pages(metadata)))
}

/// Where the metadata begins whose length a file's trailer says; the reason if there is none.
fn footer_start(trailer: &[u8], file_bytes: u64) -> Result<u64, String> {
    let trailer = FooterTail::try_from(trailer)
        .map_err(|_| "not a Parquet file, or cut off: it does not end with PAR1".to_owned())?;
    if trailer.is_encrypted_footer() {
        return Err("encrypted Parquet files are not supported".to_owned());
    }
    let length = trailer.metadata_length() as u64;
    if length > FOOTER_BYTES_MAX {
        return Err(format!(
            "a footer of {length} bytes; more than {FOOTER_BYTES_MAX} are not supported"
        ));
    }
    let start = file_bytes.checked_sub(TRAILER_BYTES + length);
    let start = start.filter(|start| *start >= MAGIC_BYTES);
    start.ok_or_else(|| {
        format!("damaged footer: {length} bytes of metadata in a file of {file_bytes}")
    })
}

/// The metadata in the bytes of a footer that begins at `start`; the reason if it is damaged.
fn decoded(footer: Bytes, start: u64, memory_max: u64) -> Result<ParquetMetaData, String> {
    let mended = check_file_metadata(&footer, memory_max).map_err(ToString::to_string)?;
    let footer = mended.map_or(footer, Bytes::from);
    let metadata = caught(|| ParquetMetaDataReader::decode_metadata(&footer))?;
    let metadata = with_rows(without_dictionary_at_zero(metadata));
    let metadata = trusted(without_unknown_notes(metadata));
    check_metadata(&metadata, start)?;
    Ok(metadata)
}

/// The result of `decode`, or the reason for its failure; a panic in parquet counts as a failure.
fn caught<T>(decode: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(|error| error.to_string()),
        Err(panic) => Err(panic_text(&*panic)),
    }
}

/// The end of the file, as far as it has been read.
struct Tail {
    start: u64,
    bytes: Bytes,
}

impl Tail {
    async fn read<R: RangeRead + ?Sized>(
        reader: &R,
        file: &str,
        end: u64,
        start: u64,
    ) -> Result<Self> {
        let range = start..end;
        let bytes = reader
            .read(std::slice::from_ref(&range))
            .await?
            .pop()
            .unwrap_or_default();
        if bytes.len() as u64 != end - start {
            let got = bytes.len() as u64;
            return Err(StorageError::ShortRead {
                file: file.to_owned(),
                range,
                got,
            });
        }
        Ok(Self { start, bytes })
    }

    /// Reads the missing bytes from `start` on.
    async fn extend<R: RangeRead + ?Sized>(
        &mut self,
        reader: &R,
        file: &str,
        start: u64,
    ) -> Result<()> {
        if start >= self.start {
            return Ok(());
        }
        let before = Self::read(reader, file, self.start, start).await?;
        let mut bytes = BytesMut::from(&before.bytes[..]);
        bytes.extend_from_slice(&self.bytes);
        *self = Self {
            start,
            bytes: bytes.freeze(),
        };
        Ok(())
    }

    fn slice(&self, range: &Range<u64>) -> Bytes {
        // Both ends lie in the tail, which is in memory, so they fit into usize.
        let index = |at: u64| usize::try_from(at - self.start).unwrap_or(usize::MAX);
        self.bytes.slice(index(range.start)..index(range.end))
    }
}

fn check_metadata(metadata: &ParquetMetaData, footer_start: u64) -> Result<(), String> {
    let leaves = metadata.file_metadata().schema_descr().num_columns();
    let mut rows: i64 = 0;
    let mut ranges = Vec::with_capacity(metadata.num_row_groups() * leaves);
    for (number, row_group) in metadata.row_groups().iter().enumerate() {
        check_row_group(row_group, leaves, footer_start, &mut ranges)
            .map_err(|flaw| format!("row group {number}: {flaw}"))?;
        rows = rows
            .checked_add(row_group.num_rows())
            .ok_or("too many rows")?;
    }
    let promised = metadata.file_metadata().num_rows();
    if rows != promised {
        return Err(format!(
            "{promised} rows promised, {rows} in the row groups"
        ));
    }
    ranges.sort_unstable_by_key(|range: &Range<u64>| range.start);
    match ranges.windows(2).find(|pair| pair[0].end > pair[1].start) {
        Some(pair) => Err(format!(
            "I1: column chunks overlap at byte {}",
            pair[1].start
        )),
        None => Ok(()),
    }
}

fn check_row_group(
    row_group: &RowGroupMetaData,
    leaves: usize,
    footer_start: u64,
    ranges: &mut Vec<Range<u64>>,
) -> Result<(), String> {
    let rows = row_group.num_rows();
    if !(0..=ROW_GROUP_ROWS_MAX).contains(&rows) {
        return Err(format!(
            "I2: {rows} rows; more than {ROW_GROUP_ROWS_MAX} are not supported"
        ));
    }
    if row_group.columns().len() != leaves {
        return Err(format!(
            "{} columns, not {leaves}",
            row_group.columns().len()
        ));
    }
    for (leaf, column) in row_group.columns().iter().enumerate() {
        let range = check_column(column, rows, footer_start)
            .map_err(|flaw| format!("column {leaf} ({}): {flaw}", column.column_path()))?;
        if !range.is_empty() {
            ranges.push(range);
        }
    }
    Ok(())
}

fn check_column(
    column: &ColumnChunkMetaData,
    rows: i64,
    footer_start: u64,
) -> Result<Range<u64>, String> {
    if column.file_path().is_some() {
        return Err("its data is in another file, which is not supported".to_owned());
    }
    let (first_page, bytes) = (column.data_page_offset(), column.compressed_size());
    let start = column.dictionary_page_offset().unwrap_or(first_page);
    let range = u64::try_from(start)
        .ok()
        .zip(u64::try_from(bytes).ok())
        .and_then(|(start, bytes)| Some(start..start.checked_add(bytes)?))
        .ok_or_else(|| format!("I1: {bytes} bytes at {start}"))?;
    let inside = range.start >= MAGIC_BYTES && range.end <= footer_start;
    // A column chunk without bytes needs no position. If it should have rows, decoding it gives an
    // error.
    if bytes > 0 && !inside {
        return Err(format!("I1: {bytes} bytes at {start} are outside the data"));
    }
    if column.uncompressed_size() < 0 {
        return Err(format!("{} bytes uncompressed", column.uncompressed_size()));
    }
    let values = column.num_values();
    let nested = column.column_descr().max_rep_level() > 0;
    if values < rows || (values > rows && !nested) {
        return Err(format!("I2: {values} values for {rows} rows"));
    }
    let bytes = range.end - range.start;
    let can_hold = (bytes / PAGE_BYTES_MIN).saturating_mul(PAGE_VALUES_MAX);
    // Decoding a column without bytes gives an error.
    if bytes > 0 && values.unsigned_abs() > can_hold {
        return Err(format!("I2: {bytes} bytes cannot hold {values} values"));
    }
    let fixed = column.column_descr();
    if fixed.physical_type() == Type::FIXED_LEN_BYTE_ARRAY && fixed.type_length() > FIXED_BYTES_MAX
    {
        return Err(format!(
            "values of {} bytes; a fixed length above {FIXED_BYTES_MAX} is not supported",
            fixed.type_length()
        ));
    }
    Ok(range)
}

/// A part of the page index, and the check for it.
type IndexRange = (Range<u64>, fn(&[u8]) -> Result<(), Flaw>);

/// The ranges of the page indexes of all columns, each inside the file's data.
fn index_ranges(metadata: &ParquetMetaData, footer_start: u64) -> Result<Vec<IndexRange>, String> {
    let mut ranges = Vec::new();
    for column in metadata
        .row_groups()
        .iter()
        .flat_map(RowGroupMetaData::columns)
    {
        let column_index = (column.column_index_offset(), column.column_index_length());
        let offset_index = (column.offset_index_offset(), column.offset_index_length());
        let checks: [Check; 2] = [check_column_index, check_offset_index];
        for ((start, length), check) in [column_index, offset_index].into_iter().zip(checks) {
            let (Some(start), Some(length)) = (start, length) else {
                continue;
            };
            let range = u64::try_from(start)
                .ok()
                .zip(u64::try_from(length).ok())
                .and_then(|(start, length)| Some(start..start.checked_add(length)?))
                .filter(|range| range.start >= MAGIC_BYTES && range.end <= footer_start)
                .ok_or_else(|| format!("a page index of {length} bytes at {start}"))?;
            ranges.push((range, check));
        }
    }
    Ok(ranges)
}

/// The range that contains all of `ranges`; `None` if it is too large or contains much else.
fn span_of(ranges: &[IndexRange]) -> Option<Range<u64>> {
    let start = ranges.iter().map(|(range, _)| range.start).min()?;
    let end = ranges.iter().map(|(range, _)| range.end).max()?;
    // Parts may overlap; each of them is decoded, so each counts.
    let bytes = ranges.iter().fold(0_u64, |bytes, (range, _)| {
        bytes.saturating_add(range.end - range.start)
    });
    let spread = end - start <= bytes.saturating_add(INDEX_SPREAD_MAX);
    (spread && bytes <= FOOTER_BYTES_MAX).then_some(start..end)
}

/// The metadata without the locations of page indexes. Other readers would read the indexes if
/// they found the locations.
fn without_page_index(metadata: ParquetMetaData) -> ParquetMetaData {
    with_columns(metadata, |column, _| {
        column
            .set_column_index_offset(None)
            .set_column_index_length(None)
            .set_offset_index_offset(None)
            .set_offset_index_length(None)
    })
}

/// The metadata without dictionaries at byte 0, the position of the magic: some writers use it to
/// say that there is none.
fn without_dictionary_at_zero(metadata: ParquetMetaData) -> ParquetMetaData {
    let at_zero = |column: &ColumnChunkMetaData| column.dictionary_page_offset() == Some(0);
    let groups = metadata.row_groups().iter();
    if !groups.flat_map(RowGroupMetaData::columns).any(at_zero) {
        return metadata;
    }
    with_columns(metadata, |column, known| {
        match known.dictionary_page_offset() {
            Some(0) => column.set_dictionary_page_offset(None),
            _ => column,
        }
    })
}

/// The metadata without Arrow's record of types, if it contains types that `arrow` lacks (polars'
/// 128-bit integers): one such column would make the file unreadable. The record stays under the
/// key [`UNKNOWN_TYPES`].
fn without_unknown_notes(metadata: ParquetMetaData) -> ParquetMetaData {
    let file = metadata.file_metadata();
    let notes = file.key_value_metadata();
    let has_notes = notes.is_some_and(|notes| notes.iter().any(|note| note.key == ARROW_NOTES));
    let read = |notes: Option<&Vec<KeyValue>>| {
        caught(|| parquet_to_arrow_schema(file.schema_descr(), notes)).is_ok()
    };
    if !has_notes || read(notes) || !read(None) {
        return metadata;
    }
    let renamed = notes.into_iter().flatten().cloned().map(|mut note| {
        if note.key == ARROW_NOTES {
            UNKNOWN_TYPES.clone_into(&mut note.key);
        }
        note
    });
    let (rows, notes) = (file.num_rows(), Some(renamed.collect()));
    with_claims(&metadata, rows, notes)
}

/// The metadata with the total number of rows, which some writers leave out.
fn with_rows(metadata: ParquetMetaData) -> ParquetMetaData {
    let file = metadata.file_metadata();
    let groups = metadata.row_groups().iter();
    let rows = groups.fold(0_i64, |rows, group| rows.saturating_add(group.num_rows()));
    if file.num_rows() != 0 || rows <= 0 {
        return metadata;
    }
    let notes = file.key_value_metadata().cloned();
    with_claims(&metadata, rows, notes)
}

/// The metadata with other file-level values.
fn with_claims(
    metadata: &ParquetMetaData,
    rows: i64,
    notes: Option<Vec<KeyValue>>,
) -> ParquetMetaData {
    let file = metadata.file_metadata();
    let file = FileMetaData::new(
        file.version(),
        rows,
        file.created_by().map(ToOwned::to_owned),
        notes,
        file.schema_descr_ptr(),
        file.column_orders().cloned(),
    );
    ParquetMetaData::new(file, metadata.row_groups().to_vec())
}

/// The metadata with each column chunk changed.
fn with_columns(
    metadata: ParquetMetaData,
    change: impl Fn(ColumnChunkMetaDataBuilder, &ColumnChunkMetaData) -> ColumnChunkMetaDataBuilder,
) -> ParquetMetaData {
    let mut builder = metadata.into_builder();
    let groups = builder.take_row_groups().into_iter().map(|group| {
        let columns = group.columns().iter();
        let columns = columns.map(|column| change(column.clone().into_builder(), column).build());
        match columns.collect::<parquet::errors::Result<Vec<_>>>() {
            Ok(columns) => {
                let builder = group.clone().into_builder().set_column_metadata(columns);
                builder.build().unwrap_or(group)
            }
            Err(_) => group,
        }
    });
    let groups = groups.collect();
    builder.set_row_groups(groups).build()
}

fn with_page_index(
    metadata: ParquetMetaData,
    tail: &Tail,
    file_bytes: u64,
) -> parquet::errors::Result<ParquetMetaData> {
    let mut decoder = ParquetMetaDataPushDecoder::try_new_with_metadata(file_bytes, metadata)?
        .with_page_index_policy(PageIndexPolicy::Optional);
    decoder.push_range(tail.start..file_bytes, tail.bytes.clone())?;
    match decoder.try_decode()? {
        DecodeResult::Data(metadata) => Ok(metadata),
        DecodeResult::NeedsData(_) | DecodeResult::Finished => Err(
            parquet::errors::ParquetError::EOF("the index is not where it should be".to_owned()),
        ),
    }
}

fn check_page_index(metadata: &ParquetMetaData) -> Result<(), String> {
    let Some(offsets) = metadata.offset_index() else {
        return Ok(());
    };
    for (number, row_group) in metadata.row_groups().iter().enumerate() {
        for (leaf, column) in row_group.columns().iter().enumerate() {
            let index = offsets.get(number).and_then(|columns| columns.get(leaf));
            let Some(index) = index else { continue };
            let bounds = metadata
                .column_index()
                .and_then(|i| i.get(number)?.get(leaf));
            let pages = index.page_locations().len() as u64;
            let claimed = bounds
                .filter(|bounds| !matches!(bounds, ColumnIndexMetaData::NONE))
                .map_or(pages, ColumnIndexMetaData::num_pages);
            let flaw = if claimed == pages {
                check_locations(index, column, row_group.num_rows()).err()
            } else {
                Some(format!("{pages} pages, but bounds of {claimed}"))
            };
            if let Some(flaw) = flaw {
                let path = column.column_path();
                return Err(format!(
                    "row group {number}, column {leaf} ({path}): {flaw}"
                ));
            }
        }
    }
    Ok(())
}

fn check_locations(
    index: &OffsetIndexMetaData,
    column: &ColumnChunkMetaData,
    rows: i64,
) -> Result<(), String> {
    let (start, length) = column.byte_range();
    let (mut offset_min, mut row_min) = (start, 0);
    for (page, location) in index.page_locations().iter().enumerate() {
        let place = u64::try_from(location.offset)
            .ok()
            .zip(u64::try_from(location.compressed_page_size).ok())
            .and_then(|(offset, bytes)| Some((offset, offset.checked_add(bytes)?)))
            .filter(|&(offset, end)| offset >= offset_min && offset < end && end <= start + length);
        let Some((_, end)) = place else {
            return Err(format!(
                "I3: page {page} has {} bytes at {}",
                location.compressed_page_size, location.offset
            ));
        };
        let row = location.first_row_index;
        if row < row_min || row >= rows || (page == 0 && row != 0) {
            return Err(format!("I3: page {page} begins at row {row} of {rows}"));
        }
        (offset_min, row_min) = (end, row);
    }
    Ok(())
}
