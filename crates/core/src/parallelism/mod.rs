//! How many workers does each scan have now, and which device does each worker serve?
//!
//! Idea: a worker serves one device for its scan, and a scan has at most one worker per device, so
//! that a scan never contends with itself (the paper's P · k = D). The *width* of a device is the
//! number of workers that it accepts at a time; scans are served in the order of registration. So
//! a scan that runs alone has a worker on every device, and the more scans run, the fewer workers
//! each has: a scan's degree of parallelism is what older scans leave, without any knowledge of
//! the load. The width follows the measured utilisation: a device becomes wider while it has time
//! left and a scan waits for it, and narrower while it is fully used. The number of all workers is
//! bounded by the memory for their read-ahead: one more worker would evict data that another has
//! read and must then read a second time, which costs the devices more than the worker adds. So
//! under load scans wait for their first worker instead of disturbing each other.
//! Decisions are made when a scan registers or ends, when a worker ends a chunk, and when meters
//! are read.
//! Not here: threads, nodes, reads; the definition of a chunk (the driver's); on how many nodes of
//! a cluster a query runs (`nodes.rs`).
//! Bounds: O(width + log scans) per event and device; O(scans + devices that one scan waits for)
//! when all workers are in use; width at most `width_max`.
//! Q1: a scan has at most one worker on a device. Q2: a device has more workers than its width
//! only while the workers beyond it finish their chunk, or for a floor. Q3: a scan has at most as
//! many workers as its limit. Q4: a scan that waits for a device waits for older scans, for its
//! own limit, for the processors, or for the limit of all workers. Q5: all scans together have at
//! most `workers_total_max` workers, except for floors.
//! Source: [RahmStohr94 §2, §4.4, §5]; we differ: the paper says what must be chosen, not how.

mod error;
pub mod nodes;

use std::collections::{BTreeMap, BTreeSet};

pub use error::ParallelismError;

use crate::ids::{DeviceId, ScanId};

/// How a scan finds its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanAccess {
    /// It reads all chunks that it was registered with.
    Whole,
    /// By a clustered index: the devices that hold the range.
    ClusteredIndex,
    /// A few rows by an index: one worker, however many devices hold them.
    Selective,
}

/// The fixed properties of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParallelismConfig {
    /// The number of devices.
    pub devices: u16,
    /// The most workers of one scan. At least 1.
    pub workers_max: u32,
    /// The most workers of all scans, bounded by the memory for their read-ahead. At least 1.
    pub workers_total_max: u32,
    /// The most workers on one device. At least 1.
    pub width_max: u32,
    /// A device that scans wait for becomes wider while its utilisation is lower. Thousandths.
    pub low_permille: u32,
    /// A device becomes narrower while its utilisation is higher. Thousandths, at least
    /// `low_permille`.
    pub high_permille: u32,
    /// How much lower both limits are while page requests are served. Thousandths.
    pub reserve_permille: u32,
    /// No worker is added while the processors' utilisation is higher. Thousandths.
    pub processors_permille: u32,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParallelismEvent {
    /// A scan was registered with these devices, none named twice.
    ScanRegistered {
        /// The scan. Ids ascend.
        scan: ScanId,
        /// How it finds its rows.
        access: ScanAccess,
        /// The devices that hold the rows.
        devices: Vec<DeviceId>,
        /// The fewest workers that the scan gets, however busy its devices are: for interactive
        /// queries.
        floor: u32,
    },
    /// A worker has ended a chunk. An order follows: to continue or to rest.
    ChunkEnded {
        /// The worker's scan.
        scan: ScanId,
        /// The worker's device.
        device: DeviceId,
        /// Whether the device has no further chunk for the scan.
        drained: bool,
    },
    /// The scan has ended, and its workers with it.
    ScanEnded {
        /// The scan.
        scan: ScanId,
    },
    /// The meters were read.
    Measured {
        /// Utilisation of each device. Thousandths.
        devices_permille: Vec<u32>,
        /// Utilisation of the processors. Thousandths.
        processors_permille: u32,
        /// Whether page requests were served.
        page_requests: bool,
    },
}

