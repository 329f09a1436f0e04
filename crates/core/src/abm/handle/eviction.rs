//! Making room: which segments go when a load needs space or the budget shrinks.
//!
//! Victims are taken out one by one, for each changes who is starved; when they do not suffice, all
//! are put back, so that a load that cannot start costs nothing.
//! I2: pinned segments and chunks with a load under way are never victims. I3: a load starts only
//! if it fits.
//! Source: [CoopScans07 §4 findFreeSlot, §6.2 "finding space for a chunk"].

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::abm::{Abm, LoadChoice};
use crate::bits::Bits;
use crate::policy::relevance::Ratio;
use crate::table::Table;
use crate::table::best_chunk::Among;
use crate::table::groups::Group;
use crate::table::interest::Member;
use crate::table::scan::Scan;
use crate::table::segments::Evicted;
use crate::{Action, ChunkId, ColumnId, ColumnSet, ExtentId, Policy, StorageModel, TableId};

/// One thing to evict.
#[derive(Debug)]
enum Victim {
    Extent(TableId, ExtentId),
    Segments(TableId, ChunkId, ColumnSet),
}

/// One thing that was evicted, and how to put it back.
#[derive(Debug)]
enum Undo {
    Extent(TableId, ExtentId),
    Segment(TableId, Evicted),
}

fn single(table: TableId, chunk: ChunkId, column: ColumnId) -> Victim {
    Victim::Segments(table, chunk, [column].into_iter().collect())
}

/// (E / Pe or almost starved, interested): smaller goes first.
type KeepRelevance = (Ratio, u32);

impl Abm {
    /// Frees space for a load; false, and nothing changed, if there is not enough to free.
    pub(crate) fn make_room(&mut self, load: &LoadChoice) -> bool {
        let mut evicted = Vec::new();
        loop {
            // Evicting a neighbour may free an extent that the load needs, so the need is counted
            // anew.
            let bytes = self.load_bytes(load.table, load.chunk, &load.columns);
            if self.used + bytes <= self.budget {
                self.announce(evicted);
                return true;
            }
            let victim = self.victim(Some(load));
            match victim {
                Some(victim) if bytes <= self.budget => self.evict(victim, &mut evicted),
                _ => {
                    self.put_back(evicted);
                    return false;
                }
            }
        }
    }

    /// Step 4 of `handle`.
    pub(crate) fn shrink_to_budget(&mut self) {
        let mut evicted = Vec::new();
        while self.used > self.budget {
            let victim = self.victim(None).or_else(|| self.last_resort());
            let Some(victim) = victim else { break };
            self.evict(victim, &mut evicted);
        }
        self.announce(evicted);
    }

    fn evict(&mut self, victim: Victim, evicted: &mut Vec<Undo>) {
        match victim {
            Victim::Extent(table, extent) => {
                self.used -= self.table_mut(table).evict_extent(extent);
                evicted.push(Undo::Extent(table, extent));
            }
            Victim::Segments(table, chunk, columns) => {
                for column in columns.iter() {
                    let mut freed = None;
                    self.change_coming(table, chunk, |t| freed = Some(t.evict(chunk, column)));
                    if let Some(freed) = freed {
                        self.used -= freed.bytes;
                        evicted.push(Undo::Segment(table, freed));
                    }
                }
            }
        }
    }

    fn put_back(&mut self, evicted: Vec<Undo>) {
        for undo in evicted.into_iter().rev() {
            match undo {
                Undo::Extent(table, extent) => {
                    let table = self.table_mut(table);
                    table.restore_extent(extent);
                    let bytes = table.extent_bytes(extent);
                    self.used += bytes;
                }
                Undo::Segment(table, segment) => {
                    self.used += segment.bytes;
                    let chunk = segment.chunk;
                    self.change_coming(table, chunk, |table| table.restore(segment));
                }
            }
        }
    }

    fn announce(&mut self, evicted: Vec<Undo>) {
        for undo in evicted {
            match undo {
                Undo::Extent(table, extent) => {
                    self.actions
                        .push_back(Action::EvictExtent { table, extent });
                }
                Undo::Segment(
                    table,
                    Evicted {
                        chunk,
                        column,
                        extents,
                        ..
                    },
                ) => {
                    self.actions.push_back(Action::Evict {
                        table,
                        chunk,
                        column,
                    });
                    for extent in extents {
                        self.actions
                            .push_back(Action::EvictExtent { table, extent });
                    }
                }
            }
        }
    }

