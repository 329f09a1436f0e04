//! Chunk jobs: one consumer works on a chunk once for several scans.
//!
//! Idea: the scan that holds the chunk leads, the others *join*. A scan that has joined needs no
//! delivery, but has not consumed the chunk either: it needs the chunk if the job gives it back.
//! The scans that a job served share its time in work, so a scan that joins many jobs has less
//! work than one that works alone, and its turn comes earlier (`turns.rs`).
//! Not here: which scans form a class and join. The driver knows the plans and tells the core.
//! Bounds: as many jobs as held chunks; O(members · log scans) when a job begins and when it ends.
//! ABM-I2: the columns that a job reads are pinned from its begin to its end, whichever of its
//! scans ends meanwhile, unless its chunk lapses.
//! ABM-I5: a chunk of a scan is in one place: needed, held, lapsed, joined or consumed.
//! Source: none of the papers; `docs/design/fragments.md` describes the jobs themselves.

use std::collections::{BTreeMap, BTreeSet};

use crate::abm::Abm;
use crate::table::Pinner;
use crate::table::scan::{Joined, Turn};
use crate::{ChunkId, EventError, ScanId, TableId};

/// The leader and the chunk. A scan holds a chunk at most once at a time.
pub(crate) type JobId = (ScanId, ChunkId);

/// A running chunk job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) table: TableId,
    /// The leader's part that has the chunk.
    part: usize,
    hold: Hold,
    /// The members that are still registered.
    pub(crate) members: BTreeSet<ScanId>,
}

/// Who holds the chunk, the leader or its job.
#[derive(Clone, Copy, Debug)]
enum Hold {
    /// The leader; its scan has the turn.
    Leader,
    /// The job itself: the leader has released the chunk, or has ended.
    Job(Turn),
    /// Neither: the chunk lapsed after `worked_ns` in work.
    Lapsed { worked_ns: u64 },
}

/// All running jobs.
#[derive(Debug, Default)]
pub(crate) struct Jobs(BTreeMap<JobId, Job>);

impl Jobs {
    pub(crate) fn get(&self, id: JobId) -> Option<&Job> {
        self.0.get(&id)
    }

    /// Whether a job works on a chunk of the table.
    pub(crate) fn any_of(&self, table: TableId) -> bool {
        self.0.values().any(|job| job.table == table)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.0.iter().map(|(&id, job)| (id, job))
    }
}

impl Abm {
    pub(crate) fn validate_begin(
        &self,
        leader: ScanId,
        chunk: ChunkId,
        members: &[ScanId],
    ) -> Result<(), EventError> {
        let scan = |id| self.state.scans.get(&id).ok_or(EventError::UnknownScan(id));
        let leading = scan(leader)?;
        if !leading.held.contains_key(&chunk) {
            return Err(EventError::NotHeld(leader, chunk));
        }
        if self.jobs.get((leader, chunk)).is_some() {
            return Err(EventError::JobExists(leader, chunk));
        }
        if leading.ordered {
            return Err(EventError::OrderedScan(leader));
        }
        let mut seen = BTreeSet::new();
        for &id in members {
            let member = scan(id)?;
            if member.table != leading.table {
                return Err(EventError::OtherTable(id, leading.table));
            }
            if member.ordered {
                return Err(EventError::OrderedScan(id));
            }
            let needed = self
                .state
                .table(member.table)
                .part_of(member, chunk)
                .is_some();
            // A scan that joined the leader's turn got the chunk before the driver could report
            // that a job serves the scan.
            let idle = self.jobs.get((id, chunk)).is_none();
            let in_hand = id != leader && member.held.contains_key(&chunk) && idle;
            if !needed && !in_hand || !seen.insert(id) {
                return Err(EventError::NotNeeded(id, chunk));
            }
        }
        Ok(())
    }

    pub(crate) fn validate_end(
        &self,
        leader: ScanId,
        chunk: ChunkId,
        given_back: &[ScanId],
    ) -> Result<(), EventError> {
        let no_job = EventError::NoJob(leader, chunk);
        self.jobs.get((leader, chunk)).ok_or(no_job)?;
        let mut seen = BTreeSet::new();
        for &id in given_back {
            if !self.state.scans.contains_key(&id) {
                return Err(EventError::UnknownScan(id));
            }
            if !self.serves(leader, chunk, id) || !seen.insert(id) {
                return Err(EventError::NotServed(id, chunk));
            }
        }
        Ok(())
    }

