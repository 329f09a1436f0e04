//! Promised: results of every common type arrive intact in both protocols and both formats; a
//! statement that fails has PostgreSQL's code and leaves the connection usable; portals, cursors
//! and transactions behave as drivers expect.

use std::error::Error;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::raw::{Answer, RawClient};
use crate::common::{TestServer, state};
use futures::{TryStreamExt, pin_mut};
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::{FromSql, Type};

/// A value's bytes as the server sent them.
struct Raw(Vec<u8>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// The first row's cells as text.
async fn texts(client: &tokio_postgres::Client, sql: &str) -> Vec<Option<String>> {
    for message in client.simple_query(sql).await.unwrap() {
        if let SimpleQueryMessage::Row(row) = message {
            return (0..row.len())
                .map(|i| row.get(i).map(str::to_owned))
                .collect();
        }
    }
    panic!("no row");
}

#[tokio::test]
async fn simple_queries_of_every_type() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    for (expression, text) in [
        ("1::smallint", "1"),
        ("arrow_cast(200, 'UInt8')", "200"),
        ("-5::int", "-5"),
        ("9223372036854775807::bigint", "9223372036854775807"),
        (
            "arrow_cast('18446744073709551615', 'UInt64')",
            "18446744073709551615",
        ),
        ("1.5::real", "1.5"),
        ("1e300::double precision", "1e+300"),
        ("'NaN'::double precision", "NaN"),
        ("12.50::decimal(10,2)", "12.50"),
        (
            "arrow_cast('12345678901234567890123456789012345.125', 'Decimal128(38,3)')",
            "12345678901234567890123456789012345.125",
        ),
        ("arrow_cast('-0.000001', 'Decimal256(60,6)')", "-0.000001"),
        ("true", "t"),
        ("'x'::varchar", "x"),
        ("arrow_cast('view', 'Utf8View')", "view"),
        ("arrow_cast('word', 'Dictionary(Int32, Utf8)')", "word"),
        ("date '2024-02-29'", "2024-02-29"),
        (
            "timestamp '2024-02-29 12:34:56.789'",
            "2024-02-29 12:34:56.789",
        ),
        (
            "arrow_cast(0, 'Timestamp(Nanosecond, Some(\"+02:00\"))')",
            // In the session's time zone, whatever the column's is.
            "1970-01-01 00:00:00+00",
        ),
        ("time '01:02:03'", "01:02:03"),
        (
            "interval '1 month 2 days 3 seconds'",
            "1 mon 2 days 00:00:03",
        ),
        ("arrow_cast('ab', 'Binary')", "\\x6162"),
        ("make_array(1, NULL, 3)", "{1,NULL,3}"),
        ("named_struct('a', 1)", "(1)"),
    ] {
        let row = texts(&client, &format!("SELECT {expression}")).await;
        assert_eq!(row, [Some(text.to_owned())], "{expression}");
    }
    assert_eq!(
        texts(
            &client,
            "SELECT NULL AS a, NULL::int AS b, NULL::interval AS c"
        )
        .await
        .len(),
        3
    );
}

#[tokio::test]
async fn binary_results_of_every_type() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let sql = "SELECT 1::smallint, 2::int, 3::bigint, 1.5::real, 2.5::double precision, true, 'x', \
               arrow_cast('view', 'Utf8View'), arrow_cast('ab', 'Binary'), NULL::int, \
               timestamp '1999-12-31 23:59:59.5', make_array(1::int, NULL, 3::int), \
               12.50::decimal(10,2), date '2000-01-02', NULL::timestamp AS nothing, make_array('a', 'b')";
    let row = client.query_one(sql, &[]).await.unwrap();
    assert_eq!(row.get::<_, i16>(0), 1);
    assert_eq!(row.get::<_, i32>(1), 2);
    assert_eq!(row.get::<_, i64>(2), 3);
    assert_eq!(row.get::<_, f32>(3).to_string(), "1.5");
    assert_eq!(row.get::<_, f64>(4).to_string(), "2.5");
    assert!(row.get::<_, bool>(5));
    assert_eq!(row.get::<_, &str>(6), "x");
    assert_eq!(row.get::<_, &str>(7), "view");
    assert_eq!(row.get::<_, &[u8]>(8), b"ab");
    assert_eq!(row.get::<_, Option<i32>>(9), None);
    let eve = UNIX_EPOCH + Duration::from_millis(946_684_799_500);
    assert_eq!(row.get::<_, std::time::SystemTime>(10), eve);
    assert_eq!(row.get::<_, Vec<Option<i32>>>(11), [Some(1), None, Some(3)]);
    assert_eq!(*row.columns()[12].type_(), Type::NUMERIC);
    // Two groups (12, 5000), the first of weight 10000^0, positive, two digits after the point.
    assert_eq!(
        row.get::<_, Raw>(12).0,
        [0, 2, 0, 0, 0, 0, 0, 2, 0, 12, 0x13, 0x88]
    );
    assert_eq!(row.get::<_, Raw>(13).0, [0, 0, 0, 1]);
    assert!(row.get::<_, Option<Raw>>(14).is_none());
    assert_eq!(row.get::<_, Vec<String>>(15), ["a", "b"]);
}

