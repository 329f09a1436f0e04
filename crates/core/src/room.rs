//! Making room: which segments go when a load needs space or the budget shrinks.
//!
//! Victims are taken out one by one, for each changes who is starved; when they do not suffice, all are put back, so that a load
//! that cannot start costs nothing.
//! I2: pinned segments and chunks with a load under way are never victims. I3: a load starts only if it fits.
//! Source: [CoopScans07 §4 findFreeSlot, §6.2 "finding space for a chunk"].

use crate::abm::{Abm, LoadChoice};
use crate::bits::Bits;
use crate::classes::Class;
use crate::relevance::Ratio;
use crate::scan::Scan;
use crate::table::{Evicted, Table};
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

/// (E / Pe or almost starved, interested): smaller goes first.
type KeepRelevance = (Ratio, u32);

impl Abm {
    /// Frees space for a load; false, and nothing changed, if there is not enough to free.
    pub(crate) fn make_room(&mut self, load: &LoadChoice) -> bool {
        let mut evicted = Vec::new();
        loop {
            // Evicting a neighbour may free an extent that the load needs, so the need is counted anew.
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
            Policy::Elevator => self.least_recently_used(load).or_else(|| self.stuck(load)),
            Policy::Relevance => {
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
        let protected = |table: TableId, chunk: ChunkId, column: ColumnId| {
            load.is_some_and(|l| {
                (l.table, l.chunk) == (table, chunk) && (lru || l.columns.contains(column))
            })
        };
        let firsts = self.tables.values().filter_map(|table| {
            let mut victims = table.victims.iter();
            let &(seq, chunk, column) = victims.find(|v| !protected(table.id, v.1, v.2))?;
            Some((seq, table.id, chunk, column))
        });
        let (_, table, chunk, column) = firsts.min()?;
        Some(Victim::Segments(
            table,
            chunk,
            [column].into_iter().collect(),
        ))
    }

    /// Elevator: a chunk that waits for columns nobody can bring, because the buffer is full of such chunks.
    fn stuck(&self, load: Option<&LoadChoice>) -> Option<Victim> {
        self.oldest(load, |table, class| {
            let active = class.key.interest.difference(&table.stalled);
            self.usable_below(table, class, &active)
        })
    }

    /// The idle chunk used longest ago, of each class those chunks that are not below what `bound` says.
    fn oldest(
        &self,
        load: Option<&LoadChoice>,
        bound: impl Fn(&Table, &Class) -> Option<ChunkId>,
    ) -> Option<Victim> {
        let chunks = self.idle_classes().flat_map(|(table, class)| {
            let from = bound(table, class);
            let members = from
                .into_iter()
                .flat_map(|from| class.members.iter_from(from));
            members.map(move |chunk| (table.last_use_of(chunk), table.id, chunk))
        });
        let free = chunks.filter(|&(_, t, c)| load.is_none_or(|l| (l.table, l.chunk) != (t, c)));
        let (_, table, chunk) = free.min()?;
        Some(self.whole(table, chunk))
    }

    /// Relevance: the chunk with the smallest keepRelevance that no starved scan can use, nor `trigger` needs (tier 1). Tier 2 is
    /// without `trigger`: the scan that asks is starved, so what it can use is spared anyway.
    fn least_relevant(&self, load: Option<&LoadChoice>, trigger: Option<&Scan>) -> Option<Victim> {
        self.least_kept(load, |table, class| {
            let of_table = trigger.filter(|scan| scan.table == table.id);
            let needed = of_table.is_some_and(|scan| {
                let mut parts = scan.parts.iter();
                parts.any(|part| class.key.interest.contains(part.slot))
            });
            if needed {
                None
            } else {
                self.usable_below(table, class, &table.starved)
            }
        })
    }

    /// The chunk below which the members of a class are *usable* for a scan in `among`; None if all of them are.
    fn usable_below(&self, table: &Table, class: &Class, among: &Bits) -> Option<ChunkId> {
        let anywhere = among.difference(&table.sequential);
        if table.ready_for_any(class, &anywhere) {
            return None;
        }
        let in_order = class
            .key
            .interest
            .intersection(&among.intersection(&table.sequential));
        let slots = in_order.iter().map(|slot| table.slot(slot));
        let ready = slots.filter(|slot| slot.columns.is_subset(&class.key.resident));
        let frontiers = ready.map(|slot| self.first_missing(self.scan(slot.scan)));
        Some(frontiers.max().unwrap_or(ChunkId(0)))
    }

    fn least_kept(
        &self,
        load: Option<&LoadChoice>,
        bound: impl Fn(&Table, &Class) -> Option<ChunkId>,
    ) -> Option<Victim> {
        let mut best: Option<(KeepRelevance, TableId, ChunkId)> = None;
        for (table, class) in self.idle_classes() {
            let Some(from) = bound(table, class) else {
                continue;
            };
            let loaded = load
                .filter(|load| load.table == table.id)
                .map(|load| load.chunk);
            let Some(chunk) = class.members.iter_from(from).find(|&c| Some(c) != loaded) else {
                continue;
            };
            let candidate = (self.keep_relevance(table, class), table.id, chunk);
            if best.as_ref().is_none_or(|best| candidate < *best) {
                best = Some(candidate);
            }
        }
        best.map(|(_, table, chunk)| self.whole(table, chunk))
    }

    fn keep_relevance(&self, table: &Table, class: &Class) -> KeepRelevance {
        let almost = u64::from(class.key.interest.len_and(&table.almost));
        let den = match self.config.model {
            StorageModel::Nsm => 1,
            StorageModel::Dsm => {
                let columns = table.columns_of_both(&class.key.interest, &table.almost);
                table.weight(&columns.intersection(&class.key.resident))
            }
        };
        let ratio = if den == 0 {
            Ratio { num: 0, den: 1 }
        } else {
            Ratio { num: almost, den }
        };
        (ratio, class.interested)
    }

    /// The budget shrank and nothing else is left: useful chunks go too.
    fn last_resort(&self) -> Option<Victim> {
        match self.config.policy {
            Policy::Normal | Policy::Attach => None,
            Policy::Elevator => self.oldest(None, |_, _| Some(ChunkId(0))),
            Policy::Relevance => self.least_kept(None, |_, _| Some(ChunkId(0))),
        }
    }

    /// Classes whose chunks may be evicted whole.
    fn idle_classes(&self) -> impl Iterator<Item = (&Table, &Class)> {
        self.tables.values().flat_map(|table| {
            let warm = table.classes.warm_ascending();
            let idle = warm.filter(|class| class.key.pinned.is_empty() && !class.is_busy());
            idle.map(move |class| (table, class))
        })
    }

    fn whole(&self, table: TableId, chunk: ChunkId) -> Victim {
        Victim::Segments(
            table,
            chunk,
            self.table(table).class(chunk).key.resident.clone(),
        )
    }
}
