//! Promised: common clients work as their registries ship them: `SQLAlchemy`, asyncpg, ADBC,
//! psycopg2 and pandas (`PyPI`), JDBC (Maven Central), pgx and lib/pq (Go's proxy), node-postgres
//! (npm).
//!
//! Not run by default, because each test installs its client first. `tests/clients/run.sh` runs
//! them all.

use std::path::PathBuf;
use std::process::Command;

use crate::common::TestServer;

fn folder() -> PathBuf {
    PathBuf::from("tests/clients")
}

/// The folder of installed clients, which is kept between runs.
fn installed() -> PathBuf {
    let home = std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from);
    std::env::var_os("COSCAN_CLIENTS")
        .map_or_else(|| home.join(".cache/coscan/clients"), PathBuf::from)
}

/// Installs a client with `tests/clients/install.sh` and runs `command` with the server's port.
async fn works(client: &'static str, command: &str, arguments: &[&str]) {
    let folder = folder();
    let mut install = Command::new("bash");
    install
        .arg(folder.join("install.sh"))
        .arg(client)
        .arg(installed());
    let output = tokio::task::spawn_blocking(move || install.output());
    let output = output.await.unwrap().unwrap();
    assert!(
        output.status.success(),
        "cannot install {client}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let server = TestServer::start().await;
    let mut run = Command::new(installed().join(command));
    run.current_dir(folder);
    for argument in arguments {
        let port = server.addr.port().to_string();
        run.arg(argument.replace("PORT", &port));
    }
    let output = tokio::task::spawn_blocking(move || run.output());
    let output = output.await.unwrap().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(
        output.status.success() && text.ends_with("done\n"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs SQLAlchemy from PyPI; tests/clients/run.sh runs it"]
async fn sqlalchemy() {
    for driver in ["psycopg", "psycopg2", "asyncpg"] {
        works(
            "python",
            "venv/bin/python",
            &["sqlalchemy_client.py", "PORT", driver],
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs asyncpg from PyPI; tests/clients/run.sh runs it"]
async fn asyncpg() {
    works("python", "venv/bin/python", &["asyncpg_client.py", "PORT"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs ADBC's driver from PyPI; tests/clients/run.sh runs it"]
async fn adbc() {
    works("python", "venv/bin/python", &["adbc_client.py", "PORT"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs psycopg and psycopg2 from PyPI; tests/clients/run.sh runs it"]
async fn psycopg_copies_and_arrays() {
    works("python", "venv/bin/python", &["psycopg2_client.py", "PORT"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs pgx and lib/pq from Go's proxy; tests/clients/run.sh runs it"]
async fn pgx() {
    works("go", "go/clients", &["PORT", "pgx"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs pgx and lib/pq from Go's proxy; tests/clients/run.sh runs it"]
async fn lib_pq() {
    works("go", "go/clients", &["PORT", "pq"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs JDBC's driver from Maven Central; tests/clients/run.sh runs it"]
async fn jdbc() {
    works("jdbc", "jdbc/metadata", &["PORT"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs node-postgres from npm; tests/clients/run.sh runs it"]
async fn node_postgres() {
    works("node", "node/run", &["PORT"]).await;
}
