//! `relevance`: which scan is served, which chunk is read for it, which chunk it is handed.
//!
//! Idea: serve the starved scan that needs least (or has waited long), with the chunk that unblocks
//! most starved scans; hand out first what few others want, so that it can be evicted early.
//! Not here: what is evicted for it (`eviction.rs`).
//! Bounds: O(scans · log scans) for the scan, and for its chunk a search under bounds
//! (`best_chunk.rs`).
//! Source: [CoopScans07 §4, Figure 3; §6.2, Figure 11]; we differ as `docs/design/abm.md` says.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use crate::abm::{Abm, LoadChoice};
use crate::bits::Bits;
use crate::table::Table;
use crate::table::best_chunk::Among;
use crate::table::scan::{PartState, Scan};
use crate::{ChunkId, ColumnSet, ScanId, StorageModel};

/// A score `num / den`, compared exactly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    pub(crate) num: u64,
    /// Not 0.
    pub(crate) den: u64,
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // A product of two u32 fits; so small are all but the largest weights.
        let numbers = [self.num, self.den, other.num, other.den];
        if numbers.iter().all(|&n| u32::try_from(n).is_ok()) {
            return (self.num * other.den).cmp(&(other.num * self.den));
        }
        let left = u128::from(self.num) * u128::from(other.den);
        left.cmp(&(u128::from(other.num) * u128::from(self.den)))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ratio {}

impl Abm {
    /// chooseAvailableChunk with useRelevance.
    pub(crate) fn most_useful(&self, scan: &Scan) -> Option<ChunkId> {
        match self.config.model {
            StorageModel::Nsm => self.least_wanted(scan),
            StorageModel::Dsm => self.largest_for_fewest(scan),
        }
    }

    /// NSM: `Qmax − interested`.
    fn least_wanted(&self, scan: &Scan) -> Option<ChunkId> {
        let table = self.table(scan.table);
        let mut best = None;
        for part in &scan.parts {
            least_wanted_of(table, part, &mut best);
        }
        best.map(|(_, chunk)| chunk)
    }

    /// DSM: `Pu / U`.
    fn largest_for_fewest(&self, scan: &Scan) -> Option<ChunkId> {
        let table = self.table(scan.table);
        let mut best = None;
        for part in &scan.parts {
            let num = table.weight(&part.columns);
            // The scan is interested itself.
            let score = |u: u32| Ratio {
                num,
                den: u.max(1).into(),
            };
            // Often nobody is apart, and counts say it all.
            if table.overlap_all(&part.columns) {
                let mut least = None;
                least_wanted_of(table, part, &mut least);
                let found = least.map(|(count, chunk)| (score(count), Reverse(chunk)));
                best = best.max(found);
                continue;
            }
            let overlapping = table.overlapping(&part.columns);
            let apart = table.slot_count() - overlapping.len();
            let mut of_part = best.map(|(score, Reverse(chunk))| (score, chunk));
            for group in table.groups.iter() {
                if part.columns.is_subset(&group.state.resident) {
                    group.members.search(
                        &mut of_part,
                        ChunkId(0),
                        table.interests(),
                        Among::Slot(part.slot),
                        |node| Some(score(node.at_least(&overlapping))),
                        |member, best| {
                            let at_most = score(member.count.saturating_sub(apart));
                            let counts = best.is_none_or(|best| at_most >= best);
                            counts.then(|| score(member.slots.len_and(&overlapping)))
                        },
                    );
                }
            }
            best = of_part.map(|(score, chunk)| (score, Reverse(chunk)));
        }
        best.map(|(_, Reverse(chunk))| chunk)
    }

