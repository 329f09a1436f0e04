//! What is evicted when a load needs space, or when the budget shrinks?
//!
//! Victims are evicted one by one, because each eviction changes which scans are starved. If the
//! victims do not suffice, all are restored, so a load that cannot start evicts nothing.
//! Not here: the choice of victims (the policy).
//! ABM-I3: a load starts only if it fits.

use crate::abm::Abm;
use crate::policy::victims::Victim;
use crate::state::LoadChoice;
use crate::table::Table;
use crate::table::segments::Evicted;
use crate::{Action, ColumnId, ColumnSet, ExtentId, TableId};

/// A victim.
#[derive(Debug)]
enum Eviction {
    Extent(TableId, ExtentId),
    Segments(Victim),
}

/// An evicted victim, with what its restoration needs.
#[derive(Debug)]
enum Undo {
    Extent(TableId, ExtentId),
    Segment(TableId, Evicted),
}

impl Abm {
    /// Frees space for a load. If not enough can be freed, returns false and changes nothing.
    pub(crate) fn evict_for(&mut self, load: &LoadChoice) -> bool {
        let mut evicted = Vec::new();
        loop {
            // Evicting a neighbour may free an extent that the load needs, so the need is
            // recomputed.
            let bytes = self.state.load_bytes(load.table, load.chunk, &load.columns);
            if self.state.used + bytes <= self.state.budget {
                self.announce(evicted);
                return true;
            }
            let victim = self.next_eviction(Some(load));
            match victim {
                Some(victim) if bytes <= self.state.budget => self.evict(victim, &mut evicted),
                _ => {
                    self.put_back(evicted);
                    return false;
                }
            }
        }
    }

    /// A load that would not fit even if everything except its own chunk were evicted would wait
    /// without end. If the driver has made idle segments of the chunk larger, evicts them, so that
    /// the next load brings them at their original size; returns whether there were any.
    pub(crate) fn evict_grown(&mut self, load: &LoadChoice) -> bool {
        let (id, chunk) = (load.table, load.chunk);
        let table = self.state.table(id);
        // Resident extents of the load's columns stay, because the chunk needs them.
        let bytes = table.bytes_with_extents(chunk, &load.columns);
        if bytes + table.resident_bytes(chunk) <= self.state.budget {
            return false;
        }
        let idle = table.idle(chunk);
        let grown =
            |column: &ColumnId| table.held_bytes(chunk, *column) > table.own_bytes(chunk, *column);
        let columns: ColumnSet = idle.iter().filter(grown).collect();
        if columns.is_empty() {
            return false;
        }
        let mut evicted = Vec::new();
        let victim = Victim {
            table: id,
            chunk,
            columns,
        };
        self.evict(Eviction::Segments(victim), &mut evicted);
        self.announce(evicted);
        true
    }

    /// Step 4 of `handle`.
    pub(crate) fn shrink_to_budget(&mut self) {
        let mut evicted = Vec::new();
        while self.state.used > self.state.budget {
            let victim = self.next_eviction(None).or_else(|| self.last_resort());
            let Some(victim) = victim else { break };
            self.evict(victim, &mut evicted);
        }
        self.announce(evicted);
    }

    fn evict(&mut self, victim: Eviction, evicted: &mut Vec<Undo>) {
        match victim {
            Eviction::Extent(table, extent) => {
                self.state.used -= self.state.table_mut(table).evict_extent(extent);
                evicted.push(Undo::Extent(table, extent));
            }
            Eviction::Segments(victim) => {
                let Victim {
                    table,
                    chunk,
                    columns,
                } = victim;
                for column in columns.iter() {
                    let mut freed = None;
                    self.state
                        .change_coming(table, chunk, |t| freed = Some(t.evict(chunk, column)));
                    if let Some(freed) = freed {
                        self.state.used -= freed.bytes;
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
                    let table = self.state.table_mut(table);
                    table.restore_extent(extent);
                    let bytes = table.extent_bytes(extent);
                    self.state.used += bytes;
                }
                Undo::Segment(table, segment) => {
                    self.state.used += segment.bytes;
                    let chunk = segment.chunk;
                    self.state
                        .change_coming(table, chunk, |table| table.restore(segment));
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

    fn next_eviction(&self, load: Option<&LoadChoice>) -> Option<Eviction> {
        let useless = self.extent(Table::orphan);
        let segments = || self.rules.victim(&self.state, load).map(Eviction::Segments);
        let bare = || {
            self.extent(|table| {
                let load = load.filter(|load| load.table == table.id);
                table.bare_extent(load.map(|load| (load.chunk, &load.columns)))
            })
        };
        useless.or_else(segments).or_else(bare)
    }

    /// The budget shrank and no regular victim is left: chunks that scans can use are evicted too.
    fn last_resort(&self) -> Option<Eviction> {
        self.rules.last_resort(&self.state).map(Eviction::Segments)
    }

    /// The extent that `find` gives for the first table that has one.
    fn extent(&self, find: impl Fn(&Table) -> Option<ExtentId>) -> Option<Eviction> {
        let mut extents = self
            .state
            .tables
            .values()
            .filter_map(|t| find(t).map(|e| Eviction::Extent(t.id, e)));
        extents.next()
    }
}
