//! Promised: the output of a shared operator is kept for later queries while there is memory, and
//! a query that repeats another one over the same files does no work. Yet it returns plain
//! DataFusion's rows, and never those of another version of a file.

use std::sync::Arc;
use std::time::Duration;

use coscan::tasks::{LongThreads, TaskQueue};
use coscan::{EngineConfig, Session};
use futures::{FutureExt, StreamExt};
use tokio::runtime::Handle;

use super::shared_operators::{REPORT, metrics, plain_tpch, tpch_sessions as sessions, write};
use crate::common::{self, config, memory_comes_back, rows, rows_in_order};

/// The work that an engine has done: bytes decoded and read, chunk jobs.
fn work(session: &Session) -> [u64; 3] {
    let now = metrics(session);
    [now.decode_bytes, now.io_bytes, now.fragment_jobs]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_query_does_no_work() {
    let expected = plain_tpch(REPORT).await;
    let sessions = sessions(3, config()).await;
    assert_eq!(rows(&sessions[0], REPORT).await, expected);
    let once = work(&sessions[0]);
    for session in &sessions {
        assert_eq!(rows(session, REPORT).await, expected);
    }
    assert_eq!(work(&sessions[0]), once);
    assert_eq!(metrics(&sessions[0]).operators_late, 3);
    let shown = rows(&sessions[1], &format!("EXPLAIN ANALYZE {REPORT}")).await;
    let shown = shown.join("\n");
    assert!(shown.contains("kept of query 1"), "{shown}");
    let kept = "SELECT sum(kept) > 0, sum(runs) FROM coscan.operators";
    assert_eq!(rows(&sessions[0], kept).await, ["true|0"]);
    memory_comes_back(&sessions[0]).await;
    // The keys of kept results are in the budget, too.
    let now = metrics(&sessions[0]);
    let batches = now.operators_retained_bytes + now.state_cache_bytes;
    let taken = sessions[0].engine().memory().operator_bytes();
    assert!(taken > batches + 1000, "{taken}, {batches}");
}

/// A query that took long once is expected to take long, and starts on other threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_for_long_queries_find_results_that_others_kept() {
    let expected = plain_tpch(REPORT).await;
    let sessions: Arc<[Session]> = sessions(1, config()).await.into();
    let long = LongThreads::new(1, &Handle::current()).expect("threads");
    let queue = TaskQueue::new(1, 2, Some(&long));
    let mut done = Vec::new();
    for is_long in [false, true, false, true] {
        let query = queue.begin();
        if is_long {
            query.expect_step(Duration::from_secs(1));
        }
        let of_query = Arc::clone(&sessions);
        let asked = async move { rows(&of_query[0], REPORT).await };
        assert_eq!(query.schedule(asked.boxed()).await, expected);
        done.push(work(&sessions[0]));
    }
    assert!(done.iter().all(|work| *work == done[0]), "{done:?}");
    assert_eq!(metrics(&sessions[0]).operators_late, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_a_query_are_kept_too() {
    let over = |what: &str| {
        format!(
            "SELECT o_orderpriority, {what} FROM lineitem JOIN (SELECT * FROM orders \
             WHERE o_totalprice > 200000) ON l_orderkey = o_orderkey GROUP BY o_orderpriority"
        )
    };
    let (first, second) = (over("sum(l_quantity)"), over("max(l_extendedprice)"));
    let sessions = sessions(1, config()).await;
    rows(&sessions[0], &first).await;
    let found = rows(&sessions[0], &second).await;
    assert_eq!(found, plain_tpch(&second).await);
    let kinds = "SELECT operator, late FROM coscan.operators WHERE late > 0";
    let kinds = rows(&sessions[0], kinds).await;
    assert_eq!(kinds, ["hash build|1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_may_differ_is_done_again() {
    let sessions = sessions(1, config()).await;
    let session = &sessions[0];
    for sql in [
        "SELECT l_returnflag, sum(random()) FROM lineitem GROUP BY 1",
        "SELECT l_returnflag, max(l_tax + extract(epoch FROM now())) FROM lineitem GROUP BY 1",
        "SELECT l_returnflag, max(l_tax), now() FROM lineitem GROUP BY 1",
    ] {
        let first = rows(session, sql).await;
        assert_ne!(first, rows(session, sql).await, "{sql}");
    }
    let late = metrics(session).operators_late;
    assert_eq!(late, 1, "the groups below now()");
    session.set("coscan.state_cache", "0").unwrap();
    for _ in 0..2 {
        rows(session, REPORT).await;
    }
    assert_eq!(metrics(session).operators_late, late);
    let kept = "SELECT sum(kept) FROM coscan.operators WHERE operator = 'hash join'";
    assert_eq!(rows(session, kept).await, ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_of_a_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write(&path, 20_000, "old");
    let session = common::session(config(), &[("t", &path)]).await;
    let sql = "SELECT s, count(*) FROM (SELECT * FROM t ORDER BY k % 100, k) GROUP BY s, k % 3";
    for word in ["old", "new", "old"] {
        let next = folder.path().join("next");
        write(&next, 20_000, word);
        std::fs::rename(&next, &path).unwrap();
        for _ in 0..2 {
            let found = rows(&session, sql).await;
            assert!(found.iter().all(|row| row.starts_with(word)), "{found:?}");
        }
    }
    assert_eq!(metrics(&session).operators_late, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_result_is_not_kept() {
    let sessions = sessions(1, config()).await;
    let session = &sessions[0];
    let sql = "SELECT l_orderkey, o_clerk FROM lineitem JOIN orders ON l_orderkey = o_orderkey \
         ORDER BY l_comment LIMIT 30000";
    for _ in 0..2 {
        let mut stream = session.sql(sql).await.unwrap();
        let batch = stream.next().await.unwrap().unwrap();
        assert!(batch.num_rows() < 30_000);
        drop(stream);
        memory_comes_back(session).await;
    }
    let kinds = "SELECT operator, kept + late FROM coscan.operators WHERE operator = 'sort'";
    assert_eq!(rows(session, kinds).await, ["sort|0"]);
    let found = rows(session, sql).await;
    assert_eq!(found.len(), 30_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_results_are_dropped_when_memory_is_short() {
    let config = EngineConfig {
        memory_bytes: Some(96 << 20),
        ..config()
    };
    let sessions = sessions(1, config).await;
    let session = &sessions[0];
    // Different sorts, each of some kilobytes.
    for n in 0..12 {
        let sql = format!(
            "SELECT l_comment, l_orderkey FROM lineitem ORDER BY l_comment, l_orderkey % {} \
             LIMIT 500",
            n + 2
        );
        assert_eq!(rows_in_order(session, &sql).await.len(), 500);
    }
    let kept = metrics(session).operators_retained_bytes;
    assert!(kept > 0 && kept <= (96 << 20) / 16, "{kept}");
    // A sort of the whole table needs the memory.
    let all = "SELECT l_orderkey FROM (SELECT * FROM lineitem ORDER BY l_comment, l_orderkey) \
         WHERE l_orderkey < 0";
    assert!(rows(session, all).await.is_empty());
    assert_eq!(rows(session, REPORT).await, plain_tpch(REPORT).await);
    memory_comes_back(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_reads_the_clock_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.parquet");
    write(&file, 20_000, "now");
    let session = common::session(config(), &[("t", &file)]).await;
    for sql in [
        // Kept as the whole query, and as states of chunks.
        "SELECT max(s::timestamptz) FROM t WHERE k > 5",
        "SELECT k % 2, max(s::timestamptz) FROM t WHERE k > 5 GROUP BY 1",
    ] {
        let first = rows(&session, sql).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_ne!(rows(&session, sql).await, first, "{sql}");
    }
    let sql = "SELECT max(s) FROM t WHERE k > 5";
    let first = rows(&session, sql).await;
    let done = work(&session);
    assert_eq!(rows(&session, sql).await, first);
    assert_eq!(work(&session), done, "another query of the table is kept");
}