    /// Begins a job: each member's chunk becomes joined.
    pub(crate) fn begin_job(&mut self, leader: ScanId, chunk: ChunkId, members: Vec<ScanId>) {
        let seq = self.state.next_seq();
        let scan = self.state.scan(leader);
        let (table, part) = (scan.table, scan.held[&chunk].part);
        let mut columns = scan.parts[part].columns.clone();
        let mut waiting = Vec::new();
        for &id in &members {
            let member = self.state.scans.get_mut(&id).expect("validated");
            let part = match member.held.get(&chunk) {
                Some(turn) => turn.part,
                None => {
                    waiting.push(id);
                    let needed = self.state.tables[&table].part_of(member, chunk);
                    needed.expect("validated")
                }
            };
            member.joined.insert(chunk, Joined { leader, part });
            columns.union_with(&member.parts[part].columns);
        }
        // The job pins the columns before the members' interest in them ends.
        let entry = self.state.table_mut(table);
        let columns = columns.intersection(&entry.group(chunk).state.resident);
        entry.pin(chunk, Pinner::Job(leader), columns.clone());
        entry.touch(chunk, &columns, seq);
        for id in waiting {
            let member = self.state.scan(id);
            let slot = member.parts[member.joined[&chunk].part].slot;
            let entry = self.state.table_mut(table);
            entry.drop_interest(chunk, slot);
        }
        for &id in &members {
            self.take_from_hands(id, table, chunk);
            self.serve.insert(id);
            self.state.refresh(id);
        }
        let job = Job {
            table,
            part,
            hold: Hold::Leader,
            members: members.into_iter().collect(),
        };
        self.jobs.0.insert((leader, chunk), job);
    }

    /// Ends a job: every scan that it served has consumed the chunk, except the scans in
    /// `given_back`.
    pub(crate) fn end_job(&mut self, leader: ScanId, chunk: ChunkId, given_back: &[ScanId]) {
        let seq = self.state.next_seq();
        let job = self.jobs.0.remove(&(leader, chunk)).expect("validated");
        let now = self.state.now;
        let worked = match job.hold {
            Hold::Leader => self.state.scan(leader).held[&chunk].worked_ns(now),
            Hold::Job(turn) => turn.worked_ns(now),
            Hold::Lapsed { worked_ns } => worked_ns,
        };
        let leads = self.state.scans.contains_key(&leader) && !given_back.contains(&leader);
        let consumed = job.members.iter().filter(|id| !given_back.contains(id));
        let consumed: Vec<ScanId> = consumed.copied().collect();
        let served = consumed.len() as u64 + u64::from(leads);
        for &id in &consumed {
            self.state.scan_mut(id).joined.remove(&chunk);
            self.count_work(id, worked / served);
            self.serve.insert(id);
        }
        if !matches!(job.hold, Hold::Lapsed { .. }) {
            let table = self.state.table_mut(job.table);
            let columns = table.unpin(chunk, Pinner::Job(leader));
            table.touch(chunk, &columns, seq);
        }
        match job.hold {
            Hold::Job(turn) => self.leave_work(leader, job.table, chunk, turn),
            Hold::Leader | Hold::Lapsed { .. } => {}
        }
        match job.hold {
            // The leader's share is counted when the leader releases the chunk.
            Hold::Leader if leads => {
                let turn = self.state.scan_mut(leader).held.get_mut(&chunk);
                turn.expect("the leader has it in hand").served = served;
            }
            _ if leads => self.count_work(leader, worked / served),
            _ => {}
        }
        for &id in given_back {
            let scan = self.state.scans.get_mut(&id).expect("validated");
            let part = match scan.joined.remove(&chunk) {
                Some(joined) => joined.part,
                None => {
                    self.take_from_hands(leader, job.table, chunk);
                    job.part
                }
            };
            let slot = self.state.scan(id).parts[part].slot;
            self.state.table_mut(job.table).gain_interest(chunk, slot);
            self.serve.insert(id);
            self.state.refresh(id);
        }
    }

