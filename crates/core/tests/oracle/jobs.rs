//! What does a chunk job change for the scans that it serves?
//!
//! Idea: `docs/design/abm.md`, "Chunk jobs", as loops over the members.
//! Not here: everything else about turns (`mod.rs`).

use std::collections::BTreeSet;

use coscan_core::{ChunkId, ColumnSet, ScanId, TableId, Time};

use super::Oracle;

/// A running job.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) table: TableId,
    /// Pinned until the job ends or its chunk lapses.
    pub(super) columns: ColumnSet,
    members: BTreeSet<ScanId>,
    /// The turn of a leader that has released the chunk, or has ended.
    pub(super) passed: Option<(Time, Time)>,
    /// How long the chunk was in work when it lapsed.
    worked_ns: Option<u64>,
}

impl Job {
    pub(super) fn lapsed(&self) -> bool {
        self.worked_ns.is_some()
    }
}

impl Oracle {
    /// How long a chunk with this turn has been in work.
    pub(super) fn worked(&self, (begun, last): (Time, Time), now: Time) -> u64 {
        let longest = self.turns().map_or(0, |limit| limit.length_ns_max);
        now.0.min(last.0.saturating_add(longest)) - begun.0
    }

    pub(super) fn begin_job(&mut self, leader: ScanId, chunk: ChunkId, members: Vec<ScanId>) {
        let table = self.scans[&leader].spec.table;
        let mut all = members.clone();
        all.push(leader);
        let columns = self.union_of_cols(&all, chunk);
        let columns = columns.intersection(&self.resident(table, chunk));
        self.touch(table, chunk, &columns);
        for &member in &members {
            let q = self.scan_mut(member);
            q.needed.remove(chunk);
            q.held.remove(&chunk);
            q.served.remove(&chunk);
            q.joined.insert(chunk);
        }
        let job = Job {
            table,
            columns,
            members: members.into_iter().collect(),
            passed: None,
            worked_ns: None,
        };
        self.jobs.insert((leader, chunk), job);
    }

    pub(super) fn end_job(&mut self, leader: ScanId, chunk: ChunkId, given_back: &[ScanId]) {
        let job = self.jobs.remove(&(leader, chunk)).expect("a job");
        let held = self.scans.get(&leader).and_then(|q| q.held.get(&chunk));
        let turn = job.passed.or(held.copied());
        let worked = job
            .worked_ns
            .unwrap_or_else(|| self.worked(turn.expect("a turn"), self.now));
        if job.lapsed() {
            // A use of no columns.
            self.next_sequence();
        } else {
            self.touch(job.table, chunk, &job.columns);
        }
        let mut served = job.members.clone();
        served.extend(self.scans.contains_key(&leader).then_some(leader));
        served.retain(|q| !given_back.contains(q));
        for &member in &served {
            let holds = self.scans[&member].held.contains_key(&chunk) && member == leader;
            let q = self.scan_mut(member);
            q.joined.remove(chunk);
            if holds {
                q.served.insert(chunk, served.len() as u64);
            } else {
                q.worked_ns += worked / served.len() as u64;
                q.chunks_worked += 1;
            }
        }
        for &q in given_back {
            let q = self.scan_mut(q);
            q.joined.remove(chunk);
            q.held.remove(&chunk);
            // An earlier job on it may have served other scans; when it is delivered again, it
            // serves its scan alone.
            q.served.remove(&chunk);
            q.lapsed.remove(chunk);
            q.needed.insert(chunk);
        }
    }

    /// The scan releases the chunk: a job on it continues and counts the work at its end. False if
    /// there is no job.
    pub(super) fn pass_job(&mut self, leader: ScanId, chunk: ChunkId, turn: (Time, Time)) -> bool {
        let job = self.jobs.get_mut(&(leader, chunk));
        job.map(|job| job.passed = Some(turn)).is_some()
    }

    pub(super) fn pass_jobs(&mut self, leader: ScanId) {
        for (chunk, turn) in self.scans[&leader].held.clone() {
            self.pass_job(leader, chunk, turn);
        }
    }

    /// The chunk that was just passed to its job has lapsed.
    pub(super) fn lapse_with_job(&mut self, leader: ScanId, chunk: ChunkId) {
        let job = self.jobs.get(&(leader, chunk));
        if let Some(turn) = job.and_then(|job| job.passed) {
            let worked = self.worked(turn, self.now);
            let job = self.jobs.get_mut(&(leader, chunk)).expect("a job");
            (job.passed, job.worked_ns) = (None, Some(worked));
        }
    }

    pub(super) fn leave_jobs(&mut self, scan: ScanId) {
        for job in self.jobs.values_mut() {
            job.members.remove(&scan);
        }
        self.scan_mut(scan).joined = coscan_core::ChunkSet::new();
    }
}
