//! Promised: `COPY … TO STDOUT` returns a query's or a table's rows as text, CSV and binary, as
//! PostgreSQL does, in both protocols, and writes them into files on the server. After a failure
//! halfway the connection is usable. It streams, and a cancel, a timeout or the client's
//! disappearance ends it like any query.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use tokio_postgres::NoTls;

use crate::common::{TestServer, alone, state};

async fn copied(client: &tokio_postgres::Client, sql: &str) -> Vec<u8> {
    let stream = client.copy_out(sql).await.unwrap();
    let chunks: Vec<_> = pin!(stream).try_collect().await.unwrap();
    chunks.concat()
}

#[tokio::test]
async fn copy_to_stdout_sends_rows() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    for (sql, expected) in [
        (
            "COPY (SELECT id, name FROM people ORDER BY id) TO STDOUT",
            "1\tAda\n2\tBarbara\n3\t\\N\n",
        ),
        (
            "COPY (SELECT id, name FROM people ORDER BY id) TO STDOUT (FORMAT csv, HEADER)",
            "id,name\n1,Ada\n2,Barbara\n3,\n",
        ),
        (
            "COPY (SELECT id, name FROM people WHERE id = 1) TO STDOUT (FORMAT csv, HEADER on)",
            "id,name\n1,Ada\n",
        ),
        (
            "COPY (SELECT id, name FROM people WHERE id = 1) TO STDOUT (header 'OFF', FORMAT csv)",
            "1,Ada\n",
        ),
        (
            "COPY (SELECT 1 AS a FROM people p JOIN people header ON p.id = 1 LIMIT 1) TO STDOUT (HEADER 1)",
            "a\n1\n",
        ),
        (
            "COPY (SELECT id, name FROM people ORDER BY id) TO STDOUT WITH CSV HEADER DELIMITER ';' NULL 'none'",
            "id;name\n1;Ada\n2;Barbara\n3;none\n",
        ),
        (
            "COPY (SELECT id, name FROM people ORDER BY id) TO stdout WITH DELIMITER AS '|' NULL AS ''",
            "1|Ada\n2|Barbara\n3|\n",
        ),
        (
            "COPY (SELECT 'a,b' x, 'q\"' y, '' z, NULL::text n) TO STDOUT (FORMAT csv, FORCE_QUOTE (x))",
            "\"a,b\",\"q\"\"\",\"\",\n",
        ),
        (
            "COPY (SELECT 1 x, NULL::text y, 'b' z) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE *)",
            "x,y,z\n\"1\",,\"b\"\n",
        ),
        (
            "COPY (SELECT stdout, force_quote * 2 FROM (SELECT 3 force_quote, 4 stdout) t) TO STDOUT CSV FORCE QUOTE *",
            "\"4\",\"6\"\n",
        ),
        (
            "COPY (SELECT 'x' a, 'y' \"A\", 'z' a) TO STDOUT (FORMAT csv, FORCE_QUOTE (A))",
            "\"x\",y,z\n",
        ),
        (
            "COPY (SELECT 'x' \"A\", 'y' a, 'z' b) TO STDOUT CSV FORCE QUOTE A, \"A\"",
            "\"x\",\"y\",z\n",
        ),
        (
            "COPY people (id) TO STDOUT (FORCE_QUOTE *, FORMAT csv, DELIMITER ';')",
            "\"1\"\n\"2\"\n\"3\"\n",
        ),
        (
            "COPY (SELECT 'a' x, 'it''s' y) TO STDOUT (FORMAT csv, QUOTE '''', ESCAPE '\\', FORCE_QUOTE (x))",
            "'a','it\\'s'\n",
        ),
        (
            "COPY (SELECT 'a' || chr(9) || 'b' || chr(10) || '\\' x) TO STDOUT",
            "a\\tb\\n\\\\\n",
        ),
        (
            "COPY (SELECT 1, count(*) FROM people) TO STDOUT (FORMAT csv, HEADER true)",
            "?column?,count\n1,3\n",
        ),
        (
            "COPY (SELECT numbers, day, price, raw FROM kinds WHERE k = 1) TO STDOUT",
            "{1,NULL,3}\t2024-02-29\t12.50\t\\\\x6162\n",
        ),
        ("COPY (SELECT 1 WHERE false) TO STDOUT", ""),
    ] {
        let text = String::from_utf8(copied(&client, sql).await).unwrap();
        assert_eq!(text, expected, "{sql}");
    }
    let mut lines: Vec<_> =
        String::from_utf8(copied(&client, "COPY people (name, id) TO STDOUT").await)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
    lines.sort_unstable();
    assert_eq!(lines, ["Ada\t1", "Barbara\t2", "\\N\t3"]);
}

