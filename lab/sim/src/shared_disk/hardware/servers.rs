//! When does a queued request end?
//!
//! Idea: servers take requests in the order of arrival and every service time is known at arrival,
//! so the end is known at once and no queue is stored. A disk is an arm; controllers serve any
//! disk, or one each. Controllers have an LRU cache, and a request for a page that the arm is
//! reading waits for that read. A read takes its places in the cache when it is requested, so many
//! reads under way displace prefetched pages of others. (Both are settings of [`Machine`].)
//! S1: a request for a page under way waits for it, if reads are shared. S2: the reads of a disk
//! end in the order in which they began.
//! Source: [RahmStohr94 §3 "Processing model"].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use super::lru::{Copy, Lru};
use super::machine::{CacheFill, CacheScope, ControllerScope, Machine};

/// Equal servers with one queue.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// When each server is free.
    free_at: BinaryHeap<Reverse<u64>>,
    /// Service time of all requests so far.
    booked: u64,
}

impl Server {
    pub(crate) fn new(servers: u32) -> Self {
        Self {
            free_at: (0..servers.max(1)).map(|_| Reverse(0)).collect(),
            booked: 0,
        }
    }

    /// The end of a request that arrives now.
    pub(crate) fn submit(&mut self, now: u64, service: u64) -> u64 {
        let mut first = self
            .free_at
            .peek_mut()
            .expect("there is at least one server");
        let done = now.max(first.0) + service;
        *first = Reverse(done);
        self.booked += service;
        done
    }

    /// Service given until now.
    pub(crate) fn busy(&self, now: u64) -> u64 {
        let ahead = self.free_at.iter().map(|at| at.0.saturating_sub(now));
        self.booked - ahead.sum::<u64>()
    }
}

/// Pages that the arm is reading, or is going to read.
#[derive(Clone, Debug)]
struct Reading {
    pages: Range<u32>,
    done: u64,
}

#[derive(Debug)]
struct Disk {
    arm: Server,
    reading: VecDeque<Reading>,
}

/// Where a requested page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Cached,
    /// In the cache at this time.
    Coming(u64),
    Missing,
}

/// All disks with their controllers.
#[derive(Debug)]
pub(crate) struct Disks {
    disks: Vec<Disk>,
    /// One controller group for all disks, or one per disk.
    controllers: Vec<Server>,
    scope: CacheScope,
    fill: CacheFill,
    shared: bool,
    caches: Vec<Lru>,
    /// Reads of arms. `pages_read` counts the pages that they brought.
    pub(crate) reads: u64,
    pub(crate) pages_read: u64,
    /// Requests of nodes that the cache or a read under way served.
    pub(crate) hits: u64,
}

impl Disks {
    pub(crate) fn new(machine: &Machine) -> Self {
        let disk = || Disk {
            arm: Server::new(1),
            reading: VecDeque::new(),
        };
        let (caches, pages) = match machine.cache_scope {
            CacheScope::Shared => (1, machine.cache_pages),
            CacheScope::PerDisk => (machine.disks, machine.cache_pages),
            CacheScope::Divided => (machine.disks, machine.cache_pages / machine.disks),
        };
        let controllers = match machine.controller_scope {
            ControllerScope::Shared => vec![Server::new(machine.disks)],
            ControllerScope::PerDisk => vec![Server::new(1); machine.disks as usize],
        };
        Self {
            disks: (0..machine.disks).map(|_| disk()).collect(),
            controllers,
            scope: machine.cache_scope,
            fill: machine.cache_fill,
            shared: machine.reads_shared,
            caches: (0..caches).map(|_| Lru::new(pages)).collect(),
            reads: 0,
            pages_read: 0,
            hits: 0,
        }
    }

    pub(crate) fn control(&mut self, disk: u32, now: u64, service: u64) -> u64 {
        let at = disk as usize % self.controllers.len();
        self.controllers[at].submit(now, service)
    }

    /// Where the page is. A page in the cache becomes the most recently used.
    pub(crate) fn find(&mut self, disk: u32, page: u32) -> Found {
        if self.cache(disk).touch(page).is_some() {
            self.hits += 1;
            return Found::Cached;
        }
        if !self.shared {
            return Found::Missing;
        }
        let reading = &self.disks[disk as usize].reading;
        let coming = reading.iter().find(|reading| reading.pages.contains(&page));
        match coming {
            Some(reading) => {
                let done = reading.done;
                self.hits += 1;
                Found::Coming(done)
            }
            None => Found::Missing,
        }
    }

    /// The arm reads the pages. Returns the end of the read, at which `arrived` must be called.
    pub(crate) fn read(&mut self, disk: u32, now: u64, service: u64, pages: Range<u32>) -> u64 {
        self.reads += 1;
        self.pages_read += u64::from(pages.end - pages.start);
        if self.fill == CacheFill::Asked {
            self.cache(disk).promise(pages.len());
        }
        let disk = &mut self.disks[disk as usize];
        let done = disk.arm.submit(now, service);
        disk.reading.push_back(Reading { pages, done });
        done
    }