/// What a worker has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Process the scan's next chunk on the device. The worker is new, or it is the one that ended
    /// a chunk.
    Work {
        /// The scan.
        scan: ScanId,
        /// The device.
        device: DeviceId,
    },
    /// The worker that ended a chunk stops.
    Rest {
        /// The scan.
        scan: ScanId,
        /// The device.
        device: DeviceId,
    },
}

#[derive(Debug)]
struct Device {
    width: u32,
    /// Scans with a worker on the device.
    working: BTreeSet<ScanId>,
    /// Scans that want a worker on the device.
    waiting: BTreeSet<ScanId>,
}

#[derive(Debug)]
struct Scan {
    limit: u32,
    floor: u32,
    working: BTreeSet<DeviceId>,
    waiting: BTreeSet<DeviceId>,
    /// The device that the scan tries first if it may not have all devices at once.
    first: DeviceId,
}

/// The controller of the parallelism of all scans.
#[derive(Debug)]
pub struct Parallelism {
    config: ParallelismConfig,
    devices: Vec<Device>,
    scans: BTreeMap<ScanId, Scan>,
    /// The workers of all scans.
    workers: usize,
    /// Whether the processors have time for more workers.
    roomy: bool,
    orders: Vec<Order>,
}

/// The initial width: one worker waits for the device while the other computes.
const WIDTH: u32 = 2;

impl Parallelism {
    /// A state without scans.
    #[must_use]
    pub fn new(config: ParallelismConfig) -> Self {
        let device = || Device {
            width: WIDTH.min(config.width_max).max(1),
            working: BTreeSet::new(),
            waiting: BTreeSet::new(),
        };
        Self {
            config,
            devices: (0..config.devices).map(|_| device()).collect(),
            scans: BTreeMap::new(),
            workers: 0,
            roomy: true,
            orders: Vec::new(),
        }
    }

    /// Applies an event.
    ///
    /// # Errors
    /// [`ParallelismError`]: the event contradicts the state; nothing has changed.
    pub fn handle(&mut self, event: ParallelismEvent) -> Result<(), ParallelismError> {
        match event {
            ParallelismEvent::ScanRegistered {
                scan,
                access,
                devices,
                floor,
            } => self.register(scan, access, &devices, floor),
            ParallelismEvent::ChunkEnded {
                scan,
                device,
                drained,
            } => self.end_chunk(scan, device, drained),
            ParallelismEvent::ScanEnded { scan } => self.end(scan),
            ParallelismEvent::Measured {
                devices_permille,
                processors_permille,
                page_requests,
            } => self.measure(&devices_permille, processors_permille, page_requests),
        }
    }

    /// The orders decided since the last call, in the order of decision.
    pub fn orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// The current number of workers of a scan.
    #[must_use]
    pub fn workers(&self, scan: ScanId) -> usize {
        self.scans.get(&scan).map_or(0, |scan| scan.working.len())
    }

    /// The devices that a scan's workers serve.
    pub fn served(&self, scan: ScanId) -> impl Iterator<Item = DeviceId> {
        let scan = self.scans.get(&scan);
        scan.into_iter()
            .flat_map(|scan| scan.working.iter().copied())
    }

    fn register(
        &mut self,
        id: ScanId,
        access: ScanAccess,
        devices: &[DeviceId],
        floor: u32,
    ) -> Result<(), ParallelismError> {
        if self
            .scans
            .last_key_value()
            .is_some_and(|(&last, _)| last >= id)
        {
            return Err(ParallelismError::ScanOutOfOrder { scan: id });
        }
        let waiting: BTreeSet<DeviceId> = devices.iter().copied().collect();
        if waiting.len() != devices.len() {
            return Err(ParallelismError::DeviceTwice { scan: id });
        }
        let unknown = devices
            .iter()
            .find(|device| device.0 >= self.config.devices);
        if let Some(&device) = unknown {
            return Err(ParallelismError::UnknownDevice { device });
        }
        for device in &waiting {
            self.devices[usize::from(device.0)].waiting.insert(id);
        }
        let limit = match access {
            ScanAccess::Selective => 1,
            ScanAccess::Whole | ScanAccess::ClusteredIndex => self.config.workers_max.max(1),
        };
        let first = id.0 % u64::from(self.config.devices.max(1));
        self.scans.insert(
            id,
            Scan {
                limit,
                floor: floor.min(limit),
                working: BTreeSet::new(),
                waiting,
                first: DeviceId(u16::try_from(first).unwrap_or(0)),
            },
        );
        self.spread(id);
        Ok(())
    }