#[tokio::test]
async fn prepared_statements_with_parameters() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let by_id = client
        .prepare("SELECT name FROM people WHERE id = $1")
        .await
        .unwrap();
    assert_eq!(by_id.params(), [Type::INT4]);
    for (id, name) in [(1, Some("Ada")), (2, Some("Barbara")), (3, None)] {
        let row = client.query_one(&by_id, &[&id]).await.unwrap();
        assert_eq!(row.get::<_, Option<&str>>(0), name);
    }
    assert!(
        client
            .query_opt(&by_id, &[&None::<i32>])
            .await
            .unwrap()
            .is_none()
    );

    let by_name = client
        .prepare("SELECT id FROM people WHERE name = $1")
        .await
        .unwrap();
    assert_eq!(
        client
            .query_one(&by_name, &[&"Ada"])
            .await
            .unwrap()
            .get::<_, i32>(0),
        1
    );

    let typed = client.prepare("SELECT $1::bigint + 1, $2").await.unwrap();
    assert_eq!(typed.params(), [Type::INT8, Type::TEXT]);
    let row = client.query_one(&typed, &[&41_i64, &"echo"]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, &str>(1)), (42, "echo"));

    // A float is compared as a float, not rounded to the column's scale.
    let close = "SELECT 0.05::decimal(10,2) > $1";
    let close = client.prepare_typed(close, &[Type::FLOAT8]).await.unwrap();
    assert!(
        client
            .query_one(&close, &[&0.049_f64])
            .await
            .unwrap()
            .get::<_, bool>(0)
    );

    let limit = client
        .prepare("SELECT id FROM people ORDER BY id LIMIT $1")
        .await
        .unwrap();
    assert_eq!(client.query(&limit, &[&2_i64]).await.unwrap().len(), 2);
}

#[tokio::test]
async fn errors_have_codes_and_leave_the_connection_usable() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    for (sql, code) in [
        ("SELEC 1", "42601"),
        ("SELECT * FROM nowhere", "42P01"),
        ("SELECT nothing FROM people", "42703"),
        ("SELECT no_such_function(1)", "42883"),
        ("SELECT 1/0", "22012"),
        ("SELECT 'a'::int", "22P02"),
        ("SELECT explode(1)", "XX000"),
        ("SELECT explode(id) FROM people", "XX000"),
        ("COPY people TO '/tmp/people.csv'", "42501"),
        ("EXPLAIN ANALYZE COPY people TO '/tmp/people.csv'", "42501"),
        (
            "CREATE EXTERNAL TABLE passwd STORED AS CSV LOCATION '/etc/passwd'",
            "42501",
        ),
        ("DECLARE c CURSOR FOR SELECT 1", "25P01"),
        ("FETCH 1 FROM c", "34000"),
        ("SET no_such_setting = 1", "42704"),
    ] {
        assert_eq!(state(client.simple_query(sql).await), code, "{sql}");
        assert_eq!(state(client.query(sql, &[]).await), code, "{sql}, extended");
        assert_eq!(texts(&client, "SELECT 1").await, [Some("1".to_owned())]);
        assert_eq!(
            client
                .query_one("SELECT 2::int", &[])
                .await
                .unwrap()
                .get::<_, i32>(0),
            2
        );
    }
}

