//! Promised: a session's own tables behave like PostgreSQL's. ROLLBACK undoes what the transaction
//! did to names, tables and settings since BEGIN or the savepoint, and so does an error among
//! several statements of one message, or of the messages up to a Sync. A relation that a view
//! reads cannot be dropped without CASCADE, which drops the view too. Values are stored as the
//! column's type parses them. What ROLLBACK could not undo is refused inside a transaction.

mod checks;
mod columns;
mod sequences;

use tokio_postgres::types::Type;

use crate::common::TestServer;
use crate::common::raw::RawClient;

/// Runs each statement, and compares its rows, or a part of its error.
pub(crate) async fn answers(script: &'static [(&'static str, &'static str)]) {
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
async fn rollback_restores_rows_and_names() {
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
async fn rollback_to_a_savepoint_restores_its_state() {
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
async fn updates_store_values_as_the_columns_type_parses_them() {
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
        ("CREATE TABLE s (v text)", ""),
        ("INSERT INTO s VALUES ('a'), ('b')", ""),
        ("UPDATE s SET v = nullif('a', v)", ""),
        ("SELECT v FROM s ORDER BY v", "a; NULL"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_up_to_a_sync_are_one_transaction() {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(addr);
        for (statements, error, sum, setting) in [
            (&["CREATE TABLE t AS SELECT 1 AS x"][..], None, "1", "a"),
            (
                &[
                    "SELECT 1",
                    "SET my.x = 'b'",
                    "INSERT INTO t VALUES (2)",
                    "SELECT 1/0",
                ],
                Some("22012"),
                "1",
                "a",
            ),
            (
                &[
                    "INSERT INTO t VALUES (2)",
                    "SELECT set_config('my.x', 'b', false)",
                    "SELECT y",
                ],
                Some("42703"),
                "1",
                "a",
            ),
            (
                &[
                    "INSERT INTO t VALUES (2)",
                    "COMMIT",
                    "DELETE FROM t",
                    "SELECT 1/0",
                ],
                Some("22012"),
                "3",
                "a",
            ),
            (
                &[
                    "INSERT INTO t VALUES (3)",
                    "BEGIN",
                    "DELETE FROM t",
                    "ROLLBACK",
                ],
                None,
                "3",
                "a",
            ),
            (
                &["INSERT INTO t VALUES (3)", "SET my.x = 'c'"],
                None,
                "6",
                "c",
            ),
        ] {
            if setting == "a" {
                client.simple("SET my.x = 'a'");
            }
            let answer = client.pipeline(statements);
            let state = answer.error.as_deref().map(|error| &error[..5]);
            assert_eq!(state, error, "{statements:?}: {answer:?}");
            let left = client.simple("SELECT sum(x), current_setting('my.x') FROM t");
            assert_eq!(left.shown(), format!("{sum} | {setting}"), "{statements:?}");
        }
    });
    done.await.unwrap();
}

/// The expected answers are PostgreSQL's.
#[tokio::test(flavor = "multi_thread")]
async fn words_that_settings_get_are_folded() {
    answers(&[
        ("SET application_name = MyApp", ""),
        ("SHOW application_name", "myapp"),
        ("SET application_name = \"MyApp\"", ""),
        ("SHOW application_name", "MyApp"),
        ("SET search_path TO PUBLIC", ""),
        ("SHOW search_path", "public"),
        ("CREATE VIEW v AS SELECT 1 AS x", ""),
        ("SELECT x FROM public.v", "1"),
        ("SET client_encoding TO UTF8; SET DateStyle = ISO, MDY", ""),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_restores_settings() {
    answers(&[
        ("SET my.x = 'a'; SET statement_timeout = '5s'", ""),
        ("BEGIN", ""),
        ("SET timezone = 'Asia/Tokyo'", ""),
        ("SET my.x = 'b'", ""),
        ("SET my.y = 'b'", ""),
        ("SET LOCAL statement_timeout = '6s'", ""),
        ("SET datafusion.execution.batch_size = 17", ""),
        ("SET application_name = 'me'", ""),
        ("SAVEPOINT s", ""),
        ("SET LOCAL statement_timeout = '7s'", ""),
        ("SET my.x = 'c'", ""),
        ("SET search_path = nowhere", ""),
        ("SELECT 1/0", "error 22012"),
        ("ROLLBACK TO s", ""),
        ("SHOW statement_timeout", "6s"),
        ("SHOW my.x", "b"),
        ("SHOW search_path", "\"$user\", public"),
        ("SHOW timezone", "Asia/Tokyo"),
        (
            "SELECT '2026-01-01 00:00Z'::timestamptz",
            "2026-01-01 09:00:00+09",
        ),
        ("ROLLBACK", ""),
        ("SHOW timezone", "UTC"),
        (
            "SELECT '2026-01-01 00:00Z'::timestamptz",
            "2026-01-01 00:00:00+00",
        ),
        ("SHOW my.x", "a"),
        ("SHOW my.y", "error 42704"),
        ("SHOW statement_timeout", "5s"),
        ("SHOW datafusion.execution.batch_size", "8192"),
        ("SHOW application_name", ""),
        (
            "BEGIN; SET my.x = 'd'; SET LOCAL statement_timeout = '6s'; COMMIT",
            "",
        ),
        ("SHOW my.x", "d"),
        ("SHOW statement_timeout", "5s"),
        ("SET my.x = 'e'; SELECT 1/0", "error 22012"),
        ("SHOW my.x", "d"),
    ])
    .await;
}

/// The expected answers are PostgreSQL's.
#[tokio::test(flavor = "multi_thread")]
async fn all_forms_of_insert_work() {
    answers(&[
        (
            "CREATE TABLE t (a int, b text DEFAULT 'x', c int NOT NULL DEFAULT 1 + 1)",
            "",
        ),
        ("INSERT INTO t VALUES (1)", ""),
        (
            "INSERT INTO t VALUES (2, DEFAULT, 5), (3, 'y', DEFAULT)",
            "",
        ),
        ("INSERT INTO t DEFAULT VALUES", ""),
        ("INSERT INTO t SELECT 4", ""),
        ("INSERT INTO t (b) SELECT 'only'", ""),
        ("INSERT INTO t (a, b) VALUES (6, DEFAULT)", ""),
        (
            "SELECT a, b, c FROM t ORDER BY a, b",
            "1 | x | 2; 2 | x | 5; 3 | y | 2; 4 | x | 2; 6 | x | 2; NULL | only | 2; NULL | x | 2",
        ),
        ("INSERT INTO t VALUES (1, 'a', 2, 3)", "error 42601"),
        ("INSERT INTO t (a, b) VALUES (1)", "error 42601"),
        ("INSERT INTO t (a, b) VALUES (1, 'b', 3)", "error 42601"),
        ("INSERT INTO t (a, c) VALUES (1, NULL)", "error 23502"),
        (
            "WITH q AS (SELECT 7 AS n) INSERT INTO t SELECT n, 'with' FROM q",
            "",
        ),
        (
            "WITH q AS (SELECT 8 AS n) \
             INSERT INTO t WITH r AS (SELECT n + 1 AS m FROM q) SELECT m FROM r",
            "",
        ),
        (
            "SELECT a, b, c FROM t WHERE a > 6 ORDER BY a",
            "7 | with | 2; 9 | x | 2",
        ),
        (
            "INSERT INTO t VALUES ((SELECT 10), DEFAULT, 1), (11, 'z', DEFAULT)",
            "",
        ),
        (
            "INSERT INTO t (c, a) VALUES (DEFAULT, (SELECT max(a) + 1 FROM t))",
            "",
        ),
        (
            "SELECT a, b, c FROM t WHERE a > 9 ORDER BY a",
            "10 | x | 1; 11 | z | 2; 12 | x | 2",
        ),
        (
            "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING",
            "error 0A000",
        ),
        ("INSERT INTO t VALUES (1) RETURNING a", "error 0A000"),
        ("CREATE TABLE IF NOT EXISTS t (z int)", ""),
        ("CREATE TABLE u (LIKE t)", ""),
        ("SELECT * FROM u", ""),
        (
            "CREATE TABLE n (a int NOT NULL, b varchar(2) DEFAULT 'x')",
            "",
        ),
        ("CREATE TABLE m (LIKE n)", ""),
        ("INSERT INTO m VALUES (NULL, 'y')", "error 23502"),
        ("INSERT INTO m VALUES (1, 'abc')", "error 22001"),
        ("CREATE TEMP TABLE l (LIKE n INCLUDING DEFAULTS)", ""),
        ("INSERT INTO l (a) VALUES (1)", ""),
        ("SELECT * FROM l", "1 | x"),
        ("CREATE TABLE l2 (LIKE nowhere)", "error 42P01"),
        ("ANALYZE t", ""),
        ("VACUUM (ANALYZE) t", ""),
        ("COMMENT ON TABLE t IS 'about'", ""),
        ("TRUNCATE t", ""),
        ("SELECT count(*) FROM t", "0"),
    ])
    .await;
}

/// The expected tags are PostgreSQL's.
#[tokio::test(flavor = "multi_thread")]
async fn tags_are_postgres_own() {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let addr = server.addr;
    let run = move || {
        let mut client = RawClient::connect(addr);
        for (sql, tag) in [
            (
                "CREATE TABLE a AS SELECT x FROM generate_series(1, 6) AS g(x)",
                "SELECT 6",
            ),
            (
                "CREATE TEMP TABLE b AS SELECT x FROM a WHERE false",
                "SELECT 0",
            ),
            ("SELECT x INTO c FROM a WHERE x < 3", "SELECT 2"),
            ("CREATE TABLE d (x int)", "CREATE TABLE"),
            ("CREATE TABLE e (LIKE a)", "CREATE TABLE"),
            ("SHOW timezone", "SHOW"),
            ("EXPLAIN SELECT 1", "EXPLAIN"),
            ("SELECT x FROM c", "SELECT 2"),
        ] {
            assert_eq!(client.simple(sql).tag, tag, "{sql}");
            client.simple("DROP TABLE IF EXISTS a2, b, c2, d, e");
            client.prepare(
                "",
                &sql.replace(" c ", " c2 ").replace(" a AS", " a2 AS"),
                &[],
            );
            let tag_again = client.run("", &[], 0).tag;
            assert_eq!(tag_again, tag, "{sql}");
        }
    };
    tokio::task::spawn_blocking(run).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn casts_to_text_have_the_type_text() {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let addr = server.addr;
    let run = move || {
        let mut client = RawClient::connect(addr);
        for sql in [
            "CREATE TABLE k (j jsonb, js json, u uuid, v varchar(5))",
            "INSERT INTO k VALUES ('{\"a\": 1}', '[1]', '00000000-0000-0000-0000-00000000000a', 'x')",
        ] {
            assert_eq!(client.simple(sql).error, None, "{sql}");
        }
        let all = "{\"a\": 1} | [1] | 00000000-0000-0000-0000-00000000000a | x";
        let texts = "SELECT j::text AS a, js::text AS b, u::text AS c, v::text AS d FROM k";
        for sql in [
            texts.to_owned(),
            format!("SELECT * FROM ({texts}) t"),
            format!("{texts} UNION ALL {texts} OFFSET 1"),
            format!("{texts} GROUP BY 1, 2, 3, 4"),
            "SELECT a, b, c, d FROM made".to_owned(),
            "SELECT a, b, c, d FROM seen".to_owned(),
        ] {
            if sql.ends_with("made") {
                let made = client.simple(&format!("CREATE TABLE made AS {texts}"));
                assert_eq!(made.error, None);
            }
            if sql.ends_with("seen") {
                client.simple(&format!("CREATE VIEW seen AS {texts}"));
            }
            let answer = client.simple(&sql);
            let types: Vec<_> = answer.columns.iter().map(|column| column.1).collect();
            assert_eq!(
                (answer.shown().as_str(), types.as_slice()),
                (all, &[25; 4][..]),
                "{sql}"
            );
        }
        for (sql, expected) in [
            ("SELECT to_jsonb(j::text) FROM k", r#""{\"a\": 1}""#),
            (
                "SELECT json_build_object('a', j::text) FROM k",
                r#"{"a" : "{\"a\": 1}"}"#,
            ),
            (
                "SELECT max(u::text) OVER () FROM k",
                "00000000-0000-0000-0000-00000000000a",
            ),
            ("SELECT (j -> 'a')::text FROM k", "1"),
        ] {
            assert_eq!(client.simple(sql).shown(), expected, "{sql}");
        }
    };
    tokio::task::spawn_blocking(run).await.unwrap();
}

/// A default that is not constant is computed when the statement runs.
#[tokio::test(flavor = "multi_thread")]
async fn defaults_may_depend_on_the_time() {
    answers(&[
        (
            "CREATE TABLE t (a int, c timestamptz DEFAULT now(), d date DEFAULT current_date + 1, \
             e text DEFAULT to_char(now(), 'YYYY'), f int DEFAULT extract(year FROM now()) * 2, \
             g timestamptz DEFAULT now() + interval '1 day 2 hours', h date DEFAULT now()::date, \
             i timestamp DEFAULT localtimestamp, j float8 DEFAULT random())",
            "",
        ),
        ("BEGIN", ""),
        ("INSERT INTO t DEFAULT VALUES", ""),
        (
            "INSERT INTO t (a, c, d, e, f, g, h, i) VALUES \
             (1, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT), \
             (2, now(), DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT)",
            "",
        ),
        (
            "INSERT INTO t VALUES (3, '2000-01-01', '2000-01-01', 'x', 0, now(), '2000-01-01', \
             now(), 5)",
            "",
        ),
        (
            "UPDATE t SET c = DEFAULT, d = DEFAULT, e = DEFAULT, f = DEFAULT, g = DEFAULT, \
             h = DEFAULT, i = DEFAULT, j = DEFAULT WHERE a = 3",
            "",
        ),
        (
            "SELECT count(*), count(*) FILTER (WHERE c = now() AND d = current_date + 1 \
             AND e = to_char(now(), 'YYYY') AND f = extract(year FROM now()) * 2 \
             AND g = now() + interval '1 day 2 hours' AND h = now()::date \
             AND i = localtimestamp AND j < 1), count(DISTINCT j) FROM t",
            "4 | 4 | 4",
        ),
        ("COMMIT", ""),
        (
            "CREATE TABLE u (a int, c timestamptz DEFAULT clock_timestamp())",
            "",
        ),
        ("PREPARE p AS INSERT INTO u (a) VALUES ($1)", ""),
        ("EXECUTE p(1); EXECUTE p(2)", ""),
        ("SELECT count(DISTINCT c) FROM u", "2"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::too_many_lines)] // A list of statements.
async fn rows_can_be_changed_by_rows_of_other_tables() {
    answers(&[
        (
            "CREATE TABLE t AS SELECT g AS a, 'x' AS b, 2 AS c FROM generate_series(1, 7) AS g",
            "",
        ),
        (
            "CREATE TABLE s AS SELECT g AS id, 'n' || g AS name FROM generate_series(1, 3) AS g",
            "",
        ),
        ("UPDATE t SET b = s.name FROM s WHERE t.a = s.id", ""),
        (
            "UPDATE t AS u SET b = b || s.name, c = DEFAULT FROM s WHERE u.a = s.id AND s.id > 1",
            "",
        ),
        ("UPDATE t SET (b, c) = ('p', a * 10) WHERE a = 4", ""),
        (
            "CREATE TABLE pair AS SELECT * FROM (VALUES (4, 'q', 7),(5, 'r', 8)) v(k, x, y)",
            "",
        ),
        (
            "UPDATE pair SET (x, y) = (SELECT p.x || '!', p.y + 1 FROM pair p WHERE p.k = pair.k \
             AND p.k > 4)",
            "",
        ),
        (
            "SELECT * FROM pair ORDER BY k",
            "4 | NULL | NULL; 5 | r! | 9",
        ),
        (
            "UPDATE pair SET (x, y) = (SELECT p.x, p.y FROM pair p)",
            "error 21000",
        ),
        (
            "UPDATE pair SET (x, y) = (SELECT p.x, p.y FROM pair p LIMIT 1)",
            "error 0A000",
        ),
        (
            "UPDATE pair SET (x, y) = (SELECT p.x, p.k FROM pair p ORDER BY p.k DESC LIMIT 1)",
            "",
        ),
        (
            "UPDATE pair SET (y, x) = (SELECT p.k, p.x || p.k FROM pair p WHERE p.k >= pair.k \
             ORDER BY p.x DESC FETCH FIRST ROW ONLY) WHERE k = 4",
            "",
        ),
        (
            "SELECT k, x = 'r!' || y, y IN (4, 5) FROM pair ORDER BY k",
            "4 | t | t; 5 | f | t",
        ),
        ("UPDATE pair SET (x, y) = (SELECT 'z', 7 LIMIT 1)", ""),
        (
            "UPDATE pair SET (x, y) = (SELECT DISTINCT p.x || '?', p.y + pair.k FROM pair p)",
            "",
        ),
        (
            "UPDATE pair SET (x, y) = (SELECT DISTINCT ON (p.y) p.x, p.k FROM pair p \
             WHERE p.k = pair.k ORDER BY p.y) WHERE k = 5",
            "",
        ),
        ("SELECT * FROM pair ORDER BY k", "4 | z? | 11; 5 | z? | 5"),
        (
            "UPDATE pair SET y = (SELECT p.y FROM pair p WHERE p.k = pair.nope)",
            "error 42703",
        ),
        (
            "DELETE FROM pair WHERE EXISTS (SELECT 1 FROM s WHERE s.id = pair.nope)",
            "error 42703",
        ),
        (
            "DELETE FROM pair USING s WHERE EXISTS (SELECT 1 FROM t WHERE t.a = s.nope)",
            "error 42703",
        ),
        (
            "DELETE FROM pair WHERE EXISTS (SELECT 1 FROM s WHERE s.id = nope.k)",
            "error 42P01",
        ),
        (
            "WITH q AS (SELECT 6 AS k) UPDATE t SET b = 'q' FROM q WHERE a = q.k",
            "",
        ),
        (
            "WITH q AS (SELECT 7 AS k) UPDATE t SET b = 'r' WHERE a IN (SELECT k FROM q)",
            "",
        ),
        (
            "SELECT a, b, c FROM t ORDER BY a",
            "1 | n1 | 2; 2 | n2n2 | NULL; 3 | n3n3 | NULL; 4 | p | 40; 5 | x | 2; 6 | q | 2; \
             7 | r | 2",
        ),
        ("UPDATE t SET nothing = 1 FROM s", "error 42703"),
        (
            "UPDATE t SET b = 'z' FROM s WHERE t.a = s.id RETURNING a",
            "error 0A000",
        ),
        (
            "DELETE FROM t USING s WHERE t.a = s.id AND name <> 'n1'",
            "",
        ),
        (
            "DELETE FROM t AS u USING s, s AS s2 WHERE u.a = s.id + s2.id",
            "",
        ),
        (
            "WITH q AS (SELECT 1 AS k) DELETE FROM t WHERE a IN (SELECT k FROM q)",
            "",
        ),
        ("SELECT a, b, c FROM t ORDER BY a", "7 | r | 2"),
    ])
    .await;
}

/// The expected answers are PostgreSQL's.
#[tokio::test(flavor = "multi_thread")]
async fn names_of_changed_columns_are_folded() {
    answers(&[
        (
            "CREATE TABLE t (a int DEFAULT 7, b text DEFAULT 'd', \"B\" text)",
            "",
        ),
        (
            "INSERT INTO t (A, B) VALUES (1, DEFAULT), (DEFAULT, 'x')",
            "",
        ),
        (
            "INSERT INTO t (A, B) VALUES (3, (SELECT 'y')), (DEFAULT, 'z')",
            "",
        ),
        (
            "SELECT a, b, \"B\" FROM t ORDER BY a, b",
            "1 | d | NULL; 3 | y | NULL; 7 | x | NULL; 7 | z | NULL",
        ),
        ("UPDATE t SET B = 'n' WHERE A = 1", ""),
        (
            "UPDATE T SET B = T.b || 'm', \"B\" = 'M' FROM (SELECT 3 AS k) s WHERE s.k = T.A",
            "",
        ),
        (
            "WITH q AS (SELECT 7 AS k) \
             UPDATE T SET A = 8, B = DEFAULT WHERE A IN (SELECT k FROM q) AND B = 'x'",
            "",
        ),
        ("UPDATE t SET (A, B) = (9, DEFAULT) WHERE b = 'z'", ""),
        (
            "SELECT a, b, \"B\" FROM t ORDER BY a, b",
            "1 | n | NULL; 3 | ym | M; 8 | d | NULL; 9 | d | NULL",
        ),
        ("UPDATE t SET \"A\" = 1", "error 42703"),
        ("UPDATE t SET \"A\" = 1 FROM (SELECT 1) s", "error 42703"),
        ("UPDATE t SET a = 1, A = 2", "error 42601"),
    ])
    .await;
}

/// The expected answers are PostgreSQL's.
#[tokio::test(flavor = "multi_thread")]
async fn keys_are_unique() {
    answers(&[
        ("CREATE TABLE k (a int PRIMARY KEY, b text UNIQUE)", ""),
        ("INSERT INTO k VALUES (1, 'a'), (2, NULL), (3, NULL)", ""),
        ("INSERT INTO k VALUES (1, 'b')", "error 23505"),
        ("INSERT INTO k VALUES (4, 'a')", "error 23505"),
        ("INSERT INTO k VALUES (NULL, 'c')", "error 23502"),
        ("INSERT INTO k VALUES (5, 'd'), (5, 'e')", "error 23505"),
        ("UPDATE k SET a = 2 WHERE a = 1", "error 23505"),
        ("UPDATE k SET a = a + 10", ""),
        (
            "SELECT a, b FROM k ORDER BY a",
            "11 | a; 12 | NULL; 13 | NULL",
        ),
        ("CREATE TABLE r (a int REFERENCES k)", "error 0A000"),
        ("CREATE TABLE f (a float8 PRIMARY KEY)", "error 0A000"),
        (
            "DROP FUNCTION nope(int)",
            "error function nope(integer) does not exist",
        ),
        ("DROP FUNCTION public.nope", "error 42883"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_accept_nulls_unless_declared_not_null() {
    answers(&[
        ("CREATE TABLE a (id int, v int)", ""),
        (
            "INSERT INTO a SELECT x, row_number() OVER (ORDER BY x) FROM generate_series(1, 3) g(x)",
            "",
        ),
        ("UPDATE a SET v = NULL WHERE id < 3", ""),
        ("UPDATE a SET id = v WHERE id = 1", ""),
        ("SELECT id, v FROM a ORDER BY id", "2 | NULL; 3 | 3; NULL | NULL"),
        (
            "CREATE TABLE c AS SELECT count(*) AS c, 1 AS one, 'x' AS s FROM a",
            "",
        ),
        ("INSERT INTO c VALUES (NULL, NULL, NULL)", ""),
        ("UPDATE c SET c = NULL", ""),
        ("SELECT c, one, s FROM c ORDER BY one", "NULL | 1 | x; NULL | NULL | NULL"),
        ("CREATE TABLE n (a int NOT NULL, b int)", ""),
        ("INSERT INTO n (b) VALUES (1)", "error 23502"),
        ("INSERT INTO n VALUES (1, 2), (NULL, 3)", "error 23502"),
        ("INSERT INTO n SELECT NULL, 4", "error 23502"),
        ("INSERT INTO n VALUES (1, NULL)", ""),
        ("UPDATE n SET a = b", "error 23502"),
        ("ALTER TABLE n RENAME TO m", ""),
        (
            "INSERT INTO m VALUES (NULL, 1)",
            "error 23502 null value in column \"a\" of relation \"m\" violates not-null constraint",
        ),
        ("SELECT a, b FROM m", "1 | NULL"),
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

/// Several rows may have NULL in the columns of UNIQUE: these do not determine a row.
#[tokio::test(flavor = "multi_thread")]
async fn nulls_in_unique_columns_are_one_group() {
    answers(&[
        (
            "CREATE TABLE k (a int PRIMARY KEY, b int UNIQUE, c int)",
            "",
        ),
        (
            "INSERT INTO k VALUES (1, NULL, 1), (2, NULL, 2), (3, 5, 3)",
            "",
        ),
        (
            "SELECT b, count(*), sum(c) FROM k GROUP BY b ORDER BY b",
            "5 | 1 | 3; NULL | 2 | 3",
        ),
        ("SELECT sum(c) FROM k GROUP BY b HAVING count(*) > 1", "3"),
        ("SELECT count(*) FROM (SELECT DISTINCT b, c FROM k) x", "3"),
        (
            "SELECT count(*) FROM (SELECT b FROM k GROUP BY b, c) x",
            "3",
        ),
        (
            "SELECT a, c FROM k GROUP BY a ORDER BY a",
            "1 | 1; 2 | 2; 3 | 3",
        ),
        ("CREATE TABLE u (b int UNIQUE, c int)", ""),
        ("INSERT INTO u VALUES (NULL, 1), (NULL, 2), (1, 3)", ""),
        ("SELECT count(*) FROM (SELECT DISTINCT b, c FROM u) x", "3"),
        ("SELECT b, c FROM u GROUP BY b", "error 42803"),
        ("ALTER TABLE u RENAME b TO d", ""),
        ("INSERT INTO u VALUES (1, 4)", "error 23505"),
        ("SELECT count(*) FROM (SELECT DISTINCT d, c FROM u) x", "3"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_key_beside_unnested_elements_is_not_unique() {
    answers(&[
        (
            "CREATE TABLE t (id int PRIMARY KEY, tags text[], u uuid UNIQUE)",
            "",
        ),
        (
            "INSERT INTO t VALUES (1, '{b,a}', NULL), \
             (4, '{y,z,y}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')",
            "",
        ),
        (
            "SELECT id, g FROM t, unnest(tags) g ORDER BY id, g DESC",
            "1 | b; 1 | a; 4 | z; 4 | y; 4 | y",
        ),
        (
            "SELECT id, unnest(tags) g FROM t ORDER BY id, g",
            "1 | a; 1 | b; 4 | y; 4 | y; 4 | z",
        ),
        (
            "SELECT count(*) FROM (SELECT DISTINCT id, g \
             FROM (SELECT id, unnest(tags) g FROM t) s) q",
            "4",
        ),
        (
            "SELECT a.id FROM t a LEFT JOIN (SELECT id, unnest(tags) g FROM t) q \
             ON q.id = a.id ORDER BY 1",
            "1; 1; 4; 4; 4",
        ),
        (
            "SELECT id, tags, g FROM t, unnest(tags) g WHERE id = 1 GROUP BY id, g ORDER BY id, g",
            "1 | {b,a} | a; 1 | {b,a} | b",
        ),
        (
            "SELECT pg_typeof(u), u FROM (SELECT u, unnest(tags) g FROM t) q WHERE g = 'z'",
            "uuid | a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
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
async fn an_index_on_a_table_in_memory_has_no_effect() {
    answers(&[
        ("CREATE TABLE t (a int, b int)", ""),
        ("BEGIN", ""),
        ("CREATE INDEX ix_t_a ON t (a)", ""),
        ("CREATE INDEX ON t (a, b)", ""),
        ("CREATE INDEX i ON public.t ((a + b)) WHERE a > 0", ""),
        ("COMMIT", ""),
        ("CREATE INDEX i ON t (c)", "error 42703"),
        ("CREATE UNIQUE INDEX i ON t (a)", "error 42000"),
        ("SELECT count(*) FROM coscan.indexes", "0"),
    ])
    .await;
}

/// A statement, the types and values of its parameters, and the expected answer.
type Case<'a> = (&'a str, &'a [(Type, &'a str)], &'a str);

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::too_many_lines)] // A list of statements.
async fn parameters_are_stored_with_assignment_casts() {
    const MOMENT: &str = "2020-01-02 03:04:05.678";
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(addr);
        let cases: &[Case<'_>] = &[
            ("SET timezone TO 'Asia/Kolkata'", &[], ""),
            (
                "CREATE TABLE z (i int, a timestamptz, b timestamp, s text, n numeric(6,2), y bytea)",
                &[],
                "",
            ),
            (
                "INSERT INTO z (i, a, b) VALUES (1, $1, $2), (2, coalesce($1, $1), $2)",
                &[
                    (Type::TIMESTAMP, MOMENT),
                    (Type::TIMESTAMPTZ, "2020-01-01 00:00:00+00"),
                ],
                "",
            ),
            (
                "INSERT INTO z (i, a) VALUES (3, $1)",
                &[(Type::DATE, "2020-01-02")],
                "",
            ),
            (
                "SELECT a, b FROM z ORDER BY i",
                &[],
                "2020-01-02 03:04:05.678+05:30 | 2020-01-01 05:30:00; \
             2020-01-02 03:04:05.678+05:30 | 2020-01-01 05:30:00; \
             2020-01-02 00:00:00+05:30 | NULL",
            ),
            (
                "INSERT INTO z (i, s) VALUES (11, $1), (12, $2), (13, $3), (14, $4), (15, $5)",
                &[
                    (Type::INT4_ARRAY, "{1,NULL,3}"),
                    (Type::TEXT_ARRAY, r#"{a,"b c"}"#),
                    (Type::TIMESTAMP, MOMENT),
                    (Type::BYTEA, r"\x00ff"),
                    (Type::FLOAT8, "1e20"),
                ],
                "",
            ),
            (
                "SELECT s FROM z WHERE i > 10 ORDER BY i",
                &[],
                r#"{1,NULL,3}; {a,"b c"}; 2020-01-02 03:04:05.678; \x00ff; 1e+20"#,
            ),
            (
                "INSERT INTO z (n) VALUES ($1)",
                &[(Type::INT4, "-70000")],
                "error 22003",
            ),
            (
                "INSERT INTO z (i) VALUES ($1)",
                &[(Type::TEXT, "12")],
                "error 42804",
            ),
            (
                "INSERT INTO z (i) SELECT $1",
                &[(Type::VARCHAR, "12")],
                "error 42804",
            ),
            (
                "INSERT INTO z (y) VALUES ($1)",
                &[(Type::TEXT, "abc")],
                "error 42804",
            ),
            ("UPDATE z SET i = $1", &[(Type::BOOL, "t")], "error 42804"),
            (
                "INSERT INTO z (b) VALUES ('2020-01-01'::text)",
                &[],
                "error 42804",
            ),
            (
                "INSERT INTO z (i, b) VALUES ($1, $2)",
                &[(Type::UNKNOWN, "21"), (Type::UNKNOWN, MOMENT)],
                "",
            ),
            ("INSERT INTO z (i, b) SELECT '22', '2020-01-02'", &[], ""),
            (
                "SELECT b FROM z WHERE i > 20 ORDER BY i",
                &[],
                "2020-01-02 03:04:05.678; 2020-01-02 00:00:00",
            ),
        ];
        for (sql, parameters, expected) in cases {
            let oids: Vec<u32> = parameters
                .iter()
                .map(|(pg_type, _)| pg_type.oid())
                .collect();
            let values = parameters.iter();
            let values: Vec<_> = values
                .map(|(_, value)| Some(value.as_bytes().to_vec()))
                .collect();
            client.prepare("", sql, &oids);
            let shown = client.run("", &values, 0).shown();
            let same = if expected.starts_with("error") {
                shown.starts_with(expected)
            } else {
                shown == *expected
            };
            assert!(same, "{sql}: {shown}");
        }
    });
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_rollback_cannot_undo_are_refused_in_a_block() {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let session = engine.session();
    for sql in [
        "CREATE TABLE t AS SELECT 1 AS x",
        "CREATE VIEW v AS SELECT 1 AS x",
    ] {
        let rows = session.sql(sql).await.unwrap();
        futures::TryStreamExt::try_collect::<Vec<_>>(rows)
            .await
            .unwrap();
    }
    let rights = coscan::Rights {
        writes: true,
        ..coscan::Rights::NONE
    };
    let server = TestServer::start_with_rights(&engine, rights).await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(addr);
        let changes = [
            "INSERT INTO t VALUES (2)",
            "UPDATE t SET x = 3",
            "DELETE FROM t",
            "TRUNCATE t",
            "EXPLAIN ANALYZE DELETE FROM t",
            "CREATE OR REPLACE TABLE t AS SELECT 7 AS x",
            "CREATE OR REPLACE VIEW v AS SELECT 7 AS x",
            "ALTER TABLE t RENAME TO u",
            "DROP VIEW v",
            "DROP TABLE t",
        ];
        for sql in changes {
            client.simple("BEGIN");
            let shown = client.simple(sql).shown();
            assert!(shown.starts_with("error 25001"), "{sql}: {shown}");
            client.simple("ROLLBACK");
            let shown = client.simple(&format!("SELECT 1; {sql}")).shown();
            assert!(shown.starts_with("error 25001"), "{sql}: {shown}");
            client.simple("BEGIN");
            client.prepare("", sql, &[]);
            let shown = client.run("", &[], 0).shown();
            assert!(shown.starts_with("error 25001"), "{sql}: {shown}");
            client.simple("ROLLBACK");
        }
        assert_eq!(client.simple("SELECT t.x, v.x FROM t, v").shown(), "1 | 1");
        for sql in &changes[..3] {
            assert_eq!(client.simple(sql).error, None, "{sql}");
        }
        client.prepare("", "INSERT INTO t VALUES (4)", &[]);
        assert_eq!(client.run("", &[], 0).error, None);
        assert_eq!(client.simple("SELECT x FROM t").shown(), "4");
    });
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_with_an_exponent_are_whole_numbers() {
    answers(&[
        (
            "CREATE TABLE t (x int, a float8 DEFAULT 2.5e3, b bigint DEFAULT 3e9, \
             c float8 DEFAULT 1e10::float8, d numeric DEFAULT -12e-1)",
            "",
        ),
        ("INSERT INTO t (x) VALUES (1)", ""),
        (
            "SELECT * FROM t",
            "1 | 2500 | 3000000000 | 10000000000 | -1.2",
        ),
        ("INSERT INTO t DEFAULT VALUES", ""),
        ("SELECT count(*) FROM t WHERE a = 2500 AND b = 3e9", "2"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_have_their_declared_precision() {
    answers(&[
        (
            "CREATE TABLE t (a timestamp(0), b time(3), c timestamptz(1), d interval day, e numeric)",
            "",
        ),
        (
            "INSERT INTO t VALUES ('2020-01-01 10:00:00.6', '10:00:00.12345', \
             '2020-01-01 10:00:00.44+00', '1 day 10:00', 1.25)",
            "",
        ),
        (
            "INSERT INTO t SELECT timestamp '2020-01-01 10:00:00.6', time '10:00:00.12345', \
             timestamptz '2020-01-01 10:00:00.44+00', interval '1 day 10:00', 1.25",
            "",
        ),
        (
            "SELECT DISTINCT * FROM t",
            "2020-01-01 10:00:01 | 10:00:00.123 | 2020-01-01 10:00:00.4+00 | 1 day | 1.25",
        ),
        ("SELECT count(*) FROM t WHERE a > '2020-01-01 10:00:00.9'", "2"),
        (
            "CREATE TABLE u AS SELECT a, a + interval '0' AS a2, max(a) OVER () AS a3, 1.5 AS n, \
             1.5::numeric(5,2) AS m, array[1.5] AS l, sum(1.5) OVER () AS s FROM t",
            "",
        ),
        (
            "INSERT INTO u VALUES ('2020-01-01 10:00:00.6', '2020-01-01 10:00:00.6', \
             '2020-01-01 10:00:00.6', 3.14159, 3.14159, '{3.14159}', 123456789.123456789)",
            "",
        ),
        (
            "SELECT * FROM u WHERE n > 3",
            "2020-01-01 10:00:01 | 2020-01-01 10:00:00.6 | 2020-01-01 10:00:00.6 | 3.14159 | 3.14 \
             | {3.14159} | 123456789.123456789",
        ),
        ("UPDATE u SET n = n * 1000000000 WHERE n > 3", ""),
        ("SELECT max(n), count(DISTINCT n) FROM u", "3141590000 | 2"),
        ("CREATE TABLE g AS SELECT m, count(*) FROM u GROUP BY m", ""),
        ("INSERT INTO g VALUES (1.234, 1)", ""),
        ("SELECT m FROM g WHERE m < 1.4", "1.23"),
        (
            "CREATE TABLE i (a int, b int GENERATED ALWAYS AS (a * 2) STORED)",
            "error 0A000",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::too_many_lines)] // A list of statements.
async fn read_only_transactions_change_temporary_tables_only() {
    answers(&[
        ("CREATE TABLE p (a int)", ""),
        ("CREATE TEMP TABLE q (a int)", ""),
        ("BEGIN READ ONLY", ""),
        ("SHOW transaction_read_only", "on"),
        ("INSERT INTO q VALUES (1)", ""),
        ("UPDATE q SET a = 2", ""),
        ("ROLLBACK", ""),
        ("BEGIN READ ONLY; INSERT INTO p VALUES (1)", "error 25006"),
        ("ROLLBACK", ""),
        ("BEGIN READ ONLY; UPDATE p SET a = 1", "error 25006"),
        ("ROLLBACK", ""),
        ("BEGIN READ ONLY; DELETE FROM p", "error 25006"),
        ("ROLLBACK", ""),
        ("BEGIN READ ONLY; TRUNCATE q", "error 25006"),
        ("ROLLBACK", ""),
        (
            "BEGIN READ ONLY; CREATE TEMP TABLE r (a int)",
            "error 25006",
        ),
        ("ROLLBACK", ""),
        ("BEGIN READ ONLY; CREATE VIEW v AS SELECT 1", "error 25006"),
        ("ROLLBACK", ""),
        ("BEGIN READ ONLY; DROP TABLE p", "error 25006"),
        ("ROLLBACK", ""),
        ("BEGIN READ ONLY; ALTER TABLE p RENAME TO r", "error 25006"),
        ("ROLLBACK", ""),
        ("BEGIN READ ONLY; COMMENT ON TABLE p IS 'x'", "error 25006"),
        ("ROLLBACK", ""),
        ("PREPARE i AS INSERT INTO p VALUES (1)", ""),
        ("BEGIN READ ONLY; EXECUTE i", "error 25006"),
        ("ROLLBACK", ""),
        (
            "BEGIN; SELECT 1; SET TRANSACTION READ ONLY; EXECUTE i",
            "error 25006",
        ),
        ("ROLLBACK", ""),
        (
            "BEGIN READ ONLY; SELECT 1; SET TRANSACTION READ WRITE",
            "error 25001",
        ),
        ("ROLLBACK", ""),
        ("BEGIN READ ONLY", ""),
        ("SET transaction_read_only TO off", ""),
        ("EXECUTE i", ""),
        ("COMMIT AND CHAIN", ""),
        ("EXECUTE i", ""),
        ("ROLLBACK", ""),
        ("SELECT count(*) FROM p", "1"),
        ("SET transaction_read_only TO on", ""),
        ("SHOW transaction_read_only", "off"),
        ("SET default_transaction_read_only TO t", ""),
        ("SHOW transaction_read_only", "on"),
        ("EXECUTE i", "error 25006"),
        ("BEGIN READ WRITE", ""),
        ("EXECUTE i", ""),
        ("ROLLBACK", ""),
        ("SET default_transaction_read_only TO maybe", "error 22023"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", ""),
        ("EXECUTE i", ""),
        ("SET default_transaction_isolation TO maybe", "error 22023"),
        (
            "BEGIN; SELECT 1; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "error 25001",
        ),
        ("ROLLBACK", ""),
        (
            "BEGIN READ ONLY; RESET ALL; INSERT INTO p VALUES (1)",
            "error 25006",
        ),
        ("ROLLBACK", ""),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE; RESET ALL", ""),
        ("SHOW transaction_isolation", "serializable"),
        ("COMMIT", ""),
        ("SHOW transaction_isolation", "read committed"),
        // RESET of a mode is never too late.
        (
            "BEGIN READ ONLY; SELECT 1; RESET transaction_read_only; EXECUTE i",
            "1",
        ),
        ("SHOW transaction_read_only", "off"),
        ("ROLLBACK", ""),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", ""),
        ("SAVEPOINT a; RESET transaction_isolation", ""),
        ("SHOW transaction_isolation", "read committed"),
        ("COMMIT", ""),
        (
            "BEGIN; SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            "",
        ),
        ("SHOW transaction_read_only", "off"),
        ("EXECUTE i", ""),
        ("COMMIT", ""),
        ("SHOW transaction_read_only", "on"),
        (
            "BEGIN; SET default_transaction_read_only TO off; EXECUTE i",
            "error 25006",
        ),
        ("ROLLBACK", ""),
        (
            "BEGIN; SELECT set_config('default_transaction_read_only', 'off', false)",
            "off",
        ),
        ("SHOW transaction_read_only", "on"),
        ("COMMIT", ""),
        ("SHOW transaction_read_only", "off"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_several_statements_last_as_long_as_their_message() {
    answers(&[
        ("CREATE TABLE p (a int)", ""),
        (
            "SET LOCAL statement_timeout = '4s'; SHOW statement_timeout",
            "4s",
        ),
        ("SHOW statement_timeout", "0"),
        (
            "SET TRANSACTION READ ONLY; INSERT INTO p VALUES (1)",
            "error 25006",
        ),
        ("SHOW transaction_read_only", "off"),
        (
            "SET LOCAL statement_timeout = '4s'; COMMIT; SHOW statement_timeout",
            "0",
        ),
        ("SET LOCAL statement_timeout = '4s'; BEGIN; SELECT 1", "1"),
        ("SHOW statement_timeout", "4s"),
        ("COMMIT", ""),
        ("SHOW statement_timeout", "0"),
        ("INSERT INTO p VALUES (1)", ""),
        // A block that cannot have its modes is not opened.
        (
            "SELECT 1; BEGIN ISOLATION LEVEL SERIALIZABLE",
            "error 25001",
        ),
        ("SHOW transaction_isolation", "read committed"),
        ("SAVEPOINT a", "error 25P01"),
        (
            "SET LOCAL default_transaction_read_only = off; \
             SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            "",
        ),
        ("SHOW transaction_read_only", "on"),
    ])
    .await;
}

/// Drivers send the statements of a batch in messages of their own, and one Sync.
#[tokio::test(flavor = "multi_thread")]
async fn settings_of_several_messages_last_up_to_a_sync() {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(addr);
        client.simple("CREATE TABLE p (a int)");
        for (statements, expected) in [
            (
                &[
                    "SET LOCAL statement_timeout = '4s'",
                    "SHOW statement_timeout",
                ][..],
                "4s",
            ),
            (&["SHOW statement_timeout"], "0"),
            (
                &[
                    "SELECT set_config('statement_timeout', '4s', true)",
                    "SHOW statement_timeout",
                ],
                "4s; 4s",
            ),
            (&["SHOW statement_timeout"], "0"),
            (
                &["SET TRANSACTION READ ONLY", "INSERT INTO p VALUES (1)"],
                "error 25006",
            ),
            (
                &[
                    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
                    "INSERT INTO p VALUES (1)",
                ],
                "",
            ),
            (&["INSERT INTO p VALUES (1)"], "error 25006"),
            (&["SET LOCAL nothing = 'x'"], "error 42704"),
        ] {
            let shown = client.pipeline(statements).shown();
            match expected.strip_prefix("error ") {
                Some(state) => assert!(shown.contains(state), "{statements:?}: {shown}"),
                None => assert_eq!(shown, expected, "{statements:?}"),
            }
        }
    });
    done.await.unwrap();
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
async fn delete_accepts_an_alias_for_its_table() {
    answers(&[
        ("CREATE TEMP TABLE t (a int, b text)", ""),
        ("INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')", ""),
        ("CREATE TEMP TABLE u AS SELECT 1 AS a", ""),
        ("DELETE FROM t t2 WHERE t2.a = 1", ""),
        ("SELECT a FROM t ORDER BY a", "2; 3"),
        (
            "DELETE FROM t AS t2 WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t2.a - 1)",
            "",
        ),
        ("SELECT a FROM t", "3"),
        ("DELETE FROM t t2 WHERE t.a = 3", "error 42P01"),
        ("DELETE FROM t t2 WHERE b = 'none' OR t2.b IS NULL", ""),
        ("SELECT a FROM t", "3"),
        ("DELETE FROM t t2", ""),
        ("INSERT INTO t VALUES (1, 'x'), (2, 'y')", ""),
        (
            "DELETE FROM t t2 WHERE t2.a IN (SELECT u.a FROM u WHERE u.a = t2.a)",
            "",
        ),
        ("SELECT a FROM t", "2"),
        ("DELETE FROM nope n WHERE n.a = 1", "error 42P01"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn create_table_as_names_columns() {
    answers(&[
        ("CREATE TEMP TABLE s (a, b) AS SELECT 1, 2", ""),
        ("SELECT a, b FROM s", "1 | 2"),
        ("CREATE TABLE s2 (a) AS VALUES (1), (2)", ""),
        ("SELECT sum(a) FROM s2", "3"),
        ("CREATE TEMP TABLE s3 AS SELECT 1 AS a WITH DATA", ""),
        ("SELECT a FROM s3", "1"),
        ("CREATE TEMP TABLE s4 AS SELECT 1 AS a WITH NO DATA", ""),
        ("INSERT INTO s4 VALUES (5)", ""),
        ("SELECT a FROM s4", "5"),
        (
            "CREATE TEMP TABLE IF NOT EXISTS s5 (a, \"B c\") AS SELECT 1, 'x' WITH DATA;",
            "",
        ),
        ("SELECT \"B c\" FROM s5", "x"),
        ("CREATE TABLE public.s6 (a) AS SELECT 1, 2 AS z", ""),
        ("SELECT a, z FROM s6", "1 | 2"),
        (
            "CREATE TABLE s7 (a) AS WITH q AS (SELECT 3) TABLE q WITH DATA",
            "",
        ),
        ("SELECT a FROM s7", "3"),
        (
            "CREATE TEMP TABLE s8 (x) ON COMMIT PRESERVE ROWS AS SELECT a FROM s7 ORDER BY 1",
            "",
        ),
        ("SELECT x FROM s8", "3"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_nulls_only_are_text() {
    answers(&[
        (
            "CREATE TABLE a AS SELECT NULL AS n, 1 AS a, array[NULL] AS r",
            "",
        ),
        ("INSERT INTO a VALUES ('x', 2, '{a,NULL}')", ""),
        (
            "SELECT n, r, pg_typeof(n), pg_typeof(r) FROM a ORDER BY a",
            "NULL | {NULL} | text | text[]; x | {a,NULL} | text | text[]",
        ),
        (
            "CREATE TABLE b AS SELECT NULL::int AS i, '' AS t, NULL AS x UNION ALL SELECT 1, 'a', NULL",
            "",
        ),
        ("INSERT INTO b VALUES (2, 'b', 'c')", ""),
        ("SELECT x FROM b WHERE i = 2", "c"),
        (
            "CREATE TABLE c AS SELECT coalesce(NULL, NULL) AS a, max(NULL) AS b, \
             CASE WHEN true THEN NULL END AS c, (SELECT NULL) AS d",
            "",
        ),
        ("INSERT INTO c VALUES ('a', 'b', 'c', 'd')", ""),
        ("SELECT * FROM c WHERE a > ''", "a | b | c | d"),
        ("CREATE VIEW v AS SELECT NULL AS n", ""),
        ("SELECT pg_typeof(n) FROM v", "text"),
        ("CREATE TABLE l (LIKE v)", ""),
        ("INSERT INTO l VALUES ('y')", ""),
        ("SELECT n FROM l", "y"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn truncate_takes_several_tables() {
    answers(&[
        ("CREATE TEMP TABLE t AS SELECT 1 AS a", ""),
        ("CREATE TEMP TABLE u AS SELECT 1 AS a", ""),
        ("TRUNCATE t, nope", "error 42P01"),
        ("SELECT a FROM t", "1"),
        ("BEGIN; TRUNCATE t, u", ""),
        ("SELECT a FROM t UNION SELECT a FROM u", ""),
        ("ROLLBACK", ""),
        ("SELECT t.a, u.a FROM t, u", "1 | 1"),
        ("TRUNCATE TABLE t, ONLY u RESTART IDENTITY CASCADE", ""),
        ("SELECT a FROM t UNION SELECT a FROM u", ""),
        ("INSERT INTO t VALUES (1); TRUNCATE t CASCADE", ""),
        ("SELECT a FROM t", ""),
        ("INSERT INTO t VALUES (1); TRUNCATE t RESTART IDENTITY", ""),
        ("SELECT a FROM t", ""),
        (
            "INSERT INTO t VALUES (1); TRUNCATE ONLY t CONTINUE IDENTITY RESTRICT",
            "",
        ),
        ("SELECT a FROM t", ""),
        ("BEGIN READ ONLY; TRUNCATE t, u", "error 25006"),
        ("ROLLBACK", ""),
        (
            "CREATE VIEW v AS SELECT 1 AS a; INSERT INTO t VALUES (1)",
            "",
        ),
        ("TRUNCATE t, v", "error 42809"),
        ("TRUNCATE v", "error 42809"),
        ("SELECT a FROM t", "1"),
        (
            "CREATE TABLE q (a int, b text); INSERT INTO q VALUES (1, 'x')",
            "",
        ),
        ("UPDATE q SET (a, b) = ROW(8, 'q')", ""),
        ("SELECT a, b FROM q", "8 | q"),
        ("UPDATE q SET (b, a) = ROW('r', 9) FROM t", ""),
        ("SELECT a, b FROM q", "9 | r"),
        ("UPDATE q SET a = 5, a = 6", "error 42601"),
        (
            "UPDATE q SET (a, b) = (5, 'x'), b = 'y' FROM t",
            "error 42601",
        ),
        ("UPDATE q SET q.a = 7", "error 42703"),
        ("UPDATE q AS x SET x.a = 7 FROM t", "error 42703"),
        ("UPDATE nope n SET a = 1 FROM t", "error 42P01"),
        ("DELETE FROM nope USING t WHERE nope.a = t.a", "error 42P01"),
        ("SELECT a, b FROM q", "9 | r"),
    ])
    .await;
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