    fn victim(&self, load: Option<&LoadChoice>) -> Option<Victim> {
        let useless = self.extent(Table::orphan);
        let segments = || match self.config.policy {
            Policy::Normal | Policy::Attach => self.least_recently_used(load),
            Policy::Pbm | Policy::PbmSampling => {
                let last = self.needed_last(load);
                last.map(|(table, chunk, column)| single(table, chunk, column))
            }
            Policy::Elevator => self.least_recently_used(load).or_else(|| self.stuck(load)),
            Policy::Relevance | Policy::Relevance2007 => {
                let garbage = self.least_recently_used(load);
                let trigger = load.map(|load| self.scan(load.scan));
                garbage
                    .or_else(|| self.least_relevant(load, trigger))
                    .or_else(|| trigger.and_then(|_| self.least_relevant(load, None)))
            }
        };
        let bare = || {
            self.extent(|table| {
                let load = load.filter(|load| load.table == table.id);
                table.bare_extent(load.map(|load| (load.chunk, &load.columns)))
            })
        };
        useless.or_else(segments).or_else(bare)
    }

    /// The first table's extent that is found.
    fn extent(&self, find: impl Fn(&Table) -> Option<ExtentId>) -> Option<Victim> {
        let mut extents = self
            .tables
            .values()
            .filter_map(|t| find(t).map(|e| Victim::Extent(t.id, e)));
        extents.next()
    }

    /// The first of the victims that go one by one: under LRU any idle segment, else garbage.
    fn least_recently_used(&self, load: Option<&LoadChoice>) -> Option<Victim> {
        let lru = matches!(self.config.policy, Policy::Normal | Policy::Attach);
        let spared = load.filter(|_| lru).map(|load| self.taken_before(load));
        let protected = |table: TableId, chunk: ChunkId, column: ColumnId| {
            load.filter(|l| l.table == table)
                .is_some_and(|l| match &spared {
                    Some(spared) => spared.contains(&chunk),
                    None => l.chunk == chunk && l.columns.contains(column),
                })
        };
        let firsts = self.tables.values().filter_map(|table| {
            let mut victims = table.victims.iter();
            let &(seq, chunk, column) = victims.find(|v| !protected(table.id, v.1, v.2))?;
            Some((seq, table.id, chunk, column))
        });
        let (_, table, chunk, column) = firsts.min()?;
        Some(single(table, chunk, column))
    }

    /// Elevator: a chunk that waits for columns nobody can bring, because the buffer is full of
    /// such chunks.
    fn stuck(&self, load: Option<&LoadChoice>) -> Option<Victim> {
        self.oldest(load, |table, group| {
            let active = table.covered_by(&group.state.resident);
            self.protected(table, &active.difference(&table.stalled))
        })
    }

    /// The evictable chunk used longest ago of those not protected.
    fn oldest(
        &self,
        load: Option<&LoadChoice>,
        protection: impl Fn(&Table, &Group) -> Protection,
    ) -> Option<Victim> {
        let chunks = self.evictable_groups().flat_map(|(table, group)| {
            let spared = protection(table, group);
            let members = group.members.iter();
            let free = members.filter(move |&c| !spared.covers(c, table.interest(c)));
            free.map(move |chunk| (table.last_use_of(chunk), table.id, chunk))
        });
        let free = chunks.filter(|&(_, t, c)| load.is_none_or(|l| (l.table, l.chunk) != (t, c)));
        let (_, table, chunk) = free.min()?;
        Some(self.whole(table, chunk))
    }

    /// Relevance: the chunk with the smallest keepRelevance that no starved scan can use, nor
    /// `trigger` needs (tier 1). Tier 2 is without `trigger`: the scan that asks is starved, so
    /// what it can use is spared anyway.
    fn least_relevant(&self, load: Option<&LoadChoice>, trigger: Option<&Scan>) -> Option<Victim> {
        self.least_kept(load, |table, group| {
            let ready = table.covered_by(&group.state.resident);
            let mut spared = self.protected(table, &ready.intersection(&table.starved));
            if let Some(scan) = trigger.filter(|scan| scan.table == table.id) {
                spared.slots.union_with(&scan.slots_where(|_| true));
            }
            spared
        })
    }

