//! How does a scan run whose parallelism is chosen while it runs?
//!
//! Idea: [`coscan_core::parallelism`] decides; this file is its driver. The pages of a scan form
//! one piece per device. A worker is a subquery that takes a chunk of its device's piece and
//! reports the end of the chunk. The controller then orders it to continue there, to continue at
//! another device of its scan, or to end. Meters are read every `METER_NS`. A page that an arm
//! reads twice is waste: where more pages are read than requested, devices are reported as
//! overloaded. Index scans need no controller: a clustered one has a subquery for each disk of its
//! range, a non-clustered one is sequential.
//! Not here: the state that the driver keeps (`controller.rs`).
//! G1: one worker at a time processes a piece, and each page of it once.

use std::collections::BTreeMap;
use std::ops::Range;

use coscan_core::parallelism::{
    Order, Parallelism, ParallelismConfig, ParallelismEvent, ScanAccess,
};
use coscan_core::{DeviceId, ScanId};

use crate::shared_disk::controller::{Chosen, Piece, Pieces, Waste};
use crate::shared_disk::events::{Event, Then};
use crate::shared_disk::hardware::machine::{CacheFill, CacheScope};
use crate::shared_disk::workload::{Access, Degree, Room, Run, Scan, Work, pages, pages_run};
use crate::shared_disk::world::{Job, System};

/// The time between two readings of the meters.
const METER_NS: u64 = 250_000_000;
/// A device that scans wait for gets more workers while its utilisation is below this.
const LOW_PERMILLE: u32 = 850;
/// How much lower that limit is while transactions run.
const RESERVE_PERMILLE: u32 = 200;
/// The size of a chunk, in prefetches.
const CHUNK_PREFETCHES: u32 = 3;
/// The part of the disk cache for the prefetches of workers, in percent; transactions use the cache
/// too.
const AHEAD_PERCENT: u32 = 90;

impl System {
    /// The controller, if a class has scans of chosen degree.
    pub(in crate::shared_disk) fn controller(&self) -> Option<Chosen> {
        let chosen = self.classes.iter().filter_map(|class| match class.work {
            Work::Scan(Scan {
                degree: Degree::Chosen { most, room },
                ..
            }) => Some((most, room)),
            _ => None,
        });
        let (limits, rooms): (Vec<u32>, Vec<Room>) = chosen.unzip();
        let devices = self.database.relation.declustering;
        let config = ParallelismConfig {
            devices: u16::try_from(devices).unwrap_or(u16::MAX),
            workers_max: limits.into_iter().max()?,
            workers_total_max: if rooms.contains(&Room::Told) {
                self.prefetches_max()
            } else {
                u32::MAX
            },
            width_max: 8,
            low_permille: LOW_PERMILLE,
            high_permille: 980,
            reserve_permille: RESERVE_PERMILLE,
            processors_permille: 950,
        };
        Some(Chosen {
            parallelism: Parallelism::new(config),
            queries: BTreeMap::new(),
            next: 0,
            arms: vec![0; devices as usize],
            processors: 0,
            page_requests: false,
            waste: rooms.contains(&Room::Found).then(Waste::default),
        })
    }

    /// The number of prefetches that fit into the cache at a time.
    fn prefetches_max(&self) -> u32 {
        if self.machine.cache_fill == CacheFill::Read {
            // With this setting a prefetch under way takes no place in the cache.
            return u32::MAX;
        }
        let caches = match self.machine.cache_scope {
            CacheScope::PerDisk => self.machine.disks,
            CacheScope::Shared | CacheScope::Divided => 1,
        };
        let pages = u64::from(self.machine.cache_pages) * u64::from(caches);
        let prefetches =
            pages * u64::from(AHEAD_PERCENT) / 100 / u64::from(self.machine.prefetch_pages.max(1));
        u32::try_from(prefetches).unwrap_or(u32::MAX)
    }

