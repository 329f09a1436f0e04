//! Promised: a query that finds no memory because other queries hold it waits for theirs and
//! returns its rows, if its client has none yet; a query fails at once if other queries hold too
//! little to matter.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::MemoryPool;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::common::{TestServer, state};

pub(super) const ROWS: usize = 100_000;

/// A join whose hash table has `rows` rows.
fn join(what: &str, rows: usize) -> String {
    format!(
        "SELECT {what} FROM generate_series(1::bigint, {rows}) a \
         JOIN generate_series(1::bigint, 3000000) b ON a.a = b.b"
    )
}

/// A client whose queries have one partition, and the batches of a small memory in any.
pub(super) async fn client(server: &TestServer) -> Client {
    let client = server.connect().await;
    let one = "SET datafusion.execution.target_partitions = 1; \
               SET datafusion.execution.batch_size = 1024";
    client.batch_execute(one).await.unwrap();
    client
}

/// A client that has read one row of a join, which keeps its hash table.
async fn reader(server: &TestServer) -> Client {
    let client = client(server).await;
    let cursor = join("a.a", ROWS);
    let begin = format!("BEGIN; DECLARE c CURSOR FOR {cursor}; FETCH 1 FROM c");
    client.batch_execute(&begin).await.unwrap();
    client
}

/// A server with memory for one and a half such tables, and a reader that holds one.
pub(super) async fn crowded() -> (TestServer, Arc<dyn MemoryPool>, Client) {
    let (large, pool) = TestServer::limited(1 << 30).await;
    let first = reader(&large).await;
    let taken = pool.reserved();
    drop(first);
    large.stop().await;
    assert!(taken > ROWS * 16, "{taken}");
    let (server, pool) = TestServer::limited(taken / 2 * 3).await;
    let first = reader(&server).await;
    assert!(pool.reserved() >= taken / 20 * 19);
    (server, pool, first)
}

pub(super) async fn counted(client: &Client) -> String {
    let answer = client.simple_query(&join("count(*)", ROWS)).await.unwrap();
    let rows = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    rows.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_waits_for_the_memory_of_others() {
    let (server, _, first) = crowded().await;
    let (second, third) = (client(&server).await, client(&server).await);
    let first_ends = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        // The memory is free before the client learns of it.
        let gone = Instant::now();
        first.batch_execute("COMMIT").await.unwrap();
        gone
    };
    let ended = |client| async move { (counted(client).await, Instant::now()) };
    let (gone, second, third) = tokio::join!(first_ends, ended(&second), ended(&third));
    for (rows, ended) in [second, third] {
        assert_eq!(rows, ROWS.to_string());
        assert!(ended > gone, "there was memory for both");
    }
    // No query is in its way, so it does not wait.
    let asked = Instant::now();
    let too_large = first.simple_query(&join("count(*)", 10 * ROWS)).await;
    assert_eq!(state(too_large), "53200");
    assert!(asked.elapsed() < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_waits_can_be_cancelled() {
    let (server, pool, _first) = crowded().await;
    let before = pool.reserved();
    let second = client(&server).await;
    let limit = "SET statement_timeout = 400";
    second.batch_execute(limit).await.unwrap();
    let refused = second.simple_query(&join("count(*)", ROWS)).await;
    assert_eq!(state(refused), "57014");
    let begun = Instant::now();
    while pool.reserved() > before + before / 20 {
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "the query still holds memory"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