    /// chooseQueryToProcess, then chooseChunkToLoad.
    pub(crate) fn choose_relevant_load(&self) -> Option<LoadChoice> {
        let running = self.scans.len() as u64;
        let queries = || {
            let starved = self.hungry.iter().map(|&id| self.scan(id));
            starved.filter_map(|scan| {
                let needed = self.table(scan.table).needed_len(scan);
                let misses = scan.sequential || self.coming(scan) < needed;
                let relevance = || self.query_relevance(scan, needed, running);
                misses.then(|| (relevance(), Reverse(scan.id)))
            })
        };
        // Mostly there is a chunk for the first.
        let first = queries().max()?;
        self.load_for(first.1.0).or_else(|| {
            let mut others: BinaryHeap<_> = queries().filter(|&query| query != first).collect();
            std::iter::from_fn(|| others.pop()).find_map(|(_, Reverse(id))| self.load_for(id))
        })
    }

    fn load_for(&self, id: ScanId) -> Option<LoadChoice> {
        let scan = self.scan(id);
        let (chunk, columns) = self.choose_chunk_to_load(scan)?;
        Some(LoadChoice {
            table: scan.table,
            chunk,
            columns,
            scan: id,
        })
    }

    /// `−needed + waited / running`, times `running · wait_unit` so that it is exact.
    fn query_relevance(&self, scan: &Scan, needed: usize, running: u64) -> i128 {
        let unit = i128::from(running) * i128::from(self.config.wait_unit_ns);
        let waited = if scan.waiting > 0 {
            self.now.0 - scan.wait_since.0
        } else {
            0
        };
        i128::from(waited) - needed as i128 * unit
    }

    fn choose_chunk_to_load(&self, scan: &Scan) -> Option<(ChunkId, ColumnSet)> {
        let table = self.table(scan.table);
        if scan.sequential {
            let (chunk, missing) = self.missing_ahead(scan).next()?;
            if !self.device_free(table.device(chunk)) {
                return None;
            }
            let columns = match self.config.model {
                StorageModel::Nsm => missing,
                StorageModel::Dsm => {
                    let part = &scan.parts[table.part_of(scan, chunk)?];
                    columns_to_load(table, chunk, &part.columns)
                }
            };
            return Some((chunk, columns));
        }
        match self.config.model {
            StorageModel::Nsm => self.most_wanted(scan, table),
            StorageModel::Dsm => self.most_wanted_per_byte(scan, table),
        }
    }

    /// NSM: `starved · Qmax + interested`.
    fn most_wanted(&self, scan: &Scan, table: &Table) -> Option<(ChunkId, ColumnSet)> {
        let mut best = None;
        let all_starved = table.starved.len();
        for part in &scan.parts {
            for group in table.groups.iter() {
                if part.columns.is_subset(&group.coming) || !self.device_free(group.state.device) {
                    continue;
                }
                let pages = group.state.pages;
                group.members.search(
                    &mut best,
                    ChunkId(0),
                    table.interests(),
                    Among::Slot(part.slot),
                    |node| Some((node.at_most(&table.starved) + pages, node.most)),
                    |member, best| {
                        let beaten = |score: (u32, u32)| best.is_some_and(|best| score < best);
                        let at_most = member.count.min(all_starved) + pages;
                        let score = || (member.slots.len_and(&table.starved) + pages, member.count);
                        (!beaten((at_most, member.count))).then(score)
                    },
                );
            }
        }
        let (_, chunk) = best?;
        let wanted = table.columns_of(table.interest(chunk));
        Some((chunk, wanted.difference(&table.group(chunk).coming)))
    }