    /// Ends a scan's hold of a chunk without counting the chunk as consumed.
    fn take_from_hands(&mut self, id: ScanId, table: TableId, chunk: ChunkId) {
        let scan = self.state.scan_mut(id);
        if let Some(turn) = scan.held.remove(&chunk) {
            self.state.table_mut(table).unpin(chunk, Pinner::Scan(id));
            self.leave_work(id, table, chunk, turn);
        } else {
            scan.lapsed.remove(&chunk);
        }
    }

    /// The leader releases the chunk or ends: the job holds the chunk from now on. False if there
    /// is no job.
    pub(crate) fn pass_hold(&mut self, leader: ScanId, chunk: ChunkId, turn: Turn) -> bool {
        let job = self.jobs.0.get_mut(&(leader, chunk));
        job.map(|job| job.hold = Hold::Job(turn)).is_some()
    }

    /// The chunk lapses for the leader and for its job. False if there is no job.
    pub(crate) fn lapse_hold(&mut self, leader: ScanId, chunk: ChunkId, turn: Turn) -> bool {
        let worked_ns = turn.worked_ns(self.state.now);
        let Some(job) = self.jobs.0.get_mut(&(leader, chunk)) else {
            return false;
        };
        job.hold = Hold::Lapsed { worked_ns };
        let table = job.table;
        self.state
            .table_mut(table)
            .unpin(chunk, Pinner::Job(leader));
        self.leave_work(leader, table, chunk, turn);
        true
    }

    /// The scan leaves the jobs that it joined.
    pub(crate) fn leave_jobs(&mut self, id: ScanId, joined: BTreeMap<ChunkId, Joined>) {
        for (chunk, Joined { leader, .. }) in joined {
            let job = self.jobs.0.get_mut(&(leader, chunk));
            job.expect("a joined scan has a job").members.remove(&id);
        }
    }

    /// Checks every invariant of the jobs.
    pub(crate) fn check_jobs(&self) {
        for ((leader, chunk), job) in self.jobs.iter() {
            let table = self.state.table(job.table);
            let pins = table.pins.get(&chunk).into_iter().flat_map(|pins| &pins.by);
            let pins = pins.filter(|(pinner, _)| *pinner == Pinner::Job(leader));
            let lapsed = matches!(job.hold, Hold::Lapsed { .. });
            assert_eq!(
                pins.count(),
                usize::from(!lapsed),
                "ABM-I2: a job pins its chunk"
            );
            let leading = self.state.scans.get(&leader);
            let held = leading.is_some_and(|scan| scan.held.contains_key(&chunk));
            let leads = matches!(job.hold, Hold::Leader);
            assert_eq!(
                held, leads,
                "the leader holds the chunk exactly while its job says so"
            );
            for id in &job.members {
                let member = self.state.scan(*id);
                assert_eq!(member.table, job.table);
                assert_eq!(
                    member.joined[&chunk].leader, leader,
                    "ABM-I5: it has one job"
                );
            }
        }
        let pins = self.state.tables.values().flat_map(|table| &table.pins);
        for (&chunk, pins) in pins {
            for (pinner, _) in &pins.by {
                if let Pinner::Job(leader) = pinner {
                    let job = self.jobs.get((*leader, chunk));
                    assert!(job.is_some(), "ABM-I2: a job's pin ends with the job");
                }
            }
        }
        for scan in self.state.scans.values() {
            let table = self.state.table(scan.table);
            for (&chunk, joined) in &scan.joined {
                let job = self.jobs.get((joined.leader, chunk));
                assert!(job.is_some_and(|job| job.members.contains(&scan.id)));
                let in_hands = scan.held.contains_key(&chunk) || scan.lapsed.contains(&chunk);
                let needed = table.part_of(scan, chunk).is_some();
                assert!(!in_hands && !needed, "ABM-I5: a chunk is in one place");
            }
        }
    }

    /// Whether a job itself holds this chunk, so that the chunk may be in work.
    pub(crate) fn job_holds(&self, id: JobId) -> bool {
        let job = self.jobs.get(id);
        job.is_some_and(|job| matches!(job.hold, Hold::Job(_)))
    }

    /// Whether the job serves another scan than `scan`.
    pub(crate) fn is_for_others(&self, leader: ScanId, chunk: ChunkId, scan: ScanId) -> bool {
        let job = self.jobs.get((leader, chunk));
        leader != scan || job.is_some_and(|job| !job.members.is_empty())
    }
}
