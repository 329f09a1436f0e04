//! Promised: `pg_stat_activity` shows each connection with what it does and what it waits for, and
//! of another user's only that it is there. `coscan.queries` shows which queries have memory, which
//! wait for it, and why.

use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::rerun::{ROWS, client, counted, crowded};
use crate::common::raw::RawClient;
use crate::common::{HAPPENS_WITHIN, TestServer, connect, state};

/// A statement that ends when it is cancelled.
const ENDLESS: &str = "SELECT count(*) FROM endless WHERE n < 0";

async fn rows(client: &Client, sql: &str) -> Vec<String> {
    let answer = client.simple_query(sql).await.unwrap();
    let rows = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let cells = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
            Some(cells.collect::<Vec<_>>().join("|"))
        }
        _ => None,
    });
    rows.collect()
}

async fn pid(client: &Client) -> String {
    rows(client, "SELECT pg_backend_pid()").await.remove(0)
}

/// Asks until the rows are as expected.
async fn becomes(client: &Client, sql: &str, expected: &[&str]) {
    let begun = Instant::now();
    loop {
        let found = rows(client, sql).await;
        if found == expected {
            return;
        }
        let patient = begun.elapsed() < HAPPENS_WITHIN;
        assert!(patient, "{sql}: {found:?}, not {expected:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What is seen of the connection with this number.
fn of(pid: &str) -> String {
    let columns = "state, wait_event_type, wait_event, query";
    format!("SELECT {columns} FROM pg_stat_activity WHERE pid = {pid}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_seen_with_what_it_does() {
    let server = TestServer::start().await;
    let (observer, other) = (server.connect().await, server.connect().await);
    let seen = of(&pid(&other).await);
    for (sql, state) in [
        ("SELECT 1", "idle"),
        ("BEGIN", "idle in transaction"),
        ("SELECT 1/0", "idle in transaction (aborted)"),
        ("ROLLBACK", "idle"),
    ] {
        let _ = other.batch_execute(sql).await;
        let expected = format!("{state}|Client|ClientRead|{sql}");
        becomes(&observer, &seen, &[expected.as_str()]).await;
    }
    let prepared = other.prepare("SELECT $1::int").await.unwrap();
    other.batch_execute("SELECT 2").await.unwrap();
    other.query(&prepared, &[&7]).await.unwrap();
    let expected = "idle|Client|ClientRead|SELECT $1::int";
    becomes(&observer, &seen, &[expected]).await;
    let token = other.cancel_token();
    let cancelled = async {
        let expected = format!("active|NULL|NULL|{ENDLESS}");
        becomes(&observer, &seen, &[expected.as_str()]).await;
        server.some_live().await;
        token.cancel_query(NoTls).await.unwrap();
    };
    let (ended, ()) = tokio::join!(other.batch_execute(ENDLESS), cancelled);
    assert_eq!(state(ended), "57014");
    let long = format!("SELECT '{}'", "ä".repeat(2_000));
    other.batch_execute(&long).await.unwrap();
    let length = seen.replace("state, wait_event_type, wait_event, query", "length(query)");
    becomes(&observer, &length, &["515"]).await;
    drop(other);
    becomes(&observer, &seen, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_waited_for() {
    let server = TestServer::start().await;
    let observer = server.connect().await;
    let mut deaf = RawClient::connect(server.addr);
    deaf.send(b'Q', b"SELECT n FROM endless\0");
    let seen = "SELECT state, wait_event_type, wait_event FROM pg_stat_activity \
                WHERE query = 'SELECT n FROM endless'";
    becomes(&observer, seen, &["active|Client|ClientWrite"]).await;
    drop(deaf);
    becomes(&observer, seen, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_waits_for_memory_is_seen_waiting() {
    let (server, _, first) = crowded().await;
    let (second, observer) = (client(&server).await, client(&server).await);
    let (holder, waiter) = (pid(&first).await, pid(&second).await);
    let activity = format!(
        "SELECT state, wait_event_type, wait_event FROM pg_stat_activity WHERE pid = {waiter}"
    );
    let queries = |pid: &str| {
        let columns = "state, wait_event, bytes_held > 1000000, bytes_awaited > 100000, \
                       waited_ms >= 0, reruns > 0, rerun_cause";
        format!("SELECT {columns} FROM coscan.queries WHERE pid = {pid}")
    };
    let seen = async {
        let waits = "waiting|MemoryAdmission|f|t|t|t|memory refused";
        becomes(&observer, &queries(&waiter), &[waits]).await;
        becomes(&observer, &activity, &["active|Extension|MemoryAdmission"]).await;
        let holds = "running|NULL|t|f|NULL|f|NULL";
        becomes(&observer, &queries(&holder), &[holds]).await;
        first.batch_execute("COMMIT").await.unwrap();
    };
    let (found, ()) = tokio::join!(counted(&second), seen);
    assert_eq!(found, ROWS.to_string());
    becomes(&observer, &activity, &["idle|Client|ClientRead"]).await;
    becomes(&observer, &queries(&waiter), &[]).await;
}

#[tokio::test]
async fn another_user_sees_only_that_there_is_a_connection() {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let (own, friend) = (server.connect().await, server.connect().await);
    let stranger = connect(server.config().user("stranger")).await.unwrap();
    let open = "BEGIN; DECLARE c CURSOR FOR SELECT * FROM generate_series(1, 100000); \
                FETCH 1 FROM c";
    own.batch_execute(open).await.unwrap();
    let pid = pid(&own).await;
    let activity = format!(
        "SELECT usename, state, wait_event, query, client_addr, query_start IS NULL \
         FROM pg_stat_activity WHERE pid = {pid}"
    );
    let hidden = "tester|NULL|NULL|<insufficient privilege>|NULL|t";
    assert_eq!(rows(&stranger, &activity).await, [hidden]);
    let shown = "tester|idle in transaction|ClientRead|SELECT pg_backend_pid()|127.0.0.1|f";
    becomes(&friend, &activity, &[shown]).await;
    let queries = format!(
        "SELECT usename, state, open_ms > 0, bytes_awaited, reruns \
         FROM coscan.queries WHERE pid = {pid}"
    );
    assert_eq!(
        rows(&stranger, &queries).await,
        ["tester|NULL|NULL|NULL|NULL"]
    );
    becomes(&friend, &queries, &["tester|running|t|0|0"]).await;
    let page = include_str!("../../../../../docs/reference/activity.md");
    let mut parts = page.split("```");
    let documented = parts.find_map(|part| part.strip_prefix("sql\n")).unwrap();
    let found = rows(&friend, documented).await;
    assert!(found.iter().any(|row| row.starts_with(&pid)), "{found:?}");
}
