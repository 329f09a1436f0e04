//! Which queries and transactions arrive, when, and which pages does each part of one access?
//!
//! Idea: a subquery is a list of *runs* of neighbouring pages, fixed when it starts. A relation
//! scan is one run; an index scan goes from the root to a leaf, to the data pages of that leaf, to
//! the next leaf.
//! W1: the subqueries of a scan together access every tuple of the range exactly once.
//! Source: [RahmStohr94 §2, §3 "Database and workload model", §4.3].

use std::ops::Range;

use super::data::database::Database;
use crate::random::Random;

/// How a scan finds its tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Every page of the relation.
    Relation,
    /// Every page of the disks that hold the range; the query knows these from the logical range
    /// partitioning.
    Partitions,
    /// Through an index whose order is that of the tuples.
    ClusteredIndex,
    /// Through an index in another order.
    NonClusteredIndex,
}

/// P, the number of subqueries of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Degree {
    /// This many. At least 1.
    Fixed(u32),
    /// Chosen while the scan runs.
    Chosen {
        /// The most subqueries.
        most: u32,
        /// How the controller keeps prefetches within the disk cache.
        room: Room,
    },
}

/// How a controller of parallelism finds out for how many prefetches the disk cache has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The room is a parameter.
    Told,
    /// It sees that more pages are read than are requested.
    Found,
    /// It does not find out.
    Unknown,
}

/// The nodes on which subqueries run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// On nodes drawn at random, all different while there are enough.
    Random,
    /// On the nodes with the fewest subqueries at the moment.
    LeastBusy,
}

/// A kind of scan query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// How it finds its tuples.
    pub access: Access,
    /// Share of the tuples in its result, in millionths.
    pub selectivity_ppm: u32,
    /// Whether data pages are prefetched.
    pub prefetch: bool,
    /// The number of subqueries.
    pub degree: Degree,
    /// The nodes on which they run.
    pub assignment: Assignment,
    /// Whether data pages are locked one by one; otherwise the relation is locked once.
    pub page_locks: bool,
    /// Whether a subquery without an index begins anywhere in its share and wraps around, as does
    /// each piece of a scan whose degree is chosen; otherwise it begins with the first page.
    pub anywhere: bool,
}

impl Scan {
    /// A query of Figure 3: 1 % of the tuples.
    #[must_use]
    pub fn figure3(access: Access, prefetch: bool, degree: Degree) -> Self {
        Self {
            access,
            selectivity_ppm: 10_000,
            prefetch,
            degree,
            assignment: Assignment::Random,
            page_locks: false,
            anywhere: false,
        }
    }
}

/// A kind of transaction, in the style of debit-credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The number of pages that it accesses, at random.
    pub pages: u32,
    /// Whether it changes the pages.
    pub writes: bool,
    /// Whether the pages are those of the scanned relation; otherwise of a separate relation.
    pub on_relation: bool,
}

/// What a class consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Queries.
    Scan(Scan),
    /// Transactions.
    Transaction(Transaction),
}

/// When queries arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Each when its predecessor has ended: single-user mode.
    OneByOne,
    /// At random, with this mean distance (a Poisson process). Nanoseconds.
    Open(u64),
    /// At random, with a mean that changes: (length of the phase, mean), repeated. Nanoseconds.
    Changing(Vec<(u64, u64)>),
}

impl Arrivals {
    /// This many per 1000 seconds. At least 1.
    #[must_use]
    pub fn per_kilosecond(rate: u64) -> Self {
        Self::Open(1_000_000_000_000 / rate.max(1))
    }

    /// When the next query arrives after one that arrived at `now`; `None` if the end of a query
    /// decides.
    pub(crate) fn next(&self, now: u64, random: &mut Random) -> Option<u64> {
        match self {
            Self::OneByOne => None,
            Self::Open(mean) => Some(now.saturating_add(random.exponential(*mean))),
            Self::Changing(phases) => {
                // Without memory: the rest of a wait at a change of phase is drawn with the new
                // mean.
                let period: u64 = phases.iter().map(|&(long, _)| long).sum();
                let mut at = now;
                loop {
                    let mut into = at % period.max(1);
                    let phase = phases.iter().find(|&&(long, _)| {
                        let here = into < long;
                        into = into.saturating_sub(if here { 0 } else { long });
                        here
                    });
                    let &(long, mean) = phase?;
                    let wait = random.exponential(mean);
                    if wait < long - into {
                        return Some(at + wait);
                    }
                    at += long - into;
                }
            }
        }
    }
}

/// Queries or transactions of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The work of each.
    pub work: Work,
    /// When they arrive.
    pub arrivals: Arrivals,
    /// The nodes that coordinate them, and on which their subqueries run. Not empty.
    pub nodes: Range<u32>,
}

