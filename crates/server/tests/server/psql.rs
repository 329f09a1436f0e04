//! Promised: psql works, including its `\d` commands. Skipped if psql is not installed.

use std::process::{Command, Stdio};

use crate::common::TestServer;

pub(crate) async fn psql(server: &TestServer, sql: &str) -> (bool, String) {
    let mut command = Command::new("psql");
    command
        .args([
            "-X",
            "-A",
            "-t",
            "-h",
            "127.0.0.1",
            "-U",
            "tester",
            "-d",
            "datafusion",
            "-c",
            sql,
        ])
        .args(["-p", &server.addr.port().to_string()])
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[tokio::test]
async fn psql_reads_tables_and_catalog() {
    if Command::new("psql").arg("--version").output().is_err() {
        eprintln!("skipped: no psql");
        return;
    }
    let server = TestServer::start().await;
    for (sql, expected) in [
        (
            "SELECT id, name FROM people ORDER BY id",
            "1|Ada\n2|Barbara\n3|\n",
        ),
        ("\\d", "people"),
        ("\\dt", "people"),
        ("\\d people", "name"),
        ("\\dn", "public"),
        ("\\l", "datafusion"),
        ("\\l+", "datafusion"),
        ("\\d+ people", "name"),
        ("\\d grown", "id"),
        ("\\d+ grown", "plain"),
        ("\\dt+", "people"),
        ("\\dv", "grown"),
        ("\\du", "tester"),
        ("\\dp", "people"),
        ("\\db", "pg_default"),
        (
            "\\df format_type",
            "pg_catalog|format_type|text|oid, integer|func\n",
        ),
        (
            "\\df parse_ident",
            "pg_catalog|parse_ident|text[]|str text, strict boolean DEFAULT true|func\n",
        ),
        (
            "\\df percentile_cont",
            "double precision[]|double precision[] ORDER BY double precision|agg\n",
        ),
        (
            "\\dfS+ abs",
            "pg_catalog|abs|integer|integer|func|immutable|safe|tester|invoker||internal|int4abs|absolute value\n",
        ),
        ("\\ddS format_type", ""),
        ("\\dd", ""),
        ("\\dL", ""),
        (
            "\\dLS+",
            "sql|tester|t|t|-|fmgr_sql_validator(oid)|-||SQL-language functions\n",
        ),
        ("\\dO", ""),
        ("\\dOS", "pg_catalog|ucs_basic|C|C||libc|yes\n"),
        ("\\dOS+ \"POSIX\"", "standard POSIX collation\n"),
        ("\\sv grown", "FROM people"),
        ("\\timing", "Timing is on"),
        (
            "\\copy (SELECT id FROM people ORDER BY id) TO STDOUT",
            "1\n2\n3\n",
        ),
        ("SHOW coscan.policy", "relevance"),
        ("\\conninfo", "tester"),
        ("\\ddp", ""),
        ("\\deu+", ""),
        ("\\dF simple", "pg_catalog|simple|"),
        ("\\dF+ simple", ""),
        (
            "SELECT format('%-4s|%I|%L', id, 'a b', name) FROM people WHERE id = 3",
            "3   |\"a b\"|NULL\n",
        ),
    ] {
        let (success, text) = psql(&server, sql).await;
        assert!(
            success && text.contains(expected) && !text.contains("ERROR"),
            "{sql}:\n{text}"
        );
    }
    let (success, text) = psql(&server, "SELECT 1/0").await;
    assert!(!success && text.contains("ERROR"), "{text}");
}

/// For trying other clients: serves on the port `COSCAN_PORT` until killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs until killed"]
async fn serve_by_hand() {
    let port: u16 = std::env::var("COSCAN_PORT").unwrap().parse().unwrap();
    let _server = TestServer::start_with(|config| config.listen.set_port(port)).await;
    std::future::pending::<()>().await;
}
