//! Promised: a statement that found nothing to do, or did more than it names, says so before its
//! tag or its error, in PostgreSQL 15's words, in both protocols, and only as far as
//! `client_min_messages` lets it.

use coscan::{Engine, EngineConfig, Rights};
use futures::StreamExt;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::error::DbError;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::common::{TestServer, state};

/// A client, and the notices that it gets.
struct Noticing {
    client: Client,
    notices: UnboundedReceiver<DbError>,
}

impl Noticing {
    async fn connect(server: &TestServer) -> Self {
        let (client, mut connection) = server.config().connect(NoTls).await.unwrap();
        let (sender, notices) = unbounded_channel();
        let messages = futures::stream::poll_fn(move |context| connection.poll_message(context));
        let mut messages = Box::pin(messages);
        tokio::spawn(async move {
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notice(notice) = message {
                    drop(sender.send(notice));
                }
            }
        });
        Self { client, notices }
    }

    /// Severity, SQLSTATE, message and detail of each notice since the last call.
    fn heard(&mut self) -> Vec<String> {
        let mut heard = vec![];
        while let Ok(notice) = self.notices.try_recv() {
            let (severity, code) = (notice.severity(), notice.code().code());
            let detail = notice.detail().map(|detail| format!(" ({detail})"));
            let detail = detail.unwrap_or_default();
            heard.push(format!("{severity} {code} {}{detail}", notice.message()));
        }
        heard
    }
}

/// A server whose clients may create what they like.
async fn server() -> TestServer {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let rights = Rights {
        writes: true,
        ..Rights::NONE
    };
    TestServer::start_with_rights(&engine, rights).await
}

const NO_BLOCK: &str = "WARNING 25P01 there is no transaction in progress";
const ONLY_LOCAL: &str = "WARNING 25P01 SET LOCAL can only be used in transaction blocks";
const ONLY_MODES: &str = "WARNING 25P01 SET TRANSACTION can only be used in transaction blocks";
const NO_TABLE: &str = "NOTICE 00000 table \"nope\" does not exist, skipping";

