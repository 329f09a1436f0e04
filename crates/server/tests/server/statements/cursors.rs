//! Promised: clients that stop (cursors of which one row was fetched, clients that do not read
//! their socket) hold neither frames nor permits to decode, and do not slow down a scan beside
//! them. When they go on, they get the rest of their rows, each once (I5, I8). Rows that wait for
//! them are on disk, including those of the batch at which they stopped (S6).

use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

use coscan::{Engine, EngineConfig};
use futures::future::{join, join_all};
use futures::{StreamExt, TryStreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::common::TestServer;

const ROWS: usize = 240_000;
const CURSORS: usize = 16;

/// An engine with chunks of 4,000 rows: few can be decoded at a time, and not all fit in memory.
async fn engine(folder: &Path) -> Engine {
    let config = EngineConfig {
        memory_bytes: Some(48 << 20),
        buffer_bytes_max: Some(4 << 20),
        small_table_bytes: 0,
        chunk_bytes: 16 << 10,
        target_partitions: Some(2),
        ..EngineConfig::default()
    };
    let engine = Engine::new(config).unwrap();
    let session = engine.session();
    let path = folder.join("t.parquet");
    let path = path.to_str().unwrap();
    for sql in [
        "SET datafusion.execution.parquet.max_row_group_size = 4000".to_owned(),
        format!(
            "COPY (SELECT value AS k, 3 * value AS v, value % 7 AS w, \
             concat('a string that does not compress so well ', CAST(value * 7919 AS VARCHAR)) AS s \
             FROM generate_series(0::bigint, {}) AS g(value)) TO '{path}'",
            ROWS - 1
        ),
    ] {
        let rows = session.sql(&sql).await.unwrap();
        rows.try_collect::<Vec<_>>().await.unwrap();
    }
    session.register("t", path).await.unwrap();
    engine
}

/// The cells of the first column.
async fn cells(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await.unwrap();
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap().to_owned()),
        _ => None,
    });
    rows.collect()
}

