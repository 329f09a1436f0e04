//! Promised: a worker that is killed or falls silent is named by the error, within the timeouts;
//! the next query on the others works; a query that is dropped ends on its workers.

use std::time::{Duration, Instant};

use coscan_cluster::Timeouts;
use futures::StreamExt;

use crate::common;
use crate::workers::{self, Relay, rows};

/// It takes seconds and returns rows all the while.
const LONG: &str = "SELECT count(*) FROM lineitem a JOIN lineitem b ON a.l_tax = b.l_tax \
                    WHERE a.l_comment < b.l_comment";

/// A worker that is silent for so long is lost.
const SHORT: Timeouts = Timeouts {
    connect: Duration::from_secs(4),
    silence: Duration::from_secs(4),
};

/// What a failure may take: to connect, to be silent, and what tests cost beside each other.
const WITHIN: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_is_named() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let mut workers = workers::start(3);
    let session = workers::session(&workers, &tables).await;
    let sum = "SELECT sum(l_quantity) FROM lineitem";
    let expected = rows(&session, sum).await.unwrap();

    // While it works.
    let query = tokio::spawn({
        let session = session.clone();
        async move { rows(&session, LONG).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let lost = workers[1].address.to_string();
    workers[1].kill();
    let started = Instant::now();
    let error = query.await.unwrap().unwrap_err();
    assert!(error.contains(&lost), "{lost} is not in: {error}");
    assert!(started.elapsed() < WITHIN, "{:?}", started.elapsed());

    // Before it gets anything.
    let started = Instant::now();
    let error = rows(&session, sum).await.unwrap_err();
    assert!(error.contains(&lost), "{lost} is not in: {error}");
    assert!(started.elapsed() < WITHIN, "{:?}", started.elapsed());

    // The others are unharmed, and the parts that they had are ended.
    workers.remove(1);
    let session = workers::session(&workers, &tables).await;
    let started = Instant::now();
    assert_eq!(rows(&session, sum).await.unwrap(), expected);
    assert!(started.elapsed() < WITHIN, "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_worker_is_named() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let relay = Relay::to(workers[1].address).await;
    let addresses = [workers[0].address, relay.address];
    let cluster = workers::cluster_with(&addresses, 1, SHORT);
    let session = workers::session_on(&cluster, &tables).await;
    let sum = "SELECT sum(l_quantity) FROM lineitem";
    rows(&session, sum).await.unwrap();
    relay.fall_silent();
    let started = Instant::now();
    let error = rows(&session, sum).await.unwrap_err();
    assert!(error.contains(&relay.address.to_string()), "{error}");
    assert!(started.elapsed() < WITHIN, "{:?}", started.elapsed());
    let health = cluster.health().await;
    assert!(health[0].is_well.is_ok(), "{health:?}");
    assert!(health[1].is_well.is_err(), "{health:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_query_ends_on_its_workers() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let session = workers::session(&workers, &tables).await;
    let sorted = "SELECT * FROM lineitem a JOIN lineitem b ON a.l_tax = b.l_tax";
    let mut stream = session.sql(sorted).await.unwrap();
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
