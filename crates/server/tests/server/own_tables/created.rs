//! Promised: a created table has PostgreSQL's names, types, defaults and keys.

use crate::common::TestServer;
use crate::common::raw::RawClient;
use crate::own_tables::answers;

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