#[tokio::test]
async fn several_statements_in_one_text() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let messages = client
        .simple_query("SELECT 1; SELECT 2; -- and no more\n")
        .await
        .unwrap();
    let rows: Vec<_> = messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect();
    assert_eq!(rows, ["1", "2"]);
    assert_eq!(
        state(client.simple_query("SELECT 1; SELECT 1/0; SELECT 3").await),
        "22012"
    );
    assert!(client.simple_query("").await.is_ok());
    client
        .batch_execute("CREATE TABLE made AS SELECT 7 AS x; DROP TABLE made")
        .await
        .unwrap();
    assert_eq!(
        state(client.query("SELECT 1; SELECT 2", &[]).await),
        "42601"
    );
}

#[tokio::test]
async fn a_portal_returns_its_rows_in_parts() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let transaction = client.transaction().await.unwrap();
    let portal = transaction
        .bind("SELECT n FROM endless", &[])
        .await
        .unwrap();
    let mut expected = 0_i64;
    for size in [1, 999, 1, 2500] {
        let rows = transaction.query_portal(&portal, size).await.unwrap();
        assert_eq!(rows.len(), usize::try_from(size).unwrap());
        for row in rows {
            assert_eq!(row.get::<_, i64>(0), expected);
            expected += 1;
        }
    }
    server.some_live().await;
    transaction.commit().await.unwrap();
    server.all_dropped().await;

    let transaction = client.transaction().await.unwrap();
    let portal = transaction
        .bind("SELECT id FROM people", &[])
        .await
        .unwrap();
    assert_eq!(transaction.query_portal(&portal, 2).await.unwrap().len(), 2);
    assert_eq!(transaction.query_portal(&portal, 2).await.unwrap().len(), 1);
    assert_eq!(transaction.query_portal(&portal, 2).await.unwrap().len(), 0);
}

#[tokio::test]
async fn cursors_in_sql() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    client
        .batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT n FROM endless")
        .await
        .unwrap();
    assert_eq!(client.query("FETCH 3 FROM c", &[]).await.unwrap().len(), 3);
    let rows = client.query("FETCH FORWARD 2 FROM c", &[]).await.unwrap();
    assert_eq!(rows[1].get::<_, i64>(0), 4);
    assert_eq!(
        texts(&client, "FETCH NEXT FROM c").await,
        [Some("5".to_owned())]
    );
    client.batch_execute("CLOSE c").await.unwrap();
    server.all_dropped().await;
    client
        .batch_execute("DECLARE d CURSOR FOR SELECT n FROM endless; COMMIT")
        .await
        .unwrap();
    server.all_dropped().await;
    assert_eq!(state(client.simple_query("FETCH 1 FROM d").await), "34000");
}

