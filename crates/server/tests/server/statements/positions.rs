//! Promised: where an error points to a place in the client's text, the place is PostgreSQL 15's,
//! in both protocols; where the place is not certain there is none.

use tokio_postgres::Error;
use tokio_postgres::error::ErrorPosition;

use crate::common::TestServer;

/// Statements that fail, with the position that PostgreSQL 15 reports.
const PLACED: &[(&str, u32)] = &[
    // Syntax.
    ("SELEC 1", 1),
    ("SELECT 1 +", 11),
    ("SELECT a FROM t WHERE", 22),
    ("SELECT 'ü', a FROM t WHEREE b = 1", 29),
    ("SELECT (1", 10),
    ("SELECT 1)", 9),
    ("INSERT INTO t VALUES (1,", 25),
    ("CREATE TABL x (a int)", 8),
    ("SELECT 'abc", 8),
    ("SELECT \"abc", 8),
    ("SELECT 1 /* abc", 10),
    ("SELECT a,, b FROM t", 10),
    ("SELECT a b c FROM t", 12),
    ("UPDATE t SET WHERE 1", 14),
    // Columns.
    ("SELECT nope FROM t", 8),
    ("SELECT 'ü', nope FROM t;", 13),
    ("SELECT\n  id,\n  nope\nFROM t", 16),
    ("SELECT t.nope FROM t", 8),
    ("SELECT x.nope FROM t x", 8),
    ("SELECT Nope FROM t", 8),
    ("SELECT \"Nope\" FROM t", 8),
    ("SELECT nope FROM t WHERE nope = 1", 8),
    ("SELECT id FROM t GROUP BY nope ORDER BY nope", 41),
    ("SELECT id AS nope FROM t WHERE nope = 1", 32),
    ("SELECT id nope FROM t WHERE nope = 1", 29),
    ("SELECT id FROM t WHERE id IN (SELECT nope FROM u)", 38),
    ("SELECT nope FROM t JOIN u ON nope = 1", 30),
    ("SELECT sum(nope) OVER (PARTITION BY id) FROM t", 12),
    ("SELECT nope::int FROM t", 8),
    ("SELECT extract(year FROM nope) FROM t", 26),
    ("EXPLAIN SELECT nope FROM t", 16),
    ("COPY (SELECT nope FROM t) TO STDOUT", 14),
    ("CREATE TABLE x AS SELECT nope FROM t", 26),
    ("CREATE VIEW x AS SELECT nope FROM t", 25),
    ("INSERT INTO t (id, nope) SELECT 1, 2", 20),
    ("UPDATE t SET nope = 1", 14),
    ("UPDATE t SET a = 'x' WHERE nope = 1", 28),
    ("DELETE FROM t WHERE nope = 1", 21),
    ("SELECT id FROM t, u", 8),
    ("SELECT id, a FROM t JOIN u ON t.id = u.id WHERE id = 1", 8),
    ("SELECT nope.id FROM t", 8),
    ("SELECT t.* , nope.* FROM t", 14),
    // Relations.
    ("SELECT * FROM nope", 15),
    ("SELECT * FROM public.nope", 15),
    ("SELECT * FROM s.nope", 15),
    ("SELECT * FROM t JOIN nope ON true", 22),
    ("SELECT * FROM nope, nope n2", 15),
    ("WITH w AS (SELECT * FROM nope) SELECT * FROM w", 26),
    ("INSERT INTO nope VALUES (1)", 13),
    ("UPDATE nope SET a = 1", 8),
    ("DELETE FROM nope", 13),
    ("DELETE FROM t USING nope", 21),
    // Functions and operators.
    ("SELECT nope(1)", 8),
    ("SELECT * FROM nope(1)", 15),
    ("SELECT upper(a), lower(id) FROM t", 18),
    ("SELECT sum(a) FROM t", 8),
    ("SELECT a + 1 FROM t", 10),
    ("SELECT a != b FROM t", 10),
    ("SELECT a || b, a * 2 FROM t", 18),
    ("SELECT id FROM t JOIN u ON t.a = u.id", 32),
    ("SELECT - a FROM t", 8),
];

/// Statements that fail without a position, some of them because the place is not certain.
const UNPLACED: &[&str] = &[
    "SELECT nope, (SELECT nope FROM u) FROM t",
    "SELECT * FROM nope UNION SELECT * FROM nope",
    "SELECT nope(nope(1))",
    "SELECT id FROM t WHERE a = b AND id = 1",
    "TRUNCATE nope",
    "COPY nope TO STDOUT",
    "COPY t (nope) TO STDOUT",
    "SELECT a AS nope FROM t ORDER BY nope, nope || 'x'",
    "SELECT nope FROM t UNION VALUES (nope)",
    "SELECT (a, b) <= (1, 2) FROM t WHERE id < 1",
    "DROP TABLE nope",
    "ALTER TABLE nope RENAME TO x",
    "ALTER TABLE nope ADD x int",
    "ALTER TABLE t RENAME COLUMN nope TO x",
    "ALTER TABLE t DROP COLUMN nope",
    "SELECT 1 / 0",
];

fn position(error: &Error) -> Option<u32> {
    let error = error.as_db_error().unwrap();
    match error.position()? {
        ErrorPosition::Original(position) => Some(*position),
        ErrorPosition::Internal { .. } => panic!("no statement is the server's own"),
    }
}

/// A client of a server with tables `t (id, a, b)` and `u (id, c)`.
async fn client() -> (TestServer, tokio_postgres::Client) {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let client = server.connect().await;
    let tables = "CREATE TABLE t (id int, a text, b int); CREATE TABLE u (id int, c text)";
    client.batch_execute(tables).await.unwrap();
    (server, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_point_where_postgresql_points() {
    let (_server, client) = client().await;
    for (sql, expected) in PLACED {
        let error = client.batch_execute(sql).await.unwrap_err();
        assert_eq!(position(&error), Some(*expected), "{sql}: {error:?}");
        // Of the extended protocol it is Parse that reports it.
        let error = client.prepare(sql).await.unwrap_err();
        assert_eq!(position(&error), Some(*expected), "{sql}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_certain_is_not_said() {
    let (_server, client) = client().await;
    for sql in UNPLACED {
        let error = client.batch_execute(sql).await.unwrap_err();
        assert_eq!(position(&error), None, "{sql}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_count_from_the_beginning_of_the_message() {
    let (_server, client) = client().await;
    let long = format!("SELECT '{}'; SELECT nope FROM t", "x".repeat(20_000));
    for (sql, expected) in [
        ("SELECT 1; SELEC 2", Some(11)),
        ("SELECT 'ü';\n SELEC 2", Some(14)),
        ("SELECT 1 + ; SELECT 2", Some(12)),
        ("SELECT 'ü'; SELECT nope FROM t; SELECT 1", Some(20)),
        (
            "BEGIN; DECLARE c CURSOR FOR SELECT nope FROM t; ROLLBACK",
            Some(36),
        ),
        ("ROLLBACK; PREPARE p AS SELECT nope FROM t", Some(31)),
        ("SELECT $1", Some(8)),
        // People do not write such texts.
        (long.as_str(), None),
    ] {
        let error = client.batch_execute(sql).await.unwrap_err();
        assert_eq!(position(&error), expected, "{sql}: {error:?}");
    }
}