/// Neighbouring pages of one partition that a subquery accesses in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) next: u32,
    pub(crate) end: u32,
    /// Tuples or entries that it examines on each page.
    pub(crate) objects: u32,
    /// Result tuples of each page, in millionths.
    pub(crate) results_ppm: u64,
    pub(crate) prefetch: bool,
    /// Whether each page is locked.
    pub(crate) locks: bool,
}

impl Run {
    fn one(page: u32, objects: u32) -> Self {
        Self {
            next: page,
            end: page + 1,
            objects,
            results_ppm: 0,
            prefetch: false,
            locks: false,
        }
    }
}

/// The range of tuples that a query looks for, in the order of its index.
pub(crate) fn range(scan: &Scan, database: &Database, random: &mut Random) -> Range<u32> {
    let tuples = database.relation.tuples;
    let wanted = u64::from(tuples) * u64::from(scan.selectivity_ppm) / 1_000_000;
    let wanted = u32::try_from(wanted).expect("at most the tuples").max(1);
    let first = random.below(u64::from(tuples - wanted) + 1);
    let first = u32::try_from(first).expect("below the tuples");
    first..first + wanted
}

/// The data pages that a scan without an index reads for a range.
pub(crate) fn pages(scan: &Scan, database: &Database, range: &Range<u32>) -> Range<u32> {
    match scan.access {
        Access::Partitions => {
            let data = &database.data;
            let disk = |tuple: u32| data.disk(database.data_page(tuple));
            data.on_disk(disk(range.start)).start..data.on_disk(disk(range.end - 1)).end
        }
        _ => database.data.first..database.data.end(),
    }
}

/// The runs of subquery `at` of `of`.
pub(crate) fn subquery(
    scan: &Scan,
    database: &Database,
    range: &Range<u32>,
    (at, of): (u32, u32),
    random: &mut Random,
) -> Vec<Run> {
    match scan.access {
        Access::Relation | Access::Partitions => {
            let pages = pages(scan, database, range);
            let pages = cut(&pages, at, of);
            let run = |pages| pages_run(scan, database, pages);
            if !scan.anywhere || pages.is_empty() {
                return vec![run(pages)];
            }
            let skipped = random.below(u64::from(pages.end - pages.start));
            let begin = pages.start + u32::try_from(skipped).expect("below the pages");
            vec![run(begin..pages.end), run(pages.start..begin)]
        }
        Access::ClusteredIndex | Access::NonClusteredIndex => {
            index_runs(scan, database, &cut(range, at, of))
        }
    }
}

/// A run over data pages without an index.
pub(crate) fn pages_run(scan: &Scan, database: &Database, pages: Range<u32>) -> Run {
    let tuples = database.relation.tuples_per_page;
    Run {
        next: pages.start,
        end: pages.end,
        objects: tuples,
        results_ppm: u64::from(tuples) * u64::from(scan.selectivity_ppm),
        prefetch: scan.prefetch,
        locks: scan.page_locks,
    }
}

/// The share `at` of `of` equal shares.
fn cut(range: &Range<u32>, at: u32, of: u32) -> Range<u32> {
    let length = u64::from(range.end - range.start);
    let begin = |at: u32| {
        let offset = u64::from(at) * length / u64::from(of.max(1));
        range.start + u32::try_from(offset).expect("at most the length")
    };
    begin(at)..begin(at + 1)
}

fn index_runs(scan: &Scan, database: &Database, tuples: &Range<u32>) -> Vec<Run> {
    if tuples.is_empty() {
        return Vec::new();
    }
    let mut runs = Vec::new();
    for level in (1..database.levels.len()).rev() {
        runs.push(Run::one(database.index_page(level, tuples.start), 1));
    }
    let mut tuple = tuples.start;
    while tuple < tuples.end {
        let leaf = database.index_page(0, tuple);
        runs.push(Run::one(leaf, 1));
        let of_leaf = (tuple / database.relation.entries_per_page + 1)
            .saturating_mul(database.relation.entries_per_page);
        let leaf_end = of_leaf.min(tuples.end);
        while tuple < leaf_end {
            let (page, objects) = match scan.access {
                Access::NonClusteredIndex => (elsewhere(database, tuple), 1),
                _ => {
                    let per_page = database.relation.tuples_per_page;
                    let page_end = (tuple / per_page + 1) * per_page;
                    (database.data_page(tuple), page_end.min(leaf_end) - tuple)
                }
            };
            runs.push(Run {
                results_ppm: u64::from(objects) * 1_000_000,
                prefetch: scan.prefetch,
                locks: scan.page_locks,
                ..Run::one(page, objects)
            });
            tuple += objects;
        }
    }
    runs
}

