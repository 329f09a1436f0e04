//! Which pages that were decoded for single rows are kept for the rows that follow?
//!
//! Idea: an index that is correlated with the table's order names rows of one page shortly after
//! each other, so the pages that were used last are kept.
//! Not here: reading and decoding, pages that are on their way, memory (the driver).
//! RECENT-I1: the kept pages have `bytes` bytes together, at most `bytes_max`.
//! RECENT-I2: each kept page has one place in the order of use.

use std::collections::BTreeMap;

/// Decoded pages, the least recently used of which go first.
///
/// ```
/// use coscan_core::smooth::RecentPages;
/// let mut pages = RecentPages::new(200);
/// assert!(pages.keep(1, 100, "one") && pages.keep(2, 100, "two"));
/// assert_eq!(pages.find(1), Some(&"one"));
/// assert_eq!(pages.make_room(100), 100);
/// assert!(pages.keep(3, 100, "three"));
/// assert_eq!(pages.find(1), Some(&"one"));
/// assert_eq!(pages.find(2), None);
/// ```
#[derive(Clone, Debug)]
pub struct RecentPages<P> {
    pages: BTreeMap<u32, Kept<P>>,
    /// The pages, the least recently used first.
    by_use: BTreeMap<u64, u32>,
    /// The number of uses so far.
    uses: u64,
    bytes: u64,
    bytes_max: u64,
}

#[derive(Clone, Debug)]
struct Kept<P> {
    page: P,
    bytes: u64,
    /// The place in the order of use.
    used: u64,
}

impl<P> RecentPages<P> {
    /// No pages, with room for `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        Self {
            pages: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            bytes_max,
        }
    }

    /// A page, if it is kept. It is then the most recently used one.
    pub fn find(&mut self, number: u32) -> Option<&P> {
        let kept = self.pages.get_mut(&number)?;
        self.uses += 1;
        self.by_use.remove(&kept.used);
        self.by_use.insert(self.uses, number);
        kept.used = self.uses;
        Some(&kept.page)
    }

    /// Drops the least recently used pages until `bytes` more bytes fit, or no page is left.
    /// Returns the bytes of the dropped pages.
    pub fn make_room(&mut self, bytes: u64) -> u64 {
        let mut freed = 0;
        while self.bytes + bytes > self.bytes_max {
            match self.drop_oldest() {
                Some(dropped) => freed += dropped,
                None => break,
            }
        }
        freed
    }

    /// Drops the least recently used page. Returns its bytes; `None` if no page is kept.
    pub fn drop_oldest(&mut self) -> Option<u64> {
        let (_, number) = self.by_use.pop_first()?;
        let kept = self.pages.remove(&number)?;
        self.bytes -= kept.bytes;
        Some(kept.bytes)
    }

    /// Keeps a page; false if it is kept already, or if there is no room for it.
    pub fn keep(&mut self, number: u32, bytes: u64, page: P) -> bool {
        if self.pages.contains_key(&number) || self.bytes + bytes > self.bytes_max {
            return false;
        }
        self.uses += 1;
        self.by_use.insert(self.uses, number);
        self.bytes += bytes;
        let used = self.uses;
        self.pages.insert(number, Kept { page, bytes, used });
        true
    }

    /// The bytes of all kept pages.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Checks every invariant. For tests.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check(&self) {
        let bytes: u64 = self.pages.values().map(|kept| kept.bytes).sum();
        assert!(
            bytes == self.bytes && bytes <= self.bytes_max,
            "RECENT-I1: the kept pages fit into their bytes"
        );
        assert_eq!(self.by_use.len(), self.pages.len(), "RECENT-I2");
        for (number, kept) in &self.pages {
            assert_eq!(self.by_use.get(&kept.used), Some(number), "RECENT-I2");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same, slowly: pages with their bytes, the least recently used first.
    #[derive(Default)]
    struct Naive(Vec<(u32, u64)>);

    impl Naive {
        fn find(&mut self, number: u32) -> bool {
            let at = self.0.iter().position(|(page, _)| *page == number);
            if let Some(at) = at {
                let page = self.0.remove(at);
                self.0.push(page);
            }
            at.is_some()
        }

        fn keep(&mut self, number: u32, bytes: u64, bytes_max: u64) {
            let all = |pages: &[(u32, u64)]| pages.iter().map(|(_, bytes)| bytes).sum::<u64>();
            while !self.0.is_empty() && all(&self.0) + bytes > bytes_max {
                self.0.remove(0);
            }
            if bytes <= bytes_max {
                self.0.push((number, bytes));
            }
        }
    }

    proptest! {
        #[test]
        fn the_pages_that_were_used_last_are_kept(
            uses in prop::collection::vec((0..12_u32, 1..60_u64), 0..200),
            bytes_max in 0..200_u64,
        ) {
            let (mut pages, mut naive) = (RecentPages::new(bytes_max), Naive::default());
            for (number, bytes) in uses {
                let found = pages.find(number).copied();
                prop_assert_eq!(found.is_some(), naive.find(number));
                prop_assert!(found.is_none_or(|page| page == number));
                if found.is_none() {
                    let before = pages.bytes();
                    let freed = pages.make_room(bytes);
                    prop_assert_eq!(pages.bytes(), before - freed);
                    prop_assert_eq!(pages.keep(number, bytes, number), bytes <= bytes_max);
                    naive.keep(number, bytes, bytes_max);
                }
                pages.check();
                prop_assert_eq!(pages.pages.len(), naive.0.len());
            }
        }
    }
}
