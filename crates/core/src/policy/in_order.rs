//! `normal` and `attach`: every scan takes its chunks in an order fixed when it registers.
//!
//! Starved scans are served round robin, blocked ones first; each may be `lookahead` chunks ahead.
//! Ordered scans under the other policies take their chunks the same way.
//! Source: [CoopScans07 §3]; attach by weighted column overlap: §6.2.

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::abm::{Abm, LoadChoice};
use crate::table::scan::Scan;
use crate::{ChunkId, ColumnSet, Part, TableId};

impl Abm {
    /// The first chunk of the scan's order, if it is ready.
    pub(crate) fn next_in_order(&self, scan: &Scan) -> Option<ChunkId> {
        let table = self.table(scan.table);
        let chunk = table.order(scan).next()?;
        let part = table.part_of(scan, chunk)?;
        let resident = &table.group(chunk).state.resident;
        scan.parts[part]
            .columns
            .is_subset(resident)
            .then_some(chunk)
    }

    /// Among the next chunks that the scan may be ahead, those that are not coming, with the
    /// columns they miss.
    pub(crate) fn missing_ahead<'a>(
        &'a self,
        scan: &'a Scan,
    ) -> impl Iterator<Item = (ChunkId, ColumnSet)> + 'a {
        let table = self.table(scan.table);
        let ahead = scan.lookahead.saturating_sub(scan.in_hands());
        table.order(scan).take(ahead).filter_map(move |chunk| {
            let columns = &scan.parts[table.part_of(scan, chunk)?].columns;
            let missing = columns.difference(&table.group(chunk).coming);
            (!missing.is_empty()).then_some((chunk, missing))
        })
    }

    /// The chunks that the scan of a load takes up to the one to be loaded. To evict one of them
    /// for it gains nothing: as long as the scan does not ask, it would load them by turns.
    pub(crate) fn taken_before(&self, load: &LoadChoice) -> SmallVec<[ChunkId; 4]> {
        let order = self.table(load.table).order(self.scan(load.scan));
        let mut before: SmallVec<_> = order.take_while(|&chunk| chunk != load.chunk).collect();
        before.push(load.chunk);
        before
    }

    /// The end of the prefix of an ordered scan's order in which every chunk is coming.
    pub(crate) fn first_missing(&self, scan: &Scan) -> ChunkId {
        let table = self.table(scan.table);
        let mut order = table.order(scan);
        let missing = order.find(|&chunk| {
            let part = table.part_of(scan, chunk).map(|part| &scan.parts[part]);
            part.is_none_or(|part| !part.columns.is_subset(&table.group(chunk).coming))
        });
        missing.unwrap_or(ChunkId(u32::MAX))
    }

    pub(crate) fn choose_sequential_load(&self) -> Option<LoadChoice> {
        let mut hungry: Vec<&Scan> = self.hungry.iter().map(|&id| self.scan(id)).collect();
        hungry.sort_by_key(|scan| (Reverse(scan.waiting > 0), scan.last_load_seq));
        hungry.into_iter().find_map(|scan| {
            let table = self.table(scan.table);
            let mut ahead = self.missing_ahead(scan);
            let (chunk, columns) =
                ahead.find(|&(chunk, _)| self.device_free(table.device(chunk)))?;
            Some(LoadChoice {
                table: scan.table,
                chunk,
                columns,
                scan: scan.id,
            })
        })
    }

    /// Where a new scan joins: the next chunk of the running scan with the largest remaining
    /// overlap, else the start.
    pub(crate) fn attach_point(&self, table: TableId, parts: &[Part]) -> ChunkId {
        let table = self.table(table);
        let mut best = (0, ChunkId(0));
        for scan in table
            .scans
            .iter()
            .map(|&id| self.scan(id))
            .filter(|scan| !scan.ordered)
        {
            let mut overlap = 0;
            for mine in parts {
                for theirs in &scan.parts {
                    let weight = table.weight(&mine.columns.intersection(&theirs.columns));
                    let runs = mine.chunks.runs();
                    let shared = runs.map(|run| table.needed_of_part(theirs, &run) as u64);
                    overlap += weight * shared.sum::<u64>();
                }
            }
            if overlap > best.0
                && let Some(next) = table.order(scan).next()
            {
                best = (overlap, next);
            }
        }
        best.1
    }
}
