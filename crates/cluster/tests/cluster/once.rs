//! Promised: while several queries run at once, each chunk of a table is read by one node only,
//! and all of them together read hardly more than one process does.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, Int64Array, RecordBatch};
use futures::future::join_all;

use crate::common;
use crate::workers::{self, rows};

/// A table of one file with 40 row groups, so that a chunk has the same number on every node.
fn table(path: &Path) {
    let numbers = |of: fn(i64) -> i64| {
        let numbers = Int64Array::from_iter_values((0..80_000).map(of));
        Arc::new(numbers) as Arc<dyn Array>
    };
    let columns = [
        ("k", numbers(|n| n % 5)),
        ("v", numbers(|n| n * 7919 % 65_537)),
        ("w", numbers(|n| n * n % 10_007)),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    common::write(path, batch.schema(), &[batch], 2_000);
}

/// The queries read the same columns, and differ in what they compute.
fn queries() -> Vec<String> {
    let query =
        |at: u32| format!("SELECT k, count(*), sum(v), max(w) FROM t WHERE v > {at} GROUP BY k");
    (0..8).map(query).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_chunk_is_read_by_one_node() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    table(&path);
    let tables = [("t", path.as_path())];
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

    let loads = |engine: &coscan::Engine| engine.trace().iter().map(|load| load.bytes).sum::<u64>();
    let together: u64 = workers.iter().map(|worker| loads(&worker.engine)).sum();
    assert_eq!(together, loads(alone.engine()));
    // Devices round both ends of a request to sectors, and every node reads the footer, once.
    let devices = workers.iter().map(|worker| worker.engine.metrics());
    let (bytes, rounded) = devices.fold((0, 0), |(bytes, rounded), done| {
        (bytes + done.io_bytes, rounded + done.io_requests * 2 * 4096)
    });
    let footers = 3 * (128 << 10);
    assert!(
        bytes <= together + rounded + footers,
        "{bytes} bytes from devices, not {together}"
    );
}
