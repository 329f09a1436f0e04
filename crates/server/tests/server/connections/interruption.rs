//! Promised: a statement ends, and its stream is dropped, within a second of a cancel request, its
//! timeout, or its client's disappearance; nothing else is affected.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::raw::RawClient;
use crate::common::{HAPPENS_WITHIN, LONG, LONG_AND_LIVE, TestServer, alone, connect, state};
use futures::{TryStreamExt, pin_mut};
use tokio::time::timeout;
use tokio_postgres::NoTls;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_request_stops_a_long_query() {
    let _alone = alone();
    let server = TestServer::start().await;
    for extended in [false, true] {
        let client = server.connect().await;
        let token = client.cancel_token();
        let query = tokio::spawn(async move {
            let result = match extended {
                false => client.simple_query(LONG_AND_LIVE).await.map(drop),
                true => client.query(LONG_AND_LIVE, &[]).await.map(drop),
            };
            (client, result)
        });
        server.some_live().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let start = Instant::now();
        token.cancel_query(NoTls).await.unwrap();
        let (client, result) = query.await.unwrap();
        assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
        assert_eq!(state(result), "57014");
        server.all_dropped_soon().await;
        // The connection survives, and a late cancel request does no harm.
        token.cancel_query(NoTls).await.unwrap();
        // As in PostgreSQL, a request that is still in flight may hit the next query.
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.simple_query("SELECT 1").await.unwrap();
    }
}

#[tokio::test]
async fn a_cancel_request_stops_a_stream_of_rows() {
    let _alone = alone();
    let server = TestServer::start().await;
    let client = server.connect().await;
    let token = client.cancel_token();
    let rows = client
        .query_raw("SELECT n FROM endless", Vec::<i32>::new())
        .await
        .unwrap();
    pin_mut!(rows);
    rows.try_next().await.unwrap().unwrap();
    token.cancel_query(NoTls).await.unwrap();
    let start = Instant::now();
    let error = loop {
        match rows.try_next().await {
            Ok(Some(_)) => assert!(start.elapsed() < 5 * SECOND, "still running"),
            Ok(None) => panic!("an endless result ended"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code().unwrap().code(), "57014");
    server.all_dropped_soon().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_stops_execution_not_only_planning() {
    let _alone = alone();
    let server = TestServer::start().await;
    let client = server.connect().await;
    client
        .batch_execute("SET statement_timeout = '200ms'")
        .await
        .unwrap();
    for sql in [LONG, "SELECT sum(n) FROM endless WHERE n < 0"] {
        let start = Instant::now();
        assert_eq!(state(client.simple_query(sql).await), "57014");
        assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
        server.all_dropped_soon().await;
    }
    client.simple_query("SELECT 1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_rejects_every_pair_ends_with_its_statement() {
    let _alone = alone();
    let server = TestServer::start().await;
    let client = server.connect().await;
    client
        .batch_execute("SET statement_timeout = '300ms'")
        .await
        .unwrap();
    // Each batch of 1,000 rows is compared with a million rows, or each of its rows with half of
    // them.
    for on in ["n + x = -1", "n % 2 = x % 2 AND n + x = -1"] {
        for kind in ["", "LEFT", "RIGHT"] {
            let sql = format!(
                "SELECT count(*) FROM generate_series(1, 1000000) a(x) {kind} JOIN endless ON {on}"
            );
            let start = Instant::now();
            assert_eq!(state(client.simple_query(&sql).await), "57014");
            assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
            server.all_dropped_soon().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_query_of_a_vanished_client_ends() {
    let _alone = alone();
    let server = TestServer::start().await;
    // The first client waits for its first row, the second has stopped reading.
    for sql in [
        "SELECT count(*) FROM (SELECT n FROM endless WHERE n < 0)",
        "SELECT n FROM endless",
    ] {
        let (client, connection) = server.config().connect(NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let query = tokio::spawn(async move { client.simple_query_raw(sql).await.map(drop) });
        server.some_live().await;
        connection.abort();
        query.abort();
        server.all_dropped_soon().await;
    }
}

/// A client that closes with a full receive buffer: its system acknowledges nothing more, and
/// reports no error until a minute later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_while_its_rows_are_written_ends_its_query() {
    let _alone = alone();
    let server = TestServer::start().await;
    let addr = server.addr;
    let hang_up = move || {
        let mut client = RawClient::connect(addr);
        client.send(b'Q', b"SELECT n FROM endless\0");
        client
    };
    let client = tokio::task::spawn_blocking(hang_up).await.unwrap();
    server.some_live().await;
    tokio::time::sleep(SECOND).await;
    client.close_writing();
    server.all_dropped_soon().await;
    drop(client);
}

#[tokio::test]
async fn a_panic_ends_one_query_only() {
    let server = TestServer::start().await;
    let (one, other) = (server.connect().await, server.connect().await);
    for _ in 0..3 {
        assert_eq!(
            state(one.simple_query("SELECT explode(id) FROM people").await),
            "XX000"
        );
        assert_eq!(
            state(one.query("SELECT explode(id) FROM people", &[]).await),
            "XX000"
        );
        one.simple_query("SELECT 1").await.unwrap();
        other.simple_query("SELECT 1").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_waits_for_queries_then_cancels_them() {
    let _alone = alone();
    let server = TestServer::start_with(|config| config.grace = 2 * SECOND).await;
    let idle = server.connect().await;
    let busy = server.connect().await;
    let short = server.connect().await;
    let long = tokio::spawn(async move { busy.simple_query(LONG_AND_LIVE).await });
    server.some_live().await;
    let brief = tokio::spawn(async move {
        let sql = "SELECT count(*) FROM (SELECT n FROM endless LIMIT 300000) WHERE n % 7 = 3";
        short.simple_query(sql).await
    });
    // A server that stops refuses a statement that it has not read.
    let has_begun = async {
        while server.live.load(Ordering::SeqCst) < 2 && !brief.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(HAPPENS_WITHIN, has_begun).await.unwrap();
    let config = server.config();
    let took = server.stop().await;
    assert!(
        took >= Duration::from_millis(1900) && took < 8 * SECOND,
        "{took:?}"
    );
    assert_eq!(state(long.await.unwrap()), "57P01");
    assert!(brief.await.unwrap().is_ok());
    let is_closed = async {
        while !idle.is_closed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(HAPPENS_WITHIN, is_closed).await.unwrap();
    assert!(connect(&config).await.is_err());
}

#[tokio::test]
async fn stopping_an_idle_server_is_immediate() {
    let _alone = alone();
    let server = TestServer::start().await;
    let _client = server.connect().await;
    assert!(server.stop().await < SECOND);
}

#[tokio::test]
async fn clients_can_connect_while_every_query_thread_is_busy() {
    let _alone = alone();
    let server = TestServer::start().await;
    // The filter rejects every pair, so the join emits nothing.
    let sql = LONG.replace("= 3", "= 9").replacen("2000000", "40000", 1);
    let stuck = (0..4).map(|_| async {
        let client = server.connect().await;
        let (token, sql) = (client.cancel_token(), sql.clone());
        (
            token,
            tokio::spawn(async move { client.simple_query(&sql).await }),
        )
    });
    let stuck = futures::future::join_all(stuck).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let start = Instant::now();
    let client = server.connect().await;
    client.simple_query("SHOW coscan.policy").await.unwrap();
    for (token, query) in stuck {
        token.cancel_query(NoTls).await.unwrap();
        assert_eq!(state(query.await.unwrap()), "57014");
    }
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
}
