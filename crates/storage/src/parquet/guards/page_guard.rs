//! Can a page of a Parquet file be decoded in the available memory, and is it undamaged?
//!
//! Idea: parquet 59.3 allocates as many bytes as a page's header claims and as many strings as a
//! page's own lists of lengths claim, and decompresses GZIP and BROTLI to their end, whatever size
//! was claimed. So a few bytes can request more memory than there is, and a failed allocation
//! aborts. Each page's claims are therefore compared with what its bytes can hold, and with a
//! limit, before parquet sees the page. A header is recorded where parquet reads it, and checked
//! where parquet requests the bytes of the page; for a header that cannot be parsed here no page
//! bytes are returned. Where a header has a checksum (CRC-32 of the page as it is in the file), it
//! is verified at the same place.
//! Not here: footers (`../footer.rs`), panics (`../decode.rs`).
//! Bounds: two headers are remembered; GZIP and BROTLI pages are decompressed twice if they could
//! exceed the limit.
//! G1: no page is decompressed to more than the limit. G2: with checksums on, a page that does not
//! match its checksum is not decoded.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;

use super::delta::strings;
use super::thrift_bounds::{PageClaims, page_claims};
use crate::error::{Result, StorageError};
use crate::parquet::segment_bytes::SegmentBytes;

/// The most bytes of a page without a budget: the largest size that its header can claim.
pub const PAGE_BYTES_MAX: u64 = i32::MAX as u64;

/// The bytes that parquet allocates per value of a dictionary or a delta-encoded page, in addition
/// to the value itself: a `Bytes`.
const VALUE_BYTES: u64 = 32;

// The most bytes that one compressed byte can expand to, with a margin: Snappy copies 64 bytes with
// 3, LZ4's runs grow by 255 per byte, DEFLATE's by 1032.
const SNAPPY_RATIO: u64 = 32;
const LZ4_RATIO: u64 = 256;
const GZIP_RATIO: u64 = 1040;
/// The bytes of a format in addition to its data, such as a length in front.
const SLACK_BYTES: u64 = 1024;

/// The conditions that a page must meet to be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRules {
    /// The most bytes of a page after decompression.
    pub bytes_max: u64,
    /// Whether to verify checksums where pages have them.
    pub checksums: bool,
}

impl PageRules {
    /// The rules where there is no budget.
    pub const WITHOUT_BUDGET: Self = Self {
        bytes_max: PAGE_BYTES_MAX,
        checksums: true,
    };
}

/// The pages of a leaf of a piece. A page that cannot be decoded in `bytes_max` bytes is refused.
pub(crate) struct GuardedPages {
    pages: SerializedPageReader<GuardedBytes>,
    column: ColumnDescPtr,
    /// The number of values of the whole column chunk, by the footer.
    values_max: u64,
    rules: PageRules,
    /// For the listed pages: the first row of each page and its end, which is the first row of the
    /// next page or the end of the rows. Only the headers of pages that are not listed contain
    /// their number of rows.
    listed: VecDeque<(u64, u64)>,
    /// Whether the next page is the dictionary, which is not in the list.
    dictionary_first: bool,
}

impl GuardedPages {
    /// The pages of a column chunk, or those of its pages that are listed.
    pub(crate) fn new(
        bytes: Arc<SegmentBytes>,
        column: &ColumnChunkMetaData,
        rows: usize,
        pages: Option<Vec<PageLocation>>,
        rules: PageRules,
    ) -> Result<Self, ParquetError> {
        let mut listed = VecDeque::new();
        let mut dictionary_first = false;
        if let Some(pages) = &pages {
            let first = |page: &PageLocation| page.first_row_index.unsigned_abs();
            let ends = pages.iter().skip(1).map(first);
            let ends = ends.chain(std::iter::once(rows as u64));
            listed = pages.iter().map(first).zip(ends).collect();
            let start = pages.first().map(|page| page.offset.unsigned_abs());
            dictionary_first = start.is_some_and(|start| start != column.byte_range().0);
        }
        let bytes = GuardedBytes {
            bytes,
            compression: column.compression(),
            rules,
            whole_pages: pages.is_some(),
            headers: Mutex::default(),
        };
        Ok(Self {
            pages: SerializedPageReader::new(Arc::new(bytes), column, rows, pages)?,
            column: column.column_descr_ptr(),
            values_max: column.num_values().unsigned_abs(),
            rules,
            listed,
            dictionary_first,
        })
    }

