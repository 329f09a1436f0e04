//! Which disk is a page on, and which pages does a scan touch?
//!
//! Idea: a partition (a relation, or one level of a B+-tree) is a run of page numbers, spread over
//! the disks in equal contiguous pieces: B = pages / D per disk. An index has the structure of a
//! centralised one (one root); each of its levels is declustered separately. Tuples lie in the
//! order of the range-partitioning attribute, so that a logical range partitioning is the same
//! placement, known to the query: a range of values is a range of disks.
//! D1: the pages of a partition lie on the disks in order, and the shares of two disks differ by at
//! most one page.
//! Source: [RahmStohr94 §2, §3 "Database and workload model"].

use std::ops::Range;

/// A run of pages, declustered over the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) first: u32,
    pub(crate) pages: u32,
    pub(crate) disks: u32,
}

impl Partition {
    pub(crate) fn end(&self) -> u32 {
        self.first + self.pages
    }

    /// The disk that holds a page.
    pub(crate) fn disk(&self, page: u32) -> u32 {
        below(page - self.first, self.pages, self.disks)
    }

    /// The pages on a disk.
    pub(crate) fn on_disk(&self, disk: u32) -> Range<u32> {
        let begin = |disk: u32| {
            let before = u64::from(disk) * u64::from(self.pages);
            let before = before.div_ceil(u64::from(self.disks));
            self.first + u32::try_from(before).expect("D1: at most the pages")
        };
        begin(disk)..begin(disk + 1)
    }
}

/// Position `at` of `of`, scaled to `to`.
fn below(at: u32, of: u32, to: u32) -> u32 {
    let place = u64::from(at) * u64::from(to) / u64::from(of.max(1));
    u32::try_from(place).expect("at is at most of, so the place is at most to")
}

/// Relation, index and the pages of transactions, as in Figure 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Tuples.
    pub tuples: u32,
    /// Tuples per data page (blocking factor). At least 1.
    pub tuples_per_page: u32,
    /// Entries per index page. At least 2.
    pub entries_per_page: u32,
    /// Degree of declustering D: the number of the machine's disks that are used. At least 1.
    pub declustering: u32,
    /// Pages that transactions access, on the same disks. The paper does not give their number.
    pub transaction_pages: u32,
}

impl Relation {
    /// 100 MB: 125,000 tuples on 12,500 pages, declustered over this many disks.
    #[must_use]
    pub fn figure3(declustering: u32) -> Self {
        Self {
            tuples: 125_000,
            tuples_per_page: 10,
            entries_per_page: 200,
            declustering,
            transaction_pages: 100_000,
        }
    }

    /// Its data pages.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.tuples.div_ceil(self.tuples_per_page)
    }
}

/// The placement of all partitions.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) relation: Relation,
    pub(crate) data: Partition,
    /// The levels of the index, from the leaves to the root.
    pub(crate) levels: Vec<Partition>,
    pub(crate) transactions: Partition,
}

impl Database {
    pub(crate) fn new(relation: Relation) -> Self {
        let disks = relation.declustering;
        let mut first = 0;
        let mut partition = |pages: u32| {
            let partition = Partition {
                first,
                pages,
                disks,
            };
            first += pages;
            partition
        };
        let data = partition(relation.pages());
        let mut levels = Vec::new();
        let mut entries = relation.tuples;
        while levels.is_empty() || entries > 1 {
            entries = entries.div_ceil(relation.entries_per_page);
            levels.push(partition(entries));
        }
        let transactions = partition(relation.transaction_pages.max(1));
        Self {
            relation,
            data,
            levels,
            transactions,
        }
    }

    /// The partition of a page.
    pub(crate) fn partition(&self, page: u32) -> &Partition {
        if page < self.data.end() {
            return &self.data;
        }
        let level = self.levels.iter().find(|level| page < level.end());
        level.unwrap_or(&self.transactions)
    }

    /// The page that holds entry `entry` of the index, on a level.
    pub(crate) fn index_page(&self, level: usize, entry: u32) -> u32 {
        let mut at = entry;
        for _ in 0..=level {
            at /= self.relation.entries_per_page;
        }
        self.levels[level].first + at
    }

    /// The data page of a tuple in the order of the clustering attribute.
    pub(crate) fn data_page(&self, tuple: u32) -> u32 {
        self.data.first + tuple / self.relation.tuples_per_page
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)] // Test values are small.
mod tests {
    use super::*;

    #[test]
    fn the_papers_relation_has_the_papers_sizes() {
        let database = Database::new(Relation::figure3(32));
        assert_eq!(database.data.pages, 12_500);
        let levels: Vec<u32> = database.levels.iter().map(|level| level.pages).collect();
        assert_eq!(levels, [625, 4, 1], "a 3-level tree with 625 leaf pages");
        assert_eq!(database.data.on_disk(0).len(), 391, "about 390 data pages");
    }

    #[test]
    fn pieces_are_contiguous_and_even() {
        for (pages, disks) in [(12_500, 64), (625, 256), (4, 32), (1, 8), (100, 7)] {
            let partition = Partition {
                first: 1_000,
                pages,
                disks,
            };
            let mut next = partition.first;
            let fair = pages / disks;
            for disk in 0..disks {
                let piece = partition.on_disk(disk);
                assert_eq!(piece.start, next, "D1");
                assert!(piece.len() as u32 - fair <= 1, "D1");
                assert!(piece.clone().all(|page| partition.disk(page) == disk));
                next = piece.end;
            }
            assert_eq!(next, partition.end());
        }
    }
}