    /// The oldest read of the disk has ended: its pages are in the cache.
    pub(crate) fn arrived(&mut self, disk: u32) {
        let reading = self.disks[disk as usize].reading.pop_front();
        let reading = reading.expect("S2: what arrives was being read");
        if self.fill == CacheFill::Asked {
            self.cache(disk).redeem(reading.pages.len());
        }
        for page in reading.pages.rev() {
            self.keep(disk, page);
        }
    }

    /// Writes a page; the caller does not wait.
    pub(crate) fn write(&mut self, disk: u32, page: u32, now: u64, controller: u64, arm: u64) {
        let begun = self.control(disk, now, controller);
        self.disks[disk as usize].arm.submit(begun, arm);
        self.keep(disk, page);
    }

    fn keep(&mut self, disk: u32, page: u32) {
        self.cache(disk).insert(Copy {
            page,
            version: 0,
            dirty: false,
        });
    }

    fn cache(&mut self, disk: u32) -> &mut Lru {
        let at = match self.scope {
            CacheScope::Shared => 0,
            CacheScope::PerDisk | CacheScope::Divided => disk as usize,
        };
        &mut self.caches[at]
    }

    /// How long the arm of a disk has worked until now.
    pub(crate) fn arm_busy(&self, disk: u32, now: u64) -> u64 {
        self.disks[disk as usize].arm.busy(now)
    }

    /// How long all arms have worked until now.
    pub(crate) fn busy(&self, now: u64) -> u64 {
        self.disks.iter().map(|disk| disk.arm.busy(now)).sum()
    }

    /// Checks S2 and the invariants of the caches.
    pub(crate) fn check(&self) {
        for disk in &self.disks {
            let done: Vec<u64> = disk.reading.iter().map(|reading| reading.done).collect();
            assert!(done.is_sorted(), "S2: reads end in order");
        }
        self.caches.iter().for_each(Lru::check);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_take_three_requests() {
        let mut server = Server::new(2);
        let ends = [10, 20, 5].map(|service| server.submit(100, service));
        assert_eq!(ends, [110, 120, 115]);
        assert_eq!(server.busy(112), 12 + 12);
        assert_eq!(server.busy(200), 35);
    }

    #[test]
    fn a_page_on_its_way_is_not_read_twice() {
        let mut disks = Disks::new(&Machine::figure3(1, 2));
        assert_eq!(disks.find(1, 40), Found::Missing);
        assert_eq!(disks.read(1, 0, 18, 40..48), 18);
        assert_eq!(disks.find(1, 47), Found::Coming(18));
        disks.arrived(1);
        assert_eq!(disks.find(1, 47), Found::Cached);
        assert_eq!((disks.reads, disks.pages_read), (1, 8));
        disks.check();
    }

    #[test]
    fn a_read_that_is_asked_for_takes_its_places_at_once() {
        let machine = Machine {
            cache_pages: 12,
            ..Machine::figure3(1, 2)
        };
        let mut disks = Disks::new(&machine);
        disks.read(0, 0, 18, 0..8);
        disks.arrived(0);
        disks.read(1, 18, 18, 40..48);
        // The four pages that are needed last were evicted.
        let found = [3, 4].map(|page| disks.find(0, page));
        assert_eq!(found, [Found::Cached, Found::Missing]);
        disks.check();
    }

    #[test]
    fn a_page_on_its_way_is_read_again_where_reads_are_not_shared() {
        let machine = Machine {
            reads_shared: false,
            ..Machine::figure3(1, 2)
        };
        let mut disks = Disks::new(&machine);
        disks.read(1, 0, 18, 40..48);
        assert_eq!(disks.find(1, 47), Found::Missing);
    }

    #[test]
    fn shared_controllers_serve_any_disk() {
        let both = |scope| {
            let mut disks = Disks::new(&Machine {
                controller_scope: scope,
                ..Machine::figure3(1, 2)
            });
            [0, 0].map(|disk| disks.control(disk, 0, 10))
        };
        assert_eq!(both(ControllerScope::Shared), [10, 10]);
        assert_eq!(both(ControllerScope::PerDisk), [10, 20]);
    }

    #[test]
    fn a_divided_cache_holds_its_share() {
        let machine = Machine {
            cache_scope: CacheScope::Divided,
            ..Machine::figure3(1, 500)
        };
        let mut disks = Disks::new(&machine);
        disks.read(0, 0, 1, 0..3);
        disks.arrived(0);
        // The pages that are needed first are the most recently used.
        let found = [0, 1, 2].map(|page| disks.find(0, page));
        assert_eq!(found, [Found::Cached, Found::Cached, Found::Missing]);
    }
}
