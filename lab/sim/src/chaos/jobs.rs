//! Chunk jobs, and their faults.
//!
//! Idea: other scans that need a chunk, or were handed it too, join a job on it, all or some of
//! them. The job ends for some of its scans, or gives the chunk back; meanwhile each of its scans
//! may be cancelled, the leader included.
//! Not here: cancellations in general (`faults.rs`).
//! Bounds: a job ends within the time that a consumer works on a chunk. In the liveness phase it
//! ends before its leader is done, so that no more chunks are pinned than consumers hold.

use coscan_core::{ChunkId, Event, ScanId};

use super::books::Scan;
use super::driver::{Consumer, Driver, Due, Phase};
use super::options::chance;

impl Driver<'_> {
    /// A chunk was handed out. Its consumer is done after `wait`; 0 if it fell silent.
    pub(super) fn may_begin_job(&mut self, scan: ScanId, chunk: ChunkId, wait: u64) {
        let jobs = self.options.jobs;
        if jobs > 0 && chance(&mut self.random, jobs) && !self.books.scans[&scan].is_ordered() {
            let calm = self.phase != Phase::Safety;
            let begin = if calm {
                wait / 8
            } else {
                self.random.below(wait / 4 + 1)
            };
            self.put(begin, Due::BeginJob(scan, chunk));
            let end = match wait {
                _ if calm => wait / 2,
                // Long enough for the chunk to lapse.
                0 => self.options.stall_after_ns * 2 + self.random.below(self.options.load_ns),
                _ => begin + self.work_time(),
            };
            self.put(end, Due::EndJob(scan, chunk));
            if self.fault(self.options.faults.host_stops) {
                self.put(u64::midpoint(begin, end), Due::StopHost(scan, chunk));
            }
        }
    }

    pub(super) fn begin_job(&mut self, scan: ScanId, chunk: ChunkId) {
        let books = &self.books;
        let held = books
            .scans
            .get(&scan)
            .is_some_and(|s| s.held.contains(&chunk));
        if !held || books.jobs.contains_key(&(scan, chunk)) {
            return;
        }
        let table = books.scans[&scan].table;
        let in_hand = |id: ScanId, other: &Scan| {
            let leads = id == scan || books.jobs.contains_key(&(id, chunk));
            other.held.contains(&chunk) && !leads && !other.failed
        };
        let others = books.scans.iter().filter(|&(&id, other)| {
            let joins = other.needs(chunk) || in_hand(id, other);
            other.table == table && !other.is_ordered() && joins
        });
        let mut members: Vec<ScanId> = others.map(|(&id, _)| id).collect();
        if chance(&mut self.random, 300) {
            members.retain(|_| chance(&mut self.random, 500));
        }
        self.counts.jobs += 1;
        self.counts.members += members.len() as u64;
        for &member in &members {
            if self.books.scans[&member].held.contains(&chunk) {
                self.counts.members_in_hand += 1;
                self.forget_done(member, chunk);
            }
        }
        self.tell(
            &Event::ChunkJobBegun {
                scan,
                chunk,
                members,
            },
            None,
        );
    }

    pub(super) fn end_job(&mut self, scan: ScanId, chunk: ChunkId) {
        let Some(job) = self.books.jobs.get(&(scan, chunk)) else {
            return;
        };
        let members = job.members.clone();
        let leader = self.books.scans.get(&scan);
        let in_hands = leader.is_some_and(|s| s.held.contains(&chunk) || s.has_lapsed(chunk));
        let returns = leader.is_some_and(|s| !s.failed) && in_hands;
        self.counts.jobs_without_leader += u64::from(leader.is_none());
        let mut given_back = Vec::new();
        if self.fault(self.options.faults.job_fails) {
            given_back.clone_from(&members);
            given_back.extend(returns.then_some(scan));
            if chance(&mut self.random, 500) {
                given_back.retain(|_| chance(&mut self.random, 500));
            }
        }
        let to_leader = given_back.contains(&scan);
        let back = (given_back.len() - usize::from(to_leader)) as u64;
        self.counts.members_given_back += back;
        self.counts.members_served += members.len() as u64 - back;
        if to_leader {
            self.counts.leaders_given_back += 1;
            self.forget_done(scan, chunk);
        }
        self.tell(
            &Event::ChunkJobEnded {
                scan,
                chunk,
                given_back,
            },
            None,
        );
    }

    /// The chunk was taken from its consumer: the consumer requests the next one instead of
    /// releasing it.
    fn forget_done(&mut self, scan: ScanId, chunk: ChunkId) {
        let of_it = |due: &Due| match due {
            Due::Done(of, at, held) if (*of, *held) == (scan, chunk) => Some(*at),
            _ => None,
        };
        if let Some(silent) = self.frozen.iter_mut().find(|due| of_it(due).is_some())
            && let Some(at) = of_it(silent)
        {
            *silent = Due::Ask(scan, at);
            self.set_consumer(scan, at, Consumer::Away);
            return;
        }
        let mut agenda = self.agenda.iter();
        let done = agenda.find_map(|(&when, due)| Some((when, of_it(due)?)));
        let Some((when, at)) = done else { return };
        self.agenda.remove(&when);
        if matches!(
            self.consumer(scan, at),
            Some(Consumer::Working | Consumer::Finished)
        ) {
            self.set_consumer(scan, at, Consumer::Away);
            self.goes_on(scan, at);
        }
    }

    pub(super) fn stop_host(&mut self, scan: ScanId, chunk: ChunkId) {
        let leads = self.books.jobs.contains_key(&(scan, chunk));
        if leads && self.books.scans.contains_key(&scan) {
            self.counts.hosts_stopped += 1;
            self.end(scan);
        }
    }
}