#[tokio::test]
async fn a_failed_transaction_accepts_only_its_end() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(state(client.simple_query("SELECT 1/0").await), "22012");
    assert_eq!(state(client.simple_query("SELECT 1").await), "25P02");
    assert_eq!(state(client.query("SELECT 1", &[]).await), "25P02");
    client.batch_execute("ROLLBACK").await.unwrap();
    client.batch_execute("SELECT 1").await.unwrap();

    client.batch_execute("BEGIN; SAVEPOINT s").await.unwrap();
    assert_eq!(state(client.simple_query("SELECT 1/0").await), "22012");
    client
        .batch_execute("ROLLBACK TO SAVEPOINT s; RELEASE s; SELECT 1; COMMIT")
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn portals_end_with_their_transaction_or_savepoint() {
    const NO_FORMATS: &[u8] = b"p\0s\0\0\0\0\0\0\0";
    const BIND: (u8, &[u8]) = (b'B', NO_FORMATS);
    const ONE_ROW: (u8, &[u8]) = (b'E', b"p\0\0\0\0\x01");
    let server = TestServer::start().await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(addr);
        let begins = |answer: &Answer, expected: &str| {
            let shown = answer.shown();
            assert!(shown.starts_with(expected), "{expected}: {shown}");
        };
        client.simple("CREATE TABLE own (a int)");
        client.prepare("s", "SELECT x FROM generate_series(1, 3) g(x)", &[]);
        client.prepare("i", "INSERT INTO own VALUES (1)", &[]);
        // A failed transaction returns no rows and describes none.
        client.simple("BEGIN");
        begins(&client.messages(&[BIND, ONE_ROW]), "1");
        begins(&client.messages(&[ONE_ROW]), "2");
        client.simple("SELECT 1/0");
        for message in [ONE_ROW, (b'D', b"Pp\0"), (b'D', b"Ss\0"), BIND] {
            begins(&client.messages(&[message]), "error 25P02");
        }
        assert_eq!(client.messages(&[(b'D', b"Si\0")]).error, None);
        client.simple("ROLLBACK");
        // ROLLBACK TO closes the portals opened since the savepoint, and no others.
        client.simple("BEGIN");
        client.simple("DECLARE before CURSOR FOR SELECT 7");
        client.simple("SAVEPOINT a");
        client.messages(&[BIND]);
        client.simple("SAVEPOINT b");
        client.simple("DECLARE since CURSOR FOR SELECT 8");
        client.simple("ROLLBACK TO b");
        begins(&client.messages(&[ONE_ROW]), "1");
        client.simple("ROLLBACK TO a");
        begins(&client.simple("FETCH before"), "7");
        begins(&client.messages(&[ONE_ROW]), "error 34000");
        client.simple("ROLLBACK");
        // A statement without rows runs once.
        client.simple("BEGIN");
        let bind: (u8, &[u8]) = (b'B', b"q\0i\0\0\0\0\0\0\0");
        let run: (u8, &[u8]) = (b'E', b"q\0\0\0\0\0");
        assert_eq!(client.messages(&[bind, run]).error, None);
        begins(&client.messages(&[run]), "error 55000");
        client.simple("ROLLBACK");
        // So does a COPY.
        client.prepare("c", "COPY (SELECT 1) TO STDOUT", &[]);
        let bind: (u8, &[u8]) = (b'B', b"r\0c\0\0\0\0\0\0\0");
        let run: (u8, &[u8]) = (b'E', b"r\0\0\0\0\0");
        begins(&client.messages(&[bind, run, run]), "error 55000");
        let two_formats: (u8, &[u8]) = (b'B', b"p\0s\0\0\0\0\0\0\x02\0\0\0\0");
        begins(&client.messages(&[two_formats]), "error 08P01");
        client.prepare("", "SELECT $2::int", &[]);
        begins(&client.messages(&[]), "error 42P18");
    });
    done.await.unwrap();
}

#[tokio::test]
async fn rows_arrive_while_the_query_runs() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let stream = client
        .query_raw("SELECT n FROM endless", Vec::<i32>::new())
        .await
        .unwrap();
    pin_mut!(stream);
    for expected in 0..100_000_i64 {
        let row = stream.try_next().await.unwrap().unwrap();
        assert_eq!(row.get::<_, i64>(0), expected);
    }
}

/// A client that is told the columns while it waits for the first row is woken for nothing.
#[tokio::test]
async fn the_columns_are_announced_with_the_first_rows() {
    let server = TestServer::start().await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(addr);
        client.send(b'Q', b"SELECT pg_sleep(600)\0");
        assert!(!client.hears_within(Duration::from_millis(300)));
        // Rows of an earlier statement do not wait.
        let mut other = RawClient::connect(addr);
        other.send(b'Q', b"SELECT 7; SELECT pg_sleep(600)\0");
        assert!(other.hears_within(Duration::from_secs(20)));
    });
    done.await.unwrap();
}

/// Otherwise a text of thousands of such statements would fill the server's memory.
#[tokio::test]
async fn many_results_without_rows_do_not_wait_in_memory() {
    let server = TestServer::start().await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let columns: Vec<String> = (0..200).map(|at| format!("column_{at} int")).collect();
        let mut client = RawClient::connect(addr);
        client.simple(&format!("CREATE TABLE wide ({})", columns.join(", ")));
        // A description takes some 6 KB.
        let text = "SELECT * FROM wide;".repeat(40) + "SELECT pg_sleep(600)\0";
        client.send(b'Q', text.as_bytes());
        assert!(client.hears_within(Duration::from_secs(20)));
    });
    done.await.unwrap();
}

