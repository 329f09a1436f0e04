//! Promised: ROLLBACK undoes what the transaction did to names, tables and settings since BEGIN or
//! the savepoint, and so does an error among several statements of one message, or of the messages
//! up to a Sync. What ROLLBACK could not undo is refused inside a transaction.

use crate::common::TestServer;
use crate::common::raw::RawClient;
use crate::own_tables::answers;

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
