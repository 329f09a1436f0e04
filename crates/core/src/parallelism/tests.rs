//! Promised: after any events the controller's invariants hold, its orders can be obeyed, and every
//! scan processes all its chunks.

use super::*;
use proptest::prelude::*;

const CONFIG: ParallelismConfig = ParallelismConfig {
    devices: 8,
    workers_max: 8,
    workers_total_max: 24,
    width_max: 4,
    low_permille: 850,
    high_permille: 980,
    reserve_permille: 300,
    processors_permille: 950,
};

fn register(it: &mut Parallelism, scan: u64, access: ScanAccess, floor: u32) -> Vec<Order> {
    let devices = (0..8).map(DeviceId).collect();
    let scan = ScanId(scan);
    it.handle(ParallelismEvent::ScanRegistered {
        scan,
        access,
        devices,
        floor,
    })
    .unwrap();
    it.check();
    it.orders()
}

fn measured(it: &mut Parallelism, busy: u32, processors: u32, page_requests: bool) -> Vec<Order> {
    it.handle(ParallelismEvent::Measured {
        devices_permille: vec![busy; 8],
        processors_permille: processors,
        page_requests,
    })
    .unwrap();
    it.check();
    it.orders()
}

fn chunk_ended(it: &mut Parallelism, scan: u64, device: u16, drained: bool) -> Vec<Order> {
    it.handle(ParallelismEvent::ChunkEnded {
        scan: ScanId(scan),
        device: DeviceId(device),
        drained,
    })
    .unwrap();
    it.check();
    it.orders()
}

#[test]
fn a_scan_alone_has_every_device_and_the_third_waits() {
    let mut it = Parallelism::new(CONFIG);
    assert_eq!(register(&mut it, 1, ScanAccess::Whole, 0).len(), 8);
    assert_eq!(register(&mut it, 2, ScanAccess::Whole, 0).len(), 8);
    assert_eq!(register(&mut it, 3, ScanAccess::Whole, 0), []);
    // The third scan gets the devices that the first leaves.
    let (device, scan) = (DeviceId(5), ScanId(3));
    assert_eq!(
        chunk_ended(&mut it, 1, 5, true),
        [
            Order::Rest {
                scan: ScanId(1),
                device
            },
            Order::Work { scan, device }
        ]
    );
    assert_eq!(it.served(scan).collect::<Vec<_>>(), [device]);
}

#[test]
fn a_selective_scan_has_one_worker() {
    let mut it = Parallelism::new(CONFIG);
    assert_eq!(register(&mut it, 3, ScanAccess::Selective, 0).len(), 1);
    assert_eq!(it.served(ScanId(3)).collect::<Vec<_>>(), [DeviceId(3)]);
    assert_eq!(
        chunk_ended(&mut it, 3, 3, true).len(),
        2,
        "on to the next device"
    );
}

#[test]
fn an_interactive_scan_has_its_floor_on_full_devices() {
    let mut it = Parallelism::new(CONFIG);
    register(&mut it, 1, ScanAccess::Whole, 0);
    register(&mut it, 2, ScanAccess::Whole, 0);
    assert_eq!(register(&mut it, 3, ScanAccess::Whole, 2).len(), 2);
    let device = it.served(ScanId(3)).next().unwrap();
    let stays = chunk_ended(&mut it, 3, device.0, false);
    assert!(matches!(stays[..], [Order::Work { .. }]));
}

#[test]
fn devices_with_time_left_become_wider_and_full_ones_narrower() {
    let mut it = Parallelism::new(CONFIG);
    for scan in 1..=5 {
        register(&mut it, scan, ScanAccess::Whole, 0);
    }
    assert_eq!(
        measured(&mut it, 700, 0, false).len(),
        8,
        "the third scan begins"
    );
    assert_eq!(measured(&mut it, 900, 0, false), [], "in between: as it is");
    assert_eq!(
        measured(&mut it, 700, 960, false),
        [],
        "the processors are full"
    );
    assert_eq!(
        measured(&mut it, 900, 0, true),
        [],
        "narrower: page requests"
    );
    // The third scan has to rest at the end of its chunk; the first continues.
    assert!(matches!(
        chunk_ended(&mut it, 3, 0, false)[..],
        [Order::Rest { .. }]
    ));
    assert!(matches!(
        chunk_ended(&mut it, 1, 0, false)[..],
        [Order::Work { .. }]
    ));
}

#[test]
fn the_read_ahead_of_all_workers_fits_in_memory() {
    let mut it = Parallelism::new(ParallelismConfig {
        workers_total_max: 10,
        ..CONFIG
    });
    assert_eq!(register(&mut it, 1, ScanAccess::Whole, 0).len(), 8);
    assert_eq!(register(&mut it, 2, ScanAccess::Whole, 0).len(), 2);
    assert_eq!(register(&mut it, 3, ScanAccess::Whole, 0), []);
    let floor = register(&mut it, 4, ScanAccess::Whole, 1);
    assert_eq!(floor.len(), 1, "interactive: beyond all");
    // Eleven workers: the next worker that ends a chunk stops, and no other takes its place.
    let device = it.served(ScanId(2)).next().unwrap();
    let orders = chunk_ended(&mut it, 2, device.0, false);
    assert_eq!(orders.len(), 1);
    assert!(matches!(orders[0], Order::Rest { .. }));
    // After that the oldest scan that wants more workers gets each one that becomes free.
    let orders = chunk_ended(&mut it, 1, 3, true);
    assert!(matches!(
        orders[1],
        Order::Work {
            scan: ScanId(2),
            ..
        }
    ));
}

