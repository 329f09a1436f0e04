//! How does one consumer's work on a chunk (a chunk job) serve other scans, and which events does
//! the core get?
//!
//! Idea: the scan whose consumer holds the chunk leads, the others join. The core delivers the
//! chunk to none of them while the job runs, and counts it as consumed by the scans that the job
//! served.
//! Not here: which scans join, and what the job does (the engine); what a job means to the core
//! (`docs/design/abm.md`, "Chunk jobs").
//! Bounds: the pool's lock is taken once when the job begins and once when it ends; O(members)
//! each.
//! J1: however a job ends, each scan that joined and was not served gets the chunk back, unless
//! the scan has ended. J2: a chunk that the core has delivered to a scan and that no consumer has
//! taken is taken back, and the scan joins; a consumer that has taken the chunk keeps it, and its
//! scan does not join. J3: a chunk that the core cannot count as part of a job is withdrawn from
//! the scan instead: chunks without bytes, jobs whose lease has lapsed, chunks that a consumer has
//! taken.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use coscan_core::{ChunkId, ChunkSet, Event, ScanId};

use super::lease::ChunkLease;
use super::place::Place;
use crate::pool::Inner;
use crate::pool::state::{Answer, Effects, JobTrace, State};

/// A running chunk job; dropping it ends it. Drop it before the lease: once the lease is dropped,
/// the leader is done with the chunk, served or not.
pub struct ChunkJob {
    place: Arc<Place>,
    /// The scans that the core counts in the job, the leader included. Empty if the core does not
    /// know of the job.
    joined: BTreeSet<ScanId>,
    served: BTreeSet<ScanId>,
    begun: Instant,
    /// The leader's label, kept here because the leader may end before the job.
    label: Arc<str>,
}

impl ChunkLease {
    /// Begins a job on the chunk that also works for these scans. All of them are unordered, over
    /// the lease's table, and different from the lease's scan. From now on their consumers do not
    /// get the chunk, whether their scan joins or not; a consumer that has already taken it keeps
    /// it.
    #[must_use]
    pub fn begin_job(&self, members: &[ScanId]) -> ChunkJob {
        let place = Arc::clone(self.own().place());
        let (mut joined, mut label) = (BTreeSet::new(), Arc::default());
        place.scan.inner().with_state(|state, effects| {
            if let Some(leader) = state.scans.get(place.scan.id()) {
                label = Arc::clone(&leader.label);
            }
            joined = state.begin_job(&place, members, effects);
        });
        ChunkJob {
            place,
            joined,
            served: BTreeSet::new(),
            begun: Instant::now(),
            label,
        }
    }

    /// Ends the scan but not the lease: its query has ended, while the consumer still works on the
    /// chunk for other scans.
    pub fn end_scan(&self) {
        self.own().place().scan.end();
    }
}

impl ChunkJob {
    /// Whether this scan gets the chunk back, and then hands it out itself, if the job does not
    /// serve it.
    #[must_use]
    pub fn gives_back_to(&self, scan: ScanId) -> bool {
        self.joined.contains(&scan)
    }

    /// Records that the job's result has reached this scan's query.
    pub fn serve(&mut self, scan: ScanId) {
        self.served.insert(scan);
    }

    fn trace(&self, state: &mut State) {
        let Some(trace) = &mut state.trace else {
            return;
        };
        let leader = self.place.scan.id();
        let others = self.served.iter().filter(|scan| **scan != leader);
        let others = others.filter_map(|scan| state.scans.get(*scan));
        trace.jobs.push(JobTrace {
            begun_ns: state.time.at(self.begun).0,
            ended_ns: state.time.now().0,
            table: self.place.scan.table().table.0,
            chunk: self.place.chunk.0,
            label: Arc::clone(&self.label),
            served: others.map(|scan| Arc::clone(&scan.label)).collect(),
        });
    }
}

