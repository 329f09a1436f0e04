//! What does a subquery do, page by page?
//!
//! Idea: lock if necessary, buffer of the node, owner or controller, arm, network, processor.
//! Processing a page and starting the next I/O are one stay at the processor, so a page that is not
//! in the buffer takes three events, and a prefetch one more.
//! Source: [RahmStohr94 §3 "Processing model"].

use crate::shared_disk::events::{Event, Then};
use crate::shared_disk::hardware::lru::Copy;
use crate::shared_disk::hardware::servers::Found;
use crate::shared_disk::world::System;

impl System {
    /// The job has processed its page and goes to the next one, after the processor's work for this
    /// page.
    pub(in crate::shared_disk) fn advance(&mut self, job: u32) {
        self.send_results(job);
        self.next_page(job, 0);
    }

    /// Goes to the job's next page, after `work` at the processor for the preceding one.
    pub(in crate::shared_disk) fn next_page(&mut self, job: u32, work: u64) {
        let it = self.jobs.of(job);
        while it.runs.get(it.at).is_some_and(|run| run.next >= run.end) {
            it.at += 1;
        }
        let (at, node) = (it.at, it.node);
        let Some(run) = it.runs.get_mut(at) else {
            return match it.device {
                Some(device) => self.end_chunk(job, device, work),
                None => self.last_page(job, work),
            };
        };
        let (page, locks, objects) = (run.next, run.locks, run.objects);
        run.next += 1;
        it.page = page;
        it.objects = objects;
        if !locks {
            return self.look_up(job, work);
        }
        let remote = self.owner(page) != node;
        let send = self.machine.instructions.send_short;
        // A scan holds one page lock at a time; a transaction holds all of its page locks (K2).
        self.let_go(job);
        match (remote, work) {
            (true, _) => self.compute(node, work + send, Then::AskPage(job)),
            (false, 0) => self.lock_page(job),
            (false, _) => self.compute(node, work, Then::AskedPage(job)),
        }
    }

    pub(in crate::shared_disk) fn last_page(&mut self, job: u32, work: u64) {
        let it = self.jobs.of(job);
        let (node, query) = (it.node, it.query);
        let rest = it.results_ppm > 0;
        let remote = node != self.queries.of(query).coordinator;
        let mut work = work;
        if remote {
            let each = self.machine.instructions;
            work += each.send_short;
            if rest {
                work += each.send_long;
                let it = self.jobs.of(job);
                it.results_ppm = 0;
                it.sends += 1;
            }
        }
        self.compute(node, work, Then::Finished(job));
    }

    /// Looks for the job's page, whose lock it has, in the buffer of its node.
    pub(in crate::shared_disk) fn look_up(&mut self, job: u32, work: u64) {
        let it = self.jobs.of(job);
        let (page, node, with_grant) = (it.page, it.node, it.with_grant);
        it.with_grant = false;
        let each = self.machine.instructions;
        let buffer = &mut self.nodes[node as usize].buffer;
        if with_grant {
            let version = self.coherency.version(page);
            self.keep(
                node,
                Copy {
                    page,
                    version,
                    dirty: false,
                },
            );
            return self.looked(job, work);
        }
        match buffer.touch(page) {
            Some(copy) if self.coherency.valid(copy) => self.looked(job, work),
            copy => {
                if copy.is_some() {
                    buffer.remove(page);
                }
                if self.coherency.at_owner(page) && self.owner(page) != node {
                    self.compute(node, work + each.send_short, Then::Fetch(job));
                } else {
                    self.compute(node, work + each.io, Then::Issue(job));
                }
            }
        }
    }

    /// The page is in the buffer: the job processes it.
    pub(in crate::shared_disk) fn looked(&mut self, job: u32, work: u64) {
        let node = self.jobs.of(job).node;
        let work = work + self.look_at(job);
        self.compute(node, work, Then::Looked(job));
    }

