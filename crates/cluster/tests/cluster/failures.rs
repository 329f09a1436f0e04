//! Promised: a query that loses a worker runs again without it, within the timeouts, and is right;
//! one whose client has rows ends with an error that names the worker. The next queries leave the
//! worker out until it answers. A query that is dropped ends on its workers.

use std::time::{Duration, Instant};

use coscan_cluster::Timeouts;
use futures::StreamExt;

use crate::common;
use crate::workers::{self, Relay, rows};

/// It takes a second or two and returns no row before its end.
const LATE: &str = "SELECT count(*) FROM lineitem a JOIN lineitem b ON a.l_suppkey = b.l_suppkey \
                    WHERE a.l_comment < b.l_comment";

/// It takes minutes and returns rows all the while.
const LONG: &str = "SELECT a.* FROM lineitem a JOIN lineitem b ON a.l_tax = b.l_tax";

/// A worker that is silent for so long is lost.
const SHORT: Timeouts = Timeouts {
    connect: Duration::from_secs(4),
    silence: Duration::from_secs(4),
};

/// What a failure may take: to connect, to be silent, and what tests cost beside each other.
const WITHIN: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_without_rows_runs_again_without_the_lost_worker() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let mut workers = workers::start(3);
    let session = workers::session(&workers, &tables).await;
    let expected = rows(&session, LATE).await.unwrap();

    // While it works.
    let query = tokio::spawn({
        let session = session.clone();
        async move { rows(&session, LATE).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!query.is_finished());
    let lost = workers[1].address.to_string();
    workers[1].kill();
    assert_eq!(query.await.unwrap().unwrap(), expected);

    // Before it gets anything.
    let plan = rows(&session, &format!("EXPLAIN {LATE}")).await.unwrap();
    assert!(!plan.concat().contains(&lost), "{plan:?}");
    let lost = workers[0].address.to_string();
    workers[0].kill();
    let plan = rows(&session, &format!("EXPLAIN {LATE}")).await.unwrap();
    assert!(plan.concat().contains(&lost), "no query has noticed");
    let started = Instant::now();
    let sum = "SELECT sum(l_quantity), count(*) FROM lineitem";
    let answer = rows(&session, sum).await.unwrap();
    assert!(started.elapsed() < WITHIN, "{:?}", started.elapsed());
    let alone = common::session(workers::config(), &tables).await;
    assert_eq!(answer, rows(&alone, sum).await.unwrap());

    // No worker is left.
    workers[2].kill();
    let started = Instant::now();
    let error = rows(&session, sum).await.unwrap_err();
    let named = |worker: &workers::Worker| error.contains(&worker.address.to_string());
    assert!(workers.iter().any(named), "{error}");
    assert!(started.elapsed() < WITHIN, "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_may_lose_one_worker_after_another() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let mut workers = workers::start(4);
    let session = workers::session(&workers, &tables).await;
    let expected = rows(&session, LATE).await.unwrap();
    let query = tokio::spawn({
        let session = session.clone();
        async move { rows(&session, LATE).await }
    });
    for worker in &mut workers[1..] {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!query.is_finished());
        worker.kill();
    }
    assert_eq!(query.await.unwrap().unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_with_rows_names_the_lost_worker() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let mut workers = workers::start(3);
    let session = workers::session(&workers, &tables).await;
    let sum = "SELECT sum(l_quantity) FROM lineitem";
    let expected = rows(&session, sum).await.unwrap();
    let mut stream = session.sql(LONG).await.unwrap();
    stream.next().await.unwrap().unwrap();
    let lost = workers[1].address.to_string();
    workers[1].kill();
    let started = Instant::now();
    let error = loop {
        match stream.next().await.expect("it does not end well") {
            Ok(_) => assert!(started.elapsed() < WITHIN, "{:?}", started.elapsed()),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains(&lost), "{lost} is not in: {error}");
    drop(stream);

    // The others are unharmed, and the parts that they had are ended.
    let started = Instant::now();
    assert_eq!(rows(&session, sum).await.unwrap(), expected);
    assert!(started.elapsed() < WITHIN, "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_worker_is_left_out_until_it_answers() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let relay = Relay::to(workers[1].address).await;
    let addresses = [workers[0].address, relay.address];
    let cluster = workers::cluster_with(&addresses, 1, SHORT);
    let session = workers::session_on(&cluster, &tables).await;
    let sum = "SELECT sum(l_quantity) FROM lineitem";
    let expected = rows(&session, sum).await.unwrap();
    relay.fall_silent();
    let started = Instant::now();
    assert_eq!(rows(&session, sum).await.unwrap(), expected);
    assert!(started.elapsed() < WITHIN, "{:?}", started.elapsed());
    let health = cluster.health().await;
    assert!(health[0].is_well.is_ok(), "{health:?}");
    let error = health[1].is_well.as_ref().unwrap_err().to_string();
    assert!(error.contains(&relay.address.to_string()), "{error}");

    relay.speak();
    let started = Instant::now();
    let name = relay.address.to_string();
    let explain = format!("EXPLAIN {sum}");
    while !rows(&session, &explain)
        .await
        .unwrap()
        .concat()
        .contains(&name)
    {
        assert!(started.elapsed() < WITHIN, "it is still left out");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(rows(&session, sum).await.unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_query_ends_on_its_workers() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let session = workers::session(&workers, &tables).await;
    let mut stream = session.sql(LONG).await.unwrap();
    stream.next().await.unwrap().unwrap();
    let held = || {
        workers
            .iter()
            .map(|worker| worker.engine.metrics().operator_bytes)
            .sum::<u64>()
    };
    assert!(held() > 0, "the join holds its build side");
    drop(stream);
    let started = Instant::now();
    while held() > 0 {
        assert!(started.elapsed() < WITHIN, "{} bytes are held", held());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_a_row_is_what_it_is_in_one_process() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let session = workers::session(&workers, &tables).await;
    let started = Instant::now();
    let sql = "SELECT sum(1 / (l_linenumber - 1)) FROM lineitem";
    let error = rows(&session, sql).await.unwrap_err();
    assert!(error.contains("division by zero"), "{error}");
    assert!(started.elapsed() < WITHIN, "{:?}", started.elapsed());
}