/// The data page of an entry of a non-clustered index: pseudo-random, but always the same.
fn elsewhere(database: &Database, entry: u32) -> u32 {
    let page = Random::new(entry.into()).below(database.data.pages.into());
    database.data.first + u32::try_from(page).expect("below the pages")
}

/// The pages of a transaction, in the order in which it locks them.
pub(crate) fn transaction(
    transaction: Transaction,
    database: &Database,
    random: &mut Random,
) -> Vec<Run> {
    let partition = if transaction.on_relation {
        &database.data
    } else {
        &database.transactions
    };
    let wanted = transaction.pages.min(partition.pages) as usize;
    let mut pages: Vec<u32> = Vec::new();
    while pages.len() < wanted {
        let page = random.below(partition.pages.into());
        let page = partition.first + u32::try_from(page).expect("below the pages");
        if !pages.contains(&page) {
            pages.push(page);
        }
    }
    // K2: one order for all transactions, so that no two wait for each other.
    pages.sort_unstable();
    let run = |page| Run {
        locks: true,
        ..Run::one(page, 1)
    };
    pages.into_iter().map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_disk::data::database::Relation;

    fn scan(access: Access) -> Scan {
        Scan::figure3(access, true, Degree::Fixed(1))
    }

    #[test]
    fn a_clustered_range_takes_7_leaves_and_125_pages() {
        let database = Database::new(Relation::figure3(1));
        let runs = index_runs(&scan(Access::ClusteredIndex), &database, &(2_000..3_250));
        let data = runs.iter().filter(|run| run.prefetch).count();
        assert_eq!((data, runs.len() - data), (125, 2 + 7));
        assert_eq!(runs[0].next, database.levels[2].first, "the root first");
    }

    #[test]
    fn a_non_clustered_range_takes_a_tenth_of_the_pages() {
        let database = Database::new(Relation::figure3(1));
        let runs = index_runs(&scan(Access::NonClusteredIndex), &database, &(0..1_250));
        assert_eq!(runs.len(), 2 + 7 + 1_250);
        let mut pages: Vec<u32> = runs[2..].iter().map(|run| run.next).collect();
        pages.sort_unstable();
        pages.dedup();
        assert!((1_100..1_250).contains(&pages.len()), "{}", pages.len());
    }

    #[test]
    fn subqueries_look_at_every_tuple_once() {
        let database = Database::new(Relation::figure3(16));
        for access in [Access::ClusteredIndex, Access::NonClusteredIndex] {
            for of in [1, 3, 32, 2_000] {
                let parts = (0..of).flat_map(|at| {
                    subquery(
                        &scan(access),
                        &database,
                        &(777..2_027),
                        (at, of),
                        &mut Random::new(1),
                    )
                });
                let results: u64 = parts.map(|run| run.results_ppm).sum();
                assert_eq!(results, 1_250 * 1_000_000, "W1");
            }
        }
        let anywhere = Scan {
            anywhere: true,
            ..scan(Access::Relation)
        };
        let parts = (0..16)
            .flat_map(|at| subquery(&anywhere, &database, &(0..1), (at, 16), &mut Random::new(1)));
        let pages: u32 = parts.map(|run| run.end - run.next).sum();
        assert_eq!(pages, 12_500, "W1");
    }

    /// The example of §2: 100 disks of 10,000 values each, a query for 70,000 to 220,000.
    #[test]
    fn a_range_of_the_partitioning_attribute_is_a_range_of_disks() {
        let relation = Relation {
            tuples: 1_000_000,
            ..Relation::figure3(100)
        };
        let database = Database::new(relation);
        let scan = scan(Access::Partitions);
        for (of, disks_each) in [(15, 1), (5, 3), (3, 5), (1, 15)] {
            let mut seen = Vec::new();
            for at in 0..of {
                let runs = subquery(
                    &scan,
                    &database,
                    &(70_000..220_000),
                    (at, of),
                    &mut Random::new(1),
                );
                let disks = database.data.disk(runs[0].next)..=database.data.disk(runs[0].end - 1);
                assert_eq!(disks.clone().count(), disks_each);
                seen.extend(disks);
            }
            assert_eq!(seen, (7..22).collect::<Vec<_>>(), "15 disks, none twice");
        }
    }

    #[test]
    fn a_load_that_changes_has_the_rates_of_its_phases() {
        let second = 1_000_000_000;
        let arrivals = Arrivals::Changing(vec![(100 * second, second), (100 * second, second / 4)]);
        let (mut now, mut random, mut counts) = (0, Random::new(1), [0_u32; 2]);
        while now < 20_000 * second {
            now = arrivals.next(now, &mut random).unwrap();
            counts[usize::from(now / (100 * second) % 2 == 1)] += 1;
        }
        assert!((9_600..10_400).contains(&counts[0]), "{counts:?}");
        assert!((39_000..41_000).contains(&counts[1]), "{counts:?}");
    }
}
