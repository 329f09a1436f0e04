//! `relevance`: which scan is served, which chunk is read for it, which chunk it is handed.
//!
//! Idea: serve the starved scan that needs least (or has waited long), with the chunk that unblocks most starved scans; hand
//! out first what few others want, so that it can be evicted early.
//! Not here: what is evicted for it (`room.rs`).
//! Bounds: O(scans + classes) per decision, and classes are tried in an order that allows an early stop.
//! Source: [CoopScans07 §4, Figure 3; §6.2, Figure 11]; we differ as `docs/design/abm.md` says.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::abm::{Abm, LoadChoice};
use crate::bits::Bits;
use crate::classes::Class;
use crate::scan::Scan;
use crate::table::Table;
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
        let mut best: Option<(u32, ChunkId)> = None;
        for class in self.table(scan.table).classes.warm_ascending() {
            if best.is_some_and(|(interested, _)| class.interested > interested) {
                break;
            }
            if is_ready(scan, class) {
                let candidate = (class.interested, class.first());
                best = Some(best.map_or(candidate, |b| b.min(candidate)));
            }
        }
        best.map(|(_, chunk)| chunk)
    }

    /// DSM: `Pu / U`.
    fn largest_for_fewest(&self, scan: &Scan) -> Option<ChunkId> {
        let table = self.table(scan.table);
        let mut best: Option<(Ratio, Reverse<ChunkId>)> = None;
        for part in &scan.parts {
            let overlapping = table.overlapping(&part.columns);
            let num = table.weight(&part.columns);
            for class in table.classes.warm_ascending() {
                if class.key.interest.contains(part.slot)
                    && part.columns.is_subset(&class.key.resident)
                {
                    let den = class.key.interest.len_and(&overlapping).into();
                    best = best.max(Some((Ratio { num, den }, Reverse(class.first()))));
                }
            }
        }
        best.map(|(_, Reverse(chunk))| chunk)
    }

    /// chooseQueryToProcess, then chooseChunkToLoad.
    pub(crate) fn choose_relevant_load(&self) -> Option<LoadChoice> {
        let running = self.scans.len() as u64;
        let hungry = self
            .scans
            .values()
            .filter(|scan| scan.starved && (scan.sequential || scan.coming < scan.needed.len()));
        let mut queries: BinaryHeap<(i128, Reverse<ScanId>)> = hungry
            .map(|scan| (self.query_relevance(scan, running), Reverse(scan.id)))
            .collect();
        while let Some((_, Reverse(id))) = queries.pop() {
            let scan = self.scan(id);
            if let Some((chunk, columns)) = self.choose_chunk_to_load(scan) {
                return Some(LoadChoice {
                    table: scan.table,
                    chunk,
                    columns,
                    scan: id,
                });
            }
        }
        None
    }

    /// `−needed + waited / running`, times `running · wait_unit` so that it is exact.
    fn query_relevance(&self, scan: &Scan, running: u64) -> i128 {
        let unit = i128::from(running) * i128::from(self.config.wait_unit_ns);
        let waited = if scan.waiting > 0 {
            self.now.0 - scan.wait_since.0
        } else {
            0
        };
        i128::from(waited) - scan.needed.len() as i128 * unit
    }

    fn choose_chunk_to_load(&self, scan: &Scan) -> Option<(ChunkId, ColumnSet)> {
        let table = self.table(scan.table);
        if scan.sequential {
            let (chunk, missing) = self.missing_ahead(scan).next()?;
            if !self.device_free(table.device(chunk)) {
                return None;
            }
            let class = table.class(chunk);
            let columns = match self.config.model {
                StorageModel::Nsm => missing,
                StorageModel::Dsm => {
                    let part = &scan.parts[scan.part_of(chunk)?];
                    let overlapping = table
                        .overlapping(&part.columns)
                        .intersection(&table.starved);
                    table
                        .columns_of_both(&class.key.interest, &overlapping)
                        .difference(&class.coming)
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
        let mut best: Option<((u32, u32, Reverse<ChunkId>), &Class)> = None;
        for class in table.classes.cold_descending() {
            if let Some(((starved, _, _), _)) = best
                && starved > class.interested + table.pages_max
            {
                break;
            }
            if !self.is_loadable(scan, class) {
                continue;
            }
            let starved = class.key.interest.len_and(&table.starved) + class.key.pages;
            let candidate = (starved, class.interested, Reverse(class.first()));
            if best.as_ref().is_none_or(|(score, _)| candidate > *score) {
                best = Some((candidate, class));
            }
        }
        best.map(|((_, _, Reverse(chunk)), class)| (chunk, class.wanted.difference(&class.coming)))
    }

    /// DSM: `L / Pl`.
    fn most_wanted_per_byte(&self, scan: &Scan, table: &Table) -> Option<(ChunkId, ColumnSet)> {
        let mut best: Option<((Ratio, Reverse<ChunkId>), ColumnSet)> = None;
        for part in &scan.parts {
            // Starved scans that share a column with this part; the scan itself is one of them.
            let others: Bits = table
                .overlapping(&part.columns)
                .intersection(&table.starved);
            let least = table.weight(&part.columns);
            let classes = table
                .classes
                .cold_descending()
                .chain(table.classes.warm_ascending());
            for class in classes {
                if !class.key.interest.contains(part.slot)
                    || part.columns.is_subset(&class.coming)
                    || !self.device_free(class.key.device)
                {
                    continue;
                }
                // An upper bound first: as many scans as could count, for the fewest bytes.
                let num = u64::from(class.key.interest.len_and(&others) + class.key.pages);
                let cold = class.coming.is_empty();
                if let Some(((score, _), _)) = &best
                    && cold
                    && (Ratio { num, den: least }) < *score
                {
                    continue;
                }
                let wanted = table.columns_of_both(&class.key.interest, &others);
                let columns = wanted.difference(&class.coming);
                let den = table.weight(&columns);
                let candidate = (Ratio { num, den }, Reverse(class.first()));
                if best.as_ref().is_none_or(|(score, _)| candidate > *score) {
                    best = Some((candidate, columns));
                }
            }
        }
        best.map(|((_, Reverse(chunk)), columns)| (chunk, columns))
    }

    fn is_loadable(&self, scan: &Scan, class: &Class) -> bool {
        let wants = scan.parts.iter().any(|part| {
            class.key.interest.contains(part.slot) && !part.columns.is_subset(&class.coming)
        });
        wants && self.device_free(class.key.device)
    }
}

fn is_ready(scan: &Scan, class: &Class) -> bool {
    scan.parts.iter().any(|part| {
        class.key.interest.contains(part.slot) && part.columns.is_subset(&class.key.resident)
    })
}