    /// Registers the scan of a query, and starts the workers that the controller gives it.
    pub(in crate::shared_disk) fn choose(&mut self, query: u32, scan: &Scan, range: &Range<u32>) {
        let all = pages(scan, &self.database, range);
        let data = self.database.data;
        let disks = data.disk(all.start)..=data.disk(all.end - 1);
        let piece = |disk: u32| {
            let number = u16::try_from(disk).expect("a controller has at most 2^16 devices");
            (number, data.on_disk(disk))
        };
        let pieces: BTreeMap<u16, Range<u32>> = disks.map(piece).collect();
        let pieces = pieces.into_iter().filter(|(_, pages)| !pages.is_empty());
        let left = pieces.map(|(disk, pages)| {
            let skipped = if scan.anywhere {
                self.random.below(u64::from(pages.end - pages.start))
            } else {
                0
            };
            let begin = pages.start + u32::try_from(skipped).expect("below the pages");
            (disk, Piece::new(&pages, begin))
        });
        let left: BTreeMap<u16, Piece> = left.collect();
        let Some(chosen) = &mut self.chosen else {
            return;
        };
        let id = ScanId(chosen.next);
        chosen.next += 1;
        chosen.queries.insert(id, query);
        let devices = left.keys().map(|&disk| DeviceId(disk)).collect();
        let it = self.queries.of(query);
        it.pieces = Some(Pieces { scan: id, left });
        // The query also waits for its pieces, so that it does not end while a piece waits for a
        // worker (R1).
        it.waits_for += 1;
        self.tell(
            ParallelismEvent::ScanRegistered {
                scan: id,
                access: ScanAccess::Whole,
                devices,
                floor: 0,
            },
            None,
        );
    }

    /// Sends an event to the controller and carries out its orders. `ended`: the job that ended a
    /// chunk, and the work that its processor still has to do.
    fn tell(&mut self, event: ParallelismEvent, ended: Option<(u32, u64)>) {
        let Some(chosen) = &mut self.chosen else {
            return;
        };
        let refused = chosen.parallelism.handle(event);
        refused.expect("G1: the driver sends only events that happened");
        let mut orders = chosen.parallelism.orders();
        if let Some((job, work)) = ended {
            let first = (!orders.is_empty()).then(|| orders.remove(0));
            let next = match first {
                Some(Order::Rest { scan, .. }) => {
                    // If its scan gets another worker, this job goes there and no new one is
                    // started.
                    let same = |order: &Order| matches!(order, Order::Work { scan: it, .. } if *it == scan);
                    let at = orders.iter().position(same);
                    at.map(|at| orders.remove(at))
                }
                stays => stays,
            };
            match next {
                Some(Order::Work { device, .. }) => {
                    self.jobs.of(job).device = Some(device.0);
                    self.take_chunk(job);
                    self.next_page(job, work);
                }
                _ => self.last_page(job, work),
            }
        }
        for order in orders {
            if let Order::Work { scan, device } = order {
                self.start_worker(scan, device);
            }
        }
    }

    fn start_worker(&mut self, scan: ScanId, device: DeviceId) {
        let chosen = self.chosen.as_ref();
        let query = chosen.and_then(|chosen| chosen.queries.get(&scan).copied());
        let query = query.expect("G1: a scan with workers has a query");
        let it = self.queries.of(query);
        it.waits_for += 1;
        let (class, coordinator) = (it.class, it.coordinator);
        let nodes = self.classes[class as usize].nodes.clone();
        // Ties go to the next node after the device's number, so that they do not all go to one
        // node.
        let count = nodes.end - nodes.start;
        let rotated = (0..count).map(|at| nodes.start + (at + u32::from(device.0)) % count);
        let node = rotated.min_by_key(|&node| self.nodes[node as usize].workers);
        let node = node.unwrap_or(coordinator);
        self.nodes[node as usize].workers += 1;
        let job = self.jobs.add(Job::new(query, node, Vec::new()));
        self.jobs.of(job).device = Some(device.0);
        self.take_chunk(job);
        if node == coordinator {
            self.admit(job);
        } else {
            let send = self.machine.instructions.send_short;
            self.compute(coordinator, send, Then::Order(job));
        }
    }

