//! Promised: `pg_sleep` and advisory locks wait without keeping others from their work. A timeout
//! or a cancel request ends a wait, and nothing is granted to it afterwards. Locks end with their
//! transaction or their session.

use std::time::{Duration, Instant};

use crate::common::{HAPPENS_WITHIN, TestServer, state};
use tokio::time::timeout;
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

/// The first cell of the last row.
async fn one(client: &Client, sql: &str) -> Result<String, Error> {
    let mut cell = String::new();
    for message in client.simple_query(sql).await? {
        if let SimpleQueryMessage::Row(row) = message {
            row.get(0).unwrap_or("NULL").clone_into(&mut cell);
        }
    }
    Ok(cell)
}

/// Runs each statement in one of two sessions, and compares the first cell of its last row.
async fn play(sessions: [&Client; 2], script: &[(usize, &str, &str)]) {
    for (session, sql, expected) in script {
        let answer = one(sessions[*session], sql).await.unwrap();
        assert_eq!(answer, *expected, "session {session}: {sql}");
    }
}

/// The answer of a statement that need not wait any more.
async fn soon(waiting: tokio::task::JoinHandle<Result<String, Error>>) -> Result<String, Error> {
    timeout(HAPPENS_WITHIN, waiting).await.unwrap().unwrap()
}

/// Sends a statement that has to wait.
async fn sent(client: Client, sql: &'static str) -> tokio::task::JoinHandle<Result<String, Error>> {
    let waiting = tokio::spawn(async move { one(&client, sql).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished(), "{sql}");
    waiting
}

#[tokio::test]
async fn a_sleep_takes_its_time_and_can_be_interrupted() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let start = Instant::now();
    assert_eq!(one(&client, "SELECT pg_sleep(0.3)").await.unwrap(), "");
    assert_eq!(one(&client, "SELECT pg_sleep(NULL)").await.unwrap(), "NULL");
    assert!(start.elapsed() >= Duration::from_millis(300));
    for sql in [
        "SELECT pg_sleep('0.1')",
        "SELECT pg_sleep_for('100 milliseconds')",
        "SELECT pg_sleep_for(interval '0.1 seconds')",
        "SELECT pg_sleep_until(clock_timestamp() + '100 ms')",
    ] {
        let start = Instant::now();
        assert_eq!(one(&client, sql).await.unwrap(), "", "{sql}");
        assert!(start.elapsed() >= Duration::from_millis(90), "{sql}");
    }
    assert_eq!(
        one(&client, "SELECT pg_sleep_until('2001-01-01')")
            .await
            .unwrap(),
        ""
    );
    // The driver asks for the parameter's type.
    client
        .query("SELECT pg_sleep($1)", &[&0.01_f64])
        .await
        .unwrap();
    one(&client, "SET statement_timeout = '200ms'")
        .await
        .unwrap();
    assert_eq!(state(one(&client, "SELECT pg_sleep(600)").await), "57014");
    one(&client, "SET statement_timeout = 0").await.unwrap();
    let token = client.cancel_token();
    let waiting = sent(client, "SELECT pg_sleep(600)").await;
    token.cancel_query(NoTls).await.unwrap();
    assert_eq!(state(soon(waiting).await), "57014");
}

#[tokio::test]
async fn locks_of_sessions_and_transactions() {
    let server = TestServer::start().await;
    let (a, b) = (server.connect().await, server.connect().await);
    play(
        [&a, &b],
        &[
            (0, "SELECT pg_advisory_lock(1)", ""),
            (0, "SELECT pg_advisory_lock(1)", ""),
            (1, "SELECT pg_try_advisory_lock(1)", "f"),
            (1, "SELECT pg_try_advisory_lock_shared(1)", "f"),
            (1, "SELECT pg_try_advisory_lock(0, 1)", "t"),
            (1, "SELECT pg_advisory_unlock(1)", "f"),
            (0, "SELECT pg_advisory_unlock(1)", "t"),
            (1, "SELECT pg_try_advisory_lock(1)", "f"),
            (0, "SELECT pg_advisory_unlock(1)", "t"),
            (0, "SELECT pg_advisory_unlock(1)", "f"),
            (1, "SELECT pg_try_advisory_lock_shared(1)", "t"),
            (0, "SELECT pg_advisory_lock_shared(1)", ""),
            (0, "SELECT pg_advisory_unlock_all()", ""),
            (1, "SELECT pg_advisory_unlock_shared(1)", "t"),
            (1, "SELECT pg_try_advisory_lock(NULL)", "NULL"),
            // A statement outside of a transaction is one.
            (0, "SELECT pg_advisory_xact_lock(2)", ""),
            (1, "SELECT pg_try_advisory_xact_lock(2)", "t"),
            (0, "BEGIN", ""),
            (0, "SELECT pg_advisory_xact_lock(2)", ""),
            (0, "SELECT pg_advisory_unlock(2)", "f"),
            (1, "SELECT pg_try_advisory_lock(2)", "f"),
            (0, "COMMIT", ""),
            (1, "SELECT pg_try_advisory_lock(2)", "t"),
            (
                0,
                "BEGIN; SELECT pg_advisory_lock(3), pg_advisory_xact_lock(4)",
                "",
            ),
            (0, "ROLLBACK", ""),
            (1, "SELECT pg_try_advisory_lock(3)", "f"),
            (1, "SELECT pg_try_advisory_lock(4)", "t"),
            (0, "DISCARD ALL", ""),
            (1, "SELECT pg_try_advisory_lock(3)", "t"),
        ],
    )
    .await;
    // Both numbers of a pair count, and a session's end ends its locks.
    let waiting = sent(a, "SELECT pg_advisory_lock(0, 1), pg_advisory_lock(4)").await;
    drop(b);
    assert_eq!(soon(waiting).await.unwrap(), "");
}