#[tokio::test]
async fn binary_copies_equal_postgres() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let sql =
        "COPY (SELECT id, name FROM people WHERE id > 1 ORDER BY id) TO STDOUT (FORMAT binary)";
    let expected = [
        b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".as_slice(),
        b"\0\x02\0\0\0\x04\0\0\0\x02\0\0\0\x07Barbara",
        b"\0\x02\0\0\0\x04\0\0\0\x03\xff\xff\xff\xff",
        b"\xff\xff",
    ]
    .concat();
    assert_eq!(copied(&client, sql).await, expected);
    // Clients expect a row, or the end, after the head in the first message.
    let first = pin!(client.copy_out(sql).await.unwrap()).try_next().await;
    assert_eq!(first.unwrap().unwrap().len(), 19 + 2 + 4 + 4 + 4 + 7);
    let none = "COPY (SELECT 1 WHERE false) TO STDOUT (FORMAT binary)";
    let first = pin!(client.copy_out(none).await.unwrap()).try_next().await;
    assert_eq!(
        &first.unwrap().unwrap()[..],
        b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\xff\xff"
    );
}

#[tokio::test]
async fn many_rows_are_copied_in_full() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let sql = "COPY (SELECT value FROM generate_series(1, 300000) AS g(value)) TO STDOUT";
    let text = String::from_utf8(copied(&client, sql).await).unwrap();
    assert_eq!(text.lines().count(), 300_000);
    let sum: u64 = text.lines().map(|line| line.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 45_000_150_000);
}

#[tokio::test]
async fn a_copy_that_fails_leaves_the_connection_usable() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let failing = client
        .copy_out("COPY (SELECT 1 / (id - 2) FROM people) TO STDOUT")
        .await;
    let error = match failing {
        Err(error) => Err(error),
        Ok(stream) => pin!(stream).try_collect::<Vec<_>>().await,
    };
    assert_eq!(state(error), "22012");
    for (sql, code) in [
        ("COPY nothing TO STDOUT", "42P01"),
        (
            "COPY people TO STDOUT (FORMAT csv, DELIMITER '\"')",
            "22023",
        ),
        ("COPY people TO STDOUT (FORMAT parquet)", "22023"),
        ("COPY people TO STDOUT (FREEZE)", "0A000"),
        ("COPY people FROM STDIN;", "0A000"),
    ] {
        assert_eq!(state(client.simple_query(sql).await), code, "{sql}");
    }
    assert_eq!(
        client
            .query_one("SELECT 1::int", &[])
            .await
            .unwrap()
            .get::<_, i32>(0),
        1
    );
}

#[tokio::test]
async fn refused_options_have_postgres_codes() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    for (options, code) in [
        ("(FORMAT binary, DELIMITER ',')", "42601"),
        ("(FORMAT binary, NULL '')", "42601"),
        ("(FORMAT binary, HEADER)", "0A000"),
        ("(FORMAT binary, FORCE_QUOTE *)", "0A000"),
        ("(QUOTE '|')", "0A000"),
        ("(ESCAPE '|')", "0A000"),
        ("(FORCE_QUOTE (id))", "0A000"),
        ("(DELIMITER 'a')", "22023"),
        ("(DELIMITER '.')", "22023"),
        ("(DELIMITER E'\\n', QUOTE '|')", "22023"),
        ("(NULL E'a\\nb', QUOTE '|')", "22023"),
        ("(DELIMITER 'N')", "0A000"),
        ("(FORMAT csv, DELIMITER '|', QUOTE '|')", "22023"),
        ("(FORMAT csv, NULL 'a,b')", "0A000"),
        ("(FORMAT csv, NULL 'a\"b')", "0A000"),
        ("(FORMAT csv, FORCE_QUOTE (id, nix))", "42703"),
        ("(FORMAT csv, FORCE_QUOTE (\"ID\"))", "42703"),
        ("(FORMAT csv, FORCE_QUOTE (id, ID))", "42701"),
        ("(FORMAT csv, FORMAT csv)", "42601"),
        ("(FORMAT csv, HEADER false, HEADER)", "42601"),
        ("(FORMAT csv, FORCE_QUOTE (id), FORCE_QUOTE *)", "42601"),
        ("BINARY CSV", "42601"),
        ("DELIMITER '|' CSV DELIMITER ';'", "42601"),
        ("CSV HEADER QUOTE '|' HEADER", "42601"),
    ] {
        let sql = format!("COPY people TO STDOUT {options}");
        assert_eq!(state(client.simple_query(&sql).await), code, "{sql}");
    }
    let sql = "COPY (SELECT 1 WHERE false) TO STDOUT (FORMAT binary, HEADER false)";
    assert_eq!(copied(&client, sql).await.len(), 19 + 2);
}

