//! Which chunk comes next for a scan that takes its chunks in an order fixed at registration?
//!
//! Starved scans are served round robin, scans with waiting consumers first; each may be
//! `lookahead` chunks ahead. This holds for all scans of the sequential policies (`normal` and the
//! policies built on it) and for ordered scans under the other policies.
//! Source: [CoopScans07 §3].

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::state::{LoadChoice, State};
use crate::table::scan::Scan;
use crate::{ChunkId, ColumnSet, TableId};

/// The first chunk of the scan's order, if it is ready.
pub(crate) fn next_in_order(state: &State, scan: &Scan) -> Option<ChunkId> {
    let table = state.table(scan.table);
    let chunk = table.order(scan).next()?;
    let part = table.part_of(scan, chunk)?;
    let resident = &table.group(chunk).state.resident;
    scan.parts[part]
        .columns
        .is_subset(resident)
        .then_some(chunk)
}

/// The chunks within the scan's look-ahead that are not coming, with the columns that they miss.
pub(super) fn missing_ahead<'a>(
    state: &'a State,
    scan: &'a Scan,
) -> impl Iterator<Item = (ChunkId, ColumnSet)> + 'a {
    let table = state.table(scan.table);
    let ahead = scan.lookahead.saturating_sub(scan.in_hands());
    table.order(scan).take(ahead).filter_map(move |chunk| {
        let columns = &scan.parts[table.part_of(scan, chunk)?].columns;
        let missing = columns.difference(&table.group(chunk).coming);
        (!missing.is_empty()).then_some((chunk, missing))
    })
}

/// The first chunk in a sequential scan's order that is not coming.
pub(super) fn first_missing(state: &State, scan: &Scan) -> ChunkId {
    let table = state.table(scan.table);
    let mut order = table.order(scan);
    let missing = order.find(|&chunk| {
        let part = table.part_of(scan, chunk).map(|part| &scan.parts[part]);
        part.is_none_or(|part| !part.columns.is_subset(&table.group(chunk).coming))
    });
    missing.unwrap_or(ChunkId(u32::MAX))
}

/// The estimated nanoseconds until the scan reaches a chunk that it needs, at its average pace. A
/// scan starts at its first chunk, so its distance to a chunk is the number of needed chunks
/// before it. A scan without a consumed or held chunk counts as having one. Source: [PBM12 §3].
pub(super) fn time_to(state: &State, scan: &Scan, chunk: ChunkId) -> u64 {
    let before = state.table(scan.table).needed_in(scan, &(0..chunk.0)) as u128;
    let elapsed = u128::from(state.now.0 - scan.registered_at.0);
    let handed = u128::from(scan.chunks_worked) + scan.held.len() as u128;
    u64::try_from(before * elapsed / handed.max(1)).unwrap_or(u64::MAX)
}

/// The first load that a starved scan misses; scans are served round robin, those with waiting
/// consumers first.
pub(super) fn next_load(state: &State) -> Option<LoadChoice> {
    let mut hungry: Vec<&Scan> = state.hungry.iter().map(|&id| state.scan(id)).collect();
    hungry.sort_by_key(|scan| (Reverse(scan.waiting > 0), scan.last_load_seq));
    hungry.into_iter().find_map(|scan| {
        let table = state.table(scan.table);
        let mut ahead = missing_ahead(state, scan);
        let (chunk, columns) = ahead.find(|&(chunk, _)| state.device_free(table.device(chunk)))?;
        Some(LoadChoice {
            table: scan.table,
            chunk,
            columns,
            scan: scan.id,
        })
    })
}

/// The chunks that a load's scan takes before the chunk to be loaded. Evicting one of them for the
/// load gains nothing: while the scan does not ask, it would load the two chunks in turn.
#[derive(Debug)]
pub(super) struct TakenBefore {
    table: TableId,
    chunks: SmallVec<[ChunkId; 4]>,
}

impl TakenBefore {
    pub(super) fn of(state: &State, load: &LoadChoice) -> Self {
        let order = state.table(load.table).order(state.scan(load.scan));
        let mut chunks: SmallVec<_> = order.take_while(|&chunk| chunk != load.chunk).collect();
        chunks.push(load.chunk);
        let table = load.table;
        Self { table, chunks }
    }

    pub(super) fn contains(&self, table: TableId, chunk: ChunkId) -> bool {
        self.table == table && self.chunks.contains(&chunk)
    }
}
