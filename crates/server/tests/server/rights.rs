//! Promised: the table in docs/design/rights.md, which this test reads. Each row has statements
//! here, which run with every combination of the server's options. Without an option that the row
//! names, they are refused with the option's name; otherwise other sessions see the effect if the
//! row says so. Objects that a session creates are private, counted, and dropped with the session.
//! Statements hidden inside others change nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coscan::{Engine, EngineConfig, Rights, Session};
use futures::TryStreamExt;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::common::{HAPPENS_WITHIN, TestServer, state};

/// Statements for each row of the page, by the row's first cell. `{}` is the test's folder.
const CASES: &[(&str, &[&str])] = &[
    (
        "SELECT, EXPLAIN, SHOW",
        &[
            "SELECT count(*) FROM t",
            "EXPLAIN SELECT * FROM t; EXPLAIN ANALYZE SELECT * FROM t",
            "SHOW coscan.memory; SHOW TABLES; SHOW INDEXES; SHOW ALL",
            "SELECT * FROM information_schema.tables; SELECT * FROM coscan.scans",
        ],
    ),
    (
        "PREPARE, EXECUTE, DECLARE, FETCH, transactions",
        &[
            "PREPARE p AS SELECT k FROM t; EXECUTE p; DEALLOCATE p",
            "BEGIN; DECLARE c CURSOR FOR SELECT k FROM t; FETCH 2 FROM c; COMMIT",
        ],
    ),
    (
        "CREATE TABLE, CREATE TABLE AS, SELECT INTO, TEMPORARY or not",
        &[
            "CREATE TABLE own (a int); SELECT * FROM own",
            "CREATE TEMP TABLE own AS SELECT k FROM t; SELECT * FROM own",
            "CREATE TEMPORARY TABLE own (a int)",
            "SELECT k INTO own FROM t; SELECT * FROM own",
            "CREATE TABLE own AS SELECT 1 AS a; CREATE OR REPLACE TABLE own AS SELECT 2 AS a",
            "CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS a",
        ],
    ),
    (
        "INSERT, UPDATE, DELETE on a table of the session's own",
        &[
            "CREATE TABLE own AS SELECT 1 AS a; INSERT INTO own VALUES (2); SELECT * FROM own",
            "CREATE TABLE own AS SELECT 1 AS a; UPDATE own SET a = 3 WHERE a = 1",
            "CREATE TABLE own AS SELECT 1 AS a; DELETE FROM own WHERE a = 1",
        ],
    ),
    (
        "CREATE VIEW, CREATE OR REPLACE VIEW",
        &[
            "CREATE VIEW own AS SELECT k FROM t; SELECT * FROM own",
            "CREATE VIEW own AS SELECT 1 AS a; CREATE OR REPLACE VIEW own AS SELECT 2 AS a",
            "CREATE TEMP VIEW own AS SELECT 1 AS a; SELECT * FROM own",
        ],
    ),
    (
        "CREATE SCHEMA, CREATE DATABASE",
        &[
            "CREATE SCHEMA mine; CREATE TABLE mine.x AS SELECT 1 AS a; SELECT * FROM mine.x",
            "CREATE DATABASE mine",
        ],
    ),
    (
        "DROP of what the session made",
        &[
            "CREATE TABLE own (a int); DROP TABLE own",
            "CREATE VIEW own AS SELECT 1 AS a; DROP VIEW own",
            "CREATE SCHEMA mine; CREATE TABLE mine.x (a int); DROP SCHEMA mine CASCADE",
        ],
    ),
    (
        "DISCARD ALL, DISCARD TEMP, RESET ALL",
        &["DISCARD ALL", "DISCARD TEMP", "RESET ALL"],
    ),
    (
        "COPY TO STDOUT",
        &[
            "COPY t TO STDOUT",
            "COPY (SELECT k FROM v) TO STDOUT (FORMAT csv)",
        ],
    ),
    (
        "SET, RESET of a setting of the session",
        &[
            "SET coscan.policy = 'normal'; RESET coscan.policy; SET coscan.label = 'me'",
            "BEGIN; SET LOCAL coscan.policy = 'normal'; COMMIT",
            "SELECT set_config('coscan.policy', 'normal', false), current_setting('coscan.policy')",
            "SET datafusion.execution.batch_size = 100; SET statement_timeout = '5s'",
        ],
    ),
    (
        "INSERT on a shared table of files",
        &[
            "INSERT INTO t VALUES (1)",
            "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
            "PREPARE p AS INSERT INTO t VALUES (1); EXECUTE p",
            "SELECT 1; INSERT INTO t SELECT k FROM t",
        ],
    ),
    (
        "UPDATE, DELETE, TRUNCATE on a shared table of files",
        &["UPDATE t SET k = 1", "DELETE FROM t", "TRUNCATE TABLE t"],
    ),
    (
        "INSERT, UPDATE, DELETE, TRUNCATE on a shared table in memory",
        &[
            "INSERT INTO s.x VALUES (4)",
            "UPDATE s.x SET a = 4",
            "DELETE FROM s.x",
            "TRUNCATE TABLE s.x",
        ],
    ),
    (
        "DROP TABLE, DROP VIEW of a shared name",
        &[
            "DROP TABLE t",
            "DROP TABLE IF EXISTS public.t",
            "DROP VIEW v",
        ],
    ),
    (
        "CREATE OR REPLACE VIEW, CREATE OR REPLACE TABLE over a shared name",
        &[
            "CREATE OR REPLACE VIEW v AS SELECT 7 AS k",
            "CREATE OR REPLACE VIEW t AS SELECT 7 AS k",
            "CREATE OR REPLACE TABLE t AS SELECT 7 AS k",
        ],
    ),
    (
        "DROP SCHEMA of a shared schema, with CASCADE or without",
        &["DROP SCHEMA s CASCADE", "DROP SCHEMA e"],
    ),
    (
        "CREATE INDEX, REFRESH INDEX, DROP INDEX, and the functions behind them",
        &[
            "CREATE INDEX i ON t (k)",
            "REFRESH INDEX j",
            "DROP INDEX j",
            "SELECT * FROM coscan_drop_index('j', 'false')",
            "EXPLAIN ANALYZE SELECT * FROM coscan_create_index('i', 't', 'k', 'false')",
            "CREATE VIEW own AS SELECT * FROM coscan_drop_index('j', 'false'); SELECT * FROM own",
            "COPY (SELECT * FROM coscan_drop_index('j', 'false')) TO STDOUT",
            "PREPARE p AS SELECT * FROM coscan_drop_index('j', 'false'); EXECUTE p",
            "CREATE TABLE own AS SELECT * FROM coscan_drop_index('j', 'false')",
        ],
    ),
    (
        "CREATE EXTERNAL TABLE",
        &["CREATE EXTERNAL TABLE own STORED AS PARQUET LOCATION '{}/u/'; SELECT * FROM own"],
    ),
    (
        "CREATE OR REPLACE EXTERNAL TABLE over a shared name",
        &["CREATE OR REPLACE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}/u/'"],
    ),
    (
        "INSERT on an external table of the session's own",
        &[
            "CREATE EXTERNAL TABLE own STORED AS PARQUET LOCATION '{}/t/'; INSERT INTO own VALUES (1)",
        ],
    ),
    (
        "COPY TO a file",
        &[
            "COPY t TO '{}/t/copy.parquet'",
            "COPY (SELECT 1 AS k) TO '{}/copy.csv'",
        ],
    ),
    (
        "SET coscan.index_folder to a folder that is there",
        &["SET coscan.index_folder = '{}/u'"],
    ),
    (
        "SET coscan.index_folder to a folder that is not there",
        &["SET coscan.index_folder = '{}/new'"],
    ),
    (
        "SET, RESET coscan.memory",
        &[
            "SET coscan.memory = '32MiB'",
            "RESET coscan.memory; SET coscan.memory TO '40MiB'",
            "SELECT set_config('coscan.memory', '32MiB', false)",
            "BEGIN; SET LOCAL coscan.memory = '48MiB'; SET coscan.memory = '32MiB'; COMMIT",
        ],
    ),
    (
        "SET, RESET coscan.checksums",
        &[
            "SET coscan.checksums = off",
            "RESET coscan.checksums; SET coscan.checksums = off",
        ],
    ),
    (
        "SET coscan.state_cache above its default",
        &["SET coscan.state_cache = '1GiB'"],
    ),
    (
        "SET datafusion.* beyond harmless values",
        &[
            "SET datafusion.execution.target_partitions = 100000",
            "SET datafusion.sql_parser.recursion_limit = 1000000",
            "SET datafusion.execution.perfect_hash_join_min_key_density = 0",
        ],
    ),
    (
        "SET, RESET datafusion.runtime.*",
        &[
            "SET datafusion.runtime.memory_limit = '1G'",
            "RESET datafusion.runtime.temp_directory",
        ],
    ),
    (
        "CREATE, DROP in the schemas coscan, pg_catalog and information_schema",
        &[
            "CREATE TABLE coscan.x (a int)",
            "CREATE VIEW pg_catalog.x AS SELECT 1 AS a",
            "CREATE TABLE information_schema.x (a int)",
            "DROP VIEW coscan.scans",
            "DROP SCHEMA pg_catalog CASCADE",
            "DROP SCHEMA information_schema CASCADE",
            "DROP SCHEMA coscan CASCADE",
        ],
    ),
];