#[tokio::test]
async fn a_failed_transaction_ends_its_locks() {
    let server = TestServer::start().await;
    let (a, b) = (server.connect().await, server.connect().await);
    one(&a, "BEGIN").await.unwrap();
    let locks = "SELECT pg_advisory_xact_lock(1), pg_advisory_lock(2)";
    one(&a, locks).await.unwrap();
    assert_eq!(state(one(&a, "SELECT 1 / 0").await), "22012");
    play(
        [&a, &b],
        &[
            (1, "SELECT pg_try_advisory_lock(1)", "t"),
            (1, "SELECT pg_try_advisory_lock(2)", "f"),
            (0, "ROLLBACK", ""),
            (0, "BEGIN", ""),
            (0, "SELECT pg_advisory_xact_lock(3)", ""),
            (0, "SAVEPOINT s", ""),
        ],
    )
    .await;
    assert_eq!(state(one(&a, "SELECT 1 / 0").await), "22012");
    // The savepoint revives the transaction with its lock.
    play(
        [&a, &b],
        &[
            (1, "SELECT pg_try_advisory_lock(3)", "f"),
            (0, "ROLLBACK TO s", ""),
            (1, "SELECT pg_try_advisory_lock(3)", "f"),
            (0, "ROLLBACK", ""),
            (1, "SELECT pg_try_advisory_lock(3)", "t"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_cursor_of_a_failed_transaction_takes_no_locks() {
    let server = TestServer::start().await;
    let (a, b) = (server.connect().await, server.connect().await);
    play(
        [&a, &b],
        &[
            (1, "SELECT pg_advisory_lock(7)", ""),
            (0, "BEGIN", ""),
            // It is computed ahead, and waits.
            (
                0,
                "DECLARE c CURSOR FOR SELECT pg_advisory_xact_lock(7)",
                "",
            ),
        ],
    )
    .await;
    assert_eq!(state(one(&a, "SELECT 1 / 0").await), "22012");
    let waiting = sent(server.connect().await, "SELECT pg_advisory_lock(7)").await;
    one(&b, "SELECT pg_advisory_unlock(7)").await.unwrap();
    assert_eq!(soon(waiting).await.unwrap(), "");
    assert_eq!(state(one(&a, "FETCH c").await), "25P02");
}

#[tokio::test]
async fn rows_that_a_filter_drops_are_not_locked() {
    let server = TestServer::start().await;
    let (a, b) = (server.connect().await, server.connect().await);
    let locks = "SELECT count(*) FROM (VALUES (1), (2), (3)) t(i) \
                 WHERE i < 3 AND pg_try_advisory_lock(i)";
    play(
        [&a, &b],
        &[
            (0, locks, "2"),
            (1, "SELECT pg_try_advisory_lock(2)", "f"),
            (1, "SELECT pg_try_advisory_lock(3)", "t"),
        ],
    )
    .await;
}

#[tokio::test]
async fn waits_for_locks_end() {
    let server = TestServer::start().await;
    let (a, b) = (server.connect().await, server.connect().await);
    play([&a, &b], &[(0, "SELECT pg_advisory_lock(1)", "")]).await;
    one(&b, "SET statement_timeout = '200ms'").await.unwrap();
    let lock = "SELECT pg_advisory_lock(1)";
    assert_eq!(state(one(&b, lock).await), "57014");
    one(&b, "SET statement_timeout = 0; SET lock_timeout = '200ms'")
        .await
        .unwrap();
    assert_eq!(state(one(&b, lock).await), "55P03");
    one(&b, "SET lock_timeout = 0").await.unwrap();
    // The waits that have ended get nothing.
    play(
        [&a, &b],
        &[
            (0, "SELECT pg_advisory_unlock(1)", "t"),
            (0, "SELECT pg_try_advisory_lock(1)", "t"),
            (1, "SELECT pg_advisory_lock(2)", ""),
        ],
    )
    .await;
    let waiting = sent(b, lock).await;
    let deadlock = one(&a, "SELECT pg_advisory_lock(2)").await;
    assert_eq!(state(deadlock), "40P01");
    one(&a, "SELECT pg_advisory_unlock(1)").await.unwrap();
    assert_eq!(soon(waiting).await.unwrap(), "");
}