#[test]
fn impossible_events_are_refused() {
    let mut it = Parallelism::new(CONFIG);
    register(&mut it, 4, ScanAccess::Whole, 0);
    let scan = ScanId(4);
    let again = ParallelismEvent::ScanRegistered {
        scan,
        access: ScanAccess::Whole,
        devices: vec![],
        floor: 0,
    };
    assert_eq!(
        it.handle(again),
        Err(ParallelismError::ScanOutOfOrder { scan })
    );
    let device = DeviceId(9);
    let unknown = ParallelismEvent::ScanRegistered {
        scan: ScanId(5),
        access: ScanAccess::Whole,
        devices: vec![device],
        floor: 0,
    };
    assert_eq!(
        it.handle(unknown),
        Err(ParallelismError::UnknownDevice { device })
    );
    let nowhere = ParallelismEvent::ChunkEnded {
        scan,
        device,
        drained: false,
    };
    assert_eq!(
        it.handle(nowhere),
        Err(ParallelismError::NoWorker { scan, device })
    );
    it.check();
}

/// A plain list of workers and chunks: the oracle for orders.
#[derive(Default)]
struct World {
    /// (scan, device) pairs that have a worker.
    workers: BTreeSet<(u64, u16)>,
    /// Chunks left for each scan on each device.
    left: BTreeMap<(u64, u16), u32>,
}

impl World {
    fn obey(&mut self, orders: Vec<Order>, ended: Option<(u64, u16)>) {
        let mut ended = ended;
        for order in orders {
            match order {
                Order::Rest { scan, device } => {
                    assert_eq!(
                        ended.take(),
                        Some((scan.0, device.0)),
                        "the worker that ended a chunk rests"
                    );
                    assert!(self.workers.remove(&(scan.0, device.0)));
                }
                Order::Work { scan, device } => {
                    let worker = (scan.0, device.0);
                    if ended == Some(worker) {
                        ended = None;
                        continue;
                    }
                    assert!(self.workers.insert(worker), "Q1: one worker");
                    assert!(self.left[&worker] > 0, "there is something to do");
                }
            }
        }
        assert_eq!(ended, None, "a worker that ended a chunk gets an order");
    }
}

proptest! {
    /// After any events, every invariant holds and every scan processes all its chunks.
    #[test]
    fn every_scan_ends(steps in prop::collection::vec((0_u8..8, 0_usize..64, 0_u32..1_100), 1..200)) {
        let mut it = Parallelism::new(CONFIG);
        let (mut world, mut next) = (World::default(), 0);
        let mut drain = 0;
        let mut steps = steps.into_iter();
        loop {
            // When the drawn steps are used up, the workers continue until no chunk is left.
            let (what, which, number) = steps.next().unwrap_or_else(|| {
                drain += 1;
                (7, drain * 7, 500)
            });
            match what {
                0 => {
                    next += 1;
                    let devices: Vec<DeviceId> = (0..8).filter(|bit| (number >> bit) & 1 == 1)
                        .map(DeviceId).collect();
                    for device in &devices {
                        world.left.insert((next, device.0), number % 5 + 1);
                    }
                    let access = [ScanAccess::Whole, ScanAccess::ClusteredIndex,
                        ScanAccess::Selective][which % 3];
                    let floor = number % 3;
                    it.handle(ParallelismEvent::ScanRegistered {
                        scan: ScanId(next), access, devices, floor,
                    }).unwrap();
                    world.obey(it.orders(), None);
                }
                1 => {
                    let devices_permille = (0..8).map(|at| number * (at + 1) / 5).collect();
                    it.handle(ParallelismEvent::Measured {
                        devices_permille, processors_permille: number, page_requests: which % 2 == 0,
                    }).unwrap();
                    world.obey(it.orders(), None);
                }
                2 if which % 8 == 0 && !world.left.is_empty() => {
                    let &(scan, _) = world.left.keys().nth(which % world.left.len()).unwrap();
                    world.left.retain(|&(other, _), _| other != scan);
                    world.workers.retain(|&(other, _)| other != scan);
                    it.handle(ParallelismEvent::ScanEnded { scan: ScanId(scan) }).unwrap();
                    world.obey(it.orders(), None);
                }
                _ => {
                    let Some(&worker) = world.workers.iter().nth(which % world.workers.len().max(1))
                    else {
                        prop_assert!(world.left.values().all(|&left| left == 0), "a scan hangs");
                        if drain > 0 { break; }
                        continue;
                    };
                    let left = world.left.get_mut(&worker).unwrap();
                    *left -= 1;
                    let drained = *left == 0;
                    it.handle(ParallelismEvent::ChunkEnded {
                        scan: ScanId(worker.0), device: DeviceId(worker.1), drained,
                    }).unwrap();
                    world.obey(it.orders(), Some(worker));
                }
            }
            it.check();
        }
    }
}