    /// The work of processing the job's page. Adds the results of the page.
    pub(in crate::shared_disk) fn look_at(&mut self, job: u32) -> u64 {
        let full = self.results_of_message_ppm();
        let it = self.jobs.of(job);
        let mut work = u64::from(it.objects) * self.machine.instructions.object;
        it.results_ppm += it.runs[it.at].results_ppm;
        let (node, query) = (it.node, it.query);
        if it.results_ppm >= full {
            it.results_ppm -= full;
            let remote = node != self.queries.of(query).coordinator;
            if remote {
                self.jobs.of(job).sends += 1;
                work += self.machine.instructions.send_long;
            }
        }
        work
    }

    /// Result tuples per long message: as many as fit on a page, because results are as wide as
    /// tuples.
    pub(in crate::shared_disk) fn results_of_message_ppm(&self) -> u64 {
        u64::from(self.database.relation.tuples_per_page) * 1_000_000
    }

    /// Sends the full messages of results.
    pub(in crate::shared_disk) fn send_results(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let query = it.query;
        for _ in 0..std::mem::take(&mut it.sends) {
            let it = self.queries.of(query);
            it.waits_for += 1;
            let coordinator = it.coordinator;
            let receive = self.machine.instructions.receive_long;
            let wait = self.machine.page_ns();
            self.deliver_at(coordinator, wait, receive, Then::Received(query));
        }
    }

    pub(in crate::shared_disk) fn issue(&mut self, job: u32) {
        self.send_results(job);
        let page = self.jobs.of(job).page;
        let disk = self.database.partition(page).disk(page);
        let now = self.events.now();
        let done = self.disks.control(disk, now, self.machine.controller_ns);
        self.events.at(done, Event::Controlled(job));
    }

    /// The controller has the request: the page comes from the cache, or from the arm.
    pub(in crate::shared_disk) fn request(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let (page, prefetch) = (it.page, it.runs[it.at].prefetch);
        let partition = self.database.partition(page);
        let disk = partition.disk(page);
        let now = self.events.now();
        let there = match self.disks.find(disk, page) {
            Found::Cached => now,
            Found::Coming(done) => done,
            Found::Missing => {
                let pages = if prefetch {
                    self.machine.prefetch_pages
                } else {
                    1
                };
                let end = partition.on_disk(disk).end.min(page + pages);
                let service = self.machine.disk_ns(prefetch, &mut self.random);
                let done = self.disks.read(disk, now, service, page..end);
                self.events.at(done, Event::Read(disk));
                done
            }
        };
        self.events
            .at(there + self.machine.page_ns(), Event::Page(job));
    }

    pub(in crate::shared_disk) fn fetched(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let (page, node) = (it.page, it.node);
        if self.coherency.at_owner(page) {
            let owner = self.owner(page);
            self.nodes[owner as usize].buffer.touch(page);
            self.jobs.of(job).with_grant = true;
            let receive = self.machine.instructions.receive_long;
            self.deliver_at(node, self.machine.page_ns(), receive, Then::LockedPage(job));
        } else {
            // The owner has written the page meanwhile, so the disk has it.
            self.deliver(node, 1, Then::LockedPage(job));
        }
    }

    pub(in crate::shared_disk) fn page_arrived(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let (page, node) = (it.page, it.node);
        let version = self.coherency.version(page);
        self.keep(
            node,
            Copy {
                page,
                version,
                dirty: false,
            },
        );
        let work = self.look_at(job);
        self.next_page(job, work);
    }

    /// Puts a copy into a node's buffer. An evicted dirty copy is written asynchronously.
    pub(in crate::shared_disk) fn keep(&mut self, node: u32, copy: Copy) {
        let gone = self.nodes[node as usize].buffer.insert(copy);
        let Some(gone) = gone.filter(|gone| gone.dirty) else {
            return;
        };
        self.coherency.written(gone);
        let io = self.machine.instructions.io;
        self.compute(node, io, Then::Nothing);
        let disk = self.database.partition(gone.page).disk(gone.page);
        let arm = self.machine.disk_ns(false, &mut self.random);
        let now = self.events.now();
        let controller = self.machine.controller_ns;
        self.disks.write(disk, gone.page, now, controller, arm);
    }
}
