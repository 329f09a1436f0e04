//! Which chunk is delivered, and which chunk is loaded next, for which scan?
//!
//! Idea: the paper's foreach loops with a strict comparison, so that the lowest id wins a tie.
//! Not here: freeing space for the load (`eviction.rs`).
//! Source: [CoopScans07 Figure 3, Figure 11]; `docs/design/abm.md`, "Choosing".

use std::cmp::{Ordering, Reverse};

use coscan_core::{ChunkId, ColumnSet, Policy, ScanId, StorageModel, TableId};

use super::Oracle;

/// A load that could start.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) scan: ScanId,
    pub(super) table: TableId,
    pub(super) chunk: ChunkId,
    pub(super) columns: ColumnSet,
}

/// A score that is compared exactly. The denominator is above 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fraction(pub(super) u64, pub(super) u64);

impl Ord for Fraction {
    fn cmp(&self, other: &Self) -> Ordering {
        let scaled = |a: u64, b: u64| u128::from(a) * u128::from(b);
        scaled(self.0, other.1).cmp(&scaled(other.0, self.1))
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Fraction {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Fraction {}

/// Chooses the chunk that a scan gets.
impl Oracle {
    pub(super) fn choose_available_chunk(&self, q_trigger: ScanId) -> Option<ChunkId> {
        if self.is_sequential(q_trigger) {
            let first = self.order(q_trigger).first().copied();
            return first.filter(|&chunk| self.ready(q_trigger, chunk));
        }
        let table = self.scans[&q_trigger].spec.table;
        if self.config.policy == Policy::Elevator {
            let mut sweep = self.sweep(table).into_iter();
            return sweep.find(|&chunk| self.ready(q_trigger, chunk));
        }
        let mut available: Option<(Fraction, ChunkId)> = None;
        for chunk in self.scans[&q_trigger].needed.iter() {
            if !self.ready(q_trigger, chunk) {
                continue;
            }
            let relevance = self.use_relevance(chunk, q_trigger);
            if available.is_none_or(|(best, _)| relevance > best) {
                available = Some((relevance, chunk));
            }
        }
        available.map(|(_, chunk)| chunk)
    }

    fn use_relevance(&self, chunk: ChunkId, q_trigger: ScanId) -> Fraction {
        let table = self.scans[&q_trigger].spec.table;
        let mut interested = self.interested(table, chunk);
        match self.config.model {
            StorageModel::Nsm => {
                let q_max = self.scans.len();
                Fraction((q_max - interested.len()) as u64, 1)
            }
            StorageModel::Dsm => {
                let cols = self.cols(q_trigger, chunk);
                interested.retain(|&q| self.cols(q, chunk).intersects(&cols));
                Fraction(self.p(table, &cols), interested.len() as u64)
            }
        }
    }

    /// The chunks in the order in which the elevator reaches them.
    fn sweep(&self, table: TableId) -> Vec<ChunkId> {
        let mut chunks = self.chunks(table);
        chunks.rotate_left(self.tables[&table].cursor.0 as usize);
        chunks
    }

    /// [CoopScans07 §3]: the running scan with the largest remaining overlap.
    pub(super) fn choose_scan_to_attach_to(&self, q_new: ScanId) -> Option<ScanId> {
        let table = self.scans[&q_new].spec.table;
        let mut chosen: Option<(u64, ScanId)> = None;
        for q_old in self.scan_ids() {
            let old = &self.scans[&q_old].spec;
            if q_old == q_new || old.table != table || old.ordered {
                continue;
            }
            let overlap = self.overlap(q_new, q_old);
            if overlap > chosen.map_or(0, |(largest, _)| largest) {
                chosen = Some((overlap, q_old));
            }
        }
        chosen.map(|(_, q)| q)
    }

    fn overlap(&self, q_new: ScanId, q_old: ScanId) -> u64 {
        let (new, old) = (&self.scans[&q_new], &self.scans[&q_old]);
        let common = new
            .needed
            .iter()
            .filter(|&chunk| old.needed.contains(chunk));
        common
            .map(|c| {
                self.p(
                    new.spec.table,
                    &self.cols(q_new, c).intersection(&self.cols(q_old, c)),
                )
            })
            .sum()
    }
}

/// Chooses the next load.
impl Oracle {
    pub(super) fn choose_load(&self) -> Option<Choice> {
        match self.config.policy {
            Policy::Normal | Policy::Attach | Policy::Pbm | Policy::PbmSampling => {
                self.choose_load_in_order()
            }
            Policy::Elevator => self.choose_load_of_elevator(),
            Policy::Relevance | Policy::Relevance2007 => self.choose_query_to_process(),
        }
    }

    fn is_on_free_device(&self, table: TableId, chunk: ChunkId) -> bool {
        self.has_free_place(self.device(table, chunk))
    }

    fn choose_load_in_order(&self) -> Option<Choice> {
        let mut scans = self.scan_ids();
        scans.retain(|&scan| self.starved(scan));
        scans.sort_by_key(|scan| (self.scans[scan].waiting == 0, self.scans[scan].last_load));
        for scan in scans {
            let table = self.scans[&scan].spec.table;
            for chunk in self.order(scan).into_iter().take(self.window(scan)) {
                if !self.coming(scan, chunk) && self.is_on_free_device(table, chunk) {
                    let columns = self.missing(scan, chunk);
                    return Some(Choice {
                        scan,
                        table,
                        chunk,
                        columns,
                    });
                }
            }
        }
        None
    }

    fn choose_load_of_elevator(&self) -> Option<Choice> {
        let mut tables = self.table_ids();
        tables.sort_by_key(|table| (self.tables[table].last_load, *table));
        for table in tables {
            let columns = |chunk| {
                self.wanted(table, chunk)
                    .difference(&self.resident_or_loading(table, chunk))
            };
            let next = self
                .sweep(table)
                .into_iter()
                .find(|&chunk| !columns(chunk).is_empty());
            let Some(chunk) = next.filter(|&chunk| self.is_on_free_device(table, chunk)) else {
                continue;
            };
            let mut scans = self.interested(table, chunk);
            scans.retain(|&scan| !self.stalled(scan));
            scans.retain(|&scan| !self.missing(scan, chunk).is_empty());
            let choice = Choice {
                scan: scans[0],
                table,
                chunk,
                columns: columns(chunk),
            };
            return Some(self.at_most_the_budget(choice));
        }
        None
    }

    /// The most relevant query that has something to load, with its load.
    fn choose_query_to_process(&self) -> Option<Choice> {
        let mut queries = self.scan_ids();
        queries.retain(|&q| self.starved(q));
        queries.sort_by_key(|&q| (Reverse(self.query_relevance(q)), q));
        queries.into_iter().find_map(|q| {
            let chunk = self.choose_chunk_to_load(q)?;
            let table = self.scans[&q].spec.table;
            let columns = self.columns_to_load(chunk, q);
            let choice = Choice {
                scan: q,
                table,
                chunk,
                columns,
            };
            Some(self.at_most_the_budget(choice))
        })
    }

    /// The columns that several scans want together may exceed the budget; the columns that the
    /// chosen scan misses may fit.
    fn at_most_the_budget(&self, choice: Choice) -> Choice {
        let (scan, table, chunk) = (choice.scan, choice.table, choice.chunk);
        if self.bytes_to_load(table, chunk, &choice.columns) <= self.budget {
            return choice;
        }
        Choice {
            scan,
            table,
            chunk,
            columns: self.missing(scan, chunk),
        }
    }

    /// Multiplied by running queries × wait unit, so that it is a whole number.
    fn query_relevance(&self, scan: ScanId) -> i128 {
        let q = &self.scans[&scan];
        let waited = if q.waiting > 0 {
            self.now.0 - q.wait_since.0
        } else {
            0
        };
        let scale = self.scans.len() as i128 * i128::from(self.config.wait_unit_ns);
        i128::from(waited) - q.needed.len() as i128 * scale
    }

    fn choose_chunk_to_load(&self, q_trigger: ScanId) -> Option<ChunkId> {
        let table = self.scans[&q_trigger].spec.table;
        let mut chunks = self.interesting_chunks(q_trigger);
        chunks.retain(|&chunk| self.is_on_free_device(table, chunk));
        if self.is_sequential(q_trigger) {
            return chunks.first().copied();
        }
        chunks.retain(|&chunk| self.starved_of(q_trigger, table, chunk));
        // Idle devices come first.
        let loads = |chunk: &ChunkId| self.loads_on(self.device(table, *chunk));
        let fewest = chunks.iter().map(loads).min()?;
        chunks.retain(|chunk| loads(chunk) == fewest);
        let mut best: Option<((Fraction, usize), ChunkId)> = None;
        for chunk in chunks {
            let relevance = match self.config.model {
                StorageModel::Nsm => self.load_relevance_nsm(chunk, q_trigger),
                StorageModel::Dsm => self.load_relevance_dsm(chunk, q_trigger),
            };
            if best.is_none_or(|(largest, _)| relevance > largest) {
                best = Some((relevance, chunk));
            }
        }
        best.map(|(_, chunk)| chunk)
    }

    /// The chunks that could be loaded for the query, on any device.
    fn interesting_chunks(&self, q_trigger: ScanId) -> Vec<ChunkId> {
        let not_coming = |chunk: &ChunkId| !self.coming(q_trigger, *chunk);
        if self.is_sequential(q_trigger) {
            let window = self
                .order(q_trigger)
                .into_iter()
                .take(self.window(q_trigger));
            window.filter(not_coming).collect()
        } else {
            self.scans[&q_trigger]
                .needed
                .iter()
                .filter(not_coming)
                .collect()
        }
    }

    fn load_relevance_nsm(&self, chunk: ChunkId, q_trigger: ScanId) -> (Fraction, usize) {
        let table = self.scans[&q_trigger].spec.table;
        let interested = self.interested(table, chunk);
        let starved = interested.iter();
        let starved = starved
            .filter(|&&q| self.starved_of(q, table, chunk))
            .count();
        let pull = starved + self.pages(table, chunk);
        (Fraction(pull as u64, 1), interested.len())
    }

    fn load_relevance_dsm(&self, chunk: ChunkId, q_trigger: ScanId) -> (Fraction, usize) {
        let table = self.scans[&q_trigger].spec.table;
        let pull =
            self.overlapping_starved_queries(chunk, q_trigger).len() + self.pages(table, chunk);
        let p_l = self.p(table, &self.columns_to_load(chunk, q_trigger));
        (Fraction(pull as u64, p_l), 0)
    }

    fn overlapping_starved_queries(&self, chunk: ChunkId, q_trigger: ScanId) -> Vec<ScanId> {
        let cols = self.cols(q_trigger, chunk);
        let table = self.scans[&q_trigger].spec.table;
        let mut queries = self.interested(table, chunk);
        queries
            .retain(|&q| self.starved_of(q, table, chunk) && self.cols(q, chunk).intersects(&cols));
        queries
    }

    fn columns_to_load(&self, chunk: ChunkId, q_trigger: ScanId) -> ColumnSet {
        let table = self.scans[&q_trigger].spec.table;
        let queries = self.overlapping_starved_queries(chunk, q_trigger);
        self.union_of_cols(&queries, chunk)
            .difference(&self.resident_or_loading(table, chunk))
    }
}
