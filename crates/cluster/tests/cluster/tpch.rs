//! Promised: TPC-H's queries have the same rows on one worker, on three, and in one process; the
//! workers read with cooperative scans, and do partial aggregates chunk by chunk.

use std::fmt::Write;

use crate::common;
use crate::workers::{self, rows};

/// Small, but every table but two has several chunks.
const SCALE: f64 = 0.05;

fn text(query: u32) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    std::fs::read_to_string(format!("{root}/../engine/tests/tpch/q{query:02}.sql")).unwrap()
}

async fn all_queries_on(count: usize) {
    let tables = common::tpch_tables(&common::tpch(SCALE));
    let tables = common::borrowed(&tables);
    let workers = workers::start(count);
    let session = workers::session(&workers, &tables).await;
    let alone = common::session(workers::config(), &tables).await;
    let mut wrong = String::new();
    for query in 1..=22 {
        let sql = text(query);
        let expected = rows(&alone, &sql).await.unwrap();
        match rows(&session, &sql).await {
            Ok(found) if found == expected => {}
            Ok(found) => writeln!(wrong, "q{query}: {found:?}\nnot {expected:?}").unwrap(),
            Err(error) => writeln!(wrong, "q{query}: {error}").unwrap(),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(
        session.engine().metrics().decode_bytes,
        0,
        "the coordinator reads no rows"
    );
    for worker in &workers {
        let done = worker.engine.metrics();
        assert!(
            done.io_bytes > 0,
            "a worker reads with cooperative scans: {done:?}"
        );
        assert!(
            done.fragment_jobs > 0,
            "a worker does partial aggregates by chunk: {done:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_queries_on_one_worker() {
    all_queries_on(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_queries_on_three_workers() {
    all_queries_on(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_runs_on_as_many_nodes_as_it_needs() {
    let tables = common::tpch_tables(&common::tpch(SCALE));
    let tables = common::borrowed(&tables);
    let workers = workers::start(4);
    let addresses: Vec<_> = workers.iter().map(|worker| worker.address).collect();
    let sql = "SELECT l_returnflag, count(*), sum(l_tax) FROM lineitem GROUP BY 1";
    let alone = common::session(workers::config(), &tables).await;
    let expected = rows(&alone, sql).await.unwrap();
    let mut before: Vec<String> = vec![];
    for (bytes, nodes) in [(u64::MAX, 1), (6_000_000, 2), (1, 4)] {
        let cluster = workers::cluster(&addresses, bytes);
        let session = workers::session_on(&cluster, &tables).await;
        assert_eq!(
            rows(&session, sql).await.unwrap(),
            expected,
            "{nodes} nodes"
        );
        let plan = session.explain(sql).await.unwrap();
        let named = |address: &&std::net::SocketAddr| plan.contains(&format!("node={address},"));
        let named: Vec<String> = addresses
            .iter()
            .filter(named)
            .map(ToString::to_string)
            .collect();
        assert_eq!(named.len(), nodes, "{plan}");
        assert!(
            before.iter().all(|node| named.contains(node)),
            "nodes of P are among those of 2P"
        );
        before = named;
    }
}
