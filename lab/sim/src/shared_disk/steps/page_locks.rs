//! What do locks of single pages cost, and when does a page arrive with its lock?
//!
//! Source: [RahmStohr94 §3 "Concurrency and coherency control"].

use crate::shared_disk::data::locks::{Mode, Resource};
use crate::shared_disk::events::Then;
use crate::shared_disk::workload::Work;
use crate::shared_disk::world::System;

impl System {
    pub(in crate::shared_disk) fn lock_page(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let (page, query) = (it.page, it.query);
        let mode = match self.work(query) {
            Work::Transaction(kind) if kind.writes => Mode::Exclusive,
            _ => Mode::Shared,
        };
        if self.locks.ask(job, Resource::Page(page), mode) {
            self.grant_page(job);
        }
    }

    pub(in crate::shared_disk) fn grant_page(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let (page, node) = (it.page, it.node);
        it.locked.push(page);
        let owner = self.owner(page);
        if owner == node {
            return self.look_up(job, 0);
        }
        let copy = self.nodes[node as usize].buffer.peek(page);
        let valid = copy.is_some_and(|copy| self.coherency.valid(copy));
        if self.coherency.at_owner(page) && !valid {
            // The page comes with the grant.
            self.jobs.of(job).with_grant = true;
            let each = self.machine.instructions;
            self.compute(owner, each.send_long, Then::Nothing);
            let (wait, receive) = (self.machine.page_ns(), each.receive_long);
            self.deliver_at(node, wait, receive, Then::LockedPage(job));
        } else {
            self.deliver(node, 1, Then::LockedPage(job));
        }
    }

    /// A scan releases the lock of the page that it leaves.
    pub(in crate::shared_disk) fn let_go(&mut self, job: u32) {
        let query = self.jobs.of(job).query;
        if matches!(self.work(query), Work::Scan(_)) {
            self.give_back_pages(job);
        }
    }

    pub(in crate::shared_disk) fn give_back_pages(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let node = it.node;
        for page in std::mem::take(&mut it.locked) {
            let owner = self.owner(page);
            if owner == node {
                self.release_page(job, page);
            } else {
                self.deliver(owner, 1, Then::ReleasePage(job, page));
            }
        }
    }

    pub(in crate::shared_disk) fn release_page(&mut self, job: u32, page: u32) {
        for granted in self.locks.release(job, Resource::Page(page)) {
            self.grant_page(granted);
        }
    }
}