    /// Protects what is usable for the given slots, whose columns are all resident.
    fn protected(&self, table: &Table, ready: &Bits) -> Protection {
        let in_order = ready.intersection(&table.sequential);
        let frontier = |slot| (slot, self.first_missing(self.scan(table.slot(slot).scan)));
        Protection {
            slots: ready.difference(&table.sequential),
            frontiers: in_order.iter().map(frontier).collect(),
        }
    }

    fn least_kept(
        &self,
        load: Option<&LoadChoice>,
        protection: impl Fn(&Table, &Group) -> Protection,
    ) -> Option<Victim> {
        let mut best: Option<(Reverse<KeepRelevance>, TableId, ChunkId)> = None;
        for table in self.tables.values() {
            let loaded = load.filter(|load| load.table == table.id);
            let loaded = loaded.map(|load| load.chunk);
            // Ties go to the lowest table, so a later one has to be better.
            let mut of_table = None;
            for group in table.groups.iter().filter(|group| group.is_evictable()) {
                let spared = protection(table, group);
                let most = table.weight(&group.state.resident);
                // The others have no part in Pe; without any, E / Pe is 0.
                let overlapping = table.overlapping(&group.state.resident);
                let kept_for = overlapping.intersection(&table.almost);
                group.members.search(
                    &mut of_table,
                    ChunkId(0),
                    table.interests(),
                    Among::All,
                    |node| {
                        let some = !node.all.intersects(&spared.slots);
                        let almost = node.at_least(&kept_for);
                        some.then(|| Reverse((self.ratio(almost, || most), node.least)))
                    },
                    |member, best| {
                        let at_most = Reverse((Ratio { num: 0, den: 1 }, member.count));
                        let counts = best.is_none_or(|best| at_most >= best)
                            && Some(member.chunk) != loaded
                            && !spared.covers(member.chunk, member.slots);
                        counts.then(|| Reverse(self.keep_relevance(table, group, member)))
                    },
                );
            }
            if let Some((score, chunk)) = of_table
                && best.is_none_or(|(least, ..)| score > least)
            {
                best = Some((score, table.id, chunk));
            }
        }
        best.map(|(_, table, chunk)| self.whole(table, chunk))
    }

    fn keep_relevance(&self, table: &Table, group: &Group, member: Member<'_>) -> KeepRelevance {
        let almost = member.slots.len_and(&table.almost);
        let bytes = || {
            let columns = table.columns_of_both(member.slots, &table.almost);
            table.weight(&columns.intersection(&group.state.resident))
        };
        (self.ratio(almost, bytes), member.count)
    }

    /// NSM: E; DSM: `E / Pe`.
    fn ratio(&self, almost: u32, bytes: impl Fn() -> u64) -> Ratio {
        let den = match self.config.model {
            StorageModel::Dsm if almost > 0 => bytes(),
            _ => 1,
        };
        let num = if den == 0 { 0 } else { almost.into() };
        Ratio {
            num,
            den: den.max(1),
        }
    }

    /// The budget shrank and nothing else is left: useful chunks go too.
    fn last_resort(&self) -> Option<Victim> {
        match self.config.policy {
            Policy::Normal | Policy::Attach | Policy::Pbm | Policy::PbmSampling => None,
            Policy::Elevator => self.oldest(None, |_, _| Protection::default()),
            Policy::Relevance | Policy::Relevance2007 => {
                self.least_kept(None, |_, _| Protection::default())
            }
        }
    }

    fn evictable_groups(&self) -> impl Iterator<Item = (&Table, &Group)> {
        self.tables.values().flat_map(|table| {
            let groups = table.groups.iter().filter(|group| group.is_evictable());
            groups.map(move |group| (table, group))
        })
    }

    fn whole(&self, table: TableId, chunk: ChunkId) -> Victim {
        Victim::Segments(
            table,
            chunk,
            self.table(table).group(chunk).state.resident.clone(),
        )
    }
}

/// What must not be evicted, of a group's members.
#[derive(Debug, Default)]
struct Protection {
    /// Chunks that one of these slots needs.
    slots: Bits,
    /// Chunks that the slot needs and that lie below the chunk.
    frontiers: SmallVec<[(usize, ChunkId); 4]>,
}

impl Protection {
    fn covers(&self, chunk: ChunkId, interest: &Bits) -> bool {
        let mut frontiers = self.frontiers.iter();
        interest.intersects(&self.slots)
            || frontiers.any(|&(slot, end)| chunk < end && interest.contains(slot))
    }
}
