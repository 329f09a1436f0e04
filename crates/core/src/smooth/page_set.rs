//! Page ID Cache: which pages has a scan read? One bit each.
//!
//! Source: [SmoothScan18 §4.1].

use std::ops::Range;

/// A set of pages below a fixed number.
#[derive(Clone, Debug)]
pub(crate) struct PageSet {
    words: Vec<u64>,
    pages: u32,
}

impl PageSet {
    pub(crate) fn new(pages: u32) -> Self {
        Self {
            words: vec![0; pages.div_ceil(64) as usize],
            pages,
        }
    }

    pub(crate) fn contains(&self, page: u32) -> bool {
        self.words[page as usize / 64] >> (page % 64) & 1 == 1
    }

    fn insert(&mut self, page: u32) {
        self.words[page as usize / 64] |= 1 << (page % 64);
    }

    /// Adds the pages of a range; returns those that were not in the set, as runs.
    pub(crate) fn take(&mut self, range: Range<u32>) -> Vec<Range<u32>> {
        let runs: Vec<Range<u32>> = self.absent(range).collect();
        for page in runs.iter().cloned().flatten() {
            self.insert(page);
        }
        runs
    }

    /// The pages of a range that are not in the set, as runs, ascending.
    pub(crate) fn absent(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> + '_ {
        let end = range.end.min(self.pages);
        let mut from = range.start;
        std::iter::from_fn(move || {
            let start = self.next_absent(from, end)?;
            from = (start..end).find(|&p| self.contains(p)).unwrap_or(end);
            Some(start..from)
        })
    }

    fn next_absent(&self, from: u32, end: u32) -> Option<u32> {
        let mut at = from;
        while at < end {
            let rest = !self.words[at as usize / 64] >> (at % 64);
            if rest != 0 {
                return Some(at + rest.trailing_zeros()).filter(|&page| page < end);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_is_taken_once() {
        let mut set = PageSet::new(200);
        let mut take = |from, to| {
            let runs = set.take(from..to).into_iter();
            runs.map(|run| (run.start, run.end)).collect::<Vec<_>>()
        };
        assert_eq!(take(10, 12), [(10, 12)]);
        assert_eq!(take(60, 130), [(60, 130)]);
        assert_eq!(take(0, 140), [(0, 10), (12, 60), (130, 140)]);
        assert_eq!(take(0, 140), []);
        assert_eq!(take(139, 1_000), [(140, 200)]);
        assert!(set.contains(139) && set.contains(199));
    }
}
