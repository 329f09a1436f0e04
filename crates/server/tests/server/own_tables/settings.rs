//! Promised: settings last as PostgreSQL's do, for a session, a transaction, or the statements of
//! one message, and ROLLBACK restores them.

use crate::common::TestServer;
use crate::common::raw::RawClient;
use crate::own_tables::answers;

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
