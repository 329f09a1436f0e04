//! Promised: a query that a worker refuses memory, because another query has it there, runs again
//! when the worker has what it needs; so does one that a worker ends because its limit was lowered.
//! One whose client has rows does not.

use std::path::Path;
use std::time::{Duration, Instant};

use coscan::{Engine, Session};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use futures::StreamExt;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::common;
use crate::workers::{self, Worker, rows};

/// Each worker holds about 10 MB for it. It returns no row before its end.
const LATE: &str = "SELECT count(*) FROM lineitem a JOIN lineitem b ON a.l_suppkey = b.l_suppkey \
                    WHERE a.l_comment < b.l_comment";

/// It takes minutes and returns rows all the while.
const LONG: &str = "SELECT a.* FROM lineitem a JOIN lineitem b ON a.l_tax = b.l_tax";

/// In this time a query has asked for more than there is.
const REFUSED_WITHIN: Duration = Duration::from_secs(3);

/// Far more than the queries take.
const WITHIN: Duration = Duration::from_secs(60);

/// A query and its rows, or its error.
type Query = JoinHandle<Result<Vec<String>, String>>;

/// Another query of a worker.
fn other(worker: &Engine) -> MemoryReservation {
    MemoryConsumer::new("another query").register(&worker.runtime().memory_pool)
}

/// A session whose queries run on both workers, also while one of them has no memory.
async fn session_on_both(workers: &[Worker], tables: &[(&str, &Path)]) -> Session {
    let session = workers::session(workers, tables).await;
    session.set("coscan.cluster_width", "size").unwrap();
    session
}

fn begun(session: &Session) -> Query {
    let session = session.clone();
    tokio::spawn(async move { rows(&session, LATE).await })
}

/// Takes what is free, as long as the query waits.
async fn while_it_waits(query: &Query, other: &MemoryReservation) {
    let started = Instant::now();
    while started.elapsed() < REFUSED_WITHIN {
        assert!(!query.is_finished(), "it has not waited");
        while other.try_grow(1 << 20).is_ok() {}
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_a_worker_refuses_memory_waits_and_answers() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let session = session_on_both(&workers, &tables).await;
    let expected = rows(&session, LATE).await.unwrap();
    let other = other(&workers[0].engine);
    while other.try_grow(1 << 20).is_ok() {}
    let query = begun(&session);
    while_it_waits(&query, &other).await;
    drop(other);
    let answer = timeout(WITHIN, query).await.expect("it waits in vain");
    assert_eq!(answer.unwrap().unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_a_lower_limit_of_a_worker_ends_runs_again() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let session = session_on_both(&workers, &tables).await;
    let expected = rows(&session, LATE).await.unwrap();
    let worker = &workers[0].engine;
    let limit = worker.memory().limit();
    let other = other(worker);
    other.try_grow(100 << 20).unwrap();
    let held = || worker.memory().operator_bytes();
    let before = held();
    let query = begun(&session);
    while held() < before + (4 << 20) {
        assert!(!query.is_finished(), "it holds too little");
        sleep(Duration::from_millis(1)).await;
    }
    worker.memory().set_limit(90 << 20);
    while_it_waits(&query, &other).await;
    worker.memory().set_limit(limit);
    drop(other);
    let answer = timeout(WITHIN, query).await.expect("it waits in vain");
    assert_eq!(answer.unwrap().unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_with_rows_that_a_lower_limit_of_a_worker_ends_fails() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let session = workers::session(&workers, &tables).await;
    let mut stream = session.sql(LONG).await.unwrap();
    stream.next().await.unwrap().unwrap();
    // That of the worker that holds more.
    let memories = workers.iter().map(|worker| worker.engine.memory());
    let memory = memories
        .max_by_key(|memory| memory.operator_bytes())
        .unwrap();
    memory.set_limit(memory.operator_bytes() / 2);
    let started = Instant::now();
    let error = loop {
        match stream.next().await.expect("it does not end well") {
            Ok(_) => assert!(started.elapsed() < WITHIN, "it goes on"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("coscan.memory"), "{error}");
}
