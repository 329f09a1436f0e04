//! `relevance-2007`: relevance functions pick scan, chunk and victim, as in the paper.
//!
//! Idea: serve the starved scan that needs the fewest chunks (or has waited long), with the chunk
//! that unblocks the most starved scans; deliver first the chunk that the fewest other scans need,
//! so that it can be evicted early.
//! Not here: keepRelevance, which picks the victim (`keep.rs`).
//! Bounds: O(scans · log scans) to choose the scan; its chunk is found by a search with bounds
//! (`best_chunk.rs`).
//! Source: [CoopScans07 §4, Figure 3; §6.2, Figure 11]; we differ as `docs/design/abm.md` says.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use crate::bits::Bits;
use crate::policy::Rules;
use crate::policy::in_order::missing_ahead;
use crate::policy::keep::{least_kept, least_relevant};
use crate::policy::ratio::Ratio;
use crate::policy::victims::{Protection, Victim, garbage};
use crate::state::{LoadChoice, State};
use crate::table::Table;
use crate::table::best_chunk::Among;
use crate::table::scan::{PartState, Scan};
use crate::{ChunkId, ColumnSet, DeviceId, ScanId, StorageModel};

/// `relevance-2007`.
#[derive(Debug)]
pub(super) struct Relevance2007;

impl Rules for Relevance2007 {
    fn is_sequential(&self) -> bool {
        false
    }

    fn next_load(&self, state: &State) -> Option<LoadChoice> {
        next_load(state)
    }

    fn delivery(&self, state: &State, scan: &Scan) -> Option<ChunkId> {
        most_useful(state, scan)
    }

    fn victim(&self, state: &State, load: Option<&LoadChoice>) -> Option<Victim> {
        let trigger = load.map(|load| state.scan(load.scan));
        garbage(state, load)
            .or_else(|| least_relevant(state, load, trigger))
            .or_else(|| trigger.and_then(|_| least_relevant(state, load, None)))
    }

    fn last_resort(&self, state: &State) -> Option<Victim> {
        least_kept(state, None, |_, _| Protection::default())
    }
}

/// chooseAvailableChunk with useRelevance.
fn most_useful(state: &State, scan: &Scan) -> Option<ChunkId> {
    match state.model {
        StorageModel::Nsm => least_wanted(state, scan),
        StorageModel::Dsm => largest_for_fewest(state, scan),
    }
}

/// NSM: `Qmax − interested`.
fn least_wanted(state: &State, scan: &Scan) -> Option<ChunkId> {
    let table = state.table(scan.table);
    let mut best = None;
    for part in &scan.parts {
        least_wanted_of(table, part, &mut best);
    }
    best.map(|(_, chunk)| chunk)
}

