//! From how many devices does each scan read at a time?
//!
//! A scan of one device reads from that device, and nothing is decided here. For scans over
//! several devices this file tells the core's controller (`coscan_core::parallelism`) of new
//! scans, ended loads and measured utilisation. The controller answers with a number of workers
//! for each scan, and the pool's core then chooses the scan's loads from that many devices
//! (`DegreeChanged`). The core also chooses which devices. If the controller chose them, it would
//! bind a scan to a device whose chunks other scans have loaded meanwhile, and a scan whose
//! consumers wait for another scan (a join) would keep that scan from its devices.
//! Not here: when the controller gets its events (`../state/degrees.rs`); a query's own limit
//! (`ScanRequest::devices_max`).
//! Bounds: [`DEVICES_MAX`] devices; O(devices) per event; utilisation is read once per tick.
//! G1: a scan reads from at least one device. G2: a pool whose scans have one device each never
//! asks the controller.

use std::collections::BTreeMap;

use coscan_core::parallelism::{Parallelism, ParallelismConfig, ParallelismEvent, ScanAccess};
use coscan_core::{DeviceId, ScanId};

use super::utilisation::Utilisation;

/// A scan with a chunk on a device of a higher number reads from all its devices.
const DEVICES_MAX: u16 = 256;

/// More than eight workers on a device only wait: loads are as large as chunks.
const WIDTH_MAX: u32 = 8;

/// What a scan holds in memory as read-ahead from one device: two chunks of 16 MiB.
const AHEAD_BYTES: u64 = 32 << 20;

/// The part of the memory that read-ahead may take, as a divisor.
const AHEAD_PART: u64 = 2;

/// Higher than the study's 850 and 980 (`docs/design/shared-disk.md`): here scans share their
/// reads, so an extra worker seldom reads anything that would not have been read anyway.
const LOW_PERMILLE: u32 = 970;
const HIGH_PERMILLE: u32 = 990;
const PROCESSORS_PERMILLE: u32 = 950;

/// The degrees of all scans over several devices.
pub(crate) struct Degrees {
    controller: Parallelism,
    scans: BTreeMap<ScanId, Known>,
}

struct Known {
    devices: u32,
    /// The degree that the core was given last.
    sent: Option<u32>,
}

impl Degrees {
    /// `memory_bytes` is the whole memory limit of the process.
    pub(crate) fn new(memory_bytes: u64) -> Self {
        let room = memory_bytes / AHEAD_PART / AHEAD_BYTES;
        let config = ParallelismConfig {
            devices: DEVICES_MAX,
            workers_max: DEVICES_MAX.into(),
            workers_total_max: u32::try_from(room).unwrap_or(u32::MAX).max(1),
            width_max: WIDTH_MAX,
            low_permille: LOW_PERMILLE,
            high_permille: HIGH_PERMILLE,
            // No device is kept idle for pages: page reads overtake loads
            // (`../segments/reserve.rs`).
            reserve_permille: 0,
            processors_permille: PROCESSORS_PERMILLE,
        };
        Self {
            controller: Parallelism::new(config),
            scans: BTreeMap::new(),
        }
    }

    /// Forgets all scans, because the core that knew them is gone.
    pub(crate) fn forget(&mut self) {
        for scan in std::mem::take(&mut self.scans).into_keys() {
            self.tell(ParallelismEvent::ScanEnded { scan });
        }
    }

    /// Whether the controller decides about any scan.
    pub(crate) fn is_active(&self) -> bool {
        !self.scans.is_empty()
    }

    /// Adds a scan with chunks on these devices. Returns the number that it may read from at a
    /// time; `None`: all.
    pub(crate) fn register(&mut self, scan: ScanId, devices: &[DeviceId]) -> Option<u32> {
        let beyond = devices.iter().any(|device| device.0 >= DEVICES_MAX);
        if devices.len() < 2 || beyond {
            return None;
        }
        self.tell(ParallelismEvent::ScanRegistered {
            scan,
            access: ScanAccess::Whole,
            devices: devices.to_vec(),
            floor: 1,
        });
        let devices = u32::try_from(devices.len()).unwrap_or(u32::MAX);
        let sent = None;
        self.scans.insert(scan, Known { devices, sent });
        let degree = self.degree(scan);
        if let Some(known) = self.scans.get_mut(&scan) {
            known.sent = degree;
        }
        degree
    }