/// What PostgreSQL 15 says to each statement, in this order.
const SAID: &[(&str, &[&str])] = &[
    ("CREATE TABLE t (id int, a text, b int)", &[]),
    ("CREATE TABLE u (id int)", &[]),
    ("BEGIN", &[]),
    (
        "BEGIN",
        &["WARNING 25001 there is already a transaction in progress"],
    ),
    ("SET LOCAL statement_timeout = 0", &[]),
    ("COMMIT", &[]),
    ("COMMIT", &[NO_BLOCK]),
    ("ROLLBACK", &[NO_BLOCK]),
    ("END", &[NO_BLOCK]),
    ("ABORT", &[NO_BLOCK]),
    ("SET LOCAL statement_timeout = 0", &[ONLY_LOCAL]),
    ("SET LOCAL TIME ZONE 'UTC'", &[ONLY_LOCAL]),
    ("SET TRANSACTION READ ONLY", &[ONLY_MODES]),
    (
        "CREATE TABLE IF NOT EXISTS t (id int)",
        &["NOTICE 42P07 relation \"t\" already exists, skipping"],
    ),
    (
        "CREATE TABLE IF NOT EXISTS public.t AS SELECT 1 AS x",
        &["NOTICE 42P07 relation \"t\" already exists, skipping"],
    ),
    (
        "CREATE SCHEMA IF NOT EXISTS public",
        &["NOTICE 42P06 schema \"public\" already exists, skipping"],
    ),
    (
        "DROP SCHEMA IF EXISTS nope",
        &["NOTICE 00000 schema \"nope\" does not exist, skipping"],
    ),
    ("DROP TABLE IF EXISTS nope", &[NO_TABLE]),
    ("DROP TABLE IF EXISTS public.nope", &[NO_TABLE]),
    (
        "DROP TABLE IF EXISTS elsewhere.nope",
        &["NOTICE 00000 schema \"elsewhere\" does not exist, skipping"],
    ),
    (
        "DROP TABLE IF EXISTS nope, nope2",
        &[
            NO_TABLE,
            "NOTICE 00000 table \"nope2\" does not exist, skipping",
        ],
    ),
    (
        "DROP VIEW IF EXISTS nope",
        &["NOTICE 00000 view \"nope\" does not exist, skipping"],
    ),
    (
        "DROP INDEX IF EXISTS nope",
        &["NOTICE 00000 index \"nope\" does not exist, skipping"],
    ),
    (
        "ALTER TABLE IF EXISTS nope RENAME TO x",
        &["NOTICE 00000 relation \"nope\" does not exist, skipping"],
    ),
    (
        "ALTER TABLE IF EXISTS nope ADD x int",
        &["NOTICE 00000 relation \"nope\" does not exist, skipping"],
    ),
    (
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS id int",
        &["NOTICE 42701 column \"id\" of relation \"t\" already exists, skipping"],
    ),
    (
        "ALTER TABLE t DROP COLUMN IF EXISTS nope",
        &["NOTICE 00000 column \"nope\" of relation \"t\" does not exist, skipping"],
    ),
    ("CREATE VIEW v0 AS SELECT b FROM t", &[]),
    (
        "ALTER TABLE t DROP COLUMN b CASCADE",
        &["NOTICE 00000 drop cascades to view v0"],
    ),
    (
        "DROP FUNCTION IF EXISTS nope(int, text, double precision)",
        &[
            "NOTICE 00000 function nope(pg_catalog.int4,text,pg_catalog.float8) does not exist, \
             skipping",
        ],
    ),
    (
        "DROP FUNCTION IF EXISTS nope, public.nope(timestamptz, numeric(3,2)[], OUT int)",
        &[
            "NOTICE 00000 function nope() does not exist, skipping",
            "NOTICE 00000 function public.nope(timestamptz,pg_catalog.numeric[]) does not exist, \
             skipping",
        ],
    ),
    (
        "DROP FUNCTION IF EXISTS elsewhere.nope(int)",
        &["NOTICE 00000 schema \"elsewhere\" does not exist, skipping"],
    ),
    ("CREATE VIEW v1 AS SELECT id FROM t", &[]),
    ("CREATE VIEW v2 AS SELECT id FROM v1", &[]),
    ("CREATE VIEW v3 AS SELECT id FROM u", &[]),
    (
        "DROP TABLE u CASCADE",
        &["NOTICE 00000 drop cascades to view v3"],
    ),
    (
        "DROP TABLE t CASCADE",
        &[
            "NOTICE 00000 drop cascades to 2 other objects (drop cascades to view v1\n\
             drop cascades to view v2)",
        ],
    ),
    ("CREATE SCHEMA s", &[]),
    ("CREATE TABLE s.t (id int)", &[]),
    ("CREATE VIEW s.v AS SELECT id FROM s.t", &[]),
    (
        "DROP TABLE s.t CASCADE",
        &["NOTICE 00000 drop cascades to view s.v"],
    ),
    ("DROP SCHEMA s", &[]),
    (
        "SELECT pg_advisory_unlock(1)",
        &["WARNING 01000 you don't own a lock of type ExclusiveLock"],
    ),
    (
        "SELECT pg_advisory_unlock_shared(1, 2)",
        &["WARNING 01000 you don't own a lock of type ShareLock"],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_say_what_postgresql_says() {
    let server = server().await;
    for extended in [false, true] {
        let mut noticing = Noticing::connect(&server).await;
        for (sql, expected) in SAID {
            let done = if extended {
                noticing.client.execute(*sql, &[]).await.map(|_| ())
            } else {
                noticing.client.batch_execute(sql).await
            };
            done.unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(noticing.heard(), *expected, "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_statements_are_one_transaction() {
    let server = server().await;
    let mut noticing = Noticing::connect(&server).await;
    for (sql, expected) in [
        ("SELECT 1; SET LOCAL statement_timeout = 0", vec![]),
        ("SELECT 1; COMMIT", vec![NO_BLOCK]),
        (
            "DROP TABLE IF EXISTS nope; COMMIT",
            vec![NO_TABLE, NO_BLOCK],
        ),
    ] {
        noticing.client.batch_execute(sql).await.unwrap();
        assert_eq!(noticing.heard(), expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_statement_has_said_what_it_skipped() {
    let server = server().await;
    let mut noticing = Noticing::connect(&server).await;
    let client = &noticing.client;
    let created = "CREATE TABLE t (id int); CREATE VIEW v AS SELECT id FROM t";
    client.batch_execute(created).await.unwrap();
    let dropped = client.batch_execute("DROP TABLE IF EXISTS nope, t").await;
    assert_eq!(state(dropped), "2BP01");
    assert_eq!(noticing.heard(), [NO_TABLE]);
    noticing.client.batch_execute("SELECT 1").await.unwrap();
    assert!(noticing.heard().is_empty());
}

/// Drivers that want one row limit Execute to one row, and PostgreSQL suspends the portal then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_portal_has_said_what_it_found() {
    let server = server().await;
    let noticing = Noticing::connect(&server).await;
    let (mut client, mut notices) = (noticing.client, noticing.notices);
    let transaction = client.transaction().await.unwrap();
    let sql = "SELECT pg_advisory_unlock(x) FROM (VALUES (1), (2)) v(x)";
    let portal = transaction.bind(sql, &[]).await.unwrap();
    let rows = transaction.query_portal(&portal, 1).await.unwrap();
    assert_eq!(rows.len(), 1);
    let notice = notices.try_recv().unwrap();
    let told = "you don't own a lock of type ExclusiveLock";
    assert_eq!(notice.message(), told);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_chooses_the_least_severity() {
    let server = server().await;
    let mut noticing = Noticing::connect(&server).await;
    let both = "DROP TABLE IF EXISTS nope; COMMIT";
    for (level, expected) in [
        ("debug5", vec![NO_TABLE, NO_BLOCK]),
        ("log", vec![NO_TABLE, NO_BLOCK]),
        ("NOTICE", vec![NO_TABLE, NO_BLOCK]),
        ("warning", vec![NO_BLOCK]),
        ("ERROR", vec![]),
        ("DEFAULT", vec![NO_TABLE, NO_BLOCK]),
    ] {
        let set = format!("SET client_min_messages = {level}");
        noticing.client.batch_execute(&set).await.unwrap();
        noticing.client.batch_execute(both).await.unwrap();
        assert_eq!(noticing.heard(), expected, "{level}");
    }
    let wrong = "SET client_min_messages = loud";
    assert_eq!(state(noticing.client.batch_execute(wrong).await), "22023");
}