impl Drop for ChunkJob {
    fn drop(&mut self) {
        if self.joined.is_empty() {
            return;
        }
        let (leader, chunk) = (self.place.scan.id(), self.place.chunk);
        let end = |state: &mut State, effects: &mut Effects| {
            self.trace(state);
            let unserved = self.joined.difference(&self.served).copied();
            let given_back: Vec<ScanId> = unserved
                .filter(|&scan| state.abm.serves(leader, chunk, scan))
                .collect();
            let asking = state.forget_exhausted(&given_back);
            let ended = Event::ChunkJobEnded {
                scan: leader,
                chunk,
                given_back,
            };
            Inner::log(state.handle(ended, effects));
            for scan in asking {
                Inner::log(state.handle(Event::ChunkRequested { scan }, effects));
            }
        };
        if self.served.contains(&leader) {
            self.place.scan.inner().with_state(end);
        } else {
            self.place.give_back(end);
        }
    }
}

impl std::fmt::Debug for ChunkJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkJob")
            .field("joined", &self.joined)
            .field("served", &self.served)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Tells the core of a job; returns the scans that the core then counts in it, the leader
    /// included.
    fn begin_job(
        &mut self,
        place: &Place,
        members: &[ScanId],
        effects: &mut Effects,
    ) -> BTreeSet<ScanId> {
        let (leader, chunk) = (place.scan.id(), place.chunk);
        let leads = place.known && self.abm.holds(leader, chunk);
        let mut asking = Vec::new();
        let (joining, others): (Vec<ScanId>, Vec<ScanId>) =
            members.iter().copied().partition(|&scan| {
                leads && (self.abm.needs(scan, chunk) || self.take_back(scan, chunk, &mut asking))
            });
        let mut joined = BTreeSet::new();
        if leads {
            let begun = Event::ChunkJobBegun {
                scan: leader,
                chunk,
                members: joining.clone(),
            };
            let begun = self.handle(begun, effects);
            if begun.is_ok() {
                joined.extend(joining.iter().copied().chain([leader]));
            }
            Inner::log(begun);
            // Otherwise a consumer would take an `Exhausted` that was queued before the job, end,
            // and never ask for the chunk that the job may give back.
            asking.extend(self.forget_exhausted(&joining));
        }
        // Only now, because these requests may deliver the chunk to a scan that joins.
        for scan in asking {
            Inner::log(self.handle(Event::ChunkRequested { scan }, effects));
        }
        for scan in others {
            self.withdraw(scan, std::iter::once(chunk).collect(), effects);
        }
        for scan in joining {
            if let Some(scan) = self.scans.get_mut(scan) {
                scan.metrics.chunks_joined += 1;
            }
        }
        joined
    }

    /// Takes back a chunk that was delivered to a scan and that no consumer has taken; false if
    /// there is none. Adds the scan to `asking` if one of its waiting consumers then lacks an
    /// answer.
    fn take_back(&mut self, id: ScanId, chunk: ChunkId, asking: &mut Vec<ScanId>) -> bool {
        let held = self.abm.holds(id, chunk);
        let Some(scan) = self.scans.get_mut(id).filter(|_| held) else {
            return false;
        };
        let untaken = scan.answers.iter().position(
            |answer| matches!(answer, Answer::Chunk(handed) if handed.known && handed.chunk == chunk),
        );
        let Some(at) = untaken else { return false };
        scan.answers.remove(at);
        if scan.answers.len() < scan.claims {
            asking.push(id);
        }
        true
    }

    /// Drops the queued `Exhausted` answers of these scans, because a job may give them a chunk
    /// back, or has done so. Returns the scans whose consumers wait for another answer, once per
    /// answer.
    fn forget_exhausted(&mut self, scans: &[ScanId]) -> Vec<ScanId> {
        let mut asking = Vec::new();
        for id in scans {
            let Some(scan) = self.scans.get_mut(*id) else {
                continue;
            };
            let before = scan.answers.len();
            scan.answers
                .retain(|answer| !matches!(answer, Answer::Exhausted));
            let forgotten = before - scan.answers.len();
            let waiting = scan.claims.saturating_sub(scan.answers.len());
            asking.extend(std::iter::repeat_n(*id, forgotten.min(waiting)));
        }
        asking
    }

    /// Tells the core that the scan does not need these chunks.
    pub(crate) fn withdraw(&mut self, id: ScanId, chunks: ChunkSet, effects: &mut Effects) {
        let Some(scan) = self.scans.get_mut(id) else {
            return;
        };
        scan.without_bytes.retain(|chunk| !chunks.contains(*chunk));
        scan.metrics.chunks_withdrawn += chunks.len() as u64;
        Inner::log(self.handle(Event::ChunksWithdrawn { scan: id, chunks }, effects));
    }
}