    fn degree(&self, scan: ScanId) -> Option<u32> {
        let known = self.scans.get(&scan)?;
        let workers = u32::try_from(self.controller.workers(scan)).unwrap_or(u32::MAX);
        (workers < known.devices).then_some(workers.max(1))
    }

    /// A load for the scan has ended on the device; `drained` if the scan lacks no other chunk
    /// there.
    pub(crate) fn end_chunk(&mut self, scan: ScanId, device: DeviceId, drained: bool) {
        if self.scans.contains_key(&scan) && self.controller.served(scan).any(|at| at == device) {
            self.tell(ParallelismEvent::ChunkEnded {
                scan,
                device,
                drained,
            });
        }
    }

    pub(crate) fn end(&mut self, scan: ScanId) {
        if self.scans.remove(&scan).is_some() {
            self.tell(ParallelismEvent::ScanEnded { scan });
        }
    }

    pub(crate) fn measure(&mut self, now: &Utilisation) {
        let mut permille = vec![0; usize::from(DEVICES_MAX)];
        for &(device, used) in &now.devices {
            if let Some(place) = permille.get_mut(usize::from(device.0)) {
                *place = thousandths(used);
            }
        }
        self.tell(ParallelismEvent::Measured {
            devices_permille: permille,
            processors_permille: thousandths(now.processors.unwrap_or(0.0)),
            page_requests: false,
        });
    }

    fn tell(&mut self, event: ParallelismEvent) {
        if let Err(error) = self.controller.handle(event) {
            log::error!("degree of parallelism: {error}");
            debug_assert!(false, "degree of parallelism: {error}");
        }
        // The core is given only the number of workers and chooses the devices itself.
        self.controller.orders();
    }

    /// The scans that the controller decides about, with the devices on which each has a worker.
    pub(crate) fn served(&self) -> Vec<(ScanId, Vec<DeviceId>)> {
        let scans = self.scans.keys().copied();
        let served = |scan| (scan, self.controller.served(scan).collect());
        scans.map(served).collect()
    }

    /// The scans whose degree differs from the one that the core was given last, with the new
    /// degree.
    pub(crate) fn changed(&mut self) -> Vec<(ScanId, Option<u32>)> {
        let ids: Vec<ScanId> = self.scans.keys().copied().collect();
        let mut changed = Vec::new();
        for scan in ids {
            let degree = self.degree(scan);
            if let Some(known) = self.scans.get_mut(&scan)
                && known.sent != degree
            {
                known.sent = degree;
                changed.push((scan, degree));
            }
        }
        changed
    }
}

fn thousandths(share: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let thousandths = (share * 1000.0).round() as u32; // A float cast saturates.
    thousandths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(count: u16) -> Vec<DeviceId> {
        (0..count).map(DeviceId).collect()
    }

    #[test]
    fn a_later_scan_gets_the_remaining_devices_or_one() {
        let mut degrees = Degrees::new(8 << 30);
        assert_eq!(degrees.register(ScanId(0), &devices(1)), None);
        assert!(!degrees.is_active(), "G2");
        assert_eq!(degrees.register(ScanId(1), &devices(4)), None);
        assert_eq!(degrees.register(ScanId(2), &devices(4)), None);
        assert_eq!(degrees.register(ScanId(3), &devices(4)), Some(1), "G1");
        degrees.end(ScanId(1));
        assert_eq!(degrees.changed(), [(ScanId(3), None)]);
        degrees.end_chunk(ScanId(3), DeviceId(2), true);
        assert_eq!(degrees.changed(), [(ScanId(3), Some(3))]);
    }

    #[test]
    fn memory_bounds_the_read_ahead_of_all_scans() {
        let mut degrees = Degrees::new(3 * AHEAD_PART * AHEAD_BYTES);
        assert_eq!(degrees.register(ScanId(1), &devices(4)), Some(3));
        assert_eq!(degrees.register(ScanId(2), &devices(4)), Some(1));
    }
}
