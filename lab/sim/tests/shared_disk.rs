//! Promised: a shared-disk system takes exactly the time that its parameters give, the same seed
//! gives the same run, every invariant holds after every event whatever runs concurrently, and
//! every query ends.
//!
//! Not here: the results of the paper's figures (coscan-study).

use coscan_sim::shared_disk::{
    Access, Arrivals, Assignment, CacheFill, CacheScope, Class, ControllerScope, Degree, Extent,
    Machine, Outcome, Relation, Room, Scan, System, Transaction, Variation, Work,
};

const MS: u64 = 1_000_000;

fn exact(nodes: u32, disks: u32) -> Machine {
    Machine {
        disk_variation: Variation::Fixed,
        ..Machine::figure3(nodes, disks)
    }
}

fn class(work: Work, arrivals: Arrivals, nodes: u32) -> Class {
    Class {
        work,
        arrivals,
        nodes: 0..nodes,
    }
}

/// A degree of at most this many, from a controller that knows the size of the cache.
fn chosen(most: u32) -> Degree {
    Degree::Chosen {
        most,
        room: Room::Told,
    }
}

fn one_scan(machine: Machine, scan: Scan) -> Outcome {
    let extent = Extent {
        warm_up: 0,
        measured: 1,
        population_max: 10,
    };
    let relation = Relation::figure3(machine.disks);
    let class = class(Work::Scan(scan), Arrivals::OneByOne, machine.nodes);
    System::new(machine, relation, vec![class], extent, 1).run()
}

/// A page: 3000 instructions, the controller, the arm, the network, 10,000 instructions.
#[test]
fn a_sequential_scan_takes_what_its_pages_take() {
    let scan = Scan::figure3(Access::Relation, false, Degree::Fixed(1));
    let outcome = one_scan(exact(1, 1), scan);
    let page = 100_000 + MS + 11 * MS + 409_600 + 333_333;
    // BOT, 12,500 pages, EOT. Processing a page and starting the next I/O are one stay at the
    // processor.
    let expected = 833_333 + 12_500 * page + 833_333;
    let (_, took) = outcome.classes[0].responses[0];
    assert!(
        took.abs_diff(expected) < 12_500,
        "{took} against {expected}"
    );
    assert_eq!((outcome.reads, outcome.pages_read), (12_500, 12_500));
}

#[test]
fn a_prefetch_brings_eight_pages_in_18_ms() {
    let scan = Scan::figure3(Access::Relation, true, Degree::Fixed(1));
    let outcome = one_scan(exact(1, 1), scan);
    let page = 100_000 + MS + 409_600 + 333_333;
    let expected = 833_333 + 12_500 * page + 1_563 * 18 * MS + 833_333;
    let (_, took) = outcome.classes[0].responses[0];
    assert!(
        took.abs_diff(expected) < 12_500,
        "{took} against {expected}"
    );
    assert_eq!(outcome.reads, 1_563, "12,500 / 8, rounded up");
}

#[test]
fn subqueries_on_disks_of_their_own_do_not_meet() {
    let scan = |degree| Scan::figure3(Access::Relation, true, Degree::Fixed(degree));
    let one = one_scan(exact(8, 8), scan(1)).classes[0].mean_s();
    let eight = one_scan(exact(8, 8), scan(8)).classes[0].mean_s();
    assert!((7.9..8.0).contains(&(one / eight)), "{one} {eight}");
}

#[test]
fn a_scan_alone_has_every_disk_when_its_degree_is_chosen() {
    let scan = |degree| Scan::figure3(Access::Relation, true, degree);
    let fixed = one_scan(exact(8, 8), scan(Degree::Fixed(8)));
    let ours = one_scan(exact(8, 8), scan(chosen(8)));
    assert_eq!(ours.pages_read, 12_500, "G1: every page once");
    let ratio = ours.classes[0].mean_s() / fixed.classes[0].mean_s();
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
}