    fn check(&self, page: &Page) -> Result<(), ParquetError> {
        let values = u64::from(page.num_values());
        // A dictionary holds plain values of at least one byte each, and parquet may make a
        // `Bytes` of each.
        let max = match page {
            Page::DictionaryPage { buf, .. } => {
                (buf.len() as u64).min((self.rules.bytes_max / VALUE_BYTES).max(SLACK_BYTES))
            }
            Page::DataPage { .. } | Page::DataPageV2 { .. } => self.values_max,
        };
        if values > max {
            return Err(refused(format!(
                "a page claims {values} values where at most {max} can be"
            )));
        }
        let Some((encoding, encoded)) = self.encoded_values(page) else {
            return Ok(());
        };
        let Some(strings) = strings(encoding, encoded, values) else {
            return Ok(());
        };
        if strings.values > values {
            return Err(refused(format!(
                "a page of {values} values has {} lengths",
                strings.values
            )));
        }
        let bytes = strings
            .bytes
            .saturating_add(strings.values.saturating_mul(VALUE_BYTES));
        within(bytes, self.rules.bytes_max.max(SLACK_BYTES * VALUE_BYTES))
    }

    /// Advances in the list; returns the list's rows of the page that was just read.
    fn pass(&mut self) -> Option<(u64, u64)> {
        if std::mem::take(&mut self.dictionary_first) {
            return None;
        }
        self.listed.pop_front()
    }

    /// Checks that a page has as many rows as the list says: otherwise its rows would be combined
    /// with other rows of other columns.
    fn check_rows(&self, page: &Page, listed: Option<(u64, u64)>) -> Result<(), ParquetError> {
        let nested = self.column.max_rep_level() > 0;
        let rows = match page {
            Page::DictionaryPage { .. } => return Ok(()),
            Page::DataPage { num_values, .. } if !nested => *num_values,
            Page::DataPageV2 { num_rows, .. } => *num_rows,
            // Only the levels of such a page contain its number of rows.
            Page::DataPage { .. } => return Ok(()),
        };
        match listed {
            Some((first, end)) if end.checked_sub(first) != Some(u64::from(rows)) => Err(refused(
                format!("a page of {rows} rows, where the page index says {first} to {end}"),
            )),
            _ => Ok(()),
        }
    }

    /// The values of a data page, without its levels; `None` if parquet will refuse the levels.
    fn encoded_values<'p>(&self, page: &'p Page) -> Option<(Encoding, &'p [u8])> {
        match page {
            Page::DictionaryPage { .. } => None,
            Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                ..
            } => {
                let descriptor = &self.column;
                let levels = [
                    (descriptor.max_rep_level(), *rep_level_encoding),
                    (descriptor.max_def_level(), *def_level_encoding),
                ];
                let mut rest: &[u8] = buf;
                for (max, encoding) in levels {
                    let bytes = v1_level_bytes(max, encoding, *num_values, rest)?;
                    rest = rest.get(bytes..)?;
                }
                Some((*encoding, rest))
            }
            Page::DataPageV2 {
                buf,
                encoding,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                Some((*encoding, buf.get(usize::try_from(levels).ok()?..)?))
            }
        }
    }
}

/// The number of bytes of the levels at the start of a version 1 page.
fn v1_level_bytes(max: i16, encoding: Encoding, values: u32, bytes: &[u8]) -> Option<usize> {
    if max <= 0 {
        return Some(0);
    }
    #[allow(deprecated)]
    if encoding == Encoding::BIT_PACKED {
        let width = u64::from(max.unsigned_abs().ilog2() + 1);
        return usize::try_from((u64::from(values) * width).div_ceil(8)).ok();
    }
    let length = bytes.first_chunk::<4>()?;
    usize::try_from(u32::from_le_bytes(*length))
        .ok()?
        .checked_add(4)
}

