//! What is evicted to free space?
//!
//! Idea: evict on a copy until the load fits; the copy becomes the state only if it does.
//! ABM-I2: pinned columns and busy chunks are never victims.
//! Source: [CoopScans07 Figure 3 findFreeSlot, §6.2]; `docs/design/abm.md`, "Eviction".

use std::cmp::Reverse;

use coscan_core::{Action, ChunkId, ColumnId, ExtentId, Policy, ScanId, StorageModel, TableId};

use super::choose::{Choice, Fraction};
use super::{ExtentState, Oracle};

/// (E or E / Pe, |I|, −next(c)): the chunk with the smallest is evicted first.
type KeepRelevance = (Fraction, usize, Reverse<u64>);

/// The next victim.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Extent(TableId, ExtentId),
    Segment(TableId, ChunkId, ColumnId),
    /// All resident columns of the chunk.
    Chunk(TableId, ChunkId),
}

impl Oracle {
    /// Whether the load fits now, after evictions. Evicts nothing if it cannot fit.
    pub(super) fn find_free_slot(&mut self, load: &Choice) -> bool {
        let bytes = self.bytes_to_load(load.table, load.chunk, &load.columns);
        let mut trial = self.clone();
        while trial.used() + bytes > trial.budget {
            let Some(victim) = trial.choose_victim(Some(load)) else {
                return false;
            };
            trial.evict(victim);
        }
        *self = trial;
        true
    }

    /// Evicts the segments of the load's chunk that block it permanently because they have grown;
    /// false if there are none.
    pub(super) fn give_up_grown(&mut self, load: &Choice) -> bool {
        let (table, chunk) = (load.table, load.chunk);
        let resident = self.resident(table, chunk);
        let own = load
            .columns
            .iter()
            .map(|column| self.own(table, chunk, column));
        let held = resident
            .iter()
            .map(|column| self.held(table, chunk, column));
        let mut bytes = own.chain(held).sum::<u64>();
        for column in load.columns.iter().chain(resident.iter()) {
            let extents = self.extents_of(table, chunk, column);
            bytes += extents
                .iter()
                .map(|&e| self.shared(table, e).bytes)
                .sum::<u64>();
        }
        if bytes <= self.budget || self.busy(table, chunk) {
            return false;
        }
        let mut grown: Vec<ColumnId> = resident.iter().collect();
        grown.retain(|&column| {
            self.held(table, chunk, column) > self.own(table, chunk, column)
                && !self.pinned_columns(table, chunk).contains(column)
        });
        for &column in &grown {
            self.evict_segment(table, chunk, column);
        }
        !grown.is_empty()
    }

    /// Step 4 of an event.
    pub(super) fn shrink(&mut self) {
        while self.used() > self.budget {
            let Some(victim) = self.choose_victim(None).or_else(|| self.last_resort()) else {
                return;
            };
            self.evict(victim);
        }
    }

    fn choose_victim(&self, load: Option<&Choice>) -> Option<Victim> {
        if let Some(victim) = self.useless_extent() {
            return Some(victim);
        }
        let spared = load.map(|load| (load.table, load.chunk));
        let victim = match self.config.policy {
            Policy::Normal | Policy::Attach => self.least_recently_used(load),
            Policy::Pbm => self.needed_last(self.idle_segments(load)),
            Policy::PbmSampling => self
                .needed_last(self.sample(load))
                .or_else(|| self.needed_last(self.idle_segments(load))),
            Policy::Elevator => self.garbage().or_else(|| self.passed_by(spared)),
            Policy::Relevance | Policy::Relevance2007 => self.garbage().or_else(|| {
                let tier = |tier| self.least_relevant(spared, load.map(|load| load.scan), tier);
                tier(Tier::NotMine).or_else(|| tier(Tier::MineIfNotUsable))
            }),
        };
        victim.or_else(|| self.bare_extent(load))
    }

    /// The last step: an extent is kept for a neighbouring chunk only while other space can be
    /// freed.
    fn bare_extent(&self, load: Option<&Choice>) -> Option<Victim> {
        for table in self.table_ids() {
            for extent in self.extents(table) {
                let column = self.shared(table, extent).column;
                let range = self.range(table, extent);
                let mine = load.is_some_and(|load| {
                    load.table == table
                        && load.columns.contains(column)
                        && range.contains(&load.chunk)
                });
                let bare = |&c: &ChunkId| !self.resident_or_loading(table, c).contains(column);
                if self.extent(table, extent) == ExtentState::Resident
                    && !mine
                    && range.iter().all(bare)
                {
                    return Some(Victim::Extent(table, extent));
                }
            }
        }
        None
    }

    /// The last victims of a shrink: chunks that running scans would miss.
    fn last_resort(&self) -> Option<Victim> {
        match self.config.policy {
            Policy::Normal | Policy::Attach | Policy::Pbm | Policy::PbmSampling => None,
            Policy::Elevator => self.oldest(self.evictable(None)),
            Policy::Relevance | Policy::Relevance2007 => self.least_kept(self.evictable(None)),
        }
    }

