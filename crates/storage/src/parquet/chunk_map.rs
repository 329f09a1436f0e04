//! Into which chunks is a Parquet file divided, and which bytes does each chunk need?
//!
//! Idea: a chunk costs one seek and one scheduling decision, so it should have about the target
//! size, whatever row groups the writer chose. Neighbouring small row groups are joined. A row
//! group above twice the target is split between pages of its widest leaf, if the file has an
//! offset index; pages of other leaves that straddle a split, and dictionary pages, are shared by
//! the chunks that they serve [CoopScans07 §6.1].
//! Not here: reading the metadata (`footer.rs`), decoding (`decode.rs`), table-wide chunk ids (the
//! pool).
//! Bounds: O(row groups × leaves + pages); pure, no I/O.
//! I1: the pieces of a file's chunks partition the rows of its row groups, in file order.
//! I2: every byte of a column chunk that has rows is in exactly one own range of one chunk, or in
//! one shared extent.

use std::collections::BTreeMap;
use std::ops::Range;

use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};

/// The chunks of one file, in row order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileChunks {
    /// The chunks; their position is what [`SharedPages`] refers to.
    pub chunks: Vec<FileChunk>,
    /// Pages that serve several chunks, ordered by (column, first, last).
    pub shared: Vec<SharedPages>,
}

/// A run of rows of one file: one row group, several joined, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileChunk {
    /// Its rows, ascending. Only a chunk that is part of a split row group has a piece that is not
    /// a whole row group.
    pub pieces: Vec<Piece>,
    /// The sum of the pieces' rows; never 0.
    pub rows: u64,
    /// For each root column its own byte ranges: ascending, not empty, merged where contiguous.
    pub columns: Vec<Vec<Range<u64>>>,
}

/// A run of rows within one row group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The row group, from 0.
    pub row_group: usize,
    /// The rows, counted within the row group; never empty.
    pub rows: Range<u64>,
}

impl Piece {
    /// The first row of the piece, counted from the file's first.
    pub(crate) fn first_row_of_file(&self, metadata: &ParquetMetaData) -> u64 {
        let before = &metadata.row_groups()[..self.row_group];
        let before = before.iter().map(|group| group.num_rows().unsigned_abs());
        before.sum::<u64>() + self.rows.start
    }
}

/// Pages of one root column that serve a run of neighbouring chunks of one split row group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPages {
    /// The root column.
    pub column: usize,
    /// The first chunk that it serves, a position in [`FileChunks::chunks`].
    pub first: usize,
    /// The last chunk that it serves, after `first`.
    pub last: usize,
    /// The bytes: ascending, not empty, merged where contiguous.
    pub ranges: Vec<Range<u64>>,
}

/// The target size of a chunk: bytes on disk, over all columns. Large enough that a disk's seek or
/// a request to an object store costs little in comparison, small enough that a buffer of a few
/// hundred MiB holds chunks for several scans.
pub const CHUNK_BYTES_DEFAULT: u64 = 16 << 20;

/// A joined chunk has at most this many rows, whatever its bytes: a column of one repeated value
/// takes no space on disk and much when decoded.
pub const JOINED_ROWS_MAX: u64 = 4 << 20;

/// The most parts of a row group: a terabyte at the default target. The bound limits the work for
/// a file with false claims.
const PARTS_MAX: u64 = 1 << 16;

impl FileChunks {
    /// The chunks, of about `target_bytes` each, of the file with this metadata.
    ///
    /// Row groups without rows belong to no chunk. The metadata must have passed
    /// [`crate::read_footer`]'s validation.
    #[must_use]
    pub fn new(metadata: &ParquetMetaData, target_bytes: u64) -> Self {
        let mut map = Mapper::new(metadata);
        let target_bytes = target_bytes.max(1);
        for (index, row_group) in metadata.row_groups().iter().enumerate() {
            let rows = row_group.num_rows().unsigned_abs();
            if rows == 0 {
                continue;
            }
            let bytes = row_group_bytes(row_group);
            if bytes > target_bytes.saturating_mul(2)
                && let Some(pages) = page_index(metadata, index)
            {
                map.flush();
                map.split(index, pages, target_bytes);
                continue;
            }
            if map.open_bytes.saturating_add(bytes) > target_bytes
                || map.open.rows.saturating_add(rows) > JOINED_ROWS_MAX
            {
                map.flush();
            }
            map.join(index, bytes);
        }
        map.flush();
        map.done
    }