impl Iterator for GuardedPages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for GuardedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.pages.get_next_page()?;
        let listed = self.pass();
        if let Some(page) = &page {
            self.check(page)?;
            self.check_rows(page, listed)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.pass();
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool, ParquetError> {
        self.pages.at_record_boundary()
    }
}

/// The file, as far as it is in memory; returns no page that claims too much.
struct GuardedBytes {
    bytes: Arc<SegmentBytes>,
    compression: Compression,
    rules: PageRules,
    /// Whether parquet requests pages together with their headers; otherwise it requests the header
    /// first and then the page.
    whole_pages: bool,
    /// The last two headers read, each with the position of its page. Two, because after peeking at
    /// a header parquet begins to read at the page, and the bytes there are recorded as a header
    /// too.
    headers: Mutex<[Option<(u64, PageClaims)>; 2]>,
}

impl Length for GuardedBytes {
    fn len(&self) -> u64 {
        self.bytes.len()
    }
}

impl ChunkReader for GuardedBytes {
    type T = <SegmentBytes as ChunkReader>::T;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        if let Some(claims) = self
            .bytes
            .with_bytes_at(start, |bytes| page_claims(bytes).ok())
        {
            let mut headers = self.headers.lock();
            headers[1] = headers[0];
            headers[0] = Some((start + claims.header_bytes as u64, claims));
        }
        self.bytes.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let bytes = self.bytes.get_bytes(start, length)?;
        if self.whole_pages {
            let claims = page_claims(&bytes).map_err(|flaw| refused(flaw.to_owned()))?;
            check_page(
                &claims,
                self.compression,
                &bytes[claims.header_bytes..],
                self.rules,
            )?;
            return Ok(bytes);
        }
        let headers = *self.headers.lock();
        let ending_here = headers.iter().flatten().filter(|(at, _)| *at == start);
        // The bytes of a small page, read as a header, may extend into the next page, so a header
        // recorded at such a page's start may also end here. The real header begins later.
        let header = ending_here.min_by_key(|(_, claims)| claims.header_bytes);
        let Some((_, claims)) = header else {
            return Err(refused("a page header is damaged".to_owned()));
        };
        check_page(claims, self.compression, &bytes, self.rules)?;
        Ok(bytes)
    }
}

/// Checks that a page matches its checksum, and that it can be decompressed within the limit.
fn check_page(
    claims: &PageClaims,
    compression: Compression,
    page: &[u8],
    rules: PageRules,
) -> Result<(), ParquetError> {
    if let Some(expected) = claims.checksum.filter(|_| rules.checksums) {
        let found = crc32fast::hash(page);
        if found != expected {
            return Err(refused(format!(
                "a page's checksum is {found:08x} and should be {expected:08x}"
            )));
        }
    }
    let bytes_max = rules.bytes_max;
    if claims.uncompressed_anyway || compression == Compression::UNCOMPRESSED {
        return Ok(());
    }
    let claimed = u64::try_from(claims.uncompressed)
        .map_err(|_| refused(format!("a page of {} bytes", claims.uncompressed)))?;
    within(claimed, bytes_max)?;
    let packed = page.len() as u64;
    let ratio = match compression {
        Compression::SNAPPY => Some(SNAPPY_RATIO),
        Compression::LZ4 | Compression::LZ4_RAW => Some(LZ4_RATIO),
        Compression::GZIP(_) => Some(GZIP_RATIO),
        // The Zstandard decoder gets no more memory than the header claims.
        _ => None,
    };
    let can_hold = ratio.map(|ratio| packed.saturating_mul(ratio).saturating_add(SLACK_BYTES));
    if can_hold.is_some_and(|can_hold| claimed > can_hold) {
        return Err(refused(format!(
            "a page claims {claimed} bytes, which {packed} cannot hold"
        )));
    }
    let levels = usize::try_from(claims.level_bytes).unwrap_or(usize::MAX);
    let packed = page.get(levels..).unwrap_or_default();
    match compression {
        Compression::GZIP(_) if can_hold.is_some_and(|can_hold| can_hold > bytes_max) => {
            unpacked_within(flate2::read::MultiGzDecoder::new(packed), bytes_max)
        }
        Compression::BROTLI(_) => {
            unpacked_within(brotli::Decompressor::new(packed, 4096), bytes_max)
        }
        _ => Ok(()),
    }
}

