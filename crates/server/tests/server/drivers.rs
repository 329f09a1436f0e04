//! Promised: the server accepts what drivers and frameworks send on their own. Rows of VALUES and
//! arrays can be stored and compared although their parameters have no types; a statement's tag is
//! PostgreSQL's; a session whose search path names no schema still has temporary tables; row locks
//! are accepted.

use crate::common::TestServer;
use crate::common::raw::{Answer, RawClient};

async fn with_client(test: impl FnOnce(&mut RawClient) + Send + 'static) {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || test(&mut RawClient::connect(addr)));
    done.await.unwrap();
}

/// The answer to a statement with untyped parameters.
fn untyped(client: &mut RawClient, sql: &str, values: &[&str]) -> Answer {
    client.prepare("", sql, &[]);
    let values = values.iter().map(|value| match *value {
        "NULL" => None,
        value => Some(value.as_bytes().to_vec()),
    });
    client.run("", &values.collect::<Vec<_>>(), 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_untyped_parameters_can_be_inserted() {
    with_client(|client| {
        client.simple(
            "CREATE TEMP TABLE z (i int, s text, d date, j jsonb, a int[], n numeric(6,2))",
        );
        for (sql, values, tag) in [
            (
                "INSERT INTO z (i, d) VALUES ($1, $2), ($3, $4)",
                &["1", "2024-01-01", "2", "2024-01-02"][..],
                "INSERT 0 2",
            ),
            (
                "INSERT INTO z (j, i, a) VALUES ($1, 3, $2), (NULL, 4, NULL), ($3, 5, $4)",
                &["{\"b\":1}", "{1,2}", "[ 2 ]", "{}"],
                "INSERT 0 3",
            ),
            ("INSERT INTO z (i) VALUES ($1), ($1)", &["6"], "INSERT 0 2"),
            (
                "INSERT INTO z (i, n) VALUES ($1, $2), (8, 2.255), ($3, $4)",
                &["7", "1.005", "9", "NULL"],
                "INSERT 0 3",
            ),
        ] {
            let answer = untyped(client, sql, values);
            assert_eq!((answer.error, answer.tag.as_str()), (None, tag), "{sql}");
        }
        let rows = client
            .simple("SELECT i, d, j, a, n FROM z ORDER BY i")
            .shown();
        let expected = "1 | 2024-01-01 | NULL | NULL | NULL; 2 | 2024-01-02 | NULL | NULL | NULL; \
                        3 | NULL | {\"b\": 1} | {1,2} | NULL; 4 | NULL | NULL | NULL | NULL; \
                        5 | NULL | [2] | {} | NULL; 6 | NULL | NULL | NULL | NULL; \
                        6 | NULL | NULL | NULL | NULL; 7 | NULL | NULL | NULL | 1.01; \
                        8 | NULL | NULL | NULL | 2.26; 9 | NULL | NULL | NULL | NULL";
        assert_eq!(rows, expected);
        // In a column, some parameters have types and others have none.
        client.prepare(
            "",
            "INSERT INTO z (i, s, d) VALUES ($1, $2, $3), ($4, $5, $6)",
            &[23, 25, 0, 0, 25, 1082],
        );
        let values = ["10", "a", "2024-02-01", "11", "b", "2024-02-02"];
        let values = values.map(|value| Some(value.as_bytes().to_vec()));
        let answer = client.run("", &values, 0);
        assert_eq!((answer.error, answer.tag.as_str()), (None, "INSERT 0 2"));
        assert_eq!(answer.parameters, [23, 25, 1082, 23, 25, 1082]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_work_with_untyped_parameters() {
    with_client(|client| {
        client.simple(
            "CREATE TEMP TABLE z (id int, a int[]); \
             INSERT INTO z VALUES (1, '{1,2,3}'), (2, '{}'), (3, NULL), (4, '{NULL,5}')",
        );
        for (sql, value, expected) in [
            ("SELECT id FROM z WHERE a = $1", "{1,2,3}", "1"),
            (
                "SELECT id FROM z WHERE $1 <> a ORDER BY 1",
                "{1,2,3}",
                "2; 4",
            ),
            ("SELECT id FROM z WHERE a > $1 ORDER BY 1", "{1}", "1; 4"),
            ("SELECT id FROM z WHERE a BETWEEN $1 AND $1", "{}", "2"),
            (
                "SELECT id FROM z WHERE a IS NOT DISTINCT FROM $1",
                "{NULL,5}",
                "4",
            ),
            (
                "SELECT nullif(a, $1) FROM z WHERE id < 3 ORDER BY id",
                "{}",
                "{1,2,3}; NULL",
            ),
            (
                "SELECT a || $1 FROM z WHERE id < 4 ORDER BY id",
                "{7,NULL}",
                "{1,2,3,7,NULL}; {7,NULL}; {7,NULL}",
            ),
            ("SELECT $1 || a FROM z WHERE id = 1", "{7}", "{7,1,2,3}"),
            (
                "SELECT array_cat(a, $1) FROM z WHERE id = 1",
                "{7}",
                "{1,2,3,7}",
            ),
            (
                "SELECT array_append(a, $1) FROM z WHERE id = 1",
                "7",
                "{1,2,3,7}",
            ),
            (
                "SELECT greatest(a, $1) FROM z WHERE id = 4",
                "{6,NULL}",
                "{NULL,5}",
            ),
        ] {
            assert_eq!(untyped(client, sql, &[value]).shown(), expected, "{sql}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_count_the_rows_that_a_statement_makes() {
    with_client(|client| {
        for (sql, tag) in [
            (
                "CREATE TABLE a AS SELECT * FROM generate_series(1, 6)",
                "SELECT 6",
            ),
            (
                "CREATE TEMP TABLE b AS SELECT 1 AS x WHERE false",
                "SELECT 0",
            ),
            (
                "CREATE TABLE IF NOT EXISTS a AS SELECT 1 AS x",
                "CREATE TABLE AS",
            ),
            ("SELECT 1 AS x INTO c", "SELECT 1"),
            ("CREATE TABLE d (x int)", "CREATE TABLE"),
            (
                "CREATE TABLE e (x int NOT NULL, PRIMARY KEY (x))",
                "CREATE TABLE",
            ),
            ("SHOW timezone", "SHOW"),
            ("EXPLAIN SELECT 1", "EXPLAIN"),
            ("SELECT * FROM a FOR KEY SHARE OF a", "SELECT 6"),
            ("SELECT pg_notify('a', 'b')", "SELECT 1"),
            ("BEGIN READ ONLY, NOT DEFERRABLE", "BEGIN"),
            ("LOCK TABLE a IN ACCESS SHARE MODE", "LOCK TABLE"),
            ("ROLLBACK", "ROLLBACK"),
        ] {
            let answer = client.simple(sql);
            assert_eq!((answer.error, answer.tag.as_str()), (None, tag), "{sql}");
            let reads = ["SHOW", "EXPLAIN", "SELECT * "];
            if reads.iter().any(|begin| sql.starts_with(begin)) {
                let answer = untyped(client, sql, &[]);
                assert_eq!((answer.error, answer.tag.as_str()), (None, tag), "{sql}");
            }
        }
        let made = untyped(client, "CREATE TABLE f AS SELECT $1::int AS x", &["5"]);
        assert_eq!((made.error, made.tag.as_str()), (None, "SELECT 1"));
        for (sql, state) in [
            ("LOCK TABLE a IN ACCESS SHARE MODE", "25P01"),
            ("BEGIN; LOCK TABLE nowhere IN ACCESS SHARE MODE", "42P01"),
            ("ROLLBACK", ""),
            ("PREPARE s AS CREATE TABLE g AS SELECT 1 AS x", "42601"),
            ("BEGIN", ""),
            ("DISCARD ALL", "25001"),
            ("ROLLBACK", ""),
        ] {
            let error = client.simple(sql).error.unwrap_or_default();
            let found = error.split(' ').next().unwrap_or_default();
            assert_eq!(found, state, "{sql}: {error}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_tables_need_no_search_path() {
    with_client(|client| {
        for (sql, expected) in [
            ("CREATE TEMP TABLE before (a int)", ""),
            ("INSERT INTO before VALUES (1)", ""),
            ("SELECT a FROM pg_temp.before", "1"),
            ("SET search_path = ''", ""),
            ("SELECT a FROM before", "1"),
            ("CREATE TEMP TABLE x (a int)", ""),
            ("CREATE TEMPORARY TABLE y AS SELECT 2 AS b", ""),
            ("INSERT INTO x VALUES (3)", ""),
            ("UPDATE x SET a = a + 1", ""),
            ("SELECT a, b FROM x, pg_temp.y", "4 | 2"),
            ("SELECT current_schema()", "NULL"),
            (
                "CREATE TABLE z (a int)",
                "error 3F000 no schema has been selected to create in",
            ),
            (
                "SELECT * FROM nowhere",
                "error 42P01 relation \"nowhere\" does not exist",
            ),
            ("CREATE TEMP TABLE x (a int)", "error 42P07"),
            ("DROP TABLE IF EXISTS before", ""),
            (
                "SELECT a FROM before",
                "error 42P01 relation \"before\" does not exist",
            ),
            ("SET search_path = public", ""),
            ("SELECT a FROM x", "4"),
            ("DROP TABLE pg_temp.x", ""),
            (
                "SELECT a FROM x",
                "error 42P01 relation \"x\" does not exist",
            ),
            ("SELECT set_config('search_path', '', false)", ""),
            ("SELECT b FROM y", "2"),
        ] {
            let shown = client.simple(sql).shown();
            let same = match expected {
                expected if expected.starts_with("error") => shown.starts_with(expected),
                expected => shown == expected,
            };
            assert!(same, "{sql}: {shown}");
        }
    })
    .await;
}
