//! Promised: batches that are not consumed do not stop others, neither those of other partitions of
//! the same query nor those of other queries.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::timeout;

use crate::common;
use crate::workers::{self, rows};

/// Far more than the queries take.
const WITHIN: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_in_order_arrive_although_a_merge_waits_for_one_partition() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let session = workers::session(&workers, &tables).await;
    // Stored in this order, so that each partition has a range of it, and the merge wants all rows
    // of the first one before those of the second.
    let sql = "SELECT * FROM lineitem ORDER BY l_orderkey, l_linenumber";
    let alone = common::session(workers::config(), &tables).await;
    let expected = common::collect(alone.sql(sql).await.unwrap())
        .await
        .unwrap();
    assert!(expected.len() > 290_000);
    let answered = async { common::collect(session.sql(sql).await.unwrap()).await };
    let found = timeout(WITHIN, answered).await.expect("it hangs").unwrap();
    assert!(found == expected, "other rows, or another order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_stop_reading_do_not_stop_other_queries() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let session = workers::session(&workers, &tables).await;
    let sum = "SELECT sum(l_quantity), count(*) FROM lineitem";
    let expected = rows(&session, sum).await.unwrap();
    let mut stopped = vec![];
    for _ in 0..12 {
        let mut stream = session.sql("SELECT * FROM lineitem").await.unwrap();
        stream.next().await.unwrap().unwrap();
        stopped.push(stream);
    }
    // Their answers fill what may be on its way.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let answer = timeout(WITHIN, rows(&session, sum))
        .await
        .expect("it hangs");
    assert_eq!(answer.unwrap(), expected);
}