/// Eight scans at a time with eight prefetches each, in a cache that has places for twelve
/// prefetches.
#[test]
fn prefetches_push_each_other_out_unless_the_controller_counts_them() {
    let run = |fill, degree| {
        let machine = Machine {
            cache_pages: 96,
            cache_fill: fill,
            ..exact(8, 8)
        };
        let scan = Scan {
            anywhere: true,
            ..Scan::figure3(Access::Relation, true, degree)
        };
        let arrivals = Arrivals::Open(5_000 * MS);
        let extent = Extent {
            warm_up: 0,
            measured: 12,
            population_max: 1_000,
        };
        let relation = Relation {
            tuples: 40_000,
            ..Relation::figure3(8)
        };
        let class = class(Work::Scan(scan), arrivals, 8);
        System::new(machine, relation, vec![class], extent, 1).run()
    };
    let scans = [CacheFill::Read, CacheFill::Asked].map(|fill| run(fill, Degree::Fixed(8)));
    let pages = scans.map(|outcome| outcome.pages_read);
    assert!(pages[1] > 2 * pages[0], "read again: {pages:?}");
    let ours = run(CacheFill::Asked, chosen(8));
    assert!(
        ours.pages_read <= 12 * 4_000 * 11 / 10,
        "each page about once a scan: {}",
        ours.pages_read
    );
}

#[test]
fn a_scan_of_a_range_of_the_partitioning_attribute_reads_its_disks_only() {
    let scan = Scan::figure3(Access::Partitions, true, Degree::Fixed(1));
    let outcome = one_scan(exact(1, 100), scan);
    assert!(
        outcome.pages_read <= 3 * 125,
        "1 % of the tuples: 1 to 3 of 100 disks"
    );
}

#[test]
fn fewer_slots_than_subqueries_make_them_wait() {
    let machine = Machine {
        subqueries_max: 1,
        ..exact(2, 8)
    };
    let scan = Scan::figure3(Access::Relation, true, Degree::Fixed(8));
    let narrow = one_scan(machine, scan).classes[0].mean_s();
    let wide = one_scan(exact(2, 8), scan).classes[0].mean_s();
    assert!(
        narrow > 3.0 * wide,
        "four turns on each node: {narrow} {wide}"
    );
}

/// All kinds of work at once, with writers on the scanned relation, small memories and few slots.
fn crowd(seed: u64) -> System {
    let machine = Machine {
        processors: 2,
        buffer_pages: 20,
        cache_pages: 40,
        cache_scope: [CacheScope::Shared, CacheScope::PerDisk, CacheScope::Divided]
            [usize::try_from(seed % 3).expect("below 3")],
        cache_fill: [CacheFill::Asked, CacheFill::Read][usize::from(seed % 5 == 2)],
        controller_scope: [ControllerScope::Shared, ControllerScope::PerDisk]
            [usize::from(seed % 2 == 1)],
        reads_shared: seed % 4 != 3,
        disk_variation: Variation::Exponential,
        processor_variation: Variation::Exponential,
        queries_max: 6,
        subqueries_max: 5,
        ..Machine::figure3(4, 8)
    };
    let relation = Relation {
        tuples: 4_000,
        entries_per_page: 20,
        transaction_pages: 50,
        ..Relation::figure3(8)
    };
    let scan = |access, degree, page_locks| {
        Work::Scan(Scan {
            selectivity_ppm: 50_000,
            assignment: Assignment::LeastBusy,
            anywhere: true,
            page_locks,
            ..Scan::figure3(access, true, Degree::Fixed(degree))
        })
    };
    let chosen = Work::Scan(Scan {
        selectivity_ppm: 300_000,
        ..Scan::figure3(Access::Partitions, true, chosen(3))
    });
    let transaction = |on_relation| {
        Work::Transaction(Transaction {
            pages: 4,
            writes: true,
            on_relation,
        })
    };
    let every = |ms: u64| Arrivals::Open(ms * MS);
    let classes = vec![
        class(scan(Access::Relation, 4, false), every(2_000), 4),
        class(scan(Access::ClusteredIndex, 2, true), every(300), 4),
        class(scan(Access::NonClusteredIndex, 3, true), every(1_000), 3),
        class(scan(Access::Partitions, 2, false), every(900), 4),
        class(transaction(true), every(150), 4),
        class(transaction(false), every(100), 2),
        class(chosen, every(3_000), 4),
    ];
    let extent = Extent {
        warm_up: 2,
        measured: 30,
        population_max: 10_000,
    };
    System::new(machine, relation, classes, extent, seed)
}

