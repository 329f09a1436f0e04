//! Promised: a relation that a view reads cannot be dropped without CASCADE, which drops the view
//! too. A view follows renamed relations, and its values have the types of its query.

use crate::common::TestServer;
use crate::common::raw::RawClient;
use crate::own_tables::answers;

#[tokio::test(flavor = "multi_thread")]
async fn a_relation_that_a_view_reads_cannot_be_dropped() {
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
async fn the_frames_of_a_view_are_those_of_its_query() {
    answers(&[
        (
            "CREATE TABLE t AS SELECT * FROM (VALUES (DATE '2024-01-01', 1), ('2024-01-02', 2), \
             ('2024-01-03', 4)) AS v(d, n)",
            "",
        ),
        (
            "CREATE VIEW v AS SELECT sum(1) OVER (ORDER BY d RANGE '30' PRECEDING) AS x, \
             sum(1) OVER (ORDER BY d RANGE '1 day' PRECEDING) AS y, \
             sum(1) OVER (ORDER BY n RANGE '1' PRECEDING) AS z FROM t",
            "",
        ),
        ("SELECT sum(x), sum(y), sum(z) FROM v", "3 | 5 | 4"),
        (
            "CREATE VIEW w AS SELECT sum(1) OVER (ORDER BY d RANGE 30 PRECEDING) AS x FROM t",
            "error 0A000",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drop_takes_several_names_and_their_dependents() {
    answers(&[
        ("CREATE TABLE t AS SELECT 1 AS x", ""),
        ("CREATE TABLE u AS SELECT 1 AS x", ""),
        ("CREATE VIEW v AS SELECT x FROM t", ""),
        ("CREATE VIEW w AS SELECT x FROM v", ""),
        ("DROP TABLE u, nope", "error 42P01"),
        ("DROP TABLE u, v", "error 42809"),
        ("DROP TABLE u, t", "error 2BP01"),
        ("DROP VIEW v RESTRICT", "error 2BP01"),
        ("SELECT w.x FROM u, w", "1"),
        ("DROP VIEW v, w", ""),
        ("CREATE VIEW v AS SELECT x FROM t", ""),
        ("CREATE VIEW w AS SELECT x FROM v", ""),
        ("BEGIN", ""),
        ("DROP TABLE IF EXISTS nope, t, u CASCADE", ""),
        ("SELECT x FROM w", "error 42P01"),
        ("ROLLBACK", ""),
        ("SELECT x FROM w", "1"),
        ("DROP VIEW v CASCADE", ""),
        ("SELECT x FROM w", "error 42P01"),
        ("DROP VIEW IF EXISTS v, w, nope.x", ""),
        ("DROP TABLE t, u", ""),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_over_merged_columns_is_kept_as_a_query() {
    answers(&[
        ("CREATE TABLE t AS SELECT 1 AS k", ""),
        ("CREATE TABLE u AS SELECT 1.0 AS k", ""),
        ("CREATE VIEW v AS SELECT k FROM t JOIN u USING (k)", ""),
        ("SELECT pg_typeof(k) FROM v", "numeric"),
        (
            "SELECT definition FROM pg_views WHERE viewname = 'v'",
            "SELECT t.k AS k FROM t JOIN u ON (t.k = u.k);",
        ),
        ("DROP TABLE u", "error 2BP01"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_follow_renamed_relations() {
    answers(&[
        ("CREATE TEMP TABLE z (id int); INSERT INTO z VALUES (4)", ""),
        ("CREATE TEMP VIEW w1 AS SELECT * FROM z", ""),
        ("CREATE TEMP VIEW w2 AS SELECT * FROM w1", ""),
        ("ALTER TABLE z RENAME TO y", ""),
        ("DROP TABLE y", "error 2BP01"),
        ("DROP TABLE pg_temp.y", "error 2BP01"),
        ("SELECT id FROM w1", "4"),
        ("CREATE TEMP TABLE z (id int); DROP TABLE z", ""),
        ("ALTER VIEW w1 RENAME TO w3", ""),
        ("DROP VIEW w3", "error 2BP01"),
        ("CREATE OR REPLACE VIEW w3 AS SELECT 1 AS id", "error 2BP01"),
        ("SELECT id FROM w2", "4"),
        ("ALTER VIEW y RENAME TO q", "error 42809"),
        ("ALTER VIEW nope RENAME TO q", "error 42P01"),
        ("ALTER VIEW IF EXISTS nope RENAME TO q", ""),
        ("ALTER TABLE IF EXISTS nope RENAME TO q", ""),
        ("ALTER TABLE w3 RENAME TO w4", ""),
        ("BEGIN; ALTER TABLE y RENAME TO z; ROLLBACK", ""),
        ("DROP TABLE y", "error 2BP01"),
        ("DROP TABLE y CASCADE", ""),
        ("SELECT id FROM w4", "error 42P01"),
        ("SELECT id FROM w2", "error 42P01"),
        ("BEGIN; CREATE TEMP TABLE k (a int)", ""),
        ("CREATE TEMP VIEW kv AS SELECT a FROM k; SAVEPOINT a", ""),
        ("ALTER TABLE k RENAME TO k2", ""),
        ("DROP TABLE k2", "error 2BP01"),
        ("ROLLBACK TO a", ""),
        ("DROP TABLE k", "error 2BP01"),
        ("ROLLBACK TO a", ""),
        (
            "ALTER TABLE k RENAME TO k3; DROP TABLE k3 CASCADE; ROLLBACK",
            "",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_shared_table_stays_shared() {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let rows = engine
        .session()
        .sql("CREATE TABLE t AS SELECT 1 AS x")
        .await;
    let rows = futures::TryStreamExt::try_collect::<Vec<_>>(rows.unwrap());
    rows.await.unwrap();
    let rights = coscan::Rights {
        writes: true,
        ..coscan::Rights::NONE
    };
    let server = TestServer::start_with_rights(&engine, rights).await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let (mut one, mut other) = (RawClient::connect(addr), RawClient::connect(addr));
        one.simple("CREATE VIEW v AS SELECT x FROM t");
        assert_eq!(one.simple("ALTER TABLE t RENAME TO u").error, None);
        assert_eq!(other.simple("SELECT x FROM u").shown(), "1");
        let shown = other.simple("SELECT x FROM t").shown();
        assert!(shown.starts_with("error 42P01"), "{shown}");
        assert_eq!(one.simple("SELECT x FROM u").shown(), "1");
        let shown = one.simple("DROP TABLE u").shown();
        assert!(shown.starts_with("error 2BP01"), "{shown}");
    });
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_nulls_in_views_have_the_types_of_their_values() {
    answers(&[
        (
            "CREATE TABLE t (k int, u uuid, j json, b jsonb, x bytea, ts timestamptz, a int[]); \
             INSERT INTO t VALUES \
             (1, '11111111-1111-1111-1111-111111111111', '1', '{\"a\":1}', 'a', \
             '2024-01-01 10:00+00', '{1,2}'), \
             (2, '22222222-2222-2222-2222-222222222222', '2', '2', '\\x6262', \
             '2024-01-02 10:00+00', '{3}'), (3, NULL, NULL, NULL, NULL, NULL, NULL)",
            "",
        ),
        (
            "CREATE VIEW v AS SELECT k, \
             (u IN ('11111111-1111-1111-1111-111111111111', NULL)) IS TRUE AS u, \
             (b IN ('{\"a\": 1}', NULL)) IS TRUE AS b, \
             (x IN ('a', '\\x6262')) IS TRUE AS x, \
             (ts IN ('2024-01-01 12:00+02', NULL)) IS TRUE AS ts, \
             (a IN ('{1,2}', '{4}')) IS TRUE AS a FROM t",
            "",
        ),
        (
            "SELECT u, b, x, ts, a FROM v WHERE k = 1",
            "t | t | t | t | t",
        ),
        (
            "SELECT u, b, x, ts, a FROM v WHERE k = 2",
            "f | f | t | f | f",
        ),
        (
            "SELECT u, b, x, ts, a FROM v WHERE k = 3",
            "f | f | f | f | f",
        ),
        (
            "CREATE VIEW d AS SELECT k, u IS DISTINCT FROM NULL AS u, \
             NULL IS NOT DISTINCT FROM j AS j, b IS DISTINCT FROM NULL AS b, \
             u BETWEEN NULL AND '11111111-1111-1111-1111-111111111111' AS r, \
             x BETWEEN 'a' AND '\\x6262' AS x FROM t",
            "",
        ),
        (
            "SELECT u, j, b, r, x FROM d WHERE k = 1",
            "t | f | t | NULL | t",
        ),
        (
            "SELECT u, j, b, r, x FROM d WHERE k = 2",
            "t | f | t | f | t",
        ),
        (
            "SELECT u, j, b, r, x FROM d WHERE k = 3",
            "f | t | f | NULL | NULL",
        ),
        ("CREATE VIEW e AS SELECT k FROM t WHERE u = u::text", ""),
        ("SELECT k FROM e", "error 42883"),
    ])
    .await;
}
