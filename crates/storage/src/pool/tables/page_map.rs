//! Which pages do the chunks of a table consist of, and which bytes does a run of pages need?
//!
//! A *page* is the unit of a smooth scan: an aligned run of rows that can be read alone. In a file
//! whose columns begin their pages at the same rows (`coscan rewrite` writes such files) it is a
//! page of each column. In files by other writers it is the run between two rows at which all
//! needed columns begin a page, and without a page index it is the row group. No page spans two
//! chunks, so a chunk in memory serves all its pages.
//! Pages are numbered in the order of their rows' positions. The index that refers to the rows
//! assigns each file its position.
//! Not here: reading (`pool/tables/page_read.rs`), which pages to read (coscan-core's `smooth`).
//! Bounds: pure; 40 bytes per page.
//! P1: the pages of a map partition the rows of its chunks.

use std::ops::Range;

use coscan_core::smooth::{PageLayout, PageRun};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::page_index::offset_index::PageLocation;

use super::table_view::TableView;
use crate::parquet::{Piece, page_index};
use crate::pool::files::TableFile;

/// A run of rows of one chunk that can be read alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePage {
    /// Its chunk, as a position in [`TableView::chunks`].
    pub chunk: usize,
    /// Its rows. Never empty.
    pub piece: Piece,
    /// The position of its first row.
    pub position: u64,
}

impl TablePage {
    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.piece.rows.end - self.piece.rows.start
    }

    /// The positions of its rows.
    #[must_use]
    pub fn positions(&self) -> Range<u64> {
        self.position..self.position + self.rows()
    }
}

/// Neighbouring pages that are decoded together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagePiece {
    /// Their rows.
    pub piece: Piece,
    /// The position of the first of them.
    pub position: u64,
    /// The pages, by number.
    pub pages: Range<u32>,
}

/// The pages of a table, by number.
#[derive(Clone, Debug, Default)]
pub struct PageMap {
    pages: Vec<TablePage>,
    /// For each block of `1 << block_bits` positions, counted from position 0: the number of pages
    /// that begin before the block. The last entry counts all pages.
    begun: Vec<u32>,
    block_bits: u32,
}

impl PageMap {
    /// The pages of the chunks of `table`. `columns` names the needed columns of a chunk; `None`
    /// means that no column of it is needed: then each piece of the chunk is one page. `first_row`
    /// gives the position of a file's first row; files' positions must not overlap.
    pub fn new<'a>(
        table: &TableView,
        columns: impl Fn(usize) -> Option<&'a [String]>,
        first_row: impl Fn(&TableFile) -> u64,
    ) -> Self {
        let mut pages = Vec::new();
        for (chunk, info) in table.chunks().iter().enumerate() {
            let metadata = info.file.metadata();
            let needed: Option<Vec<usize>> = columns(chunk)
                .map(|names| names.iter().filter_map(|n| info.file.column(n)).collect());
            let file_position = first_row(&info.file);
            for piece in &info.file.chunks().chunks[info.file_chunk].pieces {
                let before = piece.first_row_of_file(metadata) - piece.rows.start;
                let cuts = match &needed {
                    Some(columns) => cuts(metadata, piece, columns),
                    None => vec![piece.rows.start, piece.rows.end],
                };
                pages.extend(cuts.windows(2).map(|cut| TablePage {
                    chunk,
                    piece: Piece {
                        row_group: piece.row_group,
                        rows: cut[0]..cut[1],
                    },
                    position: file_position + before + cut[0],
                }));
            }
        }
        pages.sort_by_key(|page| page.position);
        Self::of(pages)
    }

    /// A map of these pages, which ascend by position.
    fn of(pages: Vec<TablePage>) -> Self {
        let end = pages.last().map_or(0, |page| page.positions().end);
        // A block has about as many positions as an average page, so a lookup examines one or two
        // pages. The average is rounded up: if all pages but the last have the same size, a power
        // of two, a block is one page.
        let block_bits = end.div_ceil((pages.len() as u64).max(1)).max(1).ilog2();
        let blocks = (end >> block_bits) + 1;
        let mut begun = Vec::new();
        let mut count = 0;
        for block in 0..=blocks {
            let first = block << block_bits;
            while pages.get(count).is_some_and(|page| page.position < first) {
                count += 1;
            }
            begun.push(u32::try_from(count).unwrap_or(u32::MAX));
        }
        Self {
            pages,
            begun,
            block_bits,
        }
    }

    /// The number of pages.
    #[must_use]
    pub fn len(&self) -> u32 {
        u32::try_from(self.pages.len()).unwrap_or(u32::MAX)
    }

    /// Whether the map has no page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// All of them, ascending.
    #[must_use]
    pub fn pages(&self) -> &[TablePage] {
        &self.pages
    }

    /// The page of this number.
    ///
    /// # Panics
    /// There is no such page.
    #[must_use]
    pub fn page(&self, number: u32) -> &TablePage {
        &self.pages[number as usize]
    }

    /// The page that holds the row at this position; `None` if no page does.
    #[must_use]
    pub fn page_of(&self, position: u64) -> Option<u32> {
        let block = usize::try_from(position >> self.block_bits).ok()?;
        let (low, high) = (*self.begun.get(block)?, *self.begun.get(block + 1)?);
        let (low, high) = (low as usize, high as usize);
        let after = low + self.pages[low..high].partition_point(|page| page.position <= position);
        let page = self.pages.get(after.checked_sub(1)?)?;
        let inside = position - page.position < page.rows();
        inside.then(|| u32::try_from(after - 1).unwrap_or(u32::MAX))
    }

    /// The rows of a run; neighbouring pages are joined up to `rows_max` rows.
    #[must_use]
    pub fn pieces(&self, run: &PageRun, rows_max: u64) -> Vec<PagePiece> {
        let mut pieces: Vec<PagePiece> = Vec::new();
        for number in run.pages.clone() {
            let page = self.page(number);
            match pieces.last_mut() {
                Some(last)
                    if last.piece.row_group == page.piece.row_group
                        && last.piece.rows.end == page.piece.rows.start
                        && page.piece.rows.end - last.piece.rows.start <= rows_max =>
                {
                    last.piece.rows.end = page.piece.rows.end;
                    last.pages.end = number + 1;
                }
                _ => pieces.push(PagePiece {
                    piece: page.piece.clone(),
                    position: page.position,
                    pages: number..number + 1,
                }),
            }
        }
        pieces
    }
}