#[test]
fn every_invariant_holds_after_every_event() {
    for seed in 0..4 {
        let mut system = crowd(seed);
        let mut steps = 0_u64;
        loop {
            let more = system.step();
            steps += 1;
            if steps < 20_000 || steps.is_multiple_of(101) {
                system.check();
            }
            assert!(steps < 20_000_000, "seed {seed}: the scans do not end");
            if !more {
                break;
            }
        }
        let outcome = system.outcome();
        assert!(outcome.sustained);
        assert_eq!(outcome.classes[0].responses.len(), 30, "seed {seed}");
        for (at, class) in outcome.classes.iter().enumerate() {
            assert!(!class.responses.is_empty(), "seed {seed}, class {at}");
        }
    }
}

#[test]
fn a_seed_fixes_a_run() {
    assert_eq!(crowd(5).run(), crowd(5).run());
    assert_ne!(crowd(5).run(), crowd(6).run());
}

/// Scans that lock pages see the changes of writers: copies on other nodes are dropped, not read.
#[test]
fn writers_make_readers_wait_and_read_again() {
    let classes = |rate_ms: Option<u64>| {
        let scan = Scan {
            assignment: Assignment::Random,
            ..Scan::figure3(Access::Relation, true, Degree::Fixed(2))
        };
        let mut classes = vec![class(Work::Scan(scan), Arrivals::OneByOne, 2)];
        if let Some(ms) = rate_ms {
            let transaction = Transaction {
                pages: 4,
                writes: true,
                on_relation: true,
            };
            let work = Work::Transaction(transaction);
            classes.push(class(work, Arrivals::Open(ms * MS), 2));
        }
        classes
    };
    let relation = Relation {
        tuples: 2_000,
        ..Relation::figure3(2)
    };
    let extent = Extent {
        warm_up: 2,
        measured: 20,
        population_max: 1_000,
    };
    // The relation, 200 pages, is in every buffer: only changes cause reads.
    let run = |rate_ms| System::new(exact(2, 2), relation, classes(rate_ms), extent, 3).run();
    let (quiet, busy) = (run(None), run(Some(20)));
    assert_eq!(quiet.pages_read, 0, "all in buffers");
    assert!(busy.classes[0].mean_s() > 1.1 * quiet.classes[0].mean_s());
    let lock_wait = busy.classes[1].mean_s();
    assert!(lock_wait > 0.02, "a writer waits for scans: {lock_wait}");
}

/// The size that the model is meant for. Its events per second are in docs/results.
#[test]
fn a_thousand_nodes_and_four_thousand_disks() {
    let relation = Relation {
        tuples: 1_250_000,
        ..Relation::figure3(4_000)
    };
    let scan = Scan::figure3(Access::Relation, true, Degree::Fixed(1_000));
    let arrivals = Arrivals::per_kilosecond(2_000);
    let class = class(Work::Scan(scan), arrivals, 1_000);
    let extent = Extent {
        warm_up: 1,
        measured: 3,
        population_max: 1_000,
    };
    let machine = Machine {
        cache_pages: 62_500,
        ..exact(1_000, 4_000)
    };
    let outcome = System::new(machine, relation, vec![class], extent, 1).run();
    assert!(outcome.sustained);
    assert_eq!(outcome.classes[0].responses.len(), 3);
    assert!(outcome.events > 1_000_000, "{}", outcome.events);
}