    /// Step 0.
    fn useless_extent(&self) -> Option<Victim> {
        for table in self.table_ids() {
            for extent in self.extents(table) {
                if self.extent(table, extent) == ExtentState::Resident
                    && self
                        .range(table, extent)
                        .into_iter()
                        .all(|c| !self.needs_extent(table, extent, c))
                {
                    return Some(Victim::Extent(table, extent));
                }
            }
        }
        None
    }

    /// Whether the chunk keeps the extent in memory.
    fn needs_extent(&self, table: TableId, extent: ExtentId, chunk: ChunkId) -> bool {
        let column = self.shared(table, extent).column;
        self.resident_or_loading(table, chunk).contains(column)
            || self.wanted(table, chunk).contains(column)
    }

    /// LRU at (chunk, column).
    fn least_recently_used(&self, load: Option<&Choice>) -> Option<Victim> {
        self.oldest_segment(self.idle_segments(load))
    }

    /// Segments that are resident and not pinned, whose chunk is not busy, is not the one to be
    /// loaded, and is not taken by the load's scan before it.
    fn idle_segments(&self, load: Option<&Choice>) -> Vec<(TableId, ChunkId, ColumnId)> {
        let spared = |table, chunk| {
            load.is_some_and(|load| {
                let order = self.order(load.scan);
                let place = |chunk| order.iter().position(|&c| c == chunk);
                let before = place(chunk).is_some_and(|at| Some(at) <= place(load.chunk));
                load.table == table && before
            })
        };
        let mut segments = self.resident_segments();
        segments.retain(|&(table, chunk, column)| {
            !spared(table, chunk)
                && !self.busy(table, chunk)
                && !self.pinned_columns(table, chunk).contains(column)
        });
        segments
    }

