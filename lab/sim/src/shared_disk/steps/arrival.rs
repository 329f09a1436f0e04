//! From the arrival of a query to the start of its subqueries.
//!
//! Idea: the coordinator is drawn, works for the beginning (BOT), gets the lock on the relation
//! from the node with the authority over it, and sends the orders.
//! Source: [RahmStohr94 §3 "Processing model", "Concurrency and coherency control"].

use crate::shared_disk::data::locks::{Mode, Resource};
use crate::shared_disk::events::{Event, Then};
use crate::shared_disk::workload::{
    Access, Assignment, Degree, Run, Scan, Work, range, subquery, transaction,
};
use crate::shared_disk::world::{Job, Query, System};

impl System {
    pub(in crate::shared_disk) fn arrive(&mut self, class: u32) {
        let now = self.events.now();
        let arrivals = &self.classes[class as usize].arrivals;
        if let Some(next) = arrivals.next(now, &mut self.random) {
            self.events.at(next, Event::Arrived(class));
        }
        if self.population[class as usize] >= self.extent.population_max {
            self.outcome.sustained = false;
            self.over = true;
            return;
        }
        if let (Work::Transaction(_), Some(chosen)) =
            (self.classes[class as usize].work, &mut self.chosen)
        {
            chosen.page_requests = true;
        }
        self.population[class as usize] += 1;
        let number = self.arrived[class as usize];
        self.arrived[class as usize] += 1;
        if class == 0 && number == self.extent.warm_up {
            self.measuring = Some(self.meters());
        }
        let nodes = self.classes[class as usize].nodes.clone();
        let node = self.random.below((nodes.end - nodes.start).into());
        let coordinator = nodes.start + u32::try_from(node).expect("below the nodes");
        let query = self.queries.add(Query {
            class,
            number,
            coordinator,
            arrived: now,
            waits_for: 0,
            jobs: Vec::new(),
            pieces: None,
        });
        let node = &mut self.nodes[coordinator as usize];
        if node.coordinates < self.machine.queries_max {
            node.coordinates += 1;
            self.compute(
                coordinator,
                self.machine.instructions.bot,
                Then::Begun(query),
            );
        } else {
            node.input.push_back(query);
        }
    }

    pub(in crate::shared_disk) fn work(&mut self, query: u32) -> Work {
        let class = self.queries.of(query).class;
        self.classes[class as usize].work
    }

    /// The lock on the relation that a query needs, if any.
    pub(in crate::shared_disk) fn relation_mode(&mut self, query: u32) -> Option<Mode> {
        match self.work(query) {
            Work::Scan(scan) if scan.page_locks => Some(Mode::IntentShared),
            Work::Scan(_) => Some(Mode::Shared),
            // No query scans the relation that such a transaction has for itself: its intention
            // lock comes with the first page lock and conflicts with no other.
            Work::Transaction(transaction) if transaction.on_relation => {
                Some(if transaction.writes {
                    Mode::IntentExclusive
                } else {
                    Mode::IntentShared
                })
            }
            Work::Transaction(_) => None,
        }
    }

    pub(in crate::shared_disk) fn begun(&mut self, query: u32) {
        let coordinator = self.queries.of(query).coordinator;
        if self.relation_mode(query).is_none() {
            self.split(query);
        } else if coordinator == self.authority() {
            self.lock_relation(query);
        } else {
            let send = self.machine.instructions.send_short;
            self.compute(coordinator, send, Then::Ask(query));
        }
    }

    /// The node with the global lock authority over the relation.
    #[expect(
        clippy::unused_self,
        reason = "where the authority lies is the system's affair"
    )]
    pub(in crate::shared_disk) fn authority(&self) -> u32 {
        0
    }

    /// The node with the authority over a page's lock, which also owns the page.
    pub(in crate::shared_disk) fn owner(&self, page: u32) -> u32 {
        if page < self.database.transactions.first {
            return self.authority();
        }
        let partition = &self.database.transactions;
        let place = u64::from(page - partition.first) * u64::from(self.machine.nodes);
        u32::try_from(place / u64::from(partition.pages)).expect("below the nodes")
    }

    pub(in crate::shared_disk) fn lock_relation(&mut self, query: u32) {
        let Some(mode) = self.relation_mode(query) else {
            return;
        };
        if self.locks.ask(query, Resource::Relation, mode) {
            self.grant_relation(query);
        }
    }

    pub(in crate::shared_disk) fn grant_relation(&mut self, query: u32) {
        let coordinator = self.queries.of(query).coordinator;
        if coordinator == self.authority() {
            self.split(query);
        } else {
            self.deliver(coordinator, 1, Then::Locked(query));
        }
    }

    pub(in crate::shared_disk) fn split(&mut self, query: u32) {
        let coordinator = self.queries.of(query).coordinator;
        let parts: Vec<Vec<Run>> = match self.work(query) {
            Work::Transaction(kind) => {
                vec![transaction(kind, &self.database, &mut self.random)]
            }
            Work::Scan(scan) => {
                let range = range(&scan, &self.database, &mut self.random);
                let degree = match (scan.degree, scan.access) {
                    (Degree::Fixed(degree), _) => degree.max(1),
                    (Degree::Chosen { .. }, Access::Relation | Access::Partitions) => {
                        return self.choose(query, &scan, &range);
                    }
                    (Degree::Chosen { most, .. }, _) => {
                        self.index_degree(&scan, &range).min(most).max(1)
                    }
                };
                let part = |at| {
                    let share = (at, degree);
                    subquery(&scan, &self.database, &range, share, &mut self.random)
                };
                (0..degree).map(part).collect()
            }
        };
        let nodes = self.place(query, parts.len());
        let mut orders = 0;
        for (runs, node) in parts.into_iter().zip(nodes) {
            orders += u64::from(node != coordinator);
            let job = self.jobs.add(Job::new(query, node, runs));
            let query = self.queries.of(query);
            query.jobs.push(job);
            query.waits_for += 1;
        }
        if orders == 0 {
            self.start_jobs(query);
        } else {
            let work = orders * self.machine.instructions.send_short;
            self.compute(coordinator, work, Then::Split(query));
        }
    }

    /// The nodes of `parts` subqueries. A single subquery stays at the coordinator.
    pub(in crate::shared_disk) fn place(&mut self, query: u32, parts: usize) -> Vec<u32> {
        let Query {
            class, coordinator, ..
        } = *self.queries.of(query);
        let Work::Scan(Scan { assignment, .. }) = self.work(query) else {
            return vec![coordinator];
        };
        if parts <= 1 {
            return vec![coordinator];
        }
        let mut nodes: Vec<u32> = self.classes[class as usize].nodes.clone().collect();
        self.random.shuffle(&mut nodes);
        if assignment == Assignment::LeastBusy {
            nodes.sort_by_key(|&node| self.nodes[node as usize].works_on);
        }
        nodes.into_iter().cycle().take(parts).collect()
    }

    pub(in crate::shared_disk) fn start_jobs(&mut self, query: u32) {
        let coordinator = self.queries.of(query).coordinator;
        for job in std::mem::take(&mut self.queries.of(query).jobs) {
            let node = self.jobs.of(job).node;
            if node == coordinator {
                self.admit(job);
            } else {
                self.deliver(node, 1, Then::Started(job));
            }
        }
    }

    pub(in crate::shared_disk) fn admit(&mut self, job: u32) {
        let node = self.jobs.of(job).node;
        let node = &mut self.nodes[node as usize];
        if node.works_on < self.machine.subqueries_max {
            node.works_on += 1;
            self.next_page(job, 0);
        } else {
            node.waiting.push_back(job);
        }
    }
}