    fn end_chunk(
        &mut self,
        id: ScanId,
        at: DeviceId,
        drained: bool,
    ) -> Result<(), ParallelismError> {
        let device = self.devices.get(usize::from(at.0));
        let mut older = device
            .into_iter()
            .flat_map(|device| device.waiting.range(..id));
        let older_waits = older.any(|&older| self.below_limit(older));
        let was_full = self.full();
        let beyond = self.workers > self.workers_total_max();
        let scan = self.scans.get_mut(&id);
        let known = scan.as_ref().is_some_and(|scan| scan.working.contains(&at));
        let Some(scan) = scan.filter(|_| known) else {
            return Err(ParallelismError::NoWorker {
                scan: id,
                device: at,
            });
        };
        let device = &mut self.devices[usize::from(at.0)];
        let workers = u32::try_from(device.working.len()).unwrap_or(u32::MAX);
        let above_floor = scan.working.len() > scan.floor as usize;
        let crowded = workers > device.width || older_waits || beyond;
        if !(drained || crowded && above_floor) {
            self.orders.push(Order::Work {
                scan: id,
                device: at,
            });
            return Ok(());
        }
        scan.working.remove(&at);
        device.working.remove(&id);
        self.workers -= 1;
        if !drained {
            scan.waiting.insert(at);
            device.waiting.insert(id);
        }
        self.orders.push(Order::Rest {
            scan: id,
            device: at,
        });
        if was_full {
            self.admit();
        } else {
            self.fill(at);
            self.spread(id);
        }
        Ok(())
    }

    fn end(&mut self, id: ScanId) -> Result<(), ParallelismError> {
        let Some(scan) = self.scans.remove(&id) else {
            return Err(ParallelismError::UnknownScan { scan: id });
        };
        for device in &scan.waiting {
            self.devices[usize::from(device.0)].waiting.remove(&id);
        }
        for device in &scan.working {
            self.devices[usize::from(device.0)].working.remove(&id);
        }
        let was_full = self.full();
        self.workers -= scan.working.len();
        if was_full {
            self.admit();
        } else {
            for device in scan.working {
                self.fill(device);
            }
        }
        Ok(())
    }

    fn measure(
        &mut self,
        devices: &[u32],
        processors: u32,
        page_requests: bool,
    ) -> Result<(), ParallelismError> {
        if devices.len() != self.devices.len() {
            return Err(ParallelismError::OtherDevices {
                count: devices.len(),
            });
        }
        let reserve = if page_requests {
            self.config.reserve_permille
        } else {
            0
        };
        let low = self.config.low_permille.saturating_sub(reserve);
        let high = self.config.high_permille.saturating_sub(reserve);
        self.roomy = processors <= self.config.processors_permille;
        for (at, &busy) in (0_u16..).zip(devices) {
            let device = &mut self.devices[usize::from(at)];
            if busy > high {
                device.width = (device.width - 1).max(1);
            } else if busy < low && self.roomy && !device.waiting.is_empty() {
                device.width = (device.width + 1).min(self.config.width_max.max(1));
            }
            self.fill(DeviceId(at));
        }
        Ok(())
    }

    /// Called when all workers were in use and some have become free: gives devices to the scans,
    /// the oldest first.
    fn admit(&mut self) {
        let scans: Vec<ScanId> = self.scans.keys().copied().collect();
        for id in scans {
            self.spread(id);
        }
    }

    /// Gives a device to the scans that wait for it, the oldest first.
    fn fill(&mut self, at: DeviceId) {
        let device = &self.devices[usize::from(at.0)];
        let waiting: Vec<ScanId> = device.waiting.iter().copied().collect();
        for id in waiting {
            let device = &self.devices[usize::from(at.0)];
            if device.working.len() >= device.width as usize {
                return;
            }
            self.work(id, at);
        }
    }

