//! Making room: which segments go when a load needs space or the budget shrinks.
//!
//! Victims are taken out one by one, for each changes who is starved; when they do not suffice, all are put back, so that a load
//! that cannot start costs nothing.
//! I2: pinned segments and chunks with a load under way are never victims. I3: a load starts only if it fits.
//! Source: [CoopScans07 §4 findFreeSlot, §6.2 "finding space for a chunk"].

use crate::abm::{Abm, LoadChoice};
use crate::classes::Class;
use crate::relevance::Ratio;
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
            let victim = self.orphan().or_else(|| self.victim(Some(load)));
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
            let victim = self
                .orphan()
                .or_else(|| self.victim(None))
                .or_else(|| self.last_resort());
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

    fn orphan(&self) -> Option<Victim> {
        let mut orphans = self
            .tables
            .values()
            .filter_map(|t| t.orphan().map(|e| Victim::Extent(t.id, e)));
        orphans.next()
    }

    fn victim(&self, load: Option<&LoadChoice>) -> Option<Victim> {
        match self.config.policy {
            Policy::Normal | Policy::Attach => self.least_recently_used(load),
            Policy::Elevator => self.least_recently_used(load).or_else(|| self.stuck(load)),
            Policy::Relevance => {
                let garbage = self.least_recently_used(load);
                garbage
                    .or_else(|| self.least_relevant(load, 1))
                    .or_else(|| {
                        // Tier 2 differs from tier 1 only in what the triggering scan still needs.
                        load.and_then(|load| self.least_relevant(Some(load), 2))
                    })
            }
        }
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
            !table.ready_for_any(class, &active)
        })
    }

    /// The idle chunk used longest ago among the classes that `may` go.
    fn oldest(
        &self,
        load: Option<&LoadChoice>,
        may: impl Fn(&Table, &Class) -> bool,
    ) -> Option<Victim> {
        let idle = self
            .idle_classes()
            .filter(|(table, class)| may(table, class));
        let chunks = idle.flat_map(|(table, class)| {
            let members = class.members.iter();
            members.map(move |chunk| (table.last_use_of(chunk), table.id, chunk))
        });
        let free = chunks.filter(|&(_, t, c)| load.is_none_or(|l| (l.table, l.chunk) != (t, c)));
        let (_, table, chunk) = free.min()?;
        Some(self.whole(table, chunk))
    }

    /// Relevance: the chunk with the smallest keepRelevance.
    fn least_relevant(&self, load: Option<&LoadChoice>, tier: u8) -> Option<Victim> {
        let trigger = load.map(|load| self.scan(load.scan));
        self.least_kept(load, |table, class| {
            let useful = table.ready_for_any(class, &table.starved);
            let needed = trigger
                .filter(|scan| scan.table == table.id)
                .is_some_and(|scan| {
                    scan.parts.iter().any(|part| {
                        class.key.interest.contains(part.slot)
                            && (tier == 1 || part.columns.is_subset(&class.key.resident))
                    })
                });
            !useful && !needed
        })
    }

    fn least_kept(
        &self,
        load: Option<&LoadChoice>,
        may: impl Fn(&Table, &Class) -> bool,
    ) -> Option<Victim> {
        let mut best: Option<(KeepRelevance, TableId, ChunkId)> = None;
        for (table, class) in self
            .idle_classes()
            .filter(|(table, class)| may(table, class))
        {
            let loaded = load
                .filter(|load| load.table == table.id)
                .map(|load| load.chunk);
            let Some(chunk) = class.members.iter().find(|&c| Some(c) != loaded) else {
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
            Policy::Elevator => self.oldest(None, |_, _| true),
            Policy::Relevance => self.least_kept(None, |_, _| true),
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