/// Only the size matters here: decompression of damaged data stops at the error, which parquet
/// reports later.
fn unpacked_within(unpacked: impl Read, bytes_max: u64) -> Result<(), ParquetError> {
    let mut unpacked = unpacked.take(bytes_max.saturating_add(1));
    let bytes = io::copy(&mut unpacked, &mut io::sink()).unwrap_or(0);
    within(bytes, bytes_max)
}

fn within(bytes: u64, bytes_max: u64) -> Result<(), ParquetError> {
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(refused(format!(
        "a page of {bytes} bytes or more is too large: coscan.memory leaves {bytes_max} for one; raise it"
    )))
}

fn refused(reason: String) -> ParquetError {
    ParquetError::General(reason)
}

/// Checks file bytes that were read for parquet's own readers: every page in them must follow the
/// rules.
///
/// Each range inside a column chunk must begin with a page header, as the ranges that parquet's
/// own readers request do; ranges elsewhere are not checked.
///
/// # Errors
/// [`StorageError::BadPage`].
pub fn check_pages(
    file: &str,
    metadata: &ParquetMetaData,
    ranges: &[Range<u64>],
    answers: &[Bytes],
    rules: PageRules,
) -> Result<()> {
    for (range, bytes) in ranges.iter().zip(answers) {
        let place = metadata
            .row_groups()
            .iter()
            .enumerate()
            .find_map(|(number, group)| Some((number, column_at(group, range.start)?)));
        let Some((row_group, column)) = place else {
            continue;
        };
        let checked = check_run(column, range.start, bytes, rules);
        checked.map_err(|error| StorageError::BadPage {
            file: file.to_owned(),
            row_group,
            column: column
                .column_path()
                .parts()
                .first()
                .cloned()
                .unwrap_or_default(),
            reason: error.to_string(),
        })?;
    }
    Ok(())
}

fn column_at(group: &RowGroupMetaData, byte: u64) -> Option<&ColumnChunkMetaData> {
    group.columns().iter().find(|column| {
        let (start, length) = column.byte_range();
        byte.checked_sub(start).is_some_and(|at| at < length)
    })
}

/// Checks consecutive pages.
fn check_run(
    column: &ColumnChunkMetaData,
    start: u64,
    bytes: &Bytes,
    rules: PageRules,
) -> Result<(), ParquetError> {
    let mut at = 0;
    while at < bytes.len() {
        let header = page_claims(&bytes[at..]).map_err(|flaw| refused(flaw.to_owned()))?;
        let from = at + header.header_bytes;
        let end = usize::try_from(header.compressed)
            .ok()
            .and_then(|length| from.checked_add(length))
            .filter(|end| *end <= bytes.len());
        let Some(end) = end else {
            return Err(refused(format!("a page of {} bytes", header.compressed)));
        };
        check_page(&header, column.compression(), &bytes[from..end], rules)?;
        if header.lists_lengths {
            let range = start + at as u64..start + end as u64;
            let one = one_page(column, &range)?;
            let bytes = SegmentBytes::new(vec![(range, bytes.slice(at..end))]);
            GuardedPages::new(Arc::new(bytes), &one, 0, None, rules)?.get_next_page()?;
        }
        at = end;
    }
    Ok(())
}

/// A column chunk that consists of these bytes of `column`.
fn one_page(
    column: &ColumnChunkMetaData,
    range: &Range<u64>,
) -> Result<ColumnChunkMetaData, ParquetError> {
    column
        .clone()
        .into_builder()
        .set_dictionary_page_offset(None)
        .set_data_page_offset(i64::try_from(range.start)?)
        .set_total_compressed_size(i64::try_from(range.end - range.start)?)
        .build()
}