#[tokio::test]
async fn sixty_four_connections_at_once() {
    let server = TestServer::start().await;
    let queries = (0..64_i64).map(|i| {
        let config = server.config();
        tokio::spawn(async move {
            let client = crate::common::connect(&config).await.unwrap();
            for j in 0..5_i64 {
                let sql = "SELECT sum(x)::bigint + $1 FROM generate_series(1, 1000) t(x)";
                let row = client.query_one(sql, &[&(i * j)]).await.unwrap();
                assert_eq!(row.get::<_, i64>(0), 500_500 + i * j);
            }
        })
    });
    for query in queries.collect::<Vec<_>>() {
        query.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_are_postgres_own() {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(addr);
        for (sql, tag) in [
            ("START TRANSACTION", "START TRANSACTION"),
            ("END", "COMMIT"),
            ("BEGIN", "BEGIN"),
            ("ABORT", "ROLLBACK"),
            ("CREATE TEMP TABLE t (a) AS SELECT 1 WITH DATA", "SELECT 1"),
            ("CREATE VIEW v AS SELECT a FROM t", "CREATE VIEW"),
            ("ALTER VIEW v RENAME TO w", "ALTER VIEW"),
            ("ALTER TABLE w RENAME TO v", "ALTER TABLE"),
            ("DELETE FROM t x WHERE x.a = 1", "DELETE 1"),
            ("CREATE TEMP TABLE u (a int)", "CREATE TABLE"),
            ("TRUNCATE t, u", "TRUNCATE TABLE"),
        ] {
            let answer = client.simple(sql);
            assert_eq!((answer.error, answer.tag.as_str()), (None, tag), "{sql}");
            if sql.starts_with("TRUNCATE") {
                client.prepare("", sql, &[]);
                let answer = client.run("", &[], 0);
                assert_eq!((answer.error, answer.tag.as_str()), (None, tag), "{sql}");
            }
        }
    });
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_parse_leaves_no_unnamed_statement() {
    const BIND: (u8, &[u8]) = (b'B', b"\0\0\0\0\0\0\0\0");
    let server = TestServer::start().await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(addr);
        assert_eq!(client.messages(&[(b'P', b"\0SELECT 7\0\0\0")]).error, None);
        let failed = client.messages(&[(b'P', b"\0SELEC 8\0\0\0")]).shown();
        assert!(failed.starts_with("error 42601"), "{failed}");
        let bound = client.messages(&[BIND]).shown();
        assert!(bound.starts_with("error 26000"), "{bound}");
    });
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binary_cursor_is_fetched_in_binary() {
    let server = TestServer::start().await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(addr);
        client.simple("BEGIN; DECLARE b BINARY SCROLL CURSOR FOR SELECT 7");
        client.simple("DECLARE c BINARY CURSOR FOR SELECT 7; DECLARE t CURSOR FOR SELECT 7");
        for (cursor, shown) in [("b", "\0\0\0\u{7}"), ("c", "\0\0\0\u{7}"), ("t", "7")] {
            let fetched = client.simple(&format!("FETCH {cursor}")).shown();
            assert_eq!(fetched, shown, "{cursor}");
        }
        // In the extended protocol Bind chooses the format.
        client.prepare("", "FETCH ABSOLUTE 1 FROM b", &[]);
        assert_eq!(client.run("", &[], 0).shown(), "7");
    });
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_are_listed() {
    const LIST: &str = "SELECT name, statement, parameter_types, from_sql FROM \
                        pg_prepared_statements WHERE prepare_time <= now() ORDER BY name";
    let server = TestServer::start().await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let (mut client, mut other) = (RawClient::connect(addr), RawClient::connect(addr));
        client.simple("PREPARE p (int, text[]) AS SELECT $1, $2");
        client.prepare("q", "SELECT 2", &[]);
        client.prepare("", "SELECT 3", &[]);
        assert_eq!(client.messages(&[]).error, None);
        assert_eq!(
            client.simple(LIST).shown(),
            "p | PREPARE p (int, text[]) AS SELECT $1, $2 | {integer,text[]} | t; \
             q | SELECT 2 | {} | f"
        );
        assert_eq!(other.simple(LIST).shown(), "");
        client.simple("DEALLOCATE p");
        assert_eq!(client.simple(LIST).shown(), "q | SELECT 2 | {} | f");
        client.simple("DISCARD ALL");
        assert_eq!(client.simple(LIST).shown(), "");
    });
    done.await.unwrap();
}
