//! `attach`: like `normal`, but a new scan starts at the position of the running scan with the
//! largest remaining overlap.
//!
//! Source: [CoopScans07 §3]; weighted column overlap: §6.2.

use super::normal::Normal;
use crate::policy::Rules;
use crate::policy::victims::Victim;
use crate::state::{LoadChoice, State};
use crate::{ChunkId, Part, TableId};

/// `attach`.
#[derive(Debug)]
pub(in crate::policy) struct Attach;

impl Rules for Attach {
    fn first_chunk(&self, state: &State, table: TableId, parts: &[Part]) -> ChunkId {
        attach_point(state, table, parts)
    }

    fn victim(&self, state: &State, load: Option<&LoadChoice>) -> Option<Victim> {
        Normal.victim(state, load)
    }
}

/// Where a new scan starts: at the next chunk of the running scan with the largest remaining
/// overlap; without overlap at chunk 0.
fn attach_point(state: &State, table: TableId, parts: &[Part]) -> ChunkId {
    let table = state.table(table);
    let mut best = (0, ChunkId(0));
    for scan in table
        .scans
        .iter()
        .map(|&id| state.scan(id))
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