const FLAGS: [&str; 3] = ["--allow-writes", "--allow-files", "--allow-engine-settings"];

/// A row of the page.
struct Row {
    statement: String,
    /// The options that the statement needs; `None` if no option allows it.
    needs: Option<Vec<&'static str>>,
    /// `yes`, `no` or `not supported`.
    others_see: String,
}

fn page() -> Vec<Row> {
    let path = Path::new("../../docs/design/rights.md");
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [statement, needs, others_see] = cells[..] else {
            panic!("{line}")
        };
        let flags = FLAGS.into_iter().filter(|flag| needs.contains(flag));
        let flags: Vec<_> = flags.collect();
        let known = flags.iter().map(|flag| format!("`{flag}`"));
        let written = known.collect::<Vec<_>>();
        let needs = match needs {
            "–" => Some(vec![]),
            "nothing allows it" => None,
            _ => {
                let mut cells: Vec<_> = needs.split(' ').collect();
                cells.sort_by_key(|flag| written.iter().position(|w| w == flag));
                assert_eq!(cells, written, "{line}");
                Some(flags)
            }
        };
        Row {
            statement: statement.to_owned(),
            needs,
            others_see: others_see.to_owned(),
        }
    })
    .collect()
}

/// An engine with objects that all sessions share: the tables t and s.x, the view v, the empty
/// schema e, the index j.
struct World {
    folder: tempfile::TempDir,
    engine: Engine,
}

