//! Promised: while several queries run at once, each chunk of a table is read by one node only,
//! and all of them together read hardly more than one process does.

use std::collections::BTreeSet;

use futures::future::join_all;

use crate::common;
use crate::workers::{self, rows};

/// The queries read the same columns, and differ in what they compute.
fn queries() -> Vec<String> {
    let query = |at: u32| {
        format!(
            "SELECT l_linestatus, count(*), sum(l_quantity), max(l_extendedprice) FROM lineitem \
             WHERE l_quantity > {at} GROUP BY l_linestatus"
        )
    };
    (0..8).map(query).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_chunk_is_read_by_one_node() {
    let tables = common::tpch_tables(&common::tpch(0.01));
    let tables = common::borrowed(&tables);
    let alone = common::session(workers::config(), &tables).await;
    let mut expected = vec![];
    for sql in queries() {
        expected.push(rows(&alone, &sql).await.unwrap());
    }
    let workers = workers::start(3);
    let session = workers::session(&workers, &tables).await;
    let sqls = queries();
    let found = join_all(sqls.iter().map(|sql| rows(&session, sql))).await;
    let found: Vec<Vec<String>> = found.into_iter().map(Result::unwrap).collect();
    assert_eq!(found, expected);

    let chunks = |engine: &coscan::Engine| -> BTreeSet<u32> {
        engine.trace().iter().map(|load| load.chunk).collect()
    };
    let all = chunks(alone.engine());
    assert!(all.len() > 8, "the table has {} chunks", all.len());
    let mut read = BTreeSet::new();
    for worker in &workers {
        let own = chunks(&worker.engine);
        assert!(!own.is_empty(), "every node has chunks");
        assert!(
            read.is_disjoint(&own),
            "two nodes read a chunk: {read:?}, {own:?}"
        );
        read.extend(own);
    }
    assert_eq!(read, all);

    // Every node reads every footer once, and the loads of one process once.
    let loads = |engine: &coscan::Engine| engine.trace().iter().map(|load| load.bytes).sum::<u64>();
    let together: u64 = workers.iter().map(|worker| loads(&worker.engine)).sum();
    assert_eq!(together, loads(alone.engine()));
    let footers = alone.engine().metrics().io_bytes - loads(alone.engine());
    let on_devices: u64 = workers
        .iter()
        .map(|worker| worker.engine.metrics().io_bytes)
        .sum();
    assert!(
        on_devices <= together + 3 * footers,
        "{on_devices} bytes from devices, {together} of chunks, {footers} of footers"
    );
}