    /// Gives a scan the devices that have room for it.
    fn spread(&mut self, id: ScanId) {
        if !self.may_grow(id) {
            return;
        }
        let Some(scan) = self.scans.get(&id) else {
            return;
        };
        let behind = scan.waiting.range(scan.first..);
        let before = scan.waiting.range(..scan.first);
        let wanted: Vec<DeviceId> = behind.chain(before).copied().collect();
        for &at in &wanted {
            if !self.may_grow(id) {
                return;
            }
            let device = &self.devices[usize::from(at.0)];
            if device.working.len() < device.width as usize {
                self.work(id, at);
            }
        }
        for at in wanted {
            let below_floor = |scan: &Scan| {
                scan.working.len() < scan.floor as usize && scan.waiting.contains(&at)
            };
            if self.scans.get(&id).is_some_and(below_floor) {
                self.work(id, at);
            }
        }
    }

    fn workers_total_max(&self) -> usize {
        self.config.workers_total_max.max(1) as usize
    }

    /// Whether all scans together have as many workers as allowed.
    fn full(&self) -> bool {
        self.workers >= self.workers_total_max()
    }

    /// Whether the scan may have one more worker, apart from the room on devices.
    fn may_grow(&self, id: ScanId) -> bool {
        let below_floor = |scan: &Scan| scan.working.len() < scan.floor as usize;
        self.below_limit(id) && (!self.full() || self.scans.get(&id).is_some_and(below_floor))
    }

    /// Whether the scan may have one more worker once another worker stops.
    fn below_limit(&self, id: ScanId) -> bool {
        self.scans.get(&id).is_some_and(|scan| {
            // A scan's first worker is never refused because of the processors: without a worker no
            // event would try again (Q4).
            let processors = self.roomy || scan.working.is_empty();
            scan.working.len() < scan.limit as usize && processors
        })
    }

    /// Starts a new worker, if the scan may have one more.
    fn work(&mut self, id: ScanId, at: DeviceId) {
        if !self.may_grow(id) {
            return;
        }
        let Some(scan) = self.scans.get_mut(&id) else {
            return;
        };
        scan.waiting.remove(&at);
        scan.working.insert(at);
        self.workers += 1;
        let device = &mut self.devices[usize::from(at.0)];
        device.waiting.remove(&id);
        device.working.insert(id);
        self.orders.push(Order::Work {
            scan: id,
            device: at,
        });
    }

    /// Checks every invariant.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check(&self) {
        let workers = self.scans.values().map(|scan| scan.working.len());
        assert_eq!(workers.sum::<usize>(), self.workers, "Q5: all are counted");
        let floors: u32 = self.scans.values().map(|scan| scan.floor).sum();
        assert!(
            self.workers <= self.workers_total_max() + floors as usize,
            "Q5: so many at most"
        );
        for (&id, scan) in &self.scans {
            assert!(scan.working.is_disjoint(&scan.waiting), "Q1: scan {id}");
            assert!(scan.working.len() <= scan.limit as usize, "Q3: scan {id}");
            for device in &scan.working {
                let device = &self.devices[usize::from(device.0)];
                assert!(
                    device.working.contains(&id),
                    "Q1: both sides know of a worker"
                );
            }
            for at in &scan.waiting {
                let device = &self.devices[usize::from(at.0)];
                assert!(
                    device.waiting.contains(&id),
                    "Q4: both sides know of a wait"
                );
                let full = device.working.len() >= device.width as usize;
                assert!(full || !self.may_grow(id), "Q4: scan {id}, device {at}");
            }
        }
        for device in &self.devices {
            assert!(
                (1..=self.config.width_max.max(1)).contains(&device.width),
                "Q2"
            );
            let known = |id: &ScanId| self.scans.contains_key(id);
            assert!(device.working.iter().all(known), "Q1: a worker has a scan");
            assert!(
                device.waiting.iter().all(known),
                "Q4: every waiter is a scan"
            );
        }
    }
}

#[cfg(test)]
mod tests;