    /// The shared pages of `column` that `chunk` needs.
    pub fn shared_of(&self, chunk: usize, column: usize) -> impl Iterator<Item = &SharedPages> {
        let start = self.shared.partition_point(|s| s.column < column);
        self.shared[start..]
            .iter()
            .take_while(move |s| s.column == column && s.first <= chunk)
            .filter(move |s| chunk <= s.last)
    }

    /// Every range that decoding `column` of `chunk` needs, own and shared: ascending, merged where
    /// contiguous.
    #[must_use]
    pub fn ranges_of(&self, chunk: usize, column: usize) -> Vec<Range<u64>> {
        let mut ranges = self.chunks[chunk].columns[column].clone();
        ranges.extend(
            self.shared_of(chunk, column)
                .flat_map(|s| s.ranges.iter().cloned()),
        );
        merge(ranges)
    }
}

/// The offset index of a row group, if every leaf has one with pages.
pub(crate) fn page_index(
    metadata: &ParquetMetaData,
    row_group: usize,
) -> Option<&[OffsetIndexMetaData]> {
    let leaves = metadata.row_group(row_group).columns().len();
    let index = metadata.offset_index()?.get(row_group)?;
    let usable = index.len() == leaves && index.iter().all(|i| !i.page_locations().is_empty());
    (usable && leaves > 0).then_some(index.as_slice())
}

/// The state of one pass over a file's row groups.
struct Mapper<'a> {
    metadata: &'a ParquetMetaData,
    /// The root column of each leaf.
    roots: Vec<usize>,
    root_count: usize,
    /// The chunk that row groups are being joined into; it has no rows while no row group is open.
    open: FileChunk,
    open_bytes: u64,
    done: FileChunks,
}

impl<'a> Mapper<'a> {
    fn new(metadata: &'a ParquetMetaData) -> Self {
        let schema = metadata.file_metadata().schema_descr();
        let root_count = schema.root_schema().get_fields().len();
        Self {
            metadata,
            roots: (0..schema.num_columns())
                .map(|leaf| schema.get_column_root_idx(leaf))
                .collect(),
            root_count,
            open: empty_chunk(root_count),
            open_bytes: 0,
            done: FileChunks::default(),
        }
    }

    fn flush(&mut self) {
        self.open_bytes = 0;
        if self.open.rows == 0 {
            return;
        }
        let chunk = std::mem::replace(&mut self.open, empty_chunk(self.root_count));
        self.push(chunk);
    }

    fn push(&mut self, mut chunk: FileChunk) {
        for ranges in &mut chunk.columns {
            *ranges = merge(std::mem::take(ranges));
            // A new list has room for four ranges, and most have one.
            ranges.shrink_to_fit();
        }
        chunk.pieces.shrink_to_fit();
        self.done.chunks.push(chunk);
    }

    fn join(&mut self, index: usize, bytes: u64) {
        let row_group = self.metadata.row_group(index);
        let rows = row_group.num_rows().unsigned_abs();
        self.open.pieces.push(Piece {
            row_group: index,
            rows: 0..rows,
        });
        self.open.rows += rows;
        self.open_bytes += bytes;
        for (column, &root) in row_group.columns().iter().zip(&self.roots) {
            let (start, length) = column.byte_range();
            self.open.columns[root].push(start..start + length);
        }
    }

    /// Splits a row group into chunks of about `target_bytes`.
    fn split(&mut self, index: usize, pages: &[OffsetIndexMetaData], target_bytes: u64) {
        let row_group = self.metadata.row_group(index);
        let rows = row_group.num_rows().unsigned_abs();
        let cuts = cuts(row_group, pages, target_bytes);
        let base = self.done.chunks.len();
        let mut chunks = parts_of(index, &cuts, self.root_count);
        let mut shared: BTreeMap<(usize, usize, usize), Vec<Range<u64>>> = BTreeMap::new();
        for (leaf, (column, index)) in row_group.columns().iter().zip(pages).enumerate() {
            let root = self.roots[leaf];
            let (start, length) = column.byte_range();
            let mut place = |first: usize, last: usize, range: Range<u64>| {
                if first == last {
                    chunks[first].columns[root].push(range);
                } else {
                    shared
                        .entry((root, base + first, base + last))
                        .or_default()
                        .push(range);
                }
            };
            let locations = index.page_locations();
            // The bytes before the first data page are the dictionary, which every page may refer
            // to.
            place(0, cuts.len() - 2, start..offset_of(&locations[0]));
            for (number, location) in locations.iter().enumerate() {
                let next = locations.get(number + 1);
                // There should be no bytes between two pages; if there are, they belong to the
                // page before them (I2).
                let range = offset_of(location)..next.map_or(start + length, offset_of);
                let from = first_row_of(location).min(rows - 1);
                let to = next.map_or(rows, first_row_of).saturating_sub(1).max(from);
                place(chunk_of(&cuts, from), chunk_of(&cuts, to), range);
            }
        }
        for chunk in chunks {
            self.push(chunk);
        }
        self.done
            .shared
            .extend(
                shared
                    .into_iter()
                    .map(|((column, first, last), ranges)| SharedPages {
                        column,
                        first,
                        last,
                        ranges: merge(ranges),
                    }),
            );
        self.done.shared.retain(|s| !s.ranges.is_empty());
        self.done
            .shared
            .sort_by_key(|s| (s.column, s.first, s.last));
    }
}

