//! Promised: a prepared statement, of the protocol or of SQL's PREPARE, uses the tables, views and
//! settings that exist when it runs, or fails if its columns would change.

use crate::common::raw::RawClient;
use crate::common::{TestServer, state};

async fn server() -> TestServer {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    TestServer::start_on_engine(&engine).await
}

/// Runs `work` on a thread that may block.
async fn blocking(server: &TestServer, work: impl FnOnce(RawClient) + Send + 'static) {
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || work(RawClient::connect(addr)));
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_follow_changed_objects() {
    let server = server().await;
    blocking(&server, |mut client| {
        for (make, change, sql, before, after) in [
            (
                "CREATE VIEW v AS SELECT 1 AS x",
                "CREATE OR REPLACE VIEW v AS SELECT 2 AS x",
                "SELECT x FROM v",
                "1",
                "2",
            ),
            (
                "CREATE TABLE t AS SELECT 1 AS x",
                "CREATE OR REPLACE TABLE t AS SELECT 2 AS x",
                "SELECT x FROM t",
                "1",
                "2",
            ),
            (
                "CREATE TABLE u AS SELECT 1 AS x",
                "DROP TABLE u; CREATE TABLE u AS SELECT 2 AS x",
                "SELECT x FROM u",
                "1",
                "2",
            ),
            (
                "CREATE TABLE w AS SELECT 1 AS x; CREATE TABLE w2 AS SELECT 2 AS x",
                "ALTER TABLE w RENAME TO w3; ALTER TABLE w2 RENAME TO w",
                "SELECT x FROM w",
                "1",
                "2",
            ),
            (
                "CREATE SCHEMA s; CREATE TABLE s.p AS SELECT 2 AS x; CREATE TABLE p AS SELECT 1 AS x",
                "SET search_path = s",
                "SELECT x FROM p",
                "1",
                "2",
            ),
            ("RESET search_path", "DROP TABLE t", "SELECT x FROM t", "2", "error 42P01"),
            (
                "CREATE TABLE t AS SELECT 1 AS x",
                "DROP TABLE t; CREATE TABLE t AS SELECT 'a' AS x",
                "SELECT x FROM t",
                "1",
                "error 0A000 cached plan must not change result type",
            ),
            (
                "DROP TABLE t; CREATE TABLE t AS SELECT 1 AS x",
                "DROP TABLE t; CREATE TABLE t AS SELECT 1 AS x, 2 AS y",
                "SELECT * FROM t",
                "1",
                "error 0A000 cached plan must not change result type",
            ),
        ] {
            let made = client.simple(make);
            assert_eq!(made.error, None, "{make}");
            let name = format!("p{}", sql.len() + make.len() + change.len());
            client.prepare(&name, sql, &[]);
            assert_eq!(client.run(&name, &[], 0).shown(), before, "{sql}");
            let prepared = client.simple(&format!("PREPARE sql_{name} AS {sql}"));
            assert_eq!((prepared.error.as_deref(), prepared.tag.as_str()), (None, "PREPARE"));
            let changed = client.simple(change);
            assert_eq!(changed.error, None, "{change}");
            for answer in [
                client.run(&name, &[], 0),
                client.simple(&format!("EXECUTE sql_{name}")),
            ] {
                let shown = answer.shown();
                assert!(shown.starts_with(after), "{sql} after {change}: {shown}");
            }
        }
    })
    .await;
}