const MEMORY: u64 = 64 << 20;

async fn run(session: &Session, sql: &str) {
    let rows = session
        .sql(sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    let rows: Result<Vec<_>, _> = rows.try_collect().await;
    rows.unwrap_or_else(|e| panic!("{sql}: {e}"));
}

impl World {
    async fn new() -> Self {
        let config = EngineConfig {
            memory_bytes: Some(MEMORY),
            small_table_bytes: 0,
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).unwrap();
        let world = Self {
            folder: tempfile::tempdir().unwrap(),
            engine,
        };
        world.restore().await;
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn filled(&self, sql: &str) -> String {
        sql.replace("{}", self.folder.path().to_str().unwrap())
    }

    async fn restore(&self) {
        let session = self.engine.session();
        run(&session, "DROP INDEX IF EXISTS i").await;
        run(&session, "DROP INDEX IF EXISTS j").await;
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                fs::remove_dir_all(path).unwrap();
            } else {
                fs::remove_file(path).unwrap();
            }
        }
        for (name, rows) in [("t", 1000), ("u", 10)] {
            fs::create_dir(self.path(name)).unwrap();
            let file = self.path(name).join("0.parquet");
            let copy = format!(
                "COPY (SELECT value AS k FROM generate_series(1, {rows}) AS g(value)) TO '{}'",
                file.display()
            );
            run(&session, &copy).await;
        }
        run(&session, "DROP TABLE IF EXISTS t").await;
        run(&session, "DROP VIEW IF EXISTS t").await;
        let folder = self.path("t");
        session
            .register("t", folder.to_str().unwrap())
            .await
            .unwrap();
        run(&session, "CREATE OR REPLACE VIEW v AS SELECT 5 AS k").await;
        run(&session, "CREATE SCHEMA IF NOT EXISTS s").await;
        run(&session, "CREATE OR REPLACE TABLE s.x AS SELECT 3 AS a").await;
        run(&session, "CREATE SCHEMA IF NOT EXISTS e").await;
        run(&session, "CREATE INDEX j ON t (k)").await;
        session.set("coscan.memory", "default").unwrap();
        session.set("coscan.checksums", "default").unwrap();
    }

    /// What other sessions see: names, rows, settings, indexes, files.
    async fn seen(&self, other: &Client) -> Vec<String> {
        let mut seen = vec![];
        for sql in [
            "SELECT table_schema, table_name, table_type FROM information_schema.tables \
             WHERE table_schema <> 'pg_catalog' ORDER BY 1, 2",
            "SELECT nspname FROM pg_catalog.pg_namespace ORDER BY 1",
            "SELECT relname FROM pg_catalog.pg_class WHERE relname NOT LIKE 'pg_%' ORDER BY 1",
            "SELECT datname FROM pg_catalog.pg_database ORDER BY 1",
            "SELECT count(k), sum(k) FROM t",
            "SELECT k FROM v",
            "SELECT count(a), sum(a) FROM s.x",
            "SELECT \"index\", entries FROM coscan.indexes ORDER BY 1",
            "SHOW coscan.memory",
            "SHOW coscan.checksums",
            "SHOW coscan.index_folder",
            "SHOW datafusion.execution.target_partitions",
        ] {
            seen.push(match rows(other, sql).await {
                Ok(rows) => format!("{sql}: {rows:?}"),
                Err(error) => format!("{sql}: {:?}", error.code()),
            });
        }
        files(self.folder.path(), &mut seen);
        seen
    }
}

