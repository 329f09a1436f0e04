//! Promised: whichever packets arrive, are cancelled, fail, stall or read in crossing orders,
//! every packet gets each batch of its run once and in order, or none of them and runs its own
//! plan; retained batches are needed by a packet or keep a window open; and once no reader stalls,
//! every query ends without any packet being impatient. The oracle is a plan's own output, batch
//! by batch.

mod draw;
mod operators_world;

use coscan_core::operators::{
    Action, Arrived, Config, Keep, OperatorKind, Operators, Owner, PacketId, Pull, Request, Role,
    RunId,
};
use operators_world::{Seen, World};

#[test]
fn ten_thousand_worlds() {
    let mut all = Seen::default();
    for seed in 0..10_000 {
        all.add(&World::new(seed).run());
    }
    // A world in which nothing happens proves nothing.
    assert!(
        all.deadlocks > 100 && all.reruns > 100 && all.to_disk > 100,
        "{all:?}"
    );
    assert!(all.late > 1_000, "{all:?}");
    assert!(all.shared > 50_000 && all.failed > 1_000, "{all:?}");
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in 0..50 {
        assert_eq!(
            World::new(seed).run(),
            World::new(seed).run(),
            "seed {seed}"
        );
    }
}

/// Bytes that a kept run takes in addition to its batches.
const OVERHEAD: u64 = 1 << 10;

const CONFIG: Config = Config {
    run_bytes_max: 100,
    bytes_max: 1_000,
    windows_max: 10,
    kept_max: 10,
    kept_bytes_min: 0,
};

fn request(kind: OperatorKind, owner: u64) -> Request {
    Request {
        kind,
        partitions: 1,
        owner: Owner::Query(owner),
        cost_bytes: 1_000,
        keep_bytes_max: 0,
        overhead_bytes: OVERHEAD,
    }
}

fn arrive(core: &mut Operators<&'static str>, kind: OperatorKind, owner: u64) -> (PacketId, RunId) {
    let arrived = core.arrive("key", request(kind, owner)).expect("shared");
    (arrived.packet, arrived.run)
}

/// The packet polls and gets a batch of `bytes` bytes.
fn produce(core: &mut Operators<&'static str>, packet: PacketId, run: RunId, bytes: u64) -> Keep {
    assert_eq!(core.pull(packet, 0), Pull::Poll);
    let keep = core.place(run, 0, bytes, true);
    assert!(core.produced(run, 0, bytes, keep));
    core.check();
    keep
}

#[test]
fn a_step_is_open_while_everything_is_retained() {
    let mut core = Operators::new(CONFIG);
    let (host, run) = arrive(&mut core, OperatorKind::Aggregate, 1);
    assert_eq!(produce(&mut core, host, run, 60), Keep::Memory);
    let late = core.arrive("key", request(OperatorKind::Aggregate, 2));
    let late = late.expect("shared");
    assert_eq!((late.role, late.run), (Role::Satellite, run));
    assert_eq!(core.pull(late.packet, 0), Pull::Take(0));
    assert_eq!(core.pull(late.packet, 0), Pull::Poll);
    core.pending(run, 0);
    assert_eq!(core.pull(host, 0), Pull::Wait);
    core.ready(run, 0);
    assert_eq!(produce(&mut core, host, run, 60), Keep::Memory, "needed");
    let third = core.arrive("key", request(OperatorKind::Aggregate, 3));
    assert_eq!(
        third.expect("shared").role,
        Role::Host,
        "the window is closed"
    );
    core.check();
}

#[test]
fn a_spike_is_open_until_the_first_batch() {
    let mut core = Operators::new(CONFIG);
    let (host, run) = arrive(&mut core, OperatorKind::OrderedScan, 1);
    assert_eq!(produce(&mut core, host, run, 1), Keep::Drop);
    let late = core.arrive("key", request(OperatorKind::OrderedScan, 2));
    assert_eq!(late.expect("shared").role, Role::Host);
    assert!(core.arrive("key", request(OperatorKind::Scan, 3)).is_none());
}

#[test]
fn a_full_window_goes_to_disk_once_a_satellite_has_joined() {
    let mut core = Operators::new(CONFIG);
    let (host, run) = arrive(&mut core, OperatorKind::HashBuild, 1);
    let (satellite, _) = arrive(&mut core, OperatorKind::HashBuild, 2);
    assert_eq!(produce(&mut core, host, run, 80), Keep::Memory);
    assert_eq!(produce(&mut core, host, run, 80), Keep::Disk);
    assert_eq!(produce(&mut core, host, run, 20), Keep::Memory);
    for batch in 0..3 {
        assert_eq!(core.pull(satellite, 0), Pull::Take(batch));
    }
    let late = core.arrive("key", request(OperatorKind::HashBuild, 3));
    assert_eq!(late.expect("shared").role, Role::Satellite);
    core.check();
}