impl PageLayout for PageMap {
    fn page_count(&self) -> u32 {
        self.len()
    }

    fn page_of(&self, position: u64) -> Option<u32> {
        Self::page_of(self, position)
    }

    fn positions_of(&self, page: u32) -> Range<u64> {
        self.page(page).positions()
    }

    fn chunk_of(&self, page: u32) -> usize {
        self.page(page).chunk
    }
}

/// The rows of a piece at which all these root columns begin a page, including the piece's first
/// row and its end.
fn cuts(metadata: &ParquetMetaData, piece: &Piece, columns: &[usize]) -> Vec<u64> {
    let inside = |row: &u64| piece.rows.start < *row && *row < piece.rows.end;
    let mut common: Option<Vec<u64>> = None;
    if let Some(index) = page_index(metadata, piece.row_group) {
        for leaf in leaves_of(metadata, columns) {
            let rows = index[leaf].page_locations().iter().map(first_row_of);
            let mut rows: Vec<u64> = rows.filter(inside).collect();
            rows.dedup();
            common = Some(match common {
                None => rows,
                Some(mut common) => {
                    common.retain(|row| rows.binary_search(row).is_ok());
                    common
                }
            });
        }
    }
    let mut cuts = vec![piece.rows.start];
    cuts.extend(common.unwrap_or_default());
    cuts.push(piece.rows.end);
    cuts
}

/// The leaf columns of these root columns.
fn leaves_of<'a>(
    metadata: &'a ParquetMetaData,
    columns: &'a [usize],
) -> impl Iterator<Item = usize> + 'a {
    let schema = metadata.file_metadata().schema_descr();
    (0..schema.num_columns()).filter(|leaf| columns.contains(&schema.get_column_root_idx(*leaf)))
}

/// The byte ranges that decoding these rows of a root column needs: its dictionary and every page
/// with one of the rows. Ascending, not empty. Without a page index: the whole column of the row
/// group.
#[must_use]
pub fn bytes_of_rows(metadata: &ParquetMetaData, column: usize, piece: &Piece) -> Vec<Range<u64>> {
    let group = metadata.row_group(piece.row_group);
    let whole = piece.rows == (0..group.num_rows().unsigned_abs());
    let index = page_index(metadata, piece.row_group).filter(|_| !whole);
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut push = |range: Range<u64>| match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ if range.is_empty() => {}
        _ => ranges.push(range),
    };
    for leaf in leaves_of(metadata, &[column]) {
        let (start, length) = group.column(leaf).byte_range();
        let Some(index) = index else {
            push(start..start + length);
            continue;
        };
        let pages = index[leaf].page_locations();
        push(start..offset_of(&pages[0]));
        let first = pages
            .partition_point(|page| first_row_of(page) <= piece.rows.start)
            .saturating_sub(1);
        let end = pages.partition_point(|page| first_row_of(page) < piece.rows.end);
        for (number, page) in pages.iter().enumerate().take(end).skip(first) {
            let next = pages.get(number + 1).map_or(start + length, offset_of);
            push(offset_of(page)..next);
        }
    }
    ranges
}

fn offset_of(location: &PageLocation) -> u64 {
    location.offset.unsigned_abs()
}

fn first_row_of(location: &PageLocation) -> u64 {
    location.first_row_index.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_the_page_that_holds_it() {
        // Pages of all sizes; positions 300 to 400 belong to no page.
        let sizes = [1, 1, 1, 90, 7, 200, 1, 64, 3, 1000, 2];
        let mut pages = Vec::new();
        let mut position = 0;
        for size in sizes {
            if position == 300 {
                position = 400;
            }
            pages.push(TablePage {
                chunk: 0,
                piece: Piece {
                    row_group: 0,
                    rows: position..position + size,
                },
                position,
            });
            position += size;
        }
        let map = PageMap::of(pages.clone());
        for row in 0..position + 100 {
            let holds =
                |page: &TablePage| (page.position..page.position + page.rows()).contains(&row);
            let expected = pages.iter().position(holds);
            assert_eq!(
                map.page_of(row).map(|page| page as usize),
                expected,
                "{row}"
            );
        }
        assert_eq!(map.page_of(u64::MAX), None);
        assert_eq!(PageMap::default().page_of(0), None);
    }
}
