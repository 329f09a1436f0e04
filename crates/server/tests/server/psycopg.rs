//! Promised: psycopg works as programs use it: queries in both formats, parameters, errors by
//! class, cancel, settings of a connection (`psycopg_client.py`). Skipped if psycopg is installed
//! neither in the benches' environment (`lab/arena/setup.sh`) nor in the system's.

use std::path::PathBuf;
use std::process::Command;

use crate::common::TestServer;

/// A Python interpreter that has psycopg.
fn python() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/coscan/venv"));
    let benches = std::env::var_os("COSCAN_VENV").map(PathBuf::from).or(home);
    let benches = benches.map(|folder| folder.join("bin/python"));
    let mut pythons = benches.into_iter().chain([PathBuf::from("python3")]);
    pythons.find(|python| {
        let output = Command::new(python).args(["-c", "import psycopg"]).output();
        output.is_ok_and(|output| output.status.success())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psycopg_works() {
    let Some(python) = python() else {
        eprintln!("skipped: no psycopg");
        return;
    };
    let server = TestServer::start().await;
    let mut command = Command::new(python);
    command
        .arg("tests/server/psycopg_client.py")
        .arg(server.addr.port().to_string());
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.unwrap().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(
        output.status.success() && text.ends_with("settings: ok\n"),
        "{text}"
    );
}