#[test]
fn a_slow_satellite_reruns_or_its_list_goes_to_disk() {
    for (cost_bytes, reruns) in [(10, true), (10_000, false)] {
        let mut core = Operators::new(CONFIG);
        let request = |owner| Request {
            cost_bytes,
            ..request(OperatorKind::Sort, owner)
        };
        let host = core.arrive("key", request(1)).expect("shared");
        let slow = core.arrive("key", request(2)).expect("shared").packet;
        let (run, host) = (host.run, host.packet);
        produce(&mut core, host, run, 80);
        produce(&mut core, host, run, 80);
        assert_eq!(core.pull(host, 0), Pull::Full);
        core.impatient(host, 0);
        let kept = produce(&mut core, host, run, 80);
        if reruns {
            assert_eq!(kept, Keep::Drop);
            assert_eq!(core.pull(slow, 0), Pull::Rerun);
        } else {
            assert_eq!(kept, Keep::Disk);
            assert_eq!(core.pull(slow, 0), Pull::Take(0));
        }
        core.check();
    }
}

#[test]
fn two_queries_that_read_crosswise_do_not_deadlock() {
    let mut core = Operators::new(CONFIG);
    let both = |core: &mut Operators<&'static str>, key| {
        let one = core.arrive(key, request(OperatorKind::Sort, 1));
        let two = core.arrive(key, request(OperatorKind::Sort, 2));
        let (one, two) = (one.expect("shared"), two.expect("shared"));
        (one.packet, two.packet, one.run)
    };
    let (a1, a2, a) = both(&mut core, "a");
    let (b1, b2, b) = both(&mut core, "b");
    produce(&mut core, a1, a, 120);
    produce(&mut core, b2, b, 130);
    // The first query wants all of a before b, the second all of b before a.
    assert_eq!(core.pull(a1, 0), Pull::Full);
    core.check();
    assert_eq!(core.pull(b2, 0), Pull::Full, "the other list is cheaper");
    core.check();
    assert!(
        std::iter::from_fn(|| core.poll_action()).any(|action| action
            == Action::Wake {
                run: a,
                partition: 0
            })
    );
    assert_eq!(produce(&mut core, a1, a, 120), Keep::Disk);
    assert_eq!(core.pull(b1, 0), Pull::Take(0));
    assert_eq!(core.pull(b2, 0), Pull::Poll);
    core.pending(b, 0);
    assert_eq!(core.pull(a2, 0), Pull::Take(0));
    core.check();
}

#[test]
fn an_error_reaches_packets_that_have_taken_a_batch() {
    let mut core = Operators::new(CONFIG);
    let (host, run) = arrive(&mut core, OperatorKind::Sort, 1);
    let (taken, _) = arrive(&mut core, OperatorKind::Sort, 2);
    let (untouched, _) = arrive(&mut core, OperatorKind::Sort, 3);
    produce(&mut core, host, run, 10);
    assert_eq!(core.pull(taken, 0), Pull::Take(0));
    assert_eq!(core.pull(taken, 0), Pull::Poll);
    core.failed(run, 0);
    core.check();
    assert_eq!(core.pull(taken, 0), Pull::Failed);
    assert_eq!(core.pull(host, 0), Pull::Failed);
    assert_eq!(core.pull(untouched, 0), Pull::Rerun);
    let again = core.arrive("key", request(OperatorKind::Sort, 4));
    assert_eq!(again.expect("shared").role, Role::Host);
    for packet in [host, taken, untouched] {
        core.leave(packet);
        core.check();
    }
}

#[test]
fn windows_close_when_memory_is_short() {
    let mut core = Operators::new(CONFIG);
    let (host, run) = arrive(&mut core, OperatorKind::Sort, 1);
    let (behind, _) = arrive(&mut core, OperatorKind::Sort, 2);
    for _ in 0..3 {
        produce(&mut core, host, run, 20);
    }
    assert_eq!(core.pull(behind, 0), Pull::Take(0));
    assert_eq!(core.shrink(1), 20, "what the second has taken");
    assert_eq!(core.shrink(1), 0, "the rest is needed");
    core.check();
    core.leave(behind);
    assert_eq!(produce(&mut core, host, run, 20), Keep::Drop);
}

#[test]
fn a_packet_that_polls_one_partition_does_not_rerun_for_another() {
    let mut core = Operators::new(CONFIG);
    let request = |owner| Request {
        partitions: 2,
        ..request(OperatorKind::Sort, owner)
    };
    let host = core.arrive("key", request(1)).expect("shared");
    let satellite = core.arrive("key", request(2)).expect("shared").packet;
    assert_eq!(core.pull(satellite, 0), Pull::Poll);
    assert_eq!(core.pull(host.packet, 1), Pull::Poll);
    core.failed(host.run, 1);
    // The stream that it polls may still give it a batch.
    assert_eq!(core.pull(satellite, 1), Pull::Failed);
    assert!(
        !core.produced(host.run, 0, 1, Keep::Drop),
        "it counts for nothing"
    );
    assert_eq!(core.pull(satellite, 0), Pull::Failed, "it has seen an end");
    core.check();
}

