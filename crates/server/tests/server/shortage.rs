//! Promised: a query that finds no memory because other queries have it waits for theirs and gives
//! its rows, if its client has none yet; one that would not have run alone fails at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::common::TestServer;

const ROWS: usize = 100_000;

/// A join whose table has `rows` rows.
fn join(what: &str, rows: usize) -> String {
    format!(
        "SELECT {what} FROM generate_series(1, {rows}) a \
         JOIN generate_series(1, 3000000) b ON a.value = b.value"
    )
}

async fn server(bytes: usize) -> (TestServer, Arc<dyn MemoryPool>) {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool));
    let runtime = runtime.build_arc().unwrap();
    let factory = move || {
        let config = SessionConfig::new().with_target_partitions(1);
        let runtime = Arc::clone(&runtime);
        Ok(SessionContext::new_with_config_rt(config, runtime))
    };
    let server = TestServer::start_on(Arc::new(factory), Arc::default(), |_| {}).await;
    (server, pool)
}

/// A client that has read one row of a join, which keeps its table.
async fn reader(server: &TestServer) -> Client {
    let client = server.connect().await;
    let cursor = join("a.value", ROWS);
    let begin = format!("BEGIN; DECLARE c CURSOR FOR {cursor}; FETCH 1 FROM c");
    client.batch_execute(&begin).await.unwrap();
    client
}

async fn counted(client: &Client) -> String {
    let answer = client.simple_query(&join("count(*)", ROWS)).await.unwrap();
    let rows = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    rows.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_waits_for_the_memory_of_others() {
    // What the table takes.
    let (large, pool) = server(1 << 30).await;
    let first = reader(&large).await;
    let taken = pool.reserved();
    drop(first);
    large.stop().await;
    assert!(taken > ROWS * 16, "{taken}");

    let (server, pool) = server(taken / 2 * 3).await;
    let first = reader(&server).await;
    assert!(pool.reserved() >= taken / 20 * 19);
    let (second, third) = (server.connect().await, server.connect().await);
    let first_ends = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        first.batch_execute("COMMIT").await.unwrap();
        Instant::now()
    };
    let ended = |client| async move { (counted(client).await, Instant::now()) };
    let (gone, second, third) = tokio::join!(first_ends, ended(&second), ended(&third));
    for (rows, ended) in [second, third] {
        assert_eq!(rows, ROWS.to_string());
        assert!(ended > gone, "there was memory for both");
    }
    // Nobody is in its way, so it does not wait.
    let asked = Instant::now();
    let too_large = first.simple_query(&join("count(*)", 10 * ROWS)).await;
    let code = too_large.unwrap_err().code().cloned();
    assert_eq!(code, Some(SqlState::OUT_OF_MEMORY));
    assert!(asked.elapsed() < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_waits_can_be_cancelled() {
    let (large, pool) = server(1 << 30).await;
    let first = reader(&large).await;
    let taken = pool.reserved();
    drop(first);
    large.stop().await;

    let (server, pool) = server(taken / 2 * 3).await;
    let _first = reader(&server).await;
    let before = pool.reserved();
    let second = server.connect().await;
    second
        .batch_execute("SET statement_timeout = 400")
        .await
        .unwrap();
    let refused = second.simple_query(&join("count(*)", ROWS)).await;
    let code = refused.unwrap_err().code().cloned();
    assert_eq!(code, Some(SqlState::QUERY_CANCELED));
    let begun = Instant::now();
    while pool.reserved() > before + before / 20 {
        assert!(begun.elapsed() < Duration::from_secs(5), "it holds memory");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
