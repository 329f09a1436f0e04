//! Page ID Cache by rows: which rows lie in pages that a scan has read?
//!
//! An index names rows, and once most pages have been read, most entries name a row of such a
//! page. Finding the page of a row takes a search in the table of pages, which is not in the near
//! caches: 12 ns per entry, most of it the search, not the test of the bit in `page_set.rs`. So
//! each *block* of rows, about as large as a page, has a bit too, which is set once all pages with
//! rows in the block have been read. A set bit makes the search unnecessary; an unset bit decides
//! nothing.
//! Not here: the set of pages (`page_set.rs`), the treatment of other rows (the driver).
//! Bounds: one bit and four bytes per block; as many blocks as pages, or up to twice as many.
//! SMOOTH-I8: the count of a block is the number of its pages that were not taken.

use std::ops::Range;

use super::PageLayout;

/// Rows, by position, that a scan has read or is about to read.
#[derive(Clone, Debug)]
pub struct SeenRows {
    /// One bit per block.
    seen: Vec<u64>,
    /// Per block, the number of pages with rows in it that were not taken.
    left: Vec<u32>,
    block_bits: u32,
}

impl SeenRows {
    /// An empty set over pages with these rows, in ascending positions, none of them empty.
    #[must_use]
    pub fn new(pages: impl ExactSizeIterator<Item = Range<u64>> + Clone) -> Self {
        let count = pages.len() as u64;
        let end = pages.clone().map(|rows| rows.end).max().unwrap_or(0);
        // Rounded up, so that a short last page does not halve the blocks.
        let block_bits = end.div_ceil(count.max(1)).max(1).ilog2();
        let mut left = Vec::new();
        for block in pages.flat_map(|rows| blocks(&rows, block_bits)) {
            if block >= left.len() {
                left.resize(block + 1, 0);
            }
            left[block] += 1;
        }
        Self {
            seen: vec![0; left.len().div_ceil(64)],
            left,
            block_bits,
        }
    }

    /// An empty set over the pages of a table.
    #[must_use]
    pub fn of(layout: &impl PageLayout) -> Self {
        Self::new((0..layout.page_count()).map(|page| layout.positions_of(page)))
    }

    /// Takes the page with these rows: it has been read, or its read is outstanding.
    ///
    /// # Panics
    /// There is no such page, or it was taken already.
    pub fn take(&mut self, rows: &Range<u64>) {
        for block in blocks(rows, self.block_bits) {
            let left = &mut self.left[block];
            assert!(*left > 0, "SMOOTH-I8: a page is taken once");
            *left -= 1;
            if *left == 0 {
                self.seen[block / 64] |= 1 << (block % 64);
            }
        }
    }

    /// # Panics
    /// SMOOTH-I8 does not hold for the pages for which `taken` is true.
    pub(crate) fn check(&self, layout: &impl PageLayout, taken: impl Fn(u32) -> bool) {
        let mut expected = Self::of(layout);
        for page in (0..layout.page_count()).filter(|page| taken(*page)) {
            expected.take(&layout.positions_of(page));
        }
        assert!(
            self.left == expected.left && self.seen == expected.seen,
            "SMOOTH-I8"
        );
    }

    /// Whether the row at this position is known to be in no page, or in a taken page. False
    /// decides nothing.
    #[inline]
    #[must_use]
    pub fn contains(&self, position: u64) -> bool {
        let block = position >> self.block_bits;
        let word = usize::try_from(block / 64).ok();
        let word = word.and_then(|word| self.seen.get(word));
        word.is_some_and(|word| word >> (block % 64) & 1 == 1)
    }
}

/// The blocks in which these rows lie.
fn blocks(rows: &Range<u64>, block_bits: u32) -> Range<usize> {
    let block = |row: u64| usize::try_from(row >> block_bits).unwrap_or(usize::MAX);
    block(rows.start)..block(rows.end - 1) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Consecutive pages of these sizes; size 0 stands for a gap of 100 rows.
    fn pages(sizes: &[u64]) -> Vec<Range<u64>> {
        let mut at = 0;
        let mut pages = Vec::new();
        for size in sizes {
            if *size == 0 {
                at += 100;
                continue;
            }
            pages.push(at..at + size);
            at += size;
        }
        pages
    }

    #[test]
    fn a_row_is_seen_once_its_page_and_those_of_its_block_are() {
        for sizes in [
            &[64; 40][..],
            &[64, 64, 64, 17],
            &[1, 1, 1, 90, 7, 200, 0, 1, 64, 3, 0, 1000, 2],
            &[5000, 1, 1, 1],
            &[0, 3],
            &[1],
        ] {
            let pages = pages(sizes);
            let mut seen = SeenRows::new(pages.iter().cloned());
            let mut taken = vec![false; pages.len()];
            // Every second page, then the others.
            let order = (0..pages.len())
                .step_by(2)
                .chain((1..pages.len()).step_by(2));
            for page in order {
                seen.take(&pages[page]);
                taken[page] = true;
                let width = 1 << seen.block_bits;
                for row in 0..6_000 {
                    let block = row / width * width..(row / width + 1) * width;
                    let inside =
                        |rows: &Range<u64>| rows.start < block.end && block.start < rows.end;
                    let mut of_block = (0..pages.len()).filter(|&p| inside(&pages[p])).peekable();
                    let expected = of_block.peek().is_some() && of_block.all(|p| taken[p]);
                    assert_eq!(seen.contains(row), expected, "{sizes:?} {row}");
                }
            }
            let held = pages.iter().cloned().flatten();
            assert!(held.into_iter().all(|row| seen.contains(row)));
            assert!(!seen.contains(u64::MAX));
        }
    }

    #[test]
    fn blocks_of_equal_pages_are_pages() {
        let mut seen = SeenRows::new(pages(&[64, 64, 64, 17]).into_iter());
        seen.take(&(64..128));
        let of = |row| seen.contains(row);
        assert_eq!([63, 64, 127, 128].map(of), [false, true, true, false]);
    }

    #[test]
    fn a_table_without_pages_has_no_rows() {
        assert!(!SeenRows::new(std::iter::empty()).contains(0));
    }
}
