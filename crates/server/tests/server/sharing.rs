//! Promised: work that queries of several connections have in common is done once: joins,
//! aggregates and whole queries, even though the server has changed their plans so that joins
//! yield.

use coscan::{Engine, EngineConfig};
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
