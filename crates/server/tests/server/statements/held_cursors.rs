//! Promised: a cursor WITH HOLD ends with its transaction if that is rolled back. COMMIT computes
//! the cursor's rows, and rolls back if they cannot be computed. Afterwards the cursor has the
//! remaining rows, few or many, each once (P1, S11).

use std::time::{Duration, Instant};

use coscan::{Engine, EngineConfig};

use crate::common::TestServer;
use crate::own_tables::answers;

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_leaves_no_cursor() {
    answers(&[
        ("CREATE TEMP TABLE y (id int)", ""),
        (
            "DECLARE old CURSOR WITH HOLD FOR SELECT x FROM generate_series(1, 3) g(x)",
            "",
        ),
        ("FETCH old", "1"),
        ("BEGIN", ""),
        ("INSERT INTO y VALUES (1)", ""),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT id FROM y", ""),
        ("DECLARE s SCROLL CURSOR WITH HOLD FOR SELECT id FROM y", ""),
        ("FETCH c", "1"),
        ("ROLLBACK", ""),
        ("FETCH c", "error 34000"),
        ("FETCH s", "error 34000"),
        ("FETCH old", "2"),
        ("BEGIN", ""),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT id FROM y", ""),
        ("SELECT 1/0", "error 22012"),
        ("COMMIT", ""),
        ("FETCH c", "error 34000"),
        // The statements of one message are one transaction.
        (
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1; SELECT 1/0",
            "error 22012",
        ),
        ("FETCH c", "error 34000"),
        ("BEGIN", ""),
        ("SAVEPOINT a", ""),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT 5", ""),
        ("RELEASE a", ""),
        ("INSERT INTO y VALUES (7)", ""),
        ("DECLARE d CURSOR WITH HOLD FOR SELECT id FROM y", ""),
        ("COMMIT", ""),
        ("FETCH ALL FROM c", "5"),
        ("DELETE FROM y", ""),
        ("FETCH d", "7"),
        ("BEGIN; CLOSE d; ROLLBACK", ""),
        ("FETCH d", "error 34000"),
        ("BEGIN", ""),
        ("ROLLBACK", ""),
        ("FETCH ALL FROM old", "3"),
        ("FETCH ALL FROM old", ""),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_fails_if_rows_cannot_be_computed() {
    answers(&[
        ("CREATE TEMP TABLE y (id int)", ""),
        ("BEGIN", ""),
        ("INSERT INTO y VALUES (1)", ""),
        ("DECLARE good CURSOR WITH HOLD FOR SELECT id FROM y", ""),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT 1 / (id - 1) FROM y", ""),
        ("COMMIT", "error 22012"),
        ("SELECT id FROM y", ""),
        ("FETCH c", "error 34000"),
        // PostgreSQL keeps this cursor if it computed it first, with rows that were rolled back.
        ("FETCH good", "error 34000"),
        ("BEGIN", ""),
        ("ROLLBACK", ""),
        (
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1 / (x - 300000) FROM generate_series(1, 400000) g(x)",
            "error 22012",
        ),
        ("FETCH c", "error 34000"),
        ("INSERT INTO y VALUES (2); DECLARE c CURSOR WITH HOLD FOR SELECT 1 / (id - 2) FROM y", "error 22012"),
        ("SELECT id FROM y", ""),
        // Rows that MOVE has passed are not computed again.
        ("BEGIN", ""),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT x FROM generate_series(1, 3) g(x)", ""),
        ("MOVE 2 FROM c", ""),
        ("COMMIT", ""),
        ("FETCH ALL FROM c", "3"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_rows_are_held_on_disk_without_loss() {
    const ROWS: usize = 300_000;
    let config = EngineConfig {
        memory_bytes: Some(64 << 20),
        target_partitions: Some(2),
        ..EngineConfig::default()
    };
    let engine = Engine::new(config).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let on_disk = || engine.runtime().disk_manager.used_disk_space();
    let client = server.connect().await;
    let query = format!(
        "SELECT x, repeat('a row that waits ', 4) AS s FROM generate_series(1, {ROWS}) g(x) \
         ORDER BY x"
    );
    let sql = format!("BEGIN; DECLARE c CURSOR WITH HOLD FOR {query}; MOVE 1 FROM c; COMMIT");
    client.batch_execute(&sql).await.unwrap();
    assert!(on_disk() > 16 << 20, "{}", on_disk());
    let mut rows = 1;
    loop {
        let fetched = client.simple_query("FETCH 7000 FROM c").await.unwrap();
        let numbers: Vec<usize> = fetched
            .iter()
            .filter_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
                _ => None,
            })
            .collect();
        if numbers.is_empty() {
            break;
        }
        for number in numbers {
            rows += 1;
            assert_eq!(number, rows, "S11: each row once, in order");
        }
    }
    assert_eq!(rows, ROWS);
    client.batch_execute("CLOSE c").await.unwrap();
    // A statement's task frees what it holds a moment after the client learns of its end.
    let begun = Instant::now();
    while on_disk() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", on_disk());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
