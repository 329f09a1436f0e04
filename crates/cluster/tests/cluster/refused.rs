//! Promised: what a cluster does not run fails with an error that says what that is, and a worker
//! does not listen beyond this machine.

use coscan::Engine;
use coscan_cluster::{Links, WorkerServer};
use coscan_pg::PgError;

use crate::common;
use crate::workers::{self, rows};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_are_refused_by_name() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(1);
    let session = workers::session(&workers, &tables).await;
    for (sql, said) in [
        ("INSERT INTO nation SELECT * FROM nation", "INSERT"),
        ("DELETE FROM nation", "DELETE"),
        ("UPDATE nation SET n_name = 'x'", "UPDATE"),
        ("CREATE TABLE t AS SELECT * FROM nation", "CREATE TABLE"),
        ("COPY (SELECT 1) TO '/tmp/x.csv'", "COPY"),
        ("EXPLAIN ANALYZE DELETE FROM nation", "DELETE"),
        (
            "WITH x AS (SELECT random() AS r, n_name FROM nation) \
             SELECT count(*) FROM x a JOIN x b ON a.r = b.r",
            "WITH",
        ),
    ] {
        let error = rows(&session, sql).await.unwrap_err();
        assert!(
            error.contains("a cluster") && error.contains(said),
            "{sql}: {error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_does_not_travel_is_refused_by_the_name_of_its_node() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(1);
    let session = workers::session(&workers, &tables).await;
    for (sql, said) in [
        (
            "WITH RECURSIVE r (n) AS (SELECT 1::bigint UNION ALL SELECT n + 1 FROM r WHERE n < 3) \
             SELECT count(*) FROM r JOIN nation ON r.n = n_nationkey",
            "a cluster does not run RecursiveQueryExec",
        ),
        (
            "SELECT array_agg(n_nationkey ORDER BY n_name) FROM nation WHERE n_nationkey < 5",
            "a cluster does not run the function array_agg as it is used here",
        ),
    ] {
        let rows = session.sql(sql).await.unwrap();
        let error = common::collect(rows).await.unwrap_err();
        let error = PgError::of(&error).unwrap();
        assert_eq!((error.code(), error.message()), ("0A000", said), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_reads_no_table_runs_in_the_coordinator() {
    let workers = workers::start(1);
    let session = workers::session(&workers, &[]).await;
    assert_eq!(rows(&session, "SELECT 1 + 1").await.unwrap(), ["2"]);
    let shown = rows(&session, "SHOW coscan.policy").await.unwrap();
    assert_eq!(shown, ["relevance"]);
}

#[tokio::test]
async fn a_worker_listens_on_this_machine_only() {
    let engine = Engine::new(workers::config()).unwrap();
    for address in ["0.0.0.0:0", "10.0.0.1:50051", "[::]:0"] {
        let address = address.parse().unwrap();
        let refused = WorkerServer::bind(engine.clone(), address, Links::default());
        let error = refused.err().unwrap().to_string();
        assert!(error.contains("this machine only"), "{error}");
    }
}
