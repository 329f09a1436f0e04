//! Promised: pages that an index scan reads on its own take little of the memory, under every
//! access path, however large they are.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use coscan::EngineConfig;
use parquet::file::properties::WriterProperties;

use super::index_scans::run;
use crate::common::{self, memory_comes_back, plain, plain_rows, rows};

const ROWS: i64 = 100_000;
const MEMORY: u64 = 16 << 20;

/// Eight columns that do not compress, 6.4 MB; the values of `k` are scattered over the table.
fn write(path: &Path, page_rows: usize) {
    let column = |factor: i64| -> ArrayRef {
        let mixed = move |n: i64| (n * 7_919 + factor).wrapping_mul(0x5851_f42d_4c95_7f2d) >> 3;
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(mixed)))
    };
    let key: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..ROWS).map(|n| n * 7_919 % ROWS),
    ));
    let others = (1..8).map(|n| (format!("c{n}"), column(n)));
    let batch = RecordBatch::try_from_iter(std::iter::once(("k".to_owned(), key)).chain(others));
    let batch = batch.unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(page_rows)
        .set_write_batch_size(page_rows)
        .build();
    common::write_with(path, batch.schema(), &[batch], properties);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_on_their_way_are_few_beside_memory() {
    for page_rows in [128, 4_096] {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("0.parquet"), page_rows);
        let path = folder.path().join("");
        let small = EngineConfig {
            memory_bytes: Some(MEMORY),
            chunk_bytes: 4 << 20,
            latency: Duration::from_millis(2),
            ..common::config()
        };
        let session = common::session(small, &[("t", &path)]).await;
        let plain = plain(&[("t", &path)]).await;
        run(&session, "CREATE INDEX i ON t (k)").await.unwrap();
        // Access path `index` sends one request per row, so it reads fewer rows.
        for (access_path, keys) in [
            ("sort", ROWS / 2),
            ("index", ROWS / 200),
            ("smooth", ROWS / 2),
        ] {
            session.set("coscan.access_path", access_path).unwrap();
            let sql = format!("SELECT * FROM t WHERE k < {keys}");
            let expected = plain_rows(&plain, &sql).await;
            let memory = session.engine().memory();
            let mut most = 0;
            let found = tokio::select! {
                found = rows(&session, &sql) => found,
                () = async {
                    loop {
                        most = most.max(memory.page_bytes());
                        tokio::time::sleep(Duration::from_micros(200)).await;
                    }
                } => unreachable!("the loop does not end"),
            };
            assert!(found == expected, "{access_path}, {page_rows}");
            assert!(most > 0, "{access_path}, {page_rows}: no pages were read");
            // An eighth of the memory, or one job for each of the four streams if that is more,
            // plus the rest of the sectors that are read.
            assert!(most <= MEMORY / 4, "{access_path}, {page_rows}: {most}");
        }
        memory_comes_back(&session).await;
    }
}
