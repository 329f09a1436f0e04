//! Promised: clients that connect all at once are all served, up to the server's limit of
//! connections. Silent clients and unfinished handshakes delay other clients by at most the second
//! in which they may still send something, and a client that has to make room gets the reason.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config};

use crate::common::raw::STARTUP;
use crate::common::tls::{Trusting, certificate};
use crate::common::{Alone, TestServer, connect};

/// Held by each test: together they would need more descriptors than a process may open.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

async fn alone() -> (Alone, MutexGuard<'static, ()>) {
    let guard = ONE_AT_A_TIME.lock().await;
    rlimit::increase_nofile_limit(u64::MAX).unwrap();
    (crate::common::alone(), guard)
}

/// Connects `clients` clients at once, and queries a row from each. Returns how long the last one
/// took.
async fn all_are_served(config: &Config, clients: usize) -> (Vec<Client>, Duration) {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|_| {
            let config = config.clone();
            tokio::spawn(async move {
                let client = connect(&config).await.unwrap();
                let row = client.query_one("SELECT 7::int", &[]).await.unwrap();
                assert_eq!(row.get::<_, i32>(0), 7);
                client
            })
        })
        .collect();
    let mut served = Vec::new();
    for task in tasks {
        served.push(task.await.unwrap());
    }
    (served, begun.elapsed())
}

async fn sockets(server: &TestServer, number: usize, say: &[u8]) -> Vec<TcpStream> {
    let mut sockets = Vec::new();
    for _ in 0..number {
        let socket = TcpStream::connect(server.addr);
        let mut socket = timeout(Duration::from_secs(20), socket)
            .await
            .unwrap()
            .unwrap();
        socket.write_all(say).await.unwrap();
        sockets.push(socket);
    }
    sockets
}

/// How many clients were refused; each of them must have got the reason.
fn refused(sockets: &[TcpStream]) -> usize {
    let ended = |socket: &&TcpStream| {
        let (mut bytes, mut answer) = ([0; 512], Vec::new());
        loop {
            match socket.try_read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => answer.extend(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) => panic!("{error}, after {:?}", String::from_utf8_lossy(&answer)),
            }
        }
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("C53300"), "{answer:?}");
        true
    };
    sockets.iter().filter(ended).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_at_once_are_all_served() {
    let _alone = alone().await;
    let server = TestServer::start().await;
    for _ in 0..3 {
        let (clients, took) = all_are_served(&server.config(), 500).await;
        assert_eq!(clients.len(), 500);
        println!("500 clients: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_uses_tls_and_a_password_is_served() {
    let _alone = alone().await;
    let (_folder, files) = certificate();
    let server = TestServer::start_with(|config| {
        config.tls = Some(files.clone());
        config.password = Some("sesame".to_owned());
    })
    .await;
    let mut config = server.config();
    config.password("sesame").ssl_mode(SslMode::Require);
    let trusting = Trusting::new(&files);
    let clients: Vec<_> = (0..300)
        .map(|_| {
            let (config, trusting) = (config.clone(), trusting.clone());
            tokio::spawn(async move {
                let (client, connection) = config.connect(trusting).await.unwrap();
                tokio::spawn(connection);
                client.simple_query("SELECT 7").await.unwrap();
                client
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_server_does_not_wait_for_silent_clients() {
    let _alone = alone().await;
    let server = TestServer::start().await;
    let mut silent = sockets(&server, 3, b"").await;
    drop(server.connect().await);
    let took = server.stop().await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    let mut answer = Vec::new();
    silent[0].read_to_end(&mut answer).await.unwrap();
    assert!(
        String::from_utf8_lossy(&answer).contains("C57P01"),
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_clients_delay_no_others_while_there_is_room() {
    let _alone = alone().await;
    let server = TestServer::start().await;
    let silent = sockets(&server, 500, b"").await;
    let (_clients, took) = all_are_served(&server.config(), 50).await;
    assert!(took < Duration::from_secs(20), "{took:?}");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(refused(&silent), 0, "their places are not needed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_silent_for_a_second_make_room() {
    let _alone = alone().await;
    let server = TestServer::start_with(|config| config.password = Some("sesame".to_owned())).await;
    let mut config = server.config();
    config.password("sesame");
    let (in_time, _) = all_are_served(&config, 1).await;
    for (number, say, fewest) in [(1200, &b""[..], 150), (300, STARTUP, 150)] {
        let silent = sockets(&server, number, say).await;
        let (_clients, took) = all_are_served(&config, 20).await;
        assert!(took < Duration::from_secs(20), "{took:?}");
        let gone = refused(&silent);
        println!("{gone} of {number} were refused; the others took {took:?}");
        assert!(gone >= fewest, "{gone}");
        in_time[0].simple_query("SELECT 1").await.unwrap();
    }
}
