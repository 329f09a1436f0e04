//! From the end of a subquery to the end of its query.
//!
//! Idea: the coordinator waits for all subqueries and results, works for the end (EOT) and releases
//! the locks; changed pages go to their owners with the release.
//! Source: [RahmStohr94 §3].

use crate::shared_disk::data::locks::Resource;
use crate::shared_disk::events::{Event, Then};
use crate::shared_disk::hardware::lru::Copy;
use crate::shared_disk::workload::{Arrivals, Work};
use crate::shared_disk::world::System;

impl System {
    pub(in crate::shared_disk) fn finish(&mut self, job: u32) {
        self.send_results(job);
        let it = self.jobs.of(job);
        let (node, query, chosen) = (it.node, it.query, it.device.is_some());
        let coordinator = self.queries.of(query).coordinator;
        if matches!(self.work(query), Work::Scan(_)) {
            self.give_back_pages(job);
            self.jobs.take(job);
        } else {
            // A transaction's job keeps its locks until commit.
            self.queries.of(query).jobs.push(job);
        }
        let place = &mut self.nodes[node as usize];
        place.workers -= u32::from(chosen);
        match place.waiting.pop_front() {
            Some(next) => self.next_page(next, 0),
            None => place.works_on -= 1,
        }
        if node == coordinator {
            self.received(query);
        } else {
            self.deliver(coordinator, 1, Then::Received(query));
        }
    }

    pub(in crate::shared_disk) fn received(&mut self, query: u32) {
        let it = self.queries.of(query);
        it.waits_for -= 1;
        if it.waits_for > 0 {
            return;
        }
        let coordinator = it.coordinator;
        let each = self.machine.instructions;
        let mut work = each.eot;
        if self.relation_mode(query).is_some() && coordinator != self.authority() {
            work += each.send_short;
        }
        self.compute(coordinator, work, Then::Ended(query));
    }

    pub(in crate::shared_disk) fn end(&mut self, query: u32) {
        for job in std::mem::take(&mut self.queries.of(query).jobs) {
            self.commit(job);
        }
        let coordinator = self.queries.of(query).coordinator;
        if self.relation_mode(query).is_none() {
            self.leave(query);
        } else if coordinator == self.authority() {
            self.release_relation(query);
        } else {
            // The query has ended for its user; its lock is released one message later.
            self.deliver(self.authority(), 1, Then::Release(query));
        }
        let node = &mut self.nodes[coordinator as usize];
        match node.input.pop_front() {
            Some(next) => {
                let bot = self.machine.instructions.bot;
                self.compute(coordinator, bot, Then::Begun(next));
            }
            None => node.coordinates -= 1,
        }
    }

    /// Sends a transaction's changed pages to their owners, with the release of their locks.
    pub(in crate::shared_disk) fn commit(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let (node, query, locked) = (it.node, it.query, it.locked.clone());
        let writes = matches!(self.work(query), Work::Transaction(kind) if kind.writes);
        let each = self.machine.instructions;
        if writes {
            for page in locked {
                let copy = self.coherency.change(page);
                let owner = self.owner(page);
                if owner != node {
                    let clean = Copy {
                        dirty: false,
                        ..copy
                    };
                    self.keep(node, clean);
                    self.compute(node, each.send_long, Then::Nothing);
                    let (wait, receive) = (self.machine.page_ns(), each.receive_long);
                    self.deliver_at(owner, wait, receive, Then::Nothing);
                }
                self.keep(owner, copy);
            }
        }
        self.give_back_pages(job);
        self.jobs.take(job);
    }

    pub(in crate::shared_disk) fn release_relation(&mut self, query: u32) {
        for granted in self.locks.release(query, Resource::Relation) {
            self.grant_relation(granted);
        }
        self.leave(query);
    }

    pub(in crate::shared_disk) fn leave(&mut self, query: u32) {
        let now = self.events.now();
        let query = self.queries.take(query);
        self.population[query.class as usize] -= 1;
        if self.classes[query.class as usize].arrivals == Arrivals::OneByOne {
            self.events.at(now, Event::Arrived(query.class));
        }
        let after = query.number.checked_sub(self.extent.warm_up);
        let measured = match query.class {
            0 => after.is_some_and(|at| at < self.extent.measured),
            _ => self
                .measuring
                .is_some_and(|begin| query.arrived >= begin.at),
        };
        if !measured {
            return;
        }
        let took = now - query.arrived;
        let class = &mut self.outcome.classes[query.class as usize];
        class.responses.push((query.arrived, took));
        if query.class == 0 {
            self.outstanding -= 1;
            self.over = self.outstanding == 0;
        }
    }
}