/// DSM: `Pu / U`.
fn largest_for_fewest(state: &State, scan: &Scan) -> Option<ChunkId> {
    let table = state.table(scan.table);
    let mut best = None;
    for part in &scan.parts {
        let num = table.weight(&part.columns);
        // The scan itself is one of the interested scans.
        let score = |u: u32| Ratio {
            num,
            den: u.max(1).into(),
        };
        // Usually no scan is excluded, so the interest count alone ranks the chunk.
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
fn next_load(state: &State) -> Option<LoadChoice> {
    let running = state.scans.len() as u64;
    let queries = || {
        let starved = state.hungry.iter().map(|&id| state.scan(id));
        starved.filter_map(|scan| {
            let needed = state.table(scan.table).needed_len(scan);
            let misses = scan.sequential || state.coming(scan) < needed;
            let relevance = || query_relevance(state, scan, needed, running);
            misses.then(|| (relevance(), Reverse(scan.id)))
        })
    };
    // Usually the first scan has a chunk to load.
    let first = queries().max()?;
    load_for(state, first.1.0).or_else(|| {
        let mut others: BinaryHeap<_> = queries().filter(|&query| query != first).collect();
        std::iter::from_fn(|| others.pop()).find_map(|(_, Reverse(id))| load_for(state, id))
    })
}

fn load_for(state: &State, id: ScanId) -> Option<LoadChoice> {
    let scan = state.scan(id);
    let (chunk, columns) = choose_chunk_to_load(state, scan)?;
    Some(LoadChoice {
        table: scan.table,
        chunk,
        columns,
        scan: id,
    })
}

/// `−needed + waited / running`, multiplied by `running · wait_unit` so that it is exact.
fn query_relevance(state: &State, scan: &Scan, needed: usize, running: u64) -> i128 {
    let unit = i128::from(running) * i128::from(state.wait_unit_ns);
    let waited = if scan.waiting > 0 {
        state.now.0 - scan.wait_since.0
    } else {
        0
    };
    i128::from(waited) - needed as i128 * unit
}

fn choose_chunk_to_load(state: &State, scan: &Scan) -> Option<(ChunkId, ColumnSet)> {
    let table = state.table(scan.table);
    if scan.sequential {
        let mut ahead = missing_ahead(state, scan);
        let (chunk, missing) = ahead.find(|&(chunk, _)| state.device_free(table.device(chunk)))?;
        let columns = match state.model {
            StorageModel::Nsm => missing,
            StorageModel::Dsm => {
                let part = &scan.parts[table.part_of(scan, chunk)?];
                columns_to_load(table, chunk, &part.columns)
            }
        };
        return Some((chunk, columns));
    }
    // Devices with fewer outstanding loads come first; devices with as many are searched together.
    let free = state.free_places(table);
    let mut alike = free.chunk_by(|a, b| a.0 == b.0).map(|places| {
        let starved = places.iter().map(|&(_, place)| place);
        starved
            .filter(|&place| state.starved_of(scan, place))
            .map(|place| table.devices[place])
            .collect::<SmallVec<[DeviceId; 4]>>()
    });
    alike.find_map(|devices| match state.model {
        StorageModel::Nsm => most_wanted(scan, table, &devices),
        StorageModel::Dsm => most_wanted_per_byte(scan, table, &devices),
    })
}

/// NSM: `starved · Qmax + interested`.
fn most_wanted(scan: &Scan, table: &Table, devices: &[DeviceId]) -> Option<(ChunkId, ColumnSet)> {
    let mut best = None;
    for part in &scan.parts {
        for group in table.groups.iter() {
            let device = group.state.device;
            if part.columns.is_subset(&group.coming) || !devices.contains(&device) {
                continue;
            }
            let starved = table.starved_of(table.place_of(device));
            let all_starved = starved.len();
            let pages = group.state.pages;
            group.members.search(
                &mut best,
                ChunkId(0),
                table.interests(),
                Among::Slot(part.slot),
                |node| Some((node.at_most(starved) + pages, node.most)),
                |member, best| {
                    let beaten = |score: (u32, u32)| best.is_some_and(|best| score < best);
                    let at_most = member.count.min(all_starved) + pages;
                    let score = || (member.slots.len_and(starved) + pages, member.count);
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
fn most_wanted_per_byte(
    scan: &Scan,
    table: &Table,
    devices: &[DeviceId],
) -> Option<(ChunkId, ColumnSet)> {
    let mut best: Option<(Ratio, ChunkId)> = None;
    let mut columns = ColumnSet::new();
    let of_devices = |part| devices.iter().map(move |&device| (part, device));
    for (part, device) in scan.parts.iter().flat_map(of_devices) {
        // Starved scans that share a column with this part; the triggering scan is one of them.
        let starved = table.starved_of(table.place_of(device));
        let others = table.overlapping(&part.columns).intersection(starved);
        let unions = Unions::of(table, &part.columns, &others);
        let before = best;
        for group in table.groups.iter() {
            if part.columns.is_subset(&group.coming) || group.state.device != device {
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
                    let beaten = |num| best.is_some_and(|best| Ratio { num, den: least } < best);
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

/// The chunk usable for a part that the fewest scans need.
fn least_wanted_of(table: &Table, part: &PartState, best: &mut Option<(u32, ChunkId)>) {
    for group in table.groups.iter() {
        if part.columns.is_subset(&group.state.resident) {
            let members = &group.members;
            members.least_wanted(best, part.slot, table.interests());
        }
    }
}

/// Figure 11: the columns of the chunk that are not coming and that starved scans want which share
/// a column with `columns`.
fn columns_to_load(table: &Table, chunk: ChunkId, columns: &ColumnSet) -> ColumnSet {
    let starved = table.starved_of(table.place(chunk));
    let others = table.overlapping(columns).intersection(starved);
    table
        .columns_of_both(table.interest(chunk), &others)
        .difference(&table.group(chunk).coming)
}

/// The unions of columns that a load triggered by a part can bring, for upper bounds of `L / Pl`.
///
/// A load brings a union of the columns of some of the starved scans, and only scans whose columns
/// are all in that union count. So `L / Pl` of any chunk is at most the largest value, over all
/// unions, of (scans covered) / (bytes of the union).
struct Unions {
    /// The covered slots and the columns of each union.
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
            // A looser bound: every scan counts, at the fewest bytes.
            [(others.clone(), columns.clone())].into_iter().collect()
        };
        Self { all }
    }

    /// The covered slots and the bytes not coming, for each union.
    fn limits(&self, table: &Table, coming: &ColumnSet) -> SmallVec<[(&Bits, u64); 8]> {
        let unions = self.all.iter();
        unions
            .map(|(slots, columns)| (slots, table.weight_minus(columns, coming)))
            .collect()
    }
}

/// The most unions of column sets that a bound examines; more unions make the bound tighter and
/// costlier.
const UNIONS_MAX: usize = 16;