/// The chunks of a row group that is split at these rows, without their bytes.
fn parts_of(row_group: usize, cuts: &[u64], root_count: usize) -> Vec<FileChunk> {
    let parts = cuts.windows(2).map(|cut| FileChunk {
        pieces: vec![Piece {
            row_group,
            rows: cut[0]..cut[1],
        }],
        rows: cut[1] - cut[0],
        ..empty_chunk(root_count)
    });
    parts.collect()
}

/// The rows at which to split a row group, including its first row and its end: at least 2,
/// ascending. Each but the last is the first row of a page of the widest leaf.
fn cuts(
    row_group: &RowGroupMetaData,
    pages: &[OffsetIndexMetaData],
    target_bytes: u64,
) -> Vec<u64> {
    let rows = row_group.num_rows().unsigned_abs();
    let widest = (0..pages.len())
        .max_by_key(|&leaf| {
            (
                row_group.column(leaf).byte_range().1,
                std::cmp::Reverse(leaf),
            )
        })
        .unwrap_or(0);
    let mut candidates: Vec<u64> = pages[widest]
        .page_locations()
        .iter()
        .map(first_row_of)
        .filter(|&row| row > 0 && row < rows)
        .collect();
    candidates.dedup();

    // before[i]: bytes of the pages, of all leaves, that start before candidate i.
    let mut before = vec![0; candidates.len() + 1];
    for location in pages.iter().flat_map(OffsetIndexMetaData::page_locations) {
        let first_after = candidates.partition_point(|&row| row <= first_row_of(location));
        before[first_after] += u64::from(location.compressed_page_size.unsigned_abs());
    }
    for i in 1..before.len() {
        before[i] += before[i - 1];
    }
    let total = before[candidates.len()];

    let parts = (total.saturating_add(target_bytes / 2) / target_bytes).clamp(1, PARTS_MAX);
    let mut cuts = vec![0];
    let mut at = 0;
    for part in 1..parts {
        let ideal = u64::try_from(u128::from(total) * u128::from(part) / u128::from(parts))
            .unwrap_or(u64::MAX);
        at += before[at..candidates.len()].partition_point(|&bytes| bytes < ideal);
        // The closer of the two candidates around the ideal position.
        let below = at > 0
            && at <= candidates.len()
            && (at == candidates.len() || ideal - before[at - 1] < before[at] - ideal);
        let Some(&row) = candidates.get(at - usize::from(below)) else {
            continue;
        };
        if cuts.last().is_some_and(|&last| row > last) {
            cuts.push(row);
        }
    }
    cuts.push(rows);
    cuts
}

/// The chunk, counted from the row group's first, that holds `row`.
fn chunk_of(cuts: &[u64], row: u64) -> usize {
    cuts.partition_point(|&cut| cut <= row) - 1
}

fn empty_chunk(columns: usize) -> FileChunk {
    FileChunk {
        columns: vec![Vec::new(); columns],
        ..FileChunk::default()
    }
}

fn row_group_bytes(row_group: &RowGroupMetaData) -> u64 {
    row_group
        .columns()
        .iter()
        .map(|column| column.byte_range().1)
        .sum()
}

fn offset_of(location: &PageLocation) -> u64 {
    location.offset.unsigned_abs()
}

fn first_row_of(location: &PageLocation) -> u64 {
    location.first_row_index.unsigned_abs()
}

/// Sorts ranges, drops empty ones and merges those that touch.
fn merge(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, kept| {
        let touches = next.start == kept.end;
        if touches {
            kept.end = next.end;
        }
        touches
    });
    ranges.shrink_to_fit();
    ranges
}