fn files(folder: &Path, seen: &mut Vec<String>) {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        seen.push(path.display().to_string());
        if path.is_dir() {
            files(&path, seen);
        }
    }
}

async fn rows(client: &Client, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let messages = client.simple_query(sql).await?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let cells = (0..row.len()).map(|n| row.get(n).unwrap_or("NULL"));
            Some(cells.collect::<Vec<_>>().join("|"))
        }
        _ => None,
    });
    Ok(rows.collect())
}

#[test]
fn the_page_and_the_cases_have_the_same_rows() {
    let rows: Vec<String> = page().into_iter().map(|row| row.statement).collect();
    let cases: Vec<&str> = CASES.iter().map(|(row, _)| *row).collect();
    assert_eq!(rows, cases);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_of_the_page_holds_with_every_combination_of_options() {
    let cases: BTreeMap<_, _> = CASES.iter().copied().collect();
    for combination in 0..8 {
        let has = |n: usize| combination & (1 << n) != 0;
        let mut rights = Rights::NONE;
        (rights.writes, rights.files, rights.engine_settings) = (has(0), has(1), has(2));
        let world = World::new().await;
        let server = TestServer::start_with_rights(&world.engine, rights).await;
        let other = server.connect().await;
        for row in page() {
            let missing: Vec<&str> = match &row.needs {
                None => vec![],
                Some(needs) => {
                    let missing = needs.iter().filter(|flag| {
                        let n = FLAGS.iter().position(|known| known == *flag);
                        !has(n.unwrap())
                    });
                    missing.copied().collect()
                }
            };
            for sql in cases[row.statement.as_str()] {
                let context = format!("{sql}\n  with {rights:?}");
                let before = world.seen(&other).await;
                let client = server.connect().await;
                let done = carry_out(&client, &world.filled(sql)).await;
                let is_refused = row.needs.is_none() || !missing.is_empty();
                if is_refused {
                    let error = done.expect_err(&context);
                    let error = error.as_db_error().expect("from the server");
                    assert_eq!(error.code().code(), "42501", "{context}: {error}");
                    let named = FLAGS.iter().filter(|flag| error.message().contains(**flag));
                    let named: Vec<&str> = named.copied().collect();
                    assert_eq!(named.is_empty(), missing.is_empty(), "{context}: {error}");
                    let right = named.iter().all(|flag| missing.contains(flag));
                    assert!(right, "{context}: {error}");
                } else if row.others_see == "not supported" {
                    assert_ne!(state(done), "42501", "{context}");
                } else {
                    done.unwrap_or_else(|error| panic!("{context}: {:?}", error.as_db_error()));
                }
                let after = world.seen(&other).await;
                let changes = row.others_see == "yes" && !is_refused;
                if changes {
                    assert_ne!(before, after, "{context}");
                    drop(client);
                    world.restore().await;
                } else {
                    assert_eq!(before, after, "{context}");
                }
            }
        }
    }
}

/// Runs the statements of a text; a COPY is alone in its text.
async fn carry_out(client: &Client, sql: &str) -> Result<(), tokio_postgres::Error> {
    if !sql.contains("TO STDOUT") {
        return client.batch_execute(sql).await;
    }
    let rows = std::pin::pin!(client.copy_out(sql).await?);
    rows.try_for_each(|_| async { Ok(()) }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_refuse_nothing_in_the_users_own_process() {
    let world = World::new().await;
    for (_, statements) in CASES {
        for text in *statements {
            let session = world.engine.session();
            let text = world.filled(text);
            for sql in coscan::split_statements(&text).unwrap() {
                let ended = match session.sql(sql).await {
                    Ok(rows) => rows.try_collect::<Vec<_>>().await.map(drop),
                    Err(coscan::Error::Query(error)) => Err(error),
                    Err(other) => panic!("{sql}: {other}"),
                };
                if let Err(error) = ended {
                    assert!(!coscan::is_denied(&error), "{sql}: {error}");
                }
            }
        }
    }
}

/// Statements that try indirect ways to objects that they may not reach. Their answers are not
/// promised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hidden_statements_change_nothing() {
    let world = World::new().await;
    let server = TestServer::start_on_engine(&world.engine).await;
    let other = server.connect().await;
    let before = world.seen(&other).await;
    for sql in [
        "PREPARE p AS SET coscan.memory = '1MiB'; EXECUTE p",
        "PREPARE p AS SET datafusion.runtime.memory_limit = '1G'; EXECUTE p",
        "PREPARE p AS DROP TABLE t; EXECUTE p",
        "PREPARE p AS PREPARE q AS INSERT INTO t VALUES (1); EXECUTE p; EXECUTE q",
        "PREPARE p AS EXECUTE p; EXECUTE p",
        "PREPARE p AS COPY t TO '{}/t/x.parquet'; EXECUTE p",
        "PREPARE p AS CREATE OR REPLACE VIEW t AS SELECT 1 AS k; EXECUTE p",
        "EXPLAIN ANALYZE COPY t TO '{}/t/x.parquet'",
        "EXPLAIN ANALYZE CREATE OR REPLACE VIEW t AS SELECT 1 AS k",
        "EXPLAIN ANALYZE DROP TABLE t",
        "WITH x AS (INSERT INTO t VALUES (1) RETURNING k) SELECT * FROM x",
        "BEGIN; DECLARE c CURSOR FOR INSERT INTO t VALUES (1); FETCH 1 FROM c",
        "BEGIN; DECLARE c CURSOR FOR SELECT * FROM coscan_drop_index('j', 'false'); FETCH 1 FROM c",
        "SELECT (SELECT count(*) FROM coscan_drop_index('j', 'false'))",
        "SELECT k FROM t WHERE k IN (SELECT entries FROM coscan_drop_index('j', 'false'))",
        "CREATE VIEW own AS SELECT * FROM coscan_drop_index('j', 'false'); INSERT INTO own VALUES (1)",
        "CREATE TABLE own (a int); INSERT INTO own SELECT entries FROM coscan_drop_index('j', 'false')",
        "INSERT INTO coscan.indexes SELECT * FROM coscan.indexes",
        "CREATE SCHEMA public; DROP SCHEMA public CASCADE",
        "CREATE TABLE t (k int); DROP TABLE t",
        "CREATE DATABASE datafusion",
        "SET search_path = coscan; DROP VIEW scans",
        "SET datafusion.catalog.default_schema = 's'; DROP TABLE x",
        "SET datafusion.catalog.default_catalog = 'mine'; DROP TABLE t",
        "SELECT * FROM '{}/t/0.parquet'",
        "SELECT * FROM read_parquet('{}/t/0.parquet')",
        "SELECT * FROM \"{}/t/0.parquet\"",
        "COPY t FROM '{}/t/0.parquet'",
        "ALTER TABLE t RENAME TO other",
        "ALTER TABLE t ADD COLUMN other int",
        "ALTER TABLE t DROP COLUMN k CASCADE",
        "ALTER TABLE t RENAME COLUMN k TO other",
        "CREATE FUNCTION count() RETURNS int RETURN 1",
        "DROP FUNCTION sum",
        "EXPLAIN DELETE FROM t",
        "MERGE INTO t USING v ON t.k = v.k WHEN MATCHED THEN DELETE",
        "INSERT OVERWRITE t VALUES (1)",
    ] {
        let client = server.connect().await;
        let _ = client.batch_execute(&world.filled(sql)).await;
        let after = world.seen(&other).await;
        assert_eq!(before, after, "{sql}");
    }
}

/// The memory of operators, once it has not changed for a second: a statement's task frees its own
/// a moment after the client learns of its end.
async fn settled_bytes(engine: &Engine) -> u64 {
    let begun = Instant::now();
    let (mut last, mut since) = (u64::MAX, begun);
    loop {
        let now = engine.metrics().operator_bytes;
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() >= Duration::from_secs(1) {
            return now;
        }
        assert!(begun.elapsed() < HAPPENS_WITHIN, "{now} changes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_values_of_a_new_column_are_counted() {
    let world = World::new().await;
    let server = TestServer::start_on_engine(&world.engine).await;
    let client = server.connect().await;
    let sql = "CREATE TABLE own AS SELECT value AS a FROM generate_series(1, 20000) AS g(value)";
    client.batch_execute(sql).await.unwrap();
    let before = settled_bytes(&world.engine).await;
    let sql = "ALTER TABLE own ADD b bigint DEFAULT 7";
    client.batch_execute(sql).await.unwrap();
    let with_it = settled_bytes(&world.engine).await;
    assert!(with_it >= before + 20_000 * 8, "{before} {with_it}");
    let sql = "ALTER TABLE own DROP b";
    client.batch_execute(sql).await.unwrap();
    let without = settled_bytes(&world.engine).await;
    assert!(without + 20_000 * 8 <= with_it, "{with_it} {without}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_a_session_are_private_counted_and_dropped_with_it() {
    let world = World::new().await;
    let server = TestServer::start_on_engine(&world.engine).await;
    let (one, other) = (server.connect().await, server.connect().await);
    let shared = world.engine.metrics().operator_bytes;
    let sql = "CREATE TABLE own AS SELECT value AS a, value || ' as text' AS b \
               FROM generate_series(1, 10000) AS g(value)";
    one.batch_execute(sql).await.unwrap();
    one.batch_execute("CREATE VIEW mine AS SELECT a FROM own WHERE a > 5")
        .await
        .unwrap();
    assert_eq!(
        rows(&one, "SELECT count(*) FROM mine").await.unwrap(),
        ["9995"]
    );
    let held = settled_bytes(&world.engine).await;
    assert!(held > 10_000 * 16, "{held}");
    assert_eq!(
        state(other.simple_query("SELECT * FROM own").await),
        "42P01"
    );
    assert_eq!(
        state(other.simple_query("SELECT * FROM mine").await),
        "42P01"
    );
    for (sql, at_one) in [
        (
            "SELECT table_name FROM information_schema.tables WHERE table_name IN ('own', 'mine')",
            2,
        ),
        (
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'own'",
            2,
        ),
        (
            "SELECT table_name FROM information_schema.views WHERE table_name = 'mine'",
            1,
        ),
        (
            "SELECT relname FROM pg_catalog.pg_class WHERE relname IN ('own', 'mine')",
            2,
        ),
    ] {
        assert_eq!(rows(&one, sql).await.unwrap().len(), at_one, "{sql}");
        assert_eq!(rows(&other, sql).await.unwrap().len(), 0, "{sql}");
    }
    // The other session's own table, which has the same name.
    other
        .batch_execute("CREATE TABLE own AS SELECT 1 AS x")
        .await
        .unwrap();
    assert_eq!(rows(&other, "SELECT x FROM own").await.unwrap(), ["1"]);

    // Rows are counted from their insertion to their deletion.
    one.batch_execute("INSERT INTO own SELECT a + 10000, b FROM own")
        .await
        .unwrap();
    assert!(settled_bytes(&world.engine).await > held + 10_000 * 16);
    one.batch_execute("EXPLAIN DELETE FROM own").await.unwrap();
    assert_eq!(
        rows(&one, "SELECT count(*) FROM own").await.unwrap(),
        ["20000"]
    );
    one.batch_execute("UPDATE own SET b = 'x' WHERE a > 10")
        .await
        .unwrap();
    assert_eq!(
        rows(&one, "SELECT count(*), count(DISTINCT b) FROM own")
            .await
            .unwrap(),
        ["20000|11"]
    );
    one.batch_execute("DELETE FROM own WHERE a > 10")
        .await
        .unwrap();
    assert_eq!(
        rows(&one, "SELECT count(*) FROM own").await.unwrap(),
        ["10"]
    );
    let begun = Instant::now();
    while world.engine.metrics().operator_bytes >= held {
        assert!(begun.elapsed() < Duration::from_secs(10), "not freed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    one.batch_execute("DISCARD ALL").await.unwrap();
    assert_eq!(state(one.simple_query("SELECT * FROM own").await), "42P01");
    assert_eq!(rows(&other, "SELECT x FROM own").await.unwrap(), ["1"]);
    drop((one, other));
    let start = Instant::now();
    while world.engine.metrics().operator_bytes > shared {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "the memory is still held"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_sessions_have_a_limit_that_leaves_memory_to_queries() {
    let world = World::new().await;
    let server = TestServer::start_on_engine(&world.engine).await;
    let (one, other) = (server.connect().await, server.connect().await);
    let rows_of = |name: &str, count: u32| {
        format!(
            "CREATE TABLE {name} AS SELECT value AS a FROM generate_series(1::bigint, {count}) AS g(value)"
        )
    };
    // A statement's task frees its memory a moment after the client learns of its end.
    let falls_to = async |most: u64| {
        let begun = Instant::now();
        while world.engine.metrics().operator_bytes > most {
            assert!(begun.elapsed() < Duration::from_secs(10), "not freed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // 8 MB of the 16 MB that are a quarter of the memory.
    one.batch_execute(&rows_of("own", 1_000_000)).await.unwrap();
    let held = 9 << 20;
    falls_to(held).await;
    assert!(world.engine.metrics().operator_bytes >= 8_000_000);
    let refused = other
        .batch_execute(&rows_of("own", 2_000_000))
        .await
        .unwrap_err();
    let refused = refused.as_db_error().unwrap();
    assert_eq!(refused.code().code(), "53200", "{refused}");
    assert!(refused.message().contains("table own"), "{refused}");
    falls_to(held).await;
    // Inserting the rows in portions is refused too.
    other
        .batch_execute("CREATE TABLE own (a bigint)")
        .await
        .unwrap();
    let insert = "INSERT INTO own SELECT value FROM generate_series(1, 300000) AS g(value)";
    let mut ended = Ok(());
    for _ in 0..10 {
        ended = other.batch_execute(insert).await;
        if ended.is_err() {
            break;
        }
    }
    assert_eq!(state(ended), "53200");
    let count = rows(&other, "SELECT count(*) FROM own").await.unwrap();
    assert_eq!(count[0].parse::<u64>().unwrap() % 300_000, 0, "{count:?}");
    assert_eq!(
        rows(&one, "SELECT count(*) FROM own").await.unwrap(),
        ["1000000"]
    );
    // Names take memory too.
    let filler = "1 + ".repeat(200);
    let mut views = 0;
    let ended = loop {
        let sql = format!("CREATE VIEW v{views} AS SELECT {filler} 1 AS a");
        match other.batch_execute(&sql).await {
            Ok(()) if views < 10_000 => views += 1,
            ended => break ended,
        }
    };
    assert_eq!(state(ended), "53200");
    assert_eq!(
        rows(&one, "SELECT count(*) FROM t").await.unwrap(),
        ["1000"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_of_exponential_size_are_refused() {
    let world = World::new().await;
    let server = TestServer::start_on_engine(&world.engine).await;
    let client = server.connect().await;
    let mut ended = client
        .batch_execute("CREATE VIEW v0 AS SELECT 1 AS x")
        .await;
    for n in 1..40 {
        let below = n - 1;
        let sql =
            format!("CREATE VIEW v{n} AS SELECT 1 AS x FROM v{below} a CROSS JOIN v{below} b");
        ended = client.batch_execute(&sql).await;
        if ended.is_err() {
            break;
        }
    }
    let refused = ended.unwrap_err();
    let refused = refused.as_db_error().unwrap();
    assert!(refused.message().contains("4096 steps"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reset_restores_the_engines_memory_and_reset_all_does_not() {
    let world = World::new().await;
    let server = TestServer::start_with_rights(&world.engine, Rights::ALL).await;
    let (one, other) = (server.connect().await, server.connect().await);
    one.batch_execute("SET coscan.memory = '32MiB'")
        .await
        .unwrap();
    other.batch_execute("RESET ALL; DISCARD ALL").await.unwrap();
    let later = server.connect().await;
    let shown = async |client: &Client| rows(client, "SHOW coscan.memory").await.unwrap();
    for client in [&one, &other, &later] {
        assert_eq!(shown(client).await, [(32 << 20).to_string()]);
    }
    later.batch_execute("RESET coscan.memory").await.unwrap();
    assert_eq!(shown(&one).await, [MEMORY.to_string()]);
    one.batch_execute("SET coscan.memory = '32MiB'; SET coscan.memory TO DEFAULT")
        .await
        .unwrap();
    assert_eq!(shown(&other).await, [MEMORY.to_string()]);
}
