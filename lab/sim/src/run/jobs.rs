//! Chunk jobs: one core works on a chunk once for several queries.
//!
//! Idea: as in the engine. The query that is handed a chunk leads a job. It serves all queries that
//! want the chunk, whose columns of it are resident, and that do not work on it yet; a query that
//! wants the chunk later does not join. A job takes one core, and ends for all its queries at once.
//! Not here: the cost of a job (`fragments.rs`).

use std::collections::BTreeMap;

use coscan_core::{ChunkId, Event, Part, ScanId};

use super::{Simulation, Watch};
use crate::fragments::ClassWork;
use crate::scenario::Jobs;

impl<W: Watch> Simulation<'_, W> {
    /// Whether the query shares its work with others.
    pub(super) fn has_class(&self, n: usize) -> bool {
        self.scenario.fragments.is_some() && self.query(n).class.is_some()
    }

    /// Begins a job that the query leads on the chunk that it was handed. Returns the CPU time for
    /// all queries that the job serves: their own work, and decode.
    pub(super) fn begin_job(&mut self, leader: usize, chunk: ChunkId) -> (u64, u64) {
        let others = self.active.iter().copied();
        let members: Vec<usize> = others
            .filter(|&n| n != leader && self.joins(n, leader, chunk))
            .collect();
        self.outcome.jobs += 1;
        self.outcome.served += 1 + members.len() as u64;
        self.tell(Event::ChunkJobBegun {
            scan: ScanId(leader as u64),
            chunk,
            members: members.iter().map(|&n| ScanId(n as u64)).collect(),
        });
        let mut classes: BTreeMap<Option<u16>, ClassWork> = BTreeMap::new();
        let mut decode_ns = 0;
        for &n in members.iter().chain([&leader]) {
            let query = self.query(n);
            classes.entry(query.class).or_default().add(query);
            decode_ns = decode_ns.max(query.decode_ns_per_chunk);
        }
        let fragments = self.scenario.fragments.expect("only then there are jobs");
        let work_ns = classes.values().map(|class| class.ns(fragments)).sum();
        let share = (work_ns + decode_ns) / (1 + members.len() as u64);
        self.running[leader].worked_ns += share;
        for &n in &members {
            self.running[n].worked_ns += share;
            // The query was handed the chunk too: its consumer requests another.
            if self.running[n]
                .chunk
                .take_if(|held| *held == chunk)
                .is_some()
            {
                let scan = ScanId(n as u64);
                self.tell(Event::ChunkRequested { scan });
            }
        }
        (work_ns, decode_ns)
    }

    fn joins(&self, n: usize, leader: usize, chunk: ChunkId) -> bool {
        let query = self.query(n);
        let of_class = match self.scenario.fragments.map(|fragments| fragments.jobs) {
            Some(Jobs::OfClass) => query.class == self.query(leader).class,
            Some(Jobs::OfAll) => query.class.is_some(),
            None => false,
        };
        let in_memory = |part: &Part| {
            let resident = &self.resident[chunk.0 as usize];
            part.chunks.contains(chunk) && part.columns.is_subset(resident)
        };
        let running = &self.running[n];
        let in_hand = running.chunk == Some(chunk) && running.at_work.is_none();
        of_class
            && query.parts.iter().any(in_memory)
            && (in_hand || self.abm.needs(ScanId(n as u64), chunk))
    }
}