/// PostgreSQL reads a constant when it parses the statement, and again when a table has changed.
#[tokio::test(flavor = "multi_thread")]
async fn moments_keep_the_zone_in_which_they_were_read() {
    const MOMENT: &str = "1704110400";
    let server = server().await;
    blocking(&server, |mut client| {
        for sql in [
            "SET timezone = 'UTC'",
            "CREATE TABLE z AS SELECT timestamptz '2024-01-01 12:00' AS t",
        ] {
            assert_eq!(client.simple(sql).error, None, "{sql}");
        }
        let statements = [
            (
                "SELECT extract(epoch FROM timestamptz '2024-01-01 12:00')::bigint",
                MOMENT,
            ),
            (
                "SELECT extract(epoch FROM '2024-01-01 12:00'::timestamptz)::bigint",
                MOMENT,
            ),
            (
                "SELECT extract(epoch FROM ('{2024-01-01 12:00}'::timestamptz[])[1])::bigint",
                MOMENT,
            ),
            (
                "SELECT timestamptz '2024-01-01 12:00'",
                "2024-01-01 07:00:00-05",
            ),
            ("SELECT t = '2024-01-01 12:00' FROM z", "t"),
            ("SELECT t IN ('2024-01-01 12:00', '2025-01-01') FROM z", "t"),
            (
                "SELECT t BETWEEN '2024-01-01 12:00' AND '2024-01-01 12:00' FROM z",
                "t",
            ),
            ("SELECT count(*) FROM z WHERE t > '2024-01-01 11:59'", "1"),
            (
                "SELECT extract(epoch FROM (ARRAY['2024-01-01 12:00']::timestamptz[])[1])::bigint",
                MOMENT,
            ),
            // These are no constants of the type.
            (
                "SELECT extract(epoch FROM '2024-01-01 12:00'::text::timestamptz)::bigint",
                "1704128400",
            ),
            (
                "SELECT timestamp '2024-01-01 12:00'::timestamptz",
                "2024-01-01 12:00:00-05",
            ),
            // Beside values of the type.
            (
                "SELECT extract(epoch FROM CASE WHEN t IS NULL THEN t ELSE '2024-01-01 12:00' END)
                    ::bigint FROM z",
                MOMENT,
            ),
            (
                "SELECT extract(epoch FROM coalesce('2024-01-01 12:00', t))::bigint FROM z",
                MOMENT,
            ),
            (
                "SELECT extract(epoch FROM greatest('2024-01-01 12:00', t))::bigint FROM z",
                MOMENT,
            ),
            (
                "SELECT extract(epoch FROM (ARRAY['2024-01-01 12:00', t])[1])::bigint FROM z",
                MOMENT,
            ),
            ("SELECT t = ANY ('{2024-01-01 12:00}') FROM z", "t"),
        ];
        for (at, (sql, _)) in statements.iter().enumerate() {
            client.prepare(&format!("z{at}"), sql, &[]);
            let prepared = client.simple(&format!("PREPARE sql_z{at} AS {sql}"));
            assert_eq!(prepared.error, None, "{sql}");
        }
        for _ in 0..2 {
            client.simple("SET timezone = 'Asia/Tokyo'");
            client.simple("EXECUTE sql_z0");
            client.simple("SET timezone = 'America/New_York'");
            for (at, (sql, expected)) in statements.iter().enumerate() {
                assert_eq!(
                    client.run(&format!("z{at}"), &[], 0).shown(),
                    *expected,
                    "{sql}"
                );
                let executed = client.simple(&format!("EXECUTE sql_z{at}"));
                assert_eq!(executed.shown(), *expected, "{sql}");
            }
        }
        client.simple("CREATE OR REPLACE TABLE z AS SELECT timestamptz '2024-01-01 12:00+00' AS t");
        assert_eq!(client.simple("EXECUTE sql_z4").shown(), "f");
    })
    .await;
}