    /// DSM: `L / Pl`.
    fn most_wanted_per_byte(&self, scan: &Scan, table: &Table) -> Option<(ChunkId, ColumnSet)> {
        let mut best: Option<(Ratio, ChunkId)> = None;
        let mut columns = ColumnSet::new();
        for part in &scan.parts {
            // Starved scans that share a column with this part; the scan itself is one of them.
            let others = table
                .overlapping(&part.columns)
                .intersection(&table.starved);
            let unions = Unions::of(table, &part.columns, &others);
            let before = best;
            for group in table.groups.iter() {
                if part.columns.is_subset(&group.coming) || !self.device_free(group.state.device) {
                    continue;
                }
                let pages = group.state.pages;
                let limits = unions.limits(table, &group.coming);
                let least = table.weight_minus(&part.columns, &group.coming);
                let limit = |any: &Bits, most: u32| {
                    let ratios = limits.iter().map(|&(slots, den)| Ratio {
                        num: u64::from(any.len_and(slots).min(most) + pages),
                        den,
                    });
                    ratios.max()
                };
                group.members.search(
                    &mut best,
                    ChunkId(0),
                    table.interests(),
                    Among::Slot(part.slot),
                    |node| limit(&node.any, node.at_most(&others)),
                    |member, best| {
                        let beaten =
                            |num| best.is_some_and(|best| Ratio { num, den: least } < best);
                        let most = u64::from(member.count + pages);
                        if beaten(most) {
                            return None;
                        }
                        let num = u64::from(member.slots.len_and(&others) + pages);
                        if beaten(num)
                            || best.is_some_and(|best| limit(member.slots, u32::MAX) < Some(best))
                        {
                            return None;
                        }
                        let wanted = table.columns_of_both(member.slots, &others);
                        let den = table.weight_minus(&wanted, &group.coming);
                        Some(Ratio { num, den })
                    },
                );
            }
            if best != before
                && let Some((_, chunk)) = best
            {
                columns = columns_to_load(table, chunk, &part.columns);
            }
        }
        best.map(|(_, chunk)| (chunk, columns))
    }
}

/// The chunk usable for a part that the fewest scans need.
fn least_wanted_of(table: &Table, part: &PartState, best: &mut Option<(u32, ChunkId)>) {
    for group in table.groups.iter() {
        if part.columns.is_subset(&group.state.resident) {
            let members = &group.members;
            members.least_wanted(best, part.slot, table.interests());
        }
    }
}

/// Figure 11: what starved scans that share a column with `columns` want of the chunk and is not
/// coming.
fn columns_to_load(table: &Table, chunk: ChunkId, columns: &ColumnSet) -> ColumnSet {
    let others = table.overlapping(columns).intersection(&table.starved);
    table
        .columns_of_both(table.interest(chunk), &others)
        .difference(&table.group(chunk).coming)
}

/// What a load that a part triggers can bring, for upper bounds of `L / Pl`.
///
/// A load brings a union of the columns of some of the starved scans, and only scans whose columns
/// are all in that union count. So `L / Pl` of any chunk is at most the largest, over all unions,
/// of (scans covered) / (bytes of the union).
struct Unions {
    /// Slots covered, columns.
    all: SmallVec<[(Bits, ColumnSet); 8]>,
}

impl Unions {
    fn of(table: &Table, columns: &ColumnSet, others: &Bits) -> Self {
        let mut families = table.families.iter();
        let mut unions = vec![columns.clone()];
        let complete = families.by_ref().all(|(family, members)| {
            if members.intersects(others) {
                for at in 0..unions.len() {
                    let union = unions[at].union(family);
                    if !unions.contains(&union) {
                        unions.push(union);
                    }
                }
            }
            unions.len() <= UNIONS_MAX
        });
        let all = if complete {
            let covered = |union: &ColumnSet| table.covered_by(union).intersection(others);
            unions.into_iter().map(|u| (covered(&u), u)).collect()
        } else {
            // As if every scan counted for the fewest bytes.
            [(others.clone(), columns.clone())].into_iter().collect()
        };
        Self { all }
    }

    /// (Slots covered, bytes not coming) of each union that brings something.
    fn limits(&self, table: &Table, coming: &ColumnSet) -> SmallVec<[(&Bits, u64); 8]> {
        let unions = self.all.iter();
        unions
            .map(|(slots, columns)| (slots, table.weight_minus(columns, coming)))
            .collect()
    }
}

/// Unions of column sets that a bound looks at; the more, the tighter and the dearer.
const UNIONS_MAX: usize = 16;