/// A run of `bytes` bytes, read to its end by one packet, which leaves.
fn keep(core: &mut Operators<&'static str>, key: &'static str, bytes: u64, cost_bytes: u64) {
    let request = Request {
        cost_bytes,
        keep_bytes_max: 2 * OVERHEAD + 100,
        ..request(OperatorKind::Aggregate, 1)
    };
    let Arrived { packet, run, role } = core.arrive(key, request).expect("shared");
    if role == Role::Host {
        produce(core, packet, run, bytes);
        assert_eq!(core.pull(packet, 0), Pull::Poll);
        core.ended(run, 0);
    } else {
        assert_eq!((role, core.pull(packet, 0)), (Role::Late, Pull::Take(0)));
    }
    assert_eq!(core.pull(packet, 0), Pull::End);
    core.leave(packet);
    core.check();
}

fn kept(core: &Operators<&'static str>) -> (u64, u64) {
    let engine = core.micro_engines()[&OperatorKind::Aggregate];
    (engine.kept, engine.retained_bytes)
}

#[test]
fn an_ended_run_stays_for_later_packets() {
    let mut core = Operators::new(CONFIG);
    keep(&mut core, "a", 60, 10);
    assert_eq!(kept(&core), (1, 60));
    let engine = core.micro_engines()[&OperatorKind::Aggregate];
    assert_eq!(engine.overhead_bytes, OVERHEAD);
    assert!(
        std::iter::from_fn(|| core.poll_action())
            .any(|action| matches!(action, Action::Keep { .. }))
    );
    let again = core.arrive("a", request(OperatorKind::Aggregate, 2));
    assert!(again.is_none(), "it does not read kept runs");
    // `keep` asserts that this packet came late.
    keep(&mut core, "a", 60, 10);
    assert_eq!(core.micro_engines()[&OperatorKind::Aggregate].done.late, 1);
    let mut spared = core.clone();
    spared.configure(Config {
        kept_bytes_min: OVERHEAD + 60,
        ..CONFIG
    });
    assert_eq!(spared.shrink(1), 0, "a little stays");
    assert_eq!(core.shrink(1), 60 + OVERHEAD, "memory is short");
    assert_eq!(kept(&core), (0, 0));
    core.check();
}

#[test]
fn cheap_runs_are_dropped_first_and_unused_ones_in_the_end() {
    let mut core = Operators::new(CONFIG);
    let is_kept = |core: &Operators<&'static str>, key| {
        let request = Request {
            keep_bytes_max: OVERHEAD,
            ..request(OperatorKind::Aggregate, 2)
        };
        let arrived = core.clone().arrive(key, request);
        arrived.expect("shared").role == Role::Late
    };
    keep(&mut core, "dear", 40, 10 * OVERHEAD);
    keep(&mut core, "cheap", 40, OVERHEAD);
    keep(&mut core, "new", 40, 2 * OVERHEAD);
    assert!(is_kept(&core, "dear") && is_kept(&core, "new") && !is_kept(&core, "cheap"));
    for _ in 0..20 {
        keep(&mut core, "one", 40, 2 * OVERHEAD);
        keep(&mut core, "other", 40, 2 * OVERHEAD);
    }
    assert!(!is_kept(&core, "dear"), "no query has asked for it");
}

#[test]
fn an_incomplete_run_is_not_kept() {
    let mut core = Operators::new(CONFIG);
    let request = Request {
        keep_bytes_max: 10 * OVERHEAD,
        ..request(OperatorKind::Aggregate, 1)
    };
    // Not kept: a run cancelled before its end, a run without retained batches, a run whose
    // request forbids keeping.
    let half = core.arrive("half", request).expect("shared");
    produce(&mut core, half.packet, half.run, 10);
    core.leave(half.packet);
    let large = core.arrive("large", request).expect("shared");
    produce(&mut core, large.packet, large.run, 101);
    assert_eq!(core.pull(large.packet, 0), Pull::Poll);
    core.ended(large.run, 0);
    core.leave(large.packet);
    let none = Request {
        keep_bytes_max: 0,
        ..request
    };
    let none = core.arrive("none", none).expect("shared");
    assert_eq!(core.pull(none.packet, 0), Pull::Poll);
    core.ended(none.run, 0);
    core.leave(none.packet);
    core.check();
    assert_eq!(kept(&core), (0, 0));
}
