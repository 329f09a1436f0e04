//! Promised: each timeout ends what its name says, and nothing else.
//! `idle_in_transaction_session_timeout` ends a session that is idle in a transaction,
//! `idle_session_timeout` one that is idle outside of one. `statement_timeout` applies to each
//! FETCH and each Execute separately, without the time between them, and also ends the statement
//! of a client that does not read. Keepalive settings reach the socket.

use std::future::ready;
use std::pin::pin;
use std::time::{Duration, Instant};

use crate::common::{LONG, TestServer, alone, state};
use futures::future::{join, join3};
use futures::{TryStream, TryStreamExt};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, NoTls};

/// A client, and the SQLSTATE with which its connection ends.
async fn connect(server: &TestServer) -> (Client, JoinHandle<Option<String>>) {
    let (client, connection) = server.config().connect(NoTls).await.unwrap();
    let ended = tokio::spawn(async move {
        let error = connection.await.err()?;
        Some(error.code()?.code().to_owned())
    });
    (client, ended)
}

async fn sleep(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// Reads all rows and keeps none.
async fn read(rows: impl TryStream<Error = Error>) -> Result<(), Error> {
    rows.try_for_each(|_| ready(Ok(()))).await
}

async fn ends_with(ended: JoinHandle<Option<String>>, code: &str) {
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    let ended = ended.expect("the session ends").unwrap();
    assert_eq!(ended.as_deref(), Some(code));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_idle_in_a_transaction_ends_with_its_cursors() {
    let _alone = alone();
    let server = TestServer::start().await;
    for begun in [
        "BEGIN; DECLARE c CURSOR FOR SELECT n FROM endless; FETCH 1 FROM c",
        "BEGIN",
        // A failed transaction is open until it is rolled back.
        "BEGIN; SELECT 1/0",
    ] {
        let (client, ended) = connect(&server).await;
        client
            .batch_execute(
                "SET idle_in_transaction_session_timeout = '300ms'; \
                 SET statement_timeout = '900ms'",
            )
            .await
            .unwrap();
        // Time outside of a transaction does not count, nor does a statement's running time.
        sleep(700).await;
        // Sent together, so that a slow client is not idle between them.
        let (opened, busy, closed) = join3(
            client.batch_execute("BEGIN"),
            client.batch_execute("SELECT count(*) FROM endless WHERE n < 0"),
            client.batch_execute("ROLLBACK"),
        )
        .await;
        opened.unwrap();
        assert_eq!(state(busy), "57014");
        closed.unwrap();
        client
            .batch_execute("SET statement_timeout = 0")
            .await
            .unwrap();
        let _ = client.batch_execute(begun).await;
        ends_with(ended, "25P03").await;
        server.all_dropped_soon().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_idle_outside_of_a_transaction_ends_by_another_setting() {
    let _alone = alone();
    let server = TestServer::start().await;
    let (client, ended) = connect(&server).await;
    client
        .batch_execute("SET idle_session_timeout = '300ms'; BEGIN")
        .await
        .unwrap();
    sleep(700).await;
    client.batch_execute("COMMIT").await.unwrap();
    ends_with(ended, "57P05").await;
    // By default neither timeout ends a session, and 0 is no timeout.
    let (client, _ended) = connect(&server).await;
    client
        .batch_execute("SET idle_session_timeout = 5000; SET idle_session_timeout = 0")
        .await
        .unwrap();
    sleep(300).await;
    client.batch_execute("BEGIN").await.unwrap();
    sleep(300).await;
    client.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_timeout_applies_to_each_fetch() {
    let _alone = alone();
    let server = TestServer::start().await;
    let client = server.connect().await;
    client
        .batch_execute("SET statement_timeout = '2s'")
        .await
        .unwrap();
    client
        .batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT n FROM endless")
        .await
        .unwrap();
    for _ in 0..3 {
        client.batch_execute("FETCH 1000 FROM c").await.unwrap();
        sleep(1200).await;
    }
    let begun = Instant::now();
    let all = client.simple_query_raw("FETCH ALL FROM c").await.unwrap();
    assert_eq!(state(read(all).await), "57014");
    assert!(begun.elapsed() < Duration::from_secs(10));
    server.all_dropped_soon().await;
    assert_eq!(state(client.batch_execute("FETCH 1 FROM c").await), "25P02");
    client.batch_execute("ROLLBACK").await.unwrap();

    let slow = format!("BEGIN; DECLARE d CURSOR FOR {LONG}");
    client.batch_execute(&slow).await.unwrap();
    assert_eq!(state(client.batch_execute("FETCH 1 FROM d").await), "57014");
    client.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_timeout_applies_to_each_execute_of_a_portal() {
    let _alone = alone();
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client
        .batch_execute("SET statement_timeout = '2s'")
        .await
        .unwrap();
    let transaction = client.transaction().await.unwrap();
    let portal = transaction
        .bind("SELECT n FROM endless", &[])
        .await
        .unwrap();
    for n in 0..4 {
        let rows = transaction.query_portal(&portal, 700).await.unwrap();
        let first: i64 = rows[0].get(0);
        assert_eq!((rows.len(), first), (700, n * 700));
        sleep(800).await;
    }
    let all = transaction.query_portal_raw(&portal, 0).await.unwrap();
    assert_eq!(state(read(all).await), "57014");
    server.all_dropped_soon().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_timeout_ends_a_result_that_its_client_does_not_read() {
    let _alone = alone();
    let server = TestServer::start().await;
    let (client, connection) = server.config().connect(NoTls).await.unwrap();
    let mut connection = pin!(connection);
    let set = client.batch_execute("SET statement_timeout = '1s'");
    tokio::select! {
        set = set => set.unwrap(),
        _ = &mut connection => panic!("the connection ended"),
    }
    let query = pin!(client.simple_query_raw("SELECT n FROM endless"));
    // Long enough for the query to arrive, too short for its rows to be read.
    let both = join(&mut connection, query);
    assert!(
        tokio::time::timeout(Duration::from_millis(50), both)
            .await
            .is_err()
    );
    server.some_live().await;
    sleep(1000).await;
    server.all_dropped_soon().await;
}

#[tokio::test]
async fn keepalive_settings_reach_the_socket_and_are_checked() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let show = async |name: &str| {
        let row = client.query_one(&format!("SHOW {name}"), &[]).await;
        row.unwrap().get::<_, String>(0)
    };
    assert_eq!(show("tcp_keepalives_idle").await, "60");
    for (set, name, shown) in [
        ("tcp_keepalives_idle = 7", "tcp_keepalives_idle", "7"),
        ("tcp_keepalives_idle = '2min'", "tcp_keepalives_idle", "120"),
        (
            "tcp_keepalives_interval = 3",
            "tcp_keepalives_interval",
            "3",
        ),
        ("tcp_keepalives_count = 4", "tcp_keepalives_count", "4"),
        ("tcp_user_timeout = '90s'", "tcp_user_timeout", "90000"),
        ("tcp_keepalives_idle = 0", "tcp_keepalives_idle", "60"),
        ("tcp_user_timeout TO DEFAULT", "tcp_user_timeout", "0"),
    ] {
        client.batch_execute(&format!("SET {set}")).await.unwrap();
        assert_eq!(show(name).await, shown, "{set}");
    }
    for wrong in ["tcp_keepalives_count = 200", "tcp_keepalives_idle = 'soon'"] {
        let set = client.batch_execute(&format!("SET {wrong}")).await;
        assert_eq!(state(set), "22023", "{wrong}");
    }
    // The server's socket has a timer for probes (2). Only Linux itself shows it.
    let port = format!(":{:04X} ", server.addr.port());
    // While data is unacknowledged, the socket has another timer.
    for attempt in 0..200 {
        let Ok(sockets) = std::fs::read_to_string("/proc/net/tcp") else {
            return;
        };
        let mut own = sockets.lines().filter(|line| {
            let local = line
                .split_whitespace()
                .nth(1)
                .map(|local| format!("{local} "));
            local.is_some_and(|local| local.ends_with(&port)) && line.contains(" 01 ")
        });
        if own.all(|line| line.contains(" 02:")) {
            return;
        }
        assert!(attempt < 199, "{sockets}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
