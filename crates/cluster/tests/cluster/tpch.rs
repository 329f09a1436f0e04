//! Promised: TPC-H's queries have the same rows on one worker, on three, and in one process; the
//! workers read with cooperative scans, and do partial aggregates chunk by chunk.

use std::fmt::Write;

use crate::common;
use crate::workers::{self, Worker, rows};

/// Small, but every table but two has several chunks.
const SCALE: f64 = 0.05;

fn text(query: u32) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    std::fs::read_to_string(format!("{root}/../engine/tests/tpch/q{query:02}.sql")).unwrap()
}

async fn all_queries_on(count: usize) -> Vec<Worker> {
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
    workers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_queries_on_one_worker() {
    let workers = all_queries_on(1).await;
    let done = workers[0].engine.metrics();
    assert!(done.operators_hosted > 0, "none may be shared: {done:?}");
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
        // A query on one node runs where most of its chunks are, which may be any of them.
        if nodes > 1 {
            assert!(
                before.iter().all(|node| named.contains(node)),
                "nodes of P are among those of 2P"
            );
            before = named;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_small_build_sides_are_sent_to_all_workers() {
    let tables = common::tpch_tables(&common::tpch(SCALE));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let session = workers::session(&workers, &tables).await;
    let plan = async |sql: &str| {
        let plan = rows(&session, &format!("EXPLAIN {sql}")).await.unwrap();
        plan.concat()
    };
    let small = "SELECT count(*) FROM lineitem JOIN part ON l_partkey = p_partkey";
    let plan_of_small = plan(small).await;
    assert!(
        plan_of_small.contains("NetworkBroadcastExec"),
        "{plan_of_small}"
    );
    let large = "SELECT count(a.l_comment) FROM lineitem a JOIN lineitem b \
                 ON a.l_orderkey = b.l_partkey WHERE a.l_comment < b.l_comment";
    let plan_of_large = plan(large).await;
    assert!(
        !plan_of_large.contains("NetworkBroadcastExec"),
        "{plan_of_large}"
    );
    let alone = common::session(workers::config(), &tables).await;
    assert_eq!(rows(&session, large).await, rows(&alone, large).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_shows_what_each_worker_did() {
    let tables = common::tpch_tables(&common::tpch(SCALE));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let session = workers::session(&workers, &tables).await;
    let sql = "SELECT l_returnflag, count(*) FROM lineitem JOIN orders \
               ON l_orderkey = o_orderkey GROUP BY 1";
    let shown = rows(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
    let shown = shown.unwrap().concat();
    for worker in &workers {
        let own = format!(" on {}:\n", worker.address);
        let (_, plan) = shown.split_once(&own).unwrap_or_else(|| panic!("{shown}"));
        let plan = plan.split("\nStage").next().unwrap();
        assert!(plan.contains("metrics=["), "{plan}");
    }
    assert!(shown.contains("chunks_wanted="), "{shown}");
    let alone = "EXPLAIN ANALYZE SELECT 1";
    let shown = rows(&session, alone).await.unwrap().concat();
    assert!(shown.contains("metrics=["), "{shown}");
}

/// The optional side of an outer join is filtered to one value, and is NULL where nothing matches:
/// DataFusion takes it for constant, and groups by the rest alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_joins_overstate_is_not_believed_on_workers() {
    let tables = common::tpch_tables(&common::tpch(SCALE));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let one = workers::cluster(&[workers[0].address], 1);
    let one = workers::session_on(&one, &tables).await;
    let both = workers::session(&workers, &tables).await;
    let alone = common::session(workers::config(), &tables).await;
    let status = "SELECT o_orderkey, o_orderstatus FROM orders WHERE o_orderstatus = 'F'";
    for grouped in [
        "SELECT x.o_orderstatus, l_linenumber, count(*)",
        "SELECT DISTINCT x.o_orderstatus, l_linenumber, 1",
    ] {
        let by = if grouped.contains("DISTINCT") {
            ""
        } else {
            "GROUP BY x.o_orderstatus, l_linenumber"
        };
        let sql = format!(
            "{grouped} FROM lineitem LEFT JOIN ({status}) x ON l_orderkey = x.o_orderkey {by}"
        );
        for partitions in ["1", "2"] {
            let set = |session: &coscan::Session| {
                session.set("datafusion.execution.target_partitions", partitions)
            };
            for session in [&one, &both, &alone] {
                set(session).unwrap();
            }
            let expected = rows(&alone, &sql).await.unwrap();
            assert_eq!(expected.len(), 14, "{sql}");
            for session in [&one, &both] {
                assert_eq!(rows(session, &sql).await.unwrap(), expected, "{sql}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_of_few_chunks_runs_where_they_are_in_memory() {
    let tables = common::tpch_tables(&common::tpch(SCALE));
    let tables = common::borrowed(&tables);
    let workers = workers::start(3);
    let addresses: Vec<_> = workers.iter().map(|worker| worker.address).collect();
    let cluster = workers::cluster(&addresses, 1 << 20);
    let session = workers::session_on(&cluster, &tables).await;
    let alone = common::session(workers::config(), &tables).await;
    let nodes_of = async |sql: &str| {
        let plan = rows(&session, &format!("EXPLAIN {sql}")).await.unwrap();
        let plan = plan.concat();
        let named = |worker: &&Worker| plan.contains(&format!("node={},", worker.address));
        workers.iter().filter(named).map(|w| w.address).collect()
    };
    let read = || -> u64 { workers.iter().map(|w| w.engine.metrics().io_bytes).sum() };

    let all = "SELECT sum(l_quantity), max(l_orderkey) FROM lineitem";
    let nodes: Vec<_> = nodes_of(all).await;
    assert_eq!(nodes.len(), 3, "it needs all nodes");
    assert_eq!(rows(&session, all).await, rows(&alone, all).await);
    let before = read();
    let mut used = vec![];
    for key in (25_000..300_000).step_by(25_000) {
        // An order's lines; a range of orders may reach into a chunk of another node.
        let few = format!("{all} WHERE l_orderkey = {key}");
        let node: Vec<_> = nodes_of(&few).await;
        assert_eq!(node.len(), 1, "{few}");
        used.extend(node);
        assert_eq!(
            rows(&session, &few).await,
            rows(&alone, &few).await,
            "{few}"
        );
    }
    // A chunk of a column may be read again. Elsewhere two of three would be.
    let again = read() - before;
    assert!(
        again < before / 10,
        "{again} of {before} bytes were read again"
    );
    used.sort_unstable();
    used.dedup();
    assert!(used.len() > 1, "all ran on {used:?}");
}