/// The constants that a prepared statement stores are read when it is parsed, too.
#[tokio::test(flavor = "multi_thread")]
async fn moments_that_are_stored_keep_the_zone_in_which_they_were_read() {
    let server = server().await;
    blocking(&server, |mut client| {
        for sql in [
            "SET timezone = 'UTC'",
            "CREATE TABLE stored (k int, t timestamptz)",
            "PREPARE stored1 AS INSERT INTO stored VALUES
                (1, '2024-01-01 12:00'), (2, timestamptz '2024-01-01 12:00')",
            "PREPARE stored2 AS INSERT INTO stored (t, k) VALUES ('2024-01-01 12:00', 3)",
            "PREPARE stored3 AS INSERT INTO stored SELECT 4, '2024-01-01 12:00'",
            "PREPARE stored4 AS INSERT INTO stored VALUES ($1, '2024-01-01 12:00')",
            "PREPARE stored5 AS INSERT INTO stored
                VALUES (6, CASE WHEN true THEN '2024-01-01 12:00' ELSE now() END)",
            "PREPARE stored6 AS UPDATE stored SET t = '2024-01-01 12:00' WHERE k = 7",
            "INSERT INTO stored VALUES (7, NULL)",
            "SET timezone = 'America/New_York'",
            "EXECUTE stored1",
            "EXECUTE stored2",
            "EXECUTE stored3",
            "EXECUTE stored4(5)",
            "EXECUTE stored5",
            "EXECUTE stored6",
        ] {
            assert_eq!(client.simple(sql).error, None, "{sql}");
        }
        let same = "SELECT string_agg(k::text, ',' ORDER BY k) FROM stored
            WHERE t = '2024-01-01 12:00+00'";
        assert_eq!(client.simple(same).shown(), "1,2,3,4,5,6,7");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_follow_another_sessions_drop() {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let session = engine.session();
    let run = async |sql: &str| {
        let rows = session.sql(sql).await.unwrap();
        futures::TryStreamExt::try_collect::<Vec<_>>(rows)
            .await
            .unwrap()
    };
    run("CREATE TABLE shared AS SELECT 1 AS x").await;
    let server = TestServer::start_on_engine(&engine).await;
    let client = server.connect().await;
    let statement = client.prepare("SELECT x FROM shared").await.unwrap();
    assert_eq!(
        client
            .query_one(&statement, &[])
            .await
            .unwrap()
            .get::<_, i32>(0),
        1
    );
    run("DROP TABLE shared").await;
    assert_eq!(state(client.query(&statement, &[]).await), "42P01");
    run("CREATE TABLE shared AS SELECT 5 AS x").await;
    assert_eq!(
        client
            .query_one(&statement, &[])
            .await
            .unwrap()
            .get::<_, i32>(0),
        5
    );
    run("CREATE OR REPLACE TABLE shared AS SELECT 'a' AS x").await;
    let error = client.query(&statement, &[]).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    // asyncpg and JDBC recognize by this that they must prepare the statement once more.
    let found = (error.code().code(), error.routine());
    assert_eq!(found, ("0A000", Some("RevalidateCachedQuery")));
}

#[tokio::test(flavor = "multi_thread")]
async fn views_follow_another_sessions_drop() {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let session = engine.session();
    let run = move |sql: &str| {
        let rows = futures::executor::block_on(session.sql(sql)).unwrap();
        futures::executor::block_on(futures::TryStreamExt::try_collect::<Vec<_>>(rows)).unwrap()
    };
    run("CREATE TABLE shared AS SELECT 1 AS x");
    let server = TestServer::start_on_engine(&engine).await;
    blocking(&server, move |mut client| {
        client.simple("CREATE VIEW v AS SELECT x + 1 AS y FROM shared");
        client.simple("CREATE VIEW w AS SELECT y, (SELECT max(x) FROM shared) AS m FROM v");
        client.prepare("p", "SELECT y, m FROM w", &[]);
        assert_eq!(client.run("p", &[], 0).shown(), "2 | 1");
        for (change, expected) in [
            (
                "DROP TABLE shared",
                "error 42P01 relation \"shared\" does not exist",
            ),
            ("CREATE TABLE shared AS SELECT 5 AS z, 4 AS x", "5 | 4"),
            ("CREATE OR REPLACE TABLE shared AS SELECT 6 AS x", "7 | 6"),
            (
                "CREATE OR REPLACE TABLE shared AS SELECT 'a' AS x",
                "error 0A000 the view has to be made again: column \"x\" of \"shared\"",
            ),
            ("CREATE OR REPLACE TABLE shared AS SELECT 7 AS x", "8 | 7"),
        ] {
            run(change);
            let shown = client.simple("SELECT y, m FROM w").shown();
            assert!(shown.starts_with(expected), "{change}: {shown}");
            let shown = client.run("p", &[], 0).shown();
            assert!(shown.starts_with(expected), "{change}: {shown}");
            let tables = client.simple("SHOW TABLES");
            assert_eq!(tables.error, None, "{change}");
        }
        client.simple("CREATE TABLE own AS SELECT 1 AS x");
        client.simple("CREATE VIEW o AS SELECT x FROM own");
        client.simple("ALTER TABLE own RENAME TO renamed");
        assert_eq!(client.simple("SELECT x FROM o").shown(), "1");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqls_own_prepared_statements() {
    let server = server().await;
    blocking(&server, |mut client| {
        for (sql, expected) in [
            ("PREPARE p AS SELECT $1::int + 1", ""),
            ("EXECUTE p(2)", "3"),
            ("EXECUTE p('4')", "5"),
            ("EXECUTE p(NULL)", "NULL"),
            ("EXECUTE p(1 + 1)", "3"),
            ("EXECUTE p('a')", "error 22P02 invalid input syntax for type integer: \"a\""),
            ("EXECUTE p('2'::text)", "error 42804 parameter $1 of type text cannot be coerced to the expected type integer"),
            ("EXECUTE p", "error 42601 wrong number of parameters for prepared statement \"p\""),
            ("PREPARE k (float8, bigint) AS SELECT $1, $2", ""),
            ("EXECUTE k(2.5e3, 3e9)", "2500 | 3000000000"),
            ("EXECUTE k(1e10::float8, -12e-1)", "10000000000 | -1"),
            ("PREPARE days (date, text) AS SELECT $1, $2", ""),
            ("EXECUTE days(timestamp '2020-01-01 10:00', array[1, 2]::text)", "2020-01-01 | {1,2}"),
            ("PREPARE bare AS SELECT 8", ""),
            ("EXECUTE bare(1 / 0, 'a')", "8"),
            ("PREPARE p AS SELECT 1", "error 42P05 prepared statement \"p\" already exists"),
            ("PREPARE n (numeric, bigint) AS SELECT $1 * $2", ""),
            ("EXECUTE n(2.5, 2)", "5.0"),
            ("EXECUTE n('1e-7', 3)", "0.0000003"),
            ("PREPARE l (numeric) AS SELECT 7 LIMIT $1", ""),
            ("EXECUTE l(1.4)", "7"),
            ("EXECUTE l(NULL)", "7"),
            ("EXECUTE l(-1.4)", "error 2201W LIMIT must not be negative"),
            ("PREPARE f (float8) AS SELECT k FROM generate_series(1, 5) k LIMIT $1 OFFSET ($1)", ""),
            ("EXECUTE f(1.5)", "3; 4"),
            ("EXECUTE f('NaN')", "error 22003 bigint out of range"),
            ("PREPARE t (text) AS SELECT 7 LIMIT $1", "error 42804 argument of LIMIT must be type bigint, not type text"),
            ("PREPARE j (jsonb, json) AS SELECT $1 -> 'a', $2 -> 'a', pg_typeof($1)", ""),
            ("EXECUTE j('{\"a\": 1}'::jsonb, '{\"a\": 2}'::json)", "1 | 2 | jsonb"),
            ("EXECUTE j('{\"a\": 1}'::json, to_jsonb(5))", "1 | NULL | jsonb"),
            ("EXECUTE j('{}'::text, '{}')", "error 42804 parameter $1 of type text cannot be coerced to the expected type jsonb"),
            ("PREPARE a (jsonb[], uuid[]) AS SELECT $1[1] -> 'a', pg_typeof($2[1])", ""),
            ("EXECUTE a(array['{\"a\": 1}'::jsonb], array['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid])", "1 | uuid"),
            ("EXECUTE a('{1}', array['a'])", "error 42804 parameter $2 of type text[] cannot be coerced to the expected type uuid[]"),
            ("PREPARE u (uuid, int) AS SELECT $1, $2", ""),
            ("EXECUTE u('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, 5::oid)", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 | 5"),
            ("EXECUTE u(NULL, '5'::jsonb)", "error 42804 parameter $2 of type jsonb cannot be coerced to the expected type integer"),
            ("PREPARE bad (nonsense) AS SELECT $1", "error 42704"),
            ("DEALLOCATE p", ""),
            ("EXECUTE p(1)", "error 26000 prepared statement \"p\" does not exist"),
            ("DEALLOCATE p", "error 26000"),
            ("DISCARD ALL", ""),
            ("EXECUTE n(1, 1)", "error 26000"),
        ] {
            let shown = client.simple(sql).shown();
            assert!(shown.starts_with(expected) && shown.is_empty() == expected.is_empty(), "{sql}: {shown}");
        }
        // They also work over the extended protocol, and share one namespace with its statements.
        client.prepare("", "PREPARE q AS SELECT $1::int AS x", &[]);
        assert_eq!(client.run("", &[], 0).tag, "PREPARE");
        client.prepare("", "EXECUTE q(7)", &[]);
        let answer = client.run("", &[], 0);
        assert_eq!((answer.shown().as_str(), &answer.columns), ("7", &vec![("x".to_owned(), 23)]));
        let answer = client.run("q", &[Some(b"8".to_vec())], 0);
        assert_eq!((answer.shown().as_str(), &answer.parameters), ("8", &vec![23]));
        client.prepare("named", "SELECT $1::text || 'b'", &[]);
        client.run("named", &[Some(b"a".to_vec())], 0);
        assert_eq!(client.simple("EXECUTE named('a')").shown(), "ab");
        client.simple("DEALLOCATE ALL");
        assert!(client.simple("EXECUTE q(7)").shown().starts_with("error 26000"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_with_parameters_and_in_both_directions() {
    let server = server().await;
    blocking(&server, |mut client| {
        client.simple("BEGIN");
        client.prepare(
            "",
            "DECLARE c CURSOR FOR SELECT x + $1 FROM generate_series(1, 3) AS t(x)",
            &[1700],
        );
        assert_eq!(
            client.run("", &[Some(b"0.5".to_vec())], 0).tag,
            "DECLARE CURSOR"
        );
        assert_eq!(client.simple("FETCH 2 FROM c").shown(), "1.5; 2.5");
        assert_eq!(client.simple("MOVE 1 IN c").tag, "MOVE 1");
        assert_eq!(client.simple("FETCH NEXT FROM c").tag, "FETCH 0");
        client.prepare("fetch", "FETCH 1 FROM c", &[]);
        assert_eq!(client.run("fetch", &[], 0).columns[0].1, 1700);
        client.simple("CLOSE c");
        client.simple("DECLARE c CURSOR FOR SELECT 'new' AS name");
        let answer = client.run("fetch", &[], 0);
        assert_eq!(
            (answer.shown().as_str(), answer.columns[0].0.as_str()),
            ("new", "name")
        );
        let failed = client.simple("FETCH PRIOR FROM c").shown();
        assert!(
            failed.starts_with("error 55000 cursor can only scan forward"),
            "{failed}"
        );
        client.simple("ROLLBACK");
        client.simple("BEGIN");
        client.simple(
            "DECLARE s SCROLL CURSOR FOR SELECT x FROM generate_series(1, 5) AS t(x) ORDER BY x",
        );
        for (sql, expected) in [
            ("FETCH 2 FROM s", "1; 2"),
            ("FETCH PRIOR FROM s", "1"),
            ("FETCH LAST FROM s", "5"),
            ("FETCH BACKWARD 2 FROM s", "4; 3"),
            ("FETCH ABSOLUTE 2 FROM s", "2"),
            ("FETCH RELATIVE 2 FROM s", "4"),
            ("FETCH FIRST FROM s", "1"),
            ("FETCH ABSOLUTE -2 FROM s", "4"),
            ("FETCH BACKWARD ALL FROM s", "3; 2; 1"),
            ("FETCH ALL FROM s", "1; 2; 3; 4; 5"),
            ("FETCH 1 FROM s", ""),
        ] {
            assert_eq!(client.simple(sql).shown(), expected, "{sql}");
        }
        assert_eq!(client.simple("MOVE BACKWARD 3 FROM s").tag, "MOVE 3");
        assert_eq!(client.simple("FETCH 0 FROM s").shown(), "3");
    })
    .await;
}

/// Execute with a limit of a FETCH: what it leaves waits for the portal's next Execute.
#[tokio::test(flavor = "multi_thread")]
async fn fetches_with_a_limit_of_rows() {
    let server = server().await;
    blocking(&server, |mut client| {
        client.simple("BEGIN");
        client.simple("DECLARE c CURSOR FOR SELECT x FROM generate_series(1, 9) AS t(x)");
        client.simple("DECLARE s SCROLL CURSOR FOR SELECT x FROM generate_series(1, 5) AS t(x)");
        for (number, (sql, steps)) in [
            (
                "FETCH 3 FROM c",
                vec![("1; 2", ""), ("3", "FETCH 1"), ("", "FETCH 0")],
            ),
            ("FETCH 2 FROM c", vec![("4; 5", ""), ("", "FETCH 0")]),
            ("FETCH 1 FROM c", vec![("6", "FETCH 1")]),
            ("FETCH ALL FROM c", vec![("7; 8", ""), ("9", "FETCH 1")]),
            (
                "FETCH ALL FROM s",
                vec![("1; 2", ""), ("3; 4", ""), ("5", "FETCH 1")],
            ),
            (
                "FETCH BACKWARD 3 FROM s",
                vec![("5; 4", ""), ("3", "FETCH 1")],
            ),
            (
                "FETCH BACKWARD ALL FROM s",
                vec![("2; 1", ""), ("", "FETCH 0")],
            ),
            ("FETCH LAST FROM s", vec![("5", "FETCH 1")]),
            ("MOVE BACKWARD 3 FROM s", vec![("", "MOVE 3")]),
        ]
        .into_iter()
        .enumerate()
        {
            client.prepare("", sql, &[]);
            let portal = format!("p{number}\0");
            let bind = format!("{portal}\0\0\0\0\0\0\0");
            assert_eq!(
                client.messages(&[(b'B', bind.as_bytes())]).error,
                None,
                "{sql}"
            );
            let execute = format!("{portal}\0\0\0\u{2}");
            for (rows, tag) in steps {
                let answer = client.messages(&[(b'E', execute.as_bytes())]);
                assert_eq!(
                    (answer.shown().as_str(), answer.tag.as_str()),
                    (rows, tag),
                    "{sql}"
                );
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn small_statements() {
    let server = server().await;
    blocking(&server, |mut client| {
        for (sql, expected) in [
            ("SET my.x = 'y'; SHOW my.x", "y"),
            ("SELECT current_setting('my.x')", "y"),
            ("RESET my.x; SHOW my.x", "error 42704"),
            ("SELECT set_config('app.user', 'me', false)", "me"),
            ("SHOW app.user", "me"),
            ("SET coscan.nonsense = 1", "error 22023"),
            ("SET enable_seqscan = off; SHOW enable_seqscan", "off"),
            (
                "EXPLAIN (FOO) SELECT 1",
                "error 42601 unrecognized EXPLAIN option \"foo\"",
            ),
            ("SHOW TABLES", ""),
            ("CREATE LOCAL TEMPORARY TABLE tmp (x int)", ""),
            (
                "ALTER TABLE tmp RENAME TO tmp2; SELECT count(*) FROM tmp2",
                "0",
            ),
            (
                "CREATE VIEW v AS SELECT 1 AS x; ALTER VIEW v RENAME TO v2; SELECT x FROM v2",
                "1",
            ),
            ("ALTER TABLE nothing RENAME TO tmp3", "error 42P01"),
            ("ALTER TABLE v2 RENAME TO tmp2", "error 42P07"),
            ("LISTEN channel; NOTIFY channel; UNLISTEN channel", ""),
            ("SELECT $1", "error 42P02 there is no parameter $1"),
        ] {
            let shown = client.simple(sql).shown();
            assert!(
                shown.starts_with(expected) && shown.is_empty() == expected.is_empty(),
                "{sql}: {shown}"
            );
        }
        let tables = client.simple("SHOW TABLES").rows;
        let names: Vec<_> = tables
            .iter()
            .map(|row| row[2].as_deref().unwrap())
            .collect();
        assert_eq!(names, ["tmp2", "v2"]);
        let analyzed = client
            .simple("EXPLAIN (ANALYZE, COSTS off) SELECT 1")
            .shown();
        assert!(analyzed.contains("metrics="), "{analyzed}");
        let explained = client.simple("EXPLAIN (COSTS off) SELECT 1").shown();
        assert!(!explained.contains("metrics="), "{explained}");
    })
    .await;
}
