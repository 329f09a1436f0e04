//! Promised: a session's own tables do as PostgreSQL's. ROLLBACK undoes what it did to its names
//! and tables since BEGIN or the savepoint, and so does an error among several statements of one
//! message. What a view reads is not dropped. Values are stored as the column's type reads them.

use crate::common::TestServer;
use crate::common::raw::RawClient;

/// Runs each statement, and compares its rows, or its error's SQLSTATE.
async fn answers(script: &'static [(&'static str, &'static str)]) {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(addr);
        for (sql, expected) in script {
            let answer = client.simple(sql);
            match expected.strip_prefix("error ") {
                Some(state) => assert!(answer.shown().contains(state), "{sql}: {}", answer.shown()),
                None => {
                    assert_eq!(answer.error, None, "{sql}");
                    assert_eq!(answer.shown(), *expected, "{sql}");
                }
            }
        }
    });
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_brings_rows_and_names_back() {
    answers(&[
        (
            "CREATE TABLE t AS SELECT x FROM generate_series(1, 3) g(x)",
            "",
        ),
        ("CREATE VIEW v AS SELECT sum(x) AS s FROM t", ""),
        ("BEGIN", ""),
        ("INSERT INTO t VALUES (10)", ""),
        ("UPDATE t SET x = x + 1 WHERE x < 3", ""),
        ("DELETE FROM t WHERE x = 10", ""),
        ("SELECT sum(x), count(*) FROM t", "8 | 3"),
        ("CREATE TABLE new AS SELECT 1 AS y", ""),
        ("DROP VIEW v", ""),
        ("ROLLBACK", ""),
        ("SELECT sum(x), count(*) FROM t", "6 | 3"),
        ("SELECT s FROM v", "6"),
        ("SELECT * FROM new", "error 42P01"),
        ("BEGIN", ""),
        ("DROP VIEW v", ""),
        ("DROP TABLE t", ""),
        ("SELECT * FROM t", "error 42P01"),
        ("SELECT 1", "error 25P02"),
        ("COMMIT", ""),
        ("SELECT s FROM v", "6"),
        ("BEGIN; INSERT INTO t VALUES (4); COMMIT", ""),
        ("SELECT s FROM v", "10"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn savepoints_bring_back_what_there_was_at_them() {
    answers(&[
        ("CREATE TABLE t AS SELECT 1 AS x", ""),
        ("SAVEPOINT a", "error 25P01"),
        ("BEGIN", ""),
        ("SAVEPOINT a", ""),
        ("INSERT INTO t VALUES (2)", ""),
        ("SAVEPOINT b", ""),
        ("DELETE FROM t", ""),
        ("ROLLBACK TO b", ""),
        ("SELECT sum(x) FROM t", "3"),
        ("SELECT 1/0", "error 22012"),
        ("ROLLBACK TO SAVEPOINT a", ""),
        ("SELECT sum(x) FROM t", "1"),
        ("INSERT INTO t VALUES (5)", ""),
        ("ROLLBACK TO b", "error 3B001"),
        ("ROLLBACK TO a", ""),
        ("SELECT sum(x) FROM t", "1"),
        ("INSERT INTO t VALUES (6)", ""),
        ("RELEASE a", ""),
        ("ROLLBACK TO a", "error 3B001"),
        ("COMMIT", ""),
        ("SELECT sum(x) FROM t", "1"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_statements_of_a_message_are_one_transaction() {
    answers(&[
        ("CREATE TABLE t AS SELECT 1 AS x", ""),
        (
            "INSERT INTO t VALUES (2); DELETE FROM t WHERE x = 1; SELECT 1/0",
            "error 22012",
        ),
        ("SELECT x FROM t", "1"),
        (
            "INSERT INTO t VALUES (2); COMMIT; DELETE FROM t; SELECT 1/0",
            "error 22012",
        ),
        ("SELECT sum(x) FROM t", "3"),
        ("INSERT INTO t VALUES (3); BEGIN; DELETE FROM t", ""),
        ("ROLLBACK", ""),
        ("SELECT sum(x) FROM t", "3"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_view_reads_stays() {
    answers(&[
        ("CREATE TABLE t AS SELECT 1 AS x", ""),
        ("CREATE VIEW v AS SELECT x FROM public.t", ""),
        (
            "CREATE VIEW w AS WITH q AS (SELECT * FROM v) SELECT x + 1 AS y FROM q",
            "",
        ),
        ("DROP TABLE t", "error 2BP01"),
        ("CREATE OR REPLACE TABLE t AS SELECT 2 AS x", "error 2BP01"),
        ("CREATE OR REPLACE VIEW v AS SELECT 2 AS x", "error 2BP01"),
        ("CREATE OR REPLACE VIEW w AS SELECT x + 2 AS y FROM v", ""),
        ("SELECT y FROM w", "3"),
        ("DROP VIEW v", "error 2BP01"),
        ("DROP VIEW w", ""),
        ("DROP VIEW v", ""),
        ("DROP TABLE t", ""),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_store_what_the_columns_type_reads() {
    answers(&[
        (
            "CREATE TABLE t (b bytea, a int[], v varchar(3), n numeric(5,2), i smallint)",
            "",
        ),
        (r"INSERT INTO t VALUES ('\x01', '{1}', 'a', 1, 1)", ""),
        (
            r"UPDATE t SET b = '\xDEAD', a = '{2,NULL}', v = 'abc  ', n = 2.345, i = 2.5",
            "",
        ),
        (
            "SELECT b, a, v, n, i FROM t",
            r"\xdead | {2,NULL} | abc | 2.35 | 3",
        ),
        ("UPDATE t SET v = 'abcd'", "error 22001"),
        ("UPDATE t SET n = 1000", "error 22003"),
        ("UPDATE t SET i = i WHERE v = 'abc'", ""),
        ("SELECT v, n, i FROM t", "abc | 2.35 | 3"),
    ])
    .await;
}
