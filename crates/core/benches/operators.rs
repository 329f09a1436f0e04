//! What do the decisions of shared operators cost with 1,000 packets in flight?
//!
//! With 1,000 runs of one packet each, a packet joins one of them and leaves. In the other worlds
//! query n is ahead in run n, whose list is full, and the next query has taken no batch of it, so
//! each query waits for the next one. In the chain the last query does not wait, and the search
//! for a cycle visits all of them in vain; in the cycle the last query waits for the first, and
//! the cheapest list is materialised.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what the core must not know, its bench measures"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use coscan_core::operators::{
    Action, Config, Keep, OperatorKind, Operators, Owner, PacketId, Pull, Request, RunId,
};
use criterion::{Criterion, criterion_group, criterion_main};

const PACKETS: u64 = 1_000;
const BATCH: u64 = 100;
const CONFIG: Config = Config {
    run_bytes_max: BATCH,
    bytes_max: 1 << 40,
    windows_max: 2_000,
    kept_max: 0,
    kept_bytes_min: 0,
};

fn arrive(core: &mut Operators<u64>, key: u64, query: u64) -> (PacketId, RunId) {
    let request = Request {
        kind: OperatorKind::Sort,
        partitions: 1,
        owner: Owner::Query(query),
        cost_bytes: 1 << 30,
        keep_bytes_max: 0,
        overhead_bytes: 0,
    };
    let arrived = core.arrive(key, request).expect("there is a window");
    (arrived.packet, arrived.run)
}

fn produce(core: &mut Operators<u64>, packet: PacketId, run: RunId, bytes: u64) {
    assert_eq!(core.pull(packet, 0), Pull::Poll);
    let keep = core.place(run, 0, bytes, true);
    assert_eq!(keep, Keep::Memory);
    assert!(core.produced(run, 0, bytes, keep));
}

fn drain(core: &mut Operators<u64>) {
    while let Some(action) = core.poll_action() {
        black_box::<Action>(action);
    }
}

/// A world in which each query except the first waits at a full list for the next one; the last
/// waits for the first only if `closed`. Returns the packet with which the first query will wait.
fn queries(count: u64, closed: bool) -> (Operators<u64>, PacketId) {
    let mut core = Operators::new(CONFIG);
    let mut hosts = Vec::new();
    for run in 0..count {
        let (host, id) = arrive(&mut core, run, run);
        arrive(&mut core, run, (run + 1) % count);
        // The lists of the runs in the middle retain least.
        produce(&mut core, host, id, 2 * BATCH + run.abs_diff(count / 2));
        hosts.push(host);
    }
    let waiting = if closed {
        &hosts[1..]
    } else {
        &hosts[1..hosts.len() - 1]
    };
    for host in waiting {
        assert_eq!(core.pull(*host, 0), Pull::Full);
    }
    drain(&mut core);
    (core, hosts[0])
}

fn measure(c: &mut Criterion) {
    let mut core = Operators::new(CONFIG);
    (0..PACKETS).for_each(|run| {
        arrive(&mut core, run, run);
    });
    let mut key = 0;
    c.bench_function("1,000 runs: a packet arrives and leaves", |b| {
        b.iter(|| {
            key = (key + 7) % PACKETS;
            let (packet, _) = arrive(&mut core, key, PACKETS);
            core.leave(packet);
            drain(&mut core);
        });
    });

    let (mut core, first) = queries(PACKETS / 2, false);
    c.bench_function("1,000 packets in a chain: a wait begins", |b| {
        b.iter(|| assert_eq!(core.pull(first, 0), Pull::Full));
    });

    c.bench_function("1,000 packets in a cycle: it is found and broken", |b| {
        b.iter_custom(|times| {
            let mut spent = Duration::ZERO;
            for _ in 0..times {
                let (mut core, first) = queries(PACKETS / 2, true);
                let begun = Instant::now();
                let pulled = core.pull(first, 0);
                spent += begun.elapsed();
                assert_eq!(pulled, Pull::Full);
                drain(&mut core);
            }
            spent
        });
    });
}

criterion_group!(benches, measure);
criterion_main!(benches);
