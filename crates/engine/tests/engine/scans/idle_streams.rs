//! Promised: a stream that is not read holds no frame, no page and no right to decode. When it is
//! read again, it returns plain DataFusion's rows, each once: whole scans, few rows, unions,
//! joins, and index scans.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use coscan::{EngineConfig, Session};
use futures::{StreamExt, stream};
use parquet::file::properties::WriterProperties;

use crate::common::{self, collect, config, plain, plain_rows, rows};
use crate::indexes::run;

const ROWS: i64 = 60_000;

/// `k` is every number below [`ROWS`] once, scattered.
fn write(path: &Path) {
    let k = || (0..ROWS).map(|row| row * 7919 % ROWS);
    let name = |k: i64| format!("{k} has a name of some length, {}", k * 7919);
    let batch = RecordBatch::try_from_iter([
        ("k", Arc::new(Int64Array::from_iter_values(k())) as ArrayRef),
        ("x", Arc::new(Int64Array::from_iter_values(0..ROWS)) as _),
        (
            "name",
            Arc::new(StringArray::from_iter_values(k().map(name))) as _,
        ),
    ]);
    let batch = batch.unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(10_000))
        .set_data_page_row_count_limit(500)
        .set_write_batch_size(500)
        .build();
    common::write_with(path, batch.schema(), &[batch], properties);
}

async fn nothing_is_held(session: &Session) {
    let engine = session.engine();
    let begun = Instant::now();
    loop {
        let pools = engine.snapshots();
        let scans = pools.iter().flat_map(|pool| &pool.scans);
        let held: u64 = scans.map(|scan| scan.chunks_held).sum();
        let mut chunks = pools.iter().flat_map(|pool| &pool.chunks);
        let pages = engine.memory().page_bytes();
        if held == 0 && pages == 0 && chunks.all(|chunk| chunk.pinned.is_empty()) {
            return;
        }
        let patience = Duration::from_secs(30);
        assert!(begun.elapsed() < patience, "{held} chunks, {pages} bytes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_not_read_hold_nothing_and_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write(&path);
    let theirs = plain(&[("t", &path)]).await;
    let config = EngineConfig {
        buffer_bytes_max: Some(1 << 20),
        index_folder: Some(folder.path().join("indexes").to_str().unwrap().to_owned()),
        ..config()
    };
    let session = common::session(config, &[("t", &path)]).await;
    run(&session, "CREATE INDEX i ON t (k)").await.unwrap();
    rows(&session, "SET datafusion.execution.batch_size = 128").await;
    let whole = [
        "SELECT * FROM t",
        "SELECT name, x FROM t WHERE k % 3 = 1",
        // Few rows in each chunk, so that rows are put aside and picked.
        "SELECT name, x FROM t WHERE k % 70 = 3",
        "SELECT x FROM t WHERE k < 50000 UNION ALL SELECT k FROM t",
        "SELECT a.name, b.x FROM t a JOIN t b ON a.k = b.x WHERE b.k % 5 = 1",
    ];
    let by_index = [
        "SELECT name, x FROM t WHERE k BETWEEN 10000 AND 40000",
        "SELECT name FROM t WHERE k < 600",
    ];
    let mut streams = Vec::new();
    for (sql, path) in whole
        .iter()
        .map(|sql| (sql, "full"))
        .chain(by_index.iter().map(|sql| (sql, "index")))
    {
        rows(&session, &format!("SET coscan.access_path = '{path}'")).await;
        let mut stream = session.sql(sql).await.unwrap();
        let first = stream.next().await.unwrap().unwrap();
        streams.push((sql, first, stream));
    }
    nothing_is_held(&session).await;
    // Other queries take the memory in the meantime.
    rows(&session, "SET coscan.access_path = 'full'").await;
    rows(&session, "SELECT max(name), sum(x), min(k) FROM t").await;
    for (sql, first, stream) in streams {
        // Each stream reads one more batch, then stops.
        let schema = stream.schema();
        let mut stream = stream.boxed();
        let second = stream.next().await.transpose().unwrap();
        nothing_is_held(&session).await;
        let before = [Some(first), second].into_iter().flatten().map(Ok);
        let all = stream::iter(before).chain(stream);
        let all = datafusion::physical_plan::stream::RecordBatchStreamAdapter::new(schema, all);
        let mut ours = collect(Box::pin(all)).await.unwrap();
        ours.sort_unstable();
        assert_eq!(ours, plain_rows(&theirs, sql).await, "{sql}");
    }
}