/// The client can read a COPY of endless rows only if it is streamed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_ends_by_cancel_and_by_time_out() {
    let _alone = alone();
    let server = TestServer::start().await;
    let client = server.connect().await;
    for timed in [false, true] {
        if timed {
            let set = "SET statement_timeout = '300ms'";
            client.batch_execute(set).await.unwrap();
        }
        let sql = "COPY (SELECT n FROM endless) TO STDOUT";
        let mut stream = pin!(client.copy_out(sql).await.unwrap());
        stream.try_next().await.unwrap().unwrap();
        if !timed {
            client.cancel_token().cancel_query(NoTls).await.unwrap();
        }
        let start = Instant::now();
        let error = loop {
            match stream.try_next().await {
                Ok(Some(_)) => assert!(start.elapsed() < Duration::from_secs(10)),
                Ok(None) => panic!("an endless result ended"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.code().unwrap().code(), "57014");
        server.all_dropped_soon().await;
        client.simple_query("SELECT 1").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_whose_client_does_not_read_ends_at_the_timeout() {
    let _alone = alone();
    let server = TestServer::start().await;
    for vanishes in [true, false] {
        let (client, connection) = server.config().connect(NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        if !vanishes {
            let set = "SET statement_timeout = '1s'";
            client.batch_execute(set).await.unwrap();
        }
        let sql = "COPY (SELECT n FROM endless) TO STDOUT";
        let stream = client.copy_out(sql).await.unwrap();
        server.some_live().await;
        if vanishes {
            connection.abort();
            server.all_dropped_soon().await;
        } else {
            // The kernel's buffers are full, and the client does not read.
            tokio::time::sleep(Duration::from_millis(1500)).await;
            server.all_dropped_soon().await;
        }
        drop(stream);
    }
}

#[tokio::test]
async fn copied_queries_have_the_limits_of_any_statement() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let sum = format!("COPY (SELECT 1{}) TO STDOUT", "+1".repeat(100_000));
    assert_eq!(state(client.simple_query(&sum).await), "54001");
    assert_eq!(state(client.copy_out(&sum).await.map(drop)), "54001");
    let either: Vec<_> = (0..100_000).map(|i| format!("id = {i}")).collect();
    let sql = format!(
        "COPY (SELECT id FROM people WHERE {} ORDER BY 1) TO STDOUT",
        either.join(" OR ")
    );
    assert_eq!(copied(&client, &sql).await, b"1\n2\n3\n");
}

/// As to STDOUT.
#[tokio::test]
async fn copy_to_writes_moments_in_the_sessions_zone() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("moments.csv").display().to_string();
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_with_rights(&engine, coscan::Rights::ALL).await;
    let client = server.connect().await;
    let zone = "SET timezone = 'America/New_York'";
    client.batch_execute(zone).await.unwrap();
    let at = "timestamptz '2024-07-01 12:00+00'";
    let sql = format!("COPY (SELECT {at}, ARRAY[{at}] AS list) TO '{target}' (FORMAT csv)");
    client.execute(sql.as_str(), &[]).await.unwrap();
    assert_eq!(
        std::fs::read_to_string(&target).unwrap(),
        "2024-07-01 08:00:00-04,\"{\"\"2024-07-01 08:00:00-04\"\"}\"\n"
    );
}

#[tokio::test]
async fn copy_to_writes_files_on_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_with_rights(&engine, coscan::Rights::ALL).await;
    let client = server.connect().await;
    client
        .batch_execute("CREATE TABLE t AS SELECT 1 AS id, 'a|b' AS name, true AS flag UNION ALL SELECT 2, NULL, false")
        .await
        .unwrap();
    for (options, expected) in [
        (
            "WITH (FORMAT csv, HEADER false, DELIMITER '|')",
            "1|\"a|b\"|t\n2||f\n",
        ),
        (
            "(FORMAT csv, HEADER, NULL 'none')",
            "id,name,flag\n1,a|b,t\n2,none,f\n",
        ),
        ("WITH CSV HEADER", "id,name,flag\n1,a|b,t\n2,,f\n"),
        ("(FORMAT text)", "1\ta|b\tt\n2\t\\N\tf\n"),
        ("(DELIMITER '|')", "1|a\\|b|t\n2|\\N|f\n"),
    ] {
        let target = path("out.csv");
        let sql = format!("COPY (SELECT * FROM t ORDER BY id) TO '{target}' {options}");
        assert_eq!(client.execute(sql.as_str(), &[]).await.unwrap(), 2, "{sql}");
        assert_eq!(std::fs::read_to_string(&target).unwrap(), expected, "{sql}");
        let sql = format!("COPY t (id) TO '{target}' {options}");
        assert_eq!(client.execute(sql.as_str(), &[]).await.unwrap(), 2, "{sql}");
    }
    let target = path("plain.csv");
    let rows = "SELECT *, '' AS empty, timestamp '2024-01-01 10:00' AS at, ARRAY[1, NULL] AS list";
    let sql = format!("COPY ({rows} FROM t ORDER BY id) TO '{target}'");
    assert_eq!(client.execute(sql.as_str(), &[]).await.unwrap(), 2, "{sql}");
    assert_eq!(
        std::fs::read_to_string(&target).unwrap(),
        "id,name,flag,empty,at,list\n\
         1,a|b,t,\"\",2024-01-01 10:00:00,\"{1,NULL}\"\n\
         2,,f,\"\",2024-01-01 10:00:00,\"{1,NULL}\"\n"
    );
    let sql = format!("COPY t TO '{target}'");
    assert_eq!(client.execute(sql.as_str(), &[]).await.unwrap(), 2, "{sql}");
    let text = std::fs::read_to_string(&target).unwrap();
    assert!(
        text.starts_with("id,name,flag\n") && text.contains("\n2,,f\n"),
        "{text}"
    );
    let target = path("out.parquet");
    let at = "arrow_cast(timestamp '2024-02-29 10:34:56', 'Timestamp(Microsecond, Some(\"UTC\"))')";
    for options in ["(FORMAT parquet)", "STORED AS PARQUET", ""] {
        let sql = format!("COPY (SELECT {at} AS at) TO '{target}' {options}");
        client.execute(sql.as_str(), &[]).await.unwrap();
        let table = engine.session().table_at(&target).await.unwrap();
        let field = table.schema().field(0).data_type().to_string();
        assert!(
            field.starts_with("Timestamp(") && field.contains("00:00") || field.contains("UTC"),
            "{options}: {field}"
        );
    }
    let target = path("at.csv");
    for options in ["(FORMAT csv)", "STORED AS CSV", ""] {
        let sql = format!("COPY (SELECT {at} AS at) TO '{target}' {options}");
        client.execute(sql.as_str(), &[]).await.unwrap();
        let text = std::fs::read_to_string(&target).unwrap();
        assert!(
            text.contains("10:34:56+00") || text.contains("10:34:56Z"),
            "{options}: {text}"
        );
    }
    let target = path("refused.csv");
    let sql = format!("COPY t TO '{target}' (FORMAT csv, FORCE_QUOTE (id, nix))");
    assert_eq!(state(client.execute(sql.as_str(), &[]).await), "42703");
    assert!(!folder.path().join("refused.csv").exists());
    for options in ["(FORMAT csv)", "(FORMAT parquet)", "STORED AS PARQUET", ""] {
        let sql = format!("COPY t TO '{}' {options}", path("missing/out.parquet"));
        let refused = client.execute(sql.as_str(), &[]).await;
        assert_eq!(state(refused), "58P01", "{sql}");
        assert!(!folder.path().join("missing").exists());
    }
}

#[tokio::test]
async fn files_equal_the_result_of_the_query() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_with_rights(&engine, coscan::Rights::ALL).await;
    let client = server.connect().await;
    client
        .batch_execute(
            "CREATE TABLE t AS SELECT x AS id, x::text AS s FROM generate_series(1, 3) g(x)",
        )
        .await
        .unwrap();
    for (number, (query, names)) in [
        ("SELECT 2^10 AS a, -3 ^ 2 AS b, 1e5 AS c", "a b c"),
        ("SELECT 1e20::float8", "float8"),
        (
            "SELECT 'abc'::varchar(2), 'x' COLLATE \"C\" AS y",
            "varchar y",
        ),
        (
            "SELECT timestamptz '2024-01-01 00:00+00' AT TIME ZONE 'Asia/Tokyo'",
            "timezone",
        ),
        ("SELECT count(*), max(id) FROM t", "count max"),
        (
            "SELECT id FROM t WHERE s IS DISTINCT FROM '1' AND id < 3",
            "id",
        ),
        ("SELECT '{1,2}'::int[] AS a, current_user = '' AS b", "a b"),
    ]
    .into_iter()
    .enumerate()
    {
        for (form, options) in ["", "STORED AS PARQUET", "(FORMAT parquet)"]
            .iter()
            .enumerate()
        {
            let target = path(&format!("{number}-{form}.parquet"));
            let copy = format!("COPY ({query}) TO '{target}' {options}");
            client.execute(copy.as_str(), &[]).await.unwrap();
            let make = format!("CREATE EXTERNAL TABLE f STORED AS PARQUET LOCATION '{target}'");
            client.batch_execute(&make).await.unwrap();
            let table = engine.session().table_at(&target).await.unwrap();
            let fields: Vec<_> = table
                .schema()
                .fields()
                .iter()
                .map(|f| f.name().clone())
                .collect();
            assert_eq!(fields.join(" "), names, "{copy}");
            let text = |sql: &str| format!("COPY ({sql}) TO STDOUT");
            let written = copied(&client, &text("SELECT * FROM f")).await;
            assert_eq!(written, copied(&client, &text(query)).await, "{copy}");
            client.batch_execute("DROP TABLE f").await.unwrap();
        }
    }
    for options in ["", "STORED AS PARQUET", "(FORMAT parquet)", "(FORMAT json)"] {
        let target = path("refused.parquet");
        for (query, code) in [
            ("SELECT 2147483647 + 1", "22003"),
            ("SELECT id, id FROM t", "42701"),
            ("SELECT 1, 2", "42701"),
        ] {
            let copy = format!("COPY ({query}) TO '{target}' {options}");
            assert_eq!(
                state(client.execute(copy.as_str(), &[]).await),
                code,
                "{copy}"
            );
        }
    }
    let target = path("times.json");
    let copy = format!(
        "COPY (SELECT count(*), date 'infinity' AS d, time '24:00' AS t, \
         timestamp '-infinity' AS ts, timestamp '2024-01-01 10:00' AS n, \
         timestamptz 'infinity' AS tz, interval '1 month 2 days' AS i, '\\x00ff'::bytea AS b, \
         ARRAY[date 'infinity', '2024-01-01'] AS l FROM t) TO '{target}' (FORMAT json)"
    );
    client.execute(copy.as_str(), &[]).await.unwrap();
    assert_eq!(
        std::fs::read_to_string(&target).unwrap(),
        "{\"count\":3,\"d\":\"infinity\",\"t\":\"24:00:00\",\"ts\":\"-infinity\",\
         \"n\":\"2024-01-01T10:00:00\",\"tz\":\"infinity\",\"i\":\"1 mon 2 days\",\
         \"b\":\"\\\\x00ff\",\"l\":[\"infinity\",\"2024-01-01\"]}\n"
    );
}