    /// The job takes its next chunk.
    fn take_chunk(&mut self, job: u32) {
        let it = self.jobs.of(job);
        let (query, device) = (it.query, it.device.unwrap_or(0));
        let Work::Scan(scan) = self.work(query) else {
            return;
        };
        let chunk = self.machine.prefetch_pages * CHUNK_PREFETCHES;
        let pieces = self.queries.of(query).pieces.as_mut();
        let left = pieces.and_then(|pieces| pieces.left.get_mut(&device));
        let left = left.expect("G1: a worker is ordered only where pages are left");
        let pages = left.take(chunk);
        let run: Run = pages_run(&scan, &self.database, pages);
        let it = self.jobs.of(job);
        (it.runs, it.at) = (vec![run], 0);
    }

    /// The job has processed its chunk, except for `work` at its processor.
    pub(in crate::shared_disk) fn end_chunk(&mut self, job: u32, device: u16, work: u64) {
        let query = self.jobs.of(job).query;
        let pieces = self.queries.of(query).pieces.as_mut();
        let pieces = pieces.expect("G1: a worker's scan has pieces");
        let scan = pieces.scan;
        let drained = pieces.left.get(&device).is_none_or(Piece::is_empty);
        if drained {
            pieces.left.remove(&device);
        }
        let last = pieces.left.is_empty();
        self.tell(
            ParallelismEvent::ChunkEnded {
                scan,
                device: DeviceId(device),
                drained,
            },
            Some((job, work)),
        );
        if last {
            // The query still waits for this job, so it does not end until the job has finished.
            self.queries.of(query).waits_for -= 1;
            if let Some(chosen) = &mut self.chosen {
                chosen.queries.remove(&scan);
            }
            self.tell(ParallelismEvent::ScanEnded { scan }, None);
        }
    }

    /// Reads the meters.
    pub(in crate::shared_disk) fn meter(&mut self) {
        let now = self.events.now();
        let processors: u64 = self
            .nodes
            .iter()
            .map(|node| node.processors.busy(now))
            .sum();
        let Some(chosen) = &mut self.chosen else {
            return;
        };
        let permille = |busy: u64| u32::try_from(busy * 1_000 / METER_NS).unwrap_or(u32::MAX);
        let mut devices_permille = Vec::with_capacity(chosen.arms.len());
        for (disk, was) in (0_u32..).zip(&mut chosen.arms) {
            let busy = self.disks.arm_busy(disk, now);
            devices_permille.push(permille(busy - std::mem::replace(was, busy)));
        }
        if let Some(waste) = &mut chosen.waste {
            let asked = self.disks.hits + self.disks.reads;
            let reserve = u32::from(chosen.page_requests) * RESERVE_PERMILLE;
            let least = waste.read(asked, self.disks.pages_read, LOW_PERMILLE - reserve);
            for (disk, permille) in (0_u32..).zip(&mut devices_permille) {
                *permille = least(disk).max(*permille);
            }
        }
        let worked = processors - std::mem::replace(&mut chosen.processors, processors);
        let servers = u64::from(self.machine.nodes * self.machine.processors);
        let event = ParallelismEvent::Measured {
            devices_permille,
            processors_permille: permille(worked / servers),
            page_requests: std::mem::take(&mut chosen.page_requests),
        };
        self.tell(event, None);
        self.events.after(METER_NS, Event::Metered);
    }

    /// The number of subqueries of an index scan whose parallelism is chosen.
    pub(in crate::shared_disk) fn index_degree(&self, scan: &Scan, range: &Range<u32>) -> u32 {
        match scan.access {
            Access::ClusteredIndex => {
                let disk = |tuple: u32| self.database.data.disk(self.database.data_page(tuple));
                disk(range.end - 1) - disk(range.start) + 1
            }
            _ => 1,
        }
    }
}