    /// [Vanderkooy23]: ten of all idle segments, except those that the load excludes.
    fn sample(&self, load: Option<&Choice>) -> Vec<(TableId, ChunkId, ColumnId)> {
        let all = self.idle_segments(None);
        let allowed = self.idle_segments(load);
        let seed = self.sequence ^ self.used().rotate_left(32);
        let draw = |i: u64| {
            // [Steele14]
            let mut z = seed.wrapping_add(i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^= z >> 31;
            let place = u128::from(z) * all.len() as u128 / (1 << 64);
            all.get(usize::try_from(place).expect("below the length"))
        };
        let drawn = (1..=10).filter_map(draw).copied();
        drawn.filter(|one| allowed.contains(one)).collect()
    }

    /// [PBM12]: the segment whose estimated time until its next use is longest; ties by LRU.
    fn needed_last(&self, mut segments: Vec<(TableId, ChunkId, ColumnId)>) -> Option<Victim> {
        let next_use = |table, chunk, column| {
            let mut wanting = self.interested(table, chunk);
            wanting.retain(|&q| !self.stalled(q) && self.cols(q, chunk).contains(column));
            let times = wanting.into_iter().map(|q| self.time_to(q, chunk));
            times.min().unwrap_or(u64::MAX)
        };
        let latest = segments
            .iter()
            .map(|&(t, c, col)| next_use(t, c, col))
            .max()?;
        segments.retain(|&(t, c, col)| next_use(t, c, col) == latest);
        self.oldest_segment(segments)
    }

    /// [PBM12]: the time until a scan in order reaches a chunk that it needs.
    fn time_to(&self, q: ScanId, chunk: ChunkId) -> u64 {
        let scan = &self.scans[&q];
        let order = self.order(q);
        let position = order.iter().position(|&c| c == chunk).expect("needed");
        let handed = scan.chunks_worked + scan.held.len() as u64;
        let elapsed = self.now.0 - scan.registered_at.0;
        let time = position as u128 * u128::from(elapsed) / u128::from(handed.max(1));
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// §6.2: "a subset of columns in a buffered chunk is not useful for any query".
    fn garbage(&self) -> Option<Victim> {
        let mut segments = self.resident_segments();
        segments.retain(|&(table, chunk, column)| {
            !self.busy(table, chunk)
                && !self.wanted(table, chunk).contains(column)
                && !self.pinned_columns(table, chunk).contains(column)
        });
        self.oldest_segment(segments)
    }

    fn oldest_segment(&self, segments: Vec<(TableId, ChunkId, ColumnId)>) -> Option<Victim> {
        let oldest = segments
            .into_iter()
            .min_by_key(|&(t, c, col)| (self.last_use_segment(t, c, col), t, c, col));
        oldest.map(|(table, chunk, column)| Victim::Segment(table, chunk, column))
    }

    /// Chunks with resident columns that are not pinned, not busy, and not the one to be loaded.
    fn evictable(&self, spared: Option<(TableId, ChunkId)>) -> Vec<(TableId, ChunkId)> {
        let mut chunks = self.all_chunks();
        chunks.retain(|&(table, chunk)| {
            Some((table, chunk)) != spared
                && !self.resident(table, chunk).is_empty()
                && !self.pinned(table, chunk)
                && !self.busy(table, chunk)
        });
        chunks
    }

    /// The elevator's victim: a chunk that no scan that is not stalled could use as it is.
    fn passed_by(&self, spared: Option<(TableId, ChunkId)>) -> Option<Victim> {
        let mut chunks = self.evictable(spared);
        chunks.retain(|&(table, chunk)| {
            let interested = self.interested(table, chunk);
            interested
                .into_iter()
                .all(|q| self.stalled(q) || !self.usable(q, chunk))
        });
        self.oldest(chunks)
    }

    fn oldest(&self, chunks: Vec<(TableId, ChunkId)>) -> Option<Victim> {
        let oldest = chunks
            .into_iter()
            .min_by_key(|&(table, chunk)| (self.last_use(table, chunk), table, chunk));
        oldest.map(|(table, chunk)| Victim::Chunk(table, chunk))
    }

    fn least_relevant(
        &self,
        spared: Option<(TableId, ChunkId)>,
        q_trigger: Option<ScanId>,
        tier: Tier,
    ) -> Option<Victim> {
        let mut chunks = self.evictable(spared);
        chunks.retain(|&(table, chunk)| {
            let mine = q_trigger.is_some_and(|q| self.interested(table, chunk).contains(&q));
            let allowed = match tier {
                Tier::NotMine => !mine,
                Tier::MineIfNotUsable => !mine || q_trigger.is_some_and(|q| !self.usable(q, chunk)),
            };
            allowed && !self.useful_for_starved_query(table, chunk)
        });
        self.least_kept(chunks)
    }

    fn useful_for_starved_query(&self, table: TableId, chunk: ChunkId) -> bool {
        self.interested(table, chunk)
            .into_iter()
            .any(|q| self.starved(q) && self.usable(q, chunk))
    }

    fn least_kept(&self, chunks: Vec<(TableId, ChunkId)>) -> Option<Victim> {
        let mut least: Option<(KeepRelevance, Victim)> = None;
        for (table, chunk) in chunks {
            let relevance = self.keep_relevance(table, chunk);
            if least.is_none_or(|(smallest, _)| relevance < smallest) {
                least = Some((relevance, Victim::Chunk(table, chunk)));
            }
        }
        least.map(|(_, victim)| victim)
    }

    fn keep_relevance(&self, table: TableId, chunk: ChunkId) -> KeepRelevance {
        let interested = self.interested(table, chunk);
        let mut almost_starved = interested.clone();
        almost_starved.retain(|&q| {
            self.almost_starved(q) && (!self.is_sequential(q) || self.usable(q, chunk))
        });
        let (in_order, any_time): (Vec<ScanId>, Vec<ScanId>) =
            interested.into_iter().partition(|&q| self.is_sequential(q));
        let coming = in_order.into_iter().filter(|&q| !self.stalled(q));
        let times = coming.map(|q| self.time_to(q, chunk));
        let next = times.min().unwrap_or(0);
        let e = almost_starved.len() as u64;
        let relevance = match self.config.model {
            StorageModel::Nsm => Fraction(e, 1),
            StorageModel::Dsm => {
                let cols = self.union_of_cols(&almost_starved, chunk);
                let p_e = self.p(table, &cols.intersection(&self.resident(table, chunk)));
                if p_e == 0 {
                    Fraction(0, 1)
                } else {
                    Fraction(e, p_e)
                }
            }
        };
        (relevance, any_time.len(), Reverse(next))
    }

    fn evict(&mut self, victim: Victim) {
        match victim {
            Victim::Extent(table, extent) => self.evict_extent(table, extent),
            Victim::Segment(table, chunk, column) => self.evict_segment(table, chunk, column),
            Victim::Chunk(table, chunk) => {
                for column in self.resident(table, chunk).iter() {
                    self.evict_segment(table, chunk, column);
                }
            }
        }
    }

    /// An extent is freed with its segment, unless a neighbour has or wants it (§6.2, "avoiding
    /// data waste").
    pub(super) fn evict_segment(&mut self, table: TableId, chunk: ChunkId, column: ColumnId) {
        assert!(
            !self.pinned_columns(table, chunk).contains(column),
            "ABM-I2: victim is pinned"
        );
        let c = self.chunk_mut(table, chunk);
        c.resident.remove(column);
        c.last_use.remove(&column);
        c.resized.remove(&column);
        self.actions.push_back(Action::Evict {
            table,
            chunk,
            column,
        });
        for extent in self.extents_of(table, chunk, column) {
            let mut others = self
                .range(table, extent)
                .into_iter()
                .filter(|&other| other != chunk);
            if others.all(|other| !self.needs_extent(table, extent, other)) {
                self.evict_extent(table, extent);
            }
        }
    }

    pub(super) fn evict_extent(&mut self, table: TableId, extent: ExtentId) {
        let state = &mut self.table_mut(table).extents[extent.0 as usize];
        assert_eq!(*state, ExtentState::Resident);
        *state = ExtentState::Absent;
        self.actions
            .push_back(Action::EvictExtent { table, extent });
    }
}

/// How far the triggering scan's own needs protect a chunk.
#[derive(Clone, Copy, Debug)]
enum Tier {
    NotMine,
    MineIfNotUsable,
}
