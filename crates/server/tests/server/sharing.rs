//! Promised: work that queries of several connections have in common is done once: joins,
//! aggregates and whole queries, even though the server has changed their plans so that joins
//! yield. The rows are those of a client that is alone, in the order that it asked for.

use std::path::Path;
use std::sync::Arc;

use coscan::{Engine, EngineConfig};
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::metadata::SortingColumn;
use datafusion::parquet::file::properties::WriterProperties;
use futures::future::join_all;
use tokio_postgres::SimpleQueryMessage;

use crate::common::TestServer;

const QUERY: &str =
    "SELECT b.g, count(*), sum(a.k) FROM a JOIN b ON a.k = b.k GROUP BY b.g ORDER BY b.g";

fn rows(answer: &[SimpleQueryMessage]) -> Vec<Vec<String>> {
    let rows = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let cells = rows.map(|row| (0..row.len()).map(|n| row.get(n).unwrap_or_default().to_owned()));
    cells.map(Iterator::collect).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_of_another_client_is_shared() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::new(EngineConfig {
        memory_bytes: Some(256 << 20),
        small_table_bytes: 0,
        ..EngineConfig::default()
    });
    let engine = engine.unwrap();
    let session = engine.session();
    for (name, what) in [("a", "value AS k"), ("b", "value AS k, value % 7 AS g")] {
        let path = folder.path().join(format!("{name}.parquet"));
        let path = path.to_str().unwrap();
        let copy = format!(
            "COPY (SELECT {what} FROM generate_series(1, 50000)) TO '{path}' STORED AS PARQUET"
        );
        session
            .context()
            .sql(&copy)
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        session.register(name, path).await.unwrap();
    }
    let server = TestServer::start_on_engine(&engine).await;
    let mut answers = Vec::new();
    let mut after = Vec::new();
    for _ in 0..3 {
        let client = server.connect().await;
        answers.push(rows(&client.simple_query(QUERY).await.unwrap()));
        after.push(engine.metrics());
    }
    assert_eq!(answers[0].len(), 7);
    assert_eq!(answers[0][0], ["0", "7142", "178553571"]);
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    // The operators: the whole query, its aggregate, the join, its hash table and the hash table's
    // input.
    assert_eq!(after[0].operators_hosted, 5);
    assert_eq!((after[2].operators_hosted, after[2].operators_late), (5, 2));
    assert_eq!(after[2].decode_bytes, after[0].decode_bytes);
    let client = server.connect().await;
    let kinds = "SELECT operator FROM coscan.operators WHERE kept > 0 ORDER BY operator";
    let kinds = rows(&client.simple_query(kinds).await.unwrap());
    assert!(kinds.contains(&vec!["hash join".to_owned()]), "{kinds:?}");
    server.stop().await;
}

/// Writes `k`, by which the file says that it is sorted, with three rows of each value, and another
/// column.
fn write_sorted(path: &Path, column: &str, value: impl Fn(i64) -> i64) {
    let numbers = |of: &dyn Fn(i64) -> i64| -> ArrayRef {
        Arc::new((0..SORTED_ROWS).map(of).collect::<Int64Array>())
    };
    let columns = [("k", numbers(&|n| n / 3)), (column, numbers(&value))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(1_000))
        .set_sorting_columns(Some(vec![SortingColumn {
            column_idx: 0,
            descending: false,
            nulls_first: false,
        }]))
        .build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

const SORTED_ROWS: i64 = 6_000;

/// The order of `(l.k, l.a, r.b)`.
type Key = fn(&(i64, i64, i64)) -> [i64; 3];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_of_files_that_are_sorted_by_keys_with_ties_is_sorted_as_each_client_asks() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let value: fn(i64, i64) -> i64 = |n, factor| n * factor % 1_009;
    for (name, column, factor) in [("l", "a", 7_919), ("r", "b", 104_729)] {
        let path = folder.path().join(format!("{name}.parquet"));
        write_sorted(&path, column, |n| value(n, factor));
        let session = engine.session();
        session
            .register(name, path.to_str().unwrap())
            .await
            .unwrap();
    }
    let mut pairs = vec![];
    for n in 0..SORTED_ROWS {
        for partner in n / 3 * 3..n / 3 * 3 + 3 {
            pairs.push((n / 3, value(n, 7_919), value(partner, 104_729)));
        }
    }
    let server = TestServer::start_on_engine(&engine).await;
    let orders: [(&str, Key); 3] = [
        ("r.b, l.a, l.k", |&(k, a, b)| [b, a, k]),
        ("l.k, r.b, l.a", |&(k, a, b)| [k, b, a]),
        ("l.a, l.k, r.b", |&(k, a, b)| [a, k, b]),
    ];
    let clients = (0..6).map(|number| {
        let (server, pairs) = (&server, &pairs);
        async move {
            let (order, key) = orders[number % orders.len()];
            let mut expected = pairs.clone();
            expected.sort_by_key(key);
            let client = server.connect().await;
            for hashes in ["true", "false"] {
                let settings = format!("SET datafusion.optimizer.prefer_hash_join = {hashes}");
                client.batch_execute(&settings).await.unwrap();
                let query =
                    format!("SELECT l.k, l.a, r.b FROM l JOIN r ON l.k = r.k ORDER BY {order}");
                let found = rows(&client.simple_query(&query).await.unwrap());
                let found = found.iter().map(|row| {
                    let number = |at: usize| row[at].parse::<i64>().unwrap();
                    (number(0), number(1), number(2))
                });
                assert!(found.eq(expected.iter().copied()), "ORDER BY {order}");
            }
        }
    });
    join_all(clients).await;
    server.stop().await;
}
