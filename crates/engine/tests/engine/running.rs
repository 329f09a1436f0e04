//! Promised, for a program's queries as for a server's: a query, or a write into memory, that finds
//! no memory because others hold it is run again when they have ended; a query whose rows are not
//! read is ended when others need its memory; a lower limit ends a query that no longer fits;
//! dropping the rows ends the query; a statement that was given up changes nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Int64Array, RecordBatch};
use coscan::{CommitPoint, Engine, EngineConfig, Session, StartOptions};
use datafusion::execution::SendableRecordBatchStream;
use futures::{StreamExt, TryStreamExt};
use tokio::time::sleep;

const ROWS: usize = 100_000;

/// A join whose table has [`ROWS`] rows.
fn join(what: &str) -> String {
    format!(
        "SELECT {what} FROM generate_series(1::bigint, {ROWS}) a (n) \
         JOIN generate_series(1::bigint, 3000000) b (n) ON a.n = b.n"
    )
}

/// With the batches of a small memory in any.
fn engine(memory: usize) -> Engine {
    let config = EngineConfig {
        memory_bytes: Some(memory as u64),
        target_partitions: Some(1),
        batch_rows: 1024,
        ..EngineConfig::default()
    };
    Engine::new(config).unwrap()
}

fn reserved(session: &Session) -> usize {
    session.context().runtime_env().memory_pool.reserved()
}

/// A join of which one batch was read, so that it keeps its hash table.
async fn reader(session: &Session) -> SendableRecordBatchStream {
    let mut rows = session.sql(&join("a.n")).await.unwrap();
    rows.next().await.unwrap().unwrap();
    rows
}

/// A session with memory for one and a half of these hash tables, and a reader that has one.
async fn crowded() -> (Session, SendableRecordBatchStream) {
    let large = engine(1 << 30).session();
    let first = reader(&large).await;
    let taken = reserved(&large);
    drop(first);
    assert!(taken > ROWS * 16, "{taken}");
    let session = engine(taken / 2 * 3).session();
    let first = reader(&session).await;
    assert!(reserved(&session) >= taken / 20 * 19);
    (session, first)
}

/// The rows of the join, counted by a prepared statement.
async fn counted(session: &Session) -> usize {
    let statement = session.prepare(&join("count(*)"), &[]).await.unwrap();
    let rows = statement.execute(vec![]).await.unwrap();
    let batches: Vec<_> = rows.try_collect().await.unwrap();
    only_number(&batches)
}

fn only_number(batches: &[RecordBatch]) -> usize {
    let batch = batches.iter().find(|batch| batch.num_rows() > 0).unwrap();
    let numbers = batch.column(0).as_any().downcast_ref::<Int64Array>();
    numbers.unwrap().value(0) as usize
}

/// The message of a query that was ended.
async fn ending(mut rows: SendableRecordBatchStream) -> String {
    let error = rows.next().await.unwrap().unwrap_err();
    assert!(rows.next().await.is_none(), "an ended query goes on");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_query_is_run_again_when_others_have_ended() {
    let (session, first) = crowded().await;
    let first_ends = async {
        sleep(Duration::from_millis(300)).await;
        drop(first);
        Instant::now()
    };
    let ended = async { (counted(&session).await, Instant::now()) };
    let (gone, (rows, ended)) = tokio::join!(first_ends, ended);
    assert_eq!(rows, ROWS);
    assert!(ended > gone, "there was memory for both");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_write_is_run_again_when_others_have_ended() {
    let counted = join("count(*) AS n");
    for write in [
        format!("CREATE TABLE other AS {counted}"),
        format!("INSERT INTO made {counted}"),
        format!("UPDATE made SET n = n + ({counted})"),
    ] {
        let (session, first) = crowded().await;
        let made = "CREATE TABLE made AS SELECT 0::bigint AS n";
        session.sql(made).await.unwrap();
        let first_ends = async {
            sleep(Duration::from_millis(300)).await;
            drop(first);
            Instant::now()
        };
        let written = async {
            let rows = session.sql(&write).await.unwrap();
            let rows: Vec<_> = rows.try_collect().await.unwrap();
            (rows, Instant::now())
        };
        let (gone, (_, ended)) = tokio::join!(first_ends, written);
        assert!(ended > gone, "there was memory for both: {write}");
        let table = if write.starts_with("CREATE") {
            "other"
        } else {
            "made"
        };
        let all = format!("SELECT sum(n)::bigint FROM {table}");
        let rows = session.sql(&all).await.unwrap();
        let rows: Vec<_> = rows.try_collect().await.unwrap();
        assert_eq!(only_number(&rows), ROWS, "{write}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_is_not_read_is_ended_for_others() {
    let (session, first) = crowded().await;
    sleep(Duration::from_millis(1_500)).await;
    assert_eq!(counted(&session).await, ROWS);
    let said = ending(first).await;
    assert!(said.contains("had not been read"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lower_limit_ends_a_query_that_no_longer_fits() {
    let (session, first) = crowded().await;
    let limit = reserved(&session) / 4;
    session.engine().memory().set_limit(limit as u64);
    let said = ending(first).await;
    assert!(said.contains("coscan.memory"), "{said}");
}

#[tokio::test]
async fn dropping_the_rows_ends_the_query() {
    let session = engine(1 << 30).session();
    let rows = reader(&session).await;
    assert!(reserved(&session) > ROWS * 16);
    drop(rows);
    let begun = Instant::now();
    while reserved(&session) > ROWS {
        assert!(begun.elapsed() < Duration::from_secs(10), "it holds memory");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_was_given_up_changes_nothing() {
    let session = engine(1 << 30).session();
    let made = "CREATE TABLE made AS SELECT 0::bigint AS n";
    session.sql(made).await.unwrap();
    let insert = "INSERT INTO made SELECT 1::bigint";
    let statement = session.prepare(insert, &[]).await.unwrap();
    let point = Arc::<CommitPoint>::default();
    assert!(point.abandon());
    let options = StartOptions {
        commit_point: Some(point),
        ..StartOptions::of_caller().unwrap()
    };
    let given_up = statement.start(vec![], options).await.unwrap();
    let error = given_up.finish(statement.answer()).await.unwrap_err();
    assert!(error.to_string().contains("canceling"), "{error}");
    let options = StartOptions::of_caller().unwrap();
    let running = statement.start(vec![], options).await.unwrap();
    let tag = running.finish(statement.answer()).await.unwrap();
    assert_eq!(tag, "INSERT 0 1");
    let rows = session.sql("SELECT count(*) FROM made").await.unwrap();
    let rows: Vec<_> = rows.try_collect().await.unwrap();
    assert_eq!(only_number(&rows), 2);
}
