//! Promised: a client needs the password; TLS works where it is offered; without a password the
//! server listens on loopback only; the number of connections is limited, and cancel requests are
//! exempt from the limit.

use std::sync::Arc;
use std::time::Duration;

use crate::common::tls::{Trusting, certificate};
use crate::common::{LONG_AND_LIVE, TestServer, connect, state};
use coscan_server::{Server, ServerConfig, ServerError, TlsFiles};
use datafusion::prelude::SessionContext;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_postgres::NoTls;
use tokio_postgres::config::SslMode;

async fn bind(change: impl FnOnce(&mut ServerConfig)) -> Result<(), ServerError> {
    let mut config = ServerConfig::new(([127, 0, 0, 1], 0).into());
    change(&mut config);
    Server::bind(config, Arc::new(|| Ok(SessionContext::new())))
        .await
        .map(drop)
}

#[tokio::test]
async fn only_the_password_admits() {
    let server = TestServer::start_with(|config| {
        config.user = Some("ada".to_owned());
        config.password = Some("sesame".to_owned());
    })
    .await;
    let mut config = server.config();
    config.user("ada").password("sesame");
    connect(&config)
        .await
        .unwrap()
        .simple_query("SELECT 1")
        .await
        .unwrap();
    config.password("sesam");
    assert_eq!(state(connect(&config).await.map(drop)), "28P01");
    config.user("eve").password("sesame");
    assert_eq!(state(connect(&config).await.map(drop)), "28P01");
    assert!(connect(&server.config()).await.is_err());
}

#[tokio::test]
async fn tls_with_and_without_a_password() {
    let (_folder, files) = certificate();
    for password in [None, Some("sesame".to_owned())] {
        let server = TestServer::start_with(|config| {
            config.tls = Some(files.clone());
            config.password.clone_from(&password);
        })
        .await;
        let mut config = server.config();
        config.ssl_mode(SslMode::Require);
        if let Some(password) = &password {
            config.password(password);
        }
        let (client, connection) = config.connect(Trusting::new(&files)).await.unwrap();
        tokio::spawn(connection);
        let rows = client
            .query("SELECT x FROM generate_series(1, 50000) t(x)", &[])
            .await
            .unwrap();
        assert_eq!(rows.len(), 50_000);

        let token = client.cancel_token();
        let query = tokio::spawn(async move { client.simple_query(LONG_AND_LIVE).await });
        server.some_live().await;
        token.cancel_query(Trusting::new(&files)).await.unwrap();
        assert_eq!(state(query.await.unwrap()), "57014");

        config.ssl_mode(SslMode::Disable);
        connect(&config)
            .await
            .unwrap()
            .simple_query("SELECT 1")
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn an_unprotected_server_does_not_start() {
    let everywhere = ([0, 0, 0, 0], 0).into();
    let refused = bind(|config| config.listen = everywhere).await;
    assert!(matches!(refused, Err(ServerError::Unprotected { .. })));
    bind(|config| {
        config.listen = everywhere;
        config.password = Some("sesame".to_owned());
    })
    .await
    .unwrap();
    bind(|config| {
        config.listen = everywhere;
        config.allow_insecure = true;
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn errors_name_unusable_certificates() {
    let (_folder, files) = certificate();
    let missing = TlsFiles {
        cert: "/nowhere/cert.pem".into(),
        key: files.key.clone(),
    };
    let error = bind(|config| config.tls = Some(missing)).await.unwrap_err();
    assert!(error.to_string().contains("/nowhere/cert.pem"), "{error}");
    let swapped = TlsFiles {
        cert: files.key.clone(),
        key: files.key,
    };
    let error = bind(|config| config.tls = Some(swapped)).await.unwrap_err();
    assert!(
        matches!(error, ServerError::NoCertificate { .. }),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_refuses_clients_and_still_cancels() {
    let server = TestServer::start_with(|config| config.connections_max = 2).await;
    let one = server.connect().await;
    let busy = server.connect().await;
    assert_eq!(state(connect(&server.config()).await.map(drop)), "53300");
    let token = busy.cancel_token();
    let query = tokio::spawn(async move { busy.simple_query(LONG_AND_LIVE).await });
    server.some_live().await;
    token.cancel_query(NoTls).await.unwrap();
    assert_eq!(state(query.await.unwrap()), "57014");
    drop(one);
    for _ in 0..100 {
        if connect(&server.config()).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the slot was not freed");
}

#[tokio::test]
async fn garbage_on_a_socket_harms_no_other_client() {
    let server = TestServer::start().await;
    for nonsense in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 64],
        &[0, 0, 0, 8, 0, 3, 0, 0],
        &[0, 0, 0, 0, 0, 0, 0, 0],
        &[0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0],
    ] {
        let mut socket = tokio::net::TcpStream::connect(server.addr).await.unwrap();
        socket.write_all(nonsense).await.unwrap();
        let mut answer = Vec::new();
        let read = socket.read_to_end(&mut answer);
        let _ = tokio::time::timeout(Duration::from_secs(2), read)
            .await
            .unwrap();
    }
    server
        .connect()
        .await
        .simple_query("SELECT 1")
        .await
        .unwrap();
}
