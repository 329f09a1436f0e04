//! Promised: INSERT, UPDATE, DELETE and TRUNCATE have PostgreSQL's forms and tags. Values are
//! stored as the column's type parses them.

use tokio_postgres::types::Type;

use crate::common::TestServer;
use crate::common::raw::RawClient;
use crate::own_tables::answers;

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