async fn nothing_is_held(engine: &Engine) {
    let begun = Instant::now();
    loop {
        let pools = engine.snapshots();
        let held: u64 = pools
            .iter()
            .flat_map(|pool| &pool.scans)
            .map(|scan| scan.chunks_held)
            .sum();
        let mut chunks = pools.iter().flat_map(|pool| &pool.chunks);
        if held == 0 && chunks.all(|chunk| chunk.pinned.is_empty()) {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{held} chunks are still held by idle clients"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The time of a scan of the whole table, beside all other queries.
async fn scan(server: &TestServer) -> Duration {
    let client = server.connect().await;
    let begun = Instant::now();
    let sum = cells(
        &client,
        "SELECT sum(v) + sum(w) * 0 FROM t WHERE length(s) > 3",
    )
    .await;
    assert_eq!(sum, [(3 * ROWS * (ROWS - 1) / 2).to_string()]);
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_cursors_hold_nothing_and_can_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let server = TestServer::start_on_engine(&engine).await;
    let alone = scan(&server).await.max(scan(&server).await);
    let range = ROWS / CURSORS;
    let from = &server;
    let cursors = (0..CURSORS).map(|n| async move {
        let client = from.connect().await;
        let n = n * range;
        let sql = format!(
            "BEGIN; DECLARE c CURSOR FOR SELECT * FROM t WHERE k >= {n} AND k < {}",
            n + range
        );
        client.batch_execute(&sql).await.unwrap();
        let first = cells(&client, "FETCH 1 FROM c").await;
        (client, first)
    });
    let cursors = join_all(cursors).await;
    // Scans wait for the places of fresh cursors; later no scan has to wait.
    let fresh = scan(&server).await;
    nothing_is_held(&engine).await;
    let beside = scan(&server).await;
    // If each of sixty chunks took a second, two at a time, a scan would take thirty seconds.
    for took in [fresh, beside] {
        assert!(
            took < 4 * alone + Duration::from_secs(8),
            "{took:?}, {alone:?} alone"
        );
    }
    let rest = cursors.into_iter().map(|(client, mut keys)| async move {
        keys.extend(cells(&client, "FETCH 10 FROM c").await);
        tokio::time::sleep(Duration::from_millis(900)).await;
        keys.extend(cells(&client, "FETCH ALL FROM c").await);
        keys
    });
    let mut keys: Vec<usize> = join_all(rest)
        .await
        .concat()
        .iter()
        .map(|key| key.parse().unwrap())
        .collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..ROWS), "each row once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_do_not_read_hold_nothing_and_can_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let server = TestServer::start_on_engine(&engine).await;
    let alone = scan(&server).await;
    let clients = (0..6).map(|_| async {
        let (client, connection) = server.config().connect(NoTls).await.unwrap();
        let mut connection = Box::pin(connection);
        // More rows than the sockets' buffers take.
        let sql = "SELECT * FROM t UNION ALL SELECT * FROM t UNION ALL SELECT * FROM t";
        {
            let query = pin!(client.simple_query_raw(sql));
            let both = join(&mut connection, query);
            // The answer begins; its rest is not read.
            tokio::select! {
                _ = both => panic!("the answer was read to its end"),
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        }
        (client, connection)
    });
    let stopped = join_all(clients).await;
    nothing_is_held(&engine).await;
    let beside = scan(&server).await;
    assert!(
        beside < 4 * alone + Duration::from_secs(8),
        "{beside:?}, {alone:?} alone"
    );
    drop(stopped);

    // A client that pauses and then reads on.
    let (client, connection) = server.config().connect(NoTls).await.unwrap();
    let paused = tokio::spawn(async move {
        let mut connection = Box::pin(connection);
        for _ in 0..3 {
            let _ = tokio::time::timeout(Duration::from_millis(20), &mut connection).await;
            tokio::time::sleep(Duration::from_millis(900)).await;
        }
        drop(connection.await);
    });
    let sql = "SELECT * FROM t UNION ALL SELECT * FROM t UNION ALL SELECT * FROM t";
    let rows = client.simple_query_raw(sql).await.unwrap();
    let rows = rows.try_filter(|message| {
        futures::future::ready(matches!(message, SimpleQueryMessage::Row(_)))
    });
    assert_eq!(rows.count().await, 3 * ROWS);
    paused.abort();
}

/// A startup message of protocol 3.0, and a query of 4,000 rows of 4,000 characters: one batch,
/// only a part of which fits in a socket's buffers.
fn large_query() -> Vec<u8> {
    let startup = b"\0\x03\0\0user\0me\0\0";
    let query = b"SELECT repeat('x', 4000) FROM generate_series(1, 4000)\0";
    let length = |bytes: &[u8]| u32::try_from(bytes.len() + 4).unwrap().to_be_bytes();
    [&length(startup)[..], startup, b"Q", &length(query), query].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_batch_at_which_a_client_stops_goes_to_disk_and_comes_back() {
    let config = EngineConfig {
        memory_bytes: Some(256 << 20),
        target_partitions: Some(1),
        ..EngineConfig::default()
    };
    let engine = Engine::new(config).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let mut socket = TcpStream::connect(server.addr).await.unwrap();
    socket.write_all(&large_query()).await.unwrap();
    let on_disk = || engine.runtime().disk_manager.used_disk_space();
    let begun = Instant::now();
    // The operators' memory is what a connection and its statement may hold, without rows.
    while on_disk() == 0 || engine.metrics().operator_bytes > 2 << 20 {
        assert!(begun.elapsed() < Duration::from_secs(20), "S6: in memory");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut rows = 0;
    loop {
        let kind = socket.read_u8().await.unwrap();
        let length = socket.read_u32().await.unwrap() as usize - 4;
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await.unwrap();
        match kind {
            b'D' => {
                assert_eq!(length, 2 + 4 + 4000);
                assert!(body[6..].iter().all(|byte| *byte == b'x'));
                rows += 1;
            }
            b'E' => panic!("{}", String::from_utf8_lossy(&body)),
            b'C' => break,
            _ => {}
        }
    }
    assert_eq!(rows, 4000);
    while on_disk() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "a file is left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
