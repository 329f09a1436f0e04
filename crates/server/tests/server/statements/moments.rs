//! Promised: `now()` and similar functions return the start of their transaction, and transactions
//! begin where they do in PostgreSQL; `statement_timestamp()` is the time of the client's message,
//! `clock_timestamp()` the present time.

use std::collections::BTreeSet;

use crate::common::TestServer;
use crate::common::raw::RawClient;

/// Runs `work` on a thread that may block.
async fn blocking(work: impl FnOnce(RawClient) + Send + 'static) {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || work(RawClient::connect(addr)));
    done.await.unwrap();
}

/// The values in the rows of these statements, each sent as a message of its own.
fn values(client: &mut RawClient, statements: &[&str]) -> BTreeSet<String> {
    let mut values = BTreeSet::new();
    for sql in statements {
        let answer = client.simple(sql);
        assert_eq!(answer.error, None, "{sql}");
        values.extend(answer.rows.into_iter().flatten().flatten());
    }
    values
}

#[tokio::test(flavor = "multi_thread")]
async fn now_is_constant_in_a_transaction() {
    blocking(|mut client| {
        client.simple("CREATE TEMP TABLE x (a int, c timestamptz DEFAULT now())");
        client.prepare("p", "SELECT now()", &[]);
        client.simple("PREPARE q AS SELECT now()");
        let one = values(
            &mut client,
            &[
                "BEGIN",
                "SELECT now()",
                "SELECT current_timestamp; SELECT transaction_timestamp()",
                "EXECUTE q",
                "SAVEPOINT s",
                "SELECT 'now'::timestamptz",
                "ROLLBACK TO s",
                "SELECT localtimestamp::timestamptz",
                "INSERT INTO x VALUES (1, now())",
                "INSERT INTO x (a) VALUES (2)",
                "INSERT INTO x SELECT 3, now()",
                "UPDATE x SET c = now() WHERE a = 1",
                "SELECT c FROM x WHERE c = now()",
                "DECLARE k CURSOR FOR SELECT now()",
                "FETCH ALL FROM k",
            ],
        );
        assert_eq!(one.len(), 1, "{one:?}");
        let extended = client.run("p", &[], 0).shown();
        assert!(one.contains(&extended), "{extended}");
        let count = values(&mut client, &["SELECT count(*) FROM x WHERE c = now()"]);
        assert_eq!(count, BTreeSet::from(["3".to_owned()]));
        let running = "SELECT now() < statement_timestamp(), \
                       statement_timestamp() < clock_timestamp(), \
                       statement_timestamp() = statement_timestamp(), current_date = now()::date";
        assert_eq!(client.simple(running).shown(), "t | t | t | t");
        let after = values(&mut client, &["COMMIT", "SELECT now()"]);
        assert!(after.is_disjoint(&one) && after.len() == 1, "{after:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn now_changes_with_implicit_transactions() {
    blocking(|mut client| {
        let distinct = |client: &mut RawClient, sql: &str| values(client, &[sql]).len();
        assert_eq!(distinct(&mut client, "SELECT now(); SELECT now()"), 1);
        let sql = "SELECT now() = statement_timestamp()";
        assert_eq!(client.simple(sql).shown(), "t");
        let answer = client.pipeline(&["SELECT now()", "SELECT now()"]);
        assert_eq!(answer.rows[0], answer.rows[1]);
        // Each message begins another transaction.
        let two = values(&mut client, &["SELECT now()", "SELECT now()"]);
        assert_eq!(two.len(), 2);
        client.simple("BEGIN");
        let begun = values(&mut client, &["SELECT now()"]);
        for end in ["SELECT 1/0; COMMIT", "ROLLBACK"] {
            client.simple(end);
        }
        assert!(begun.is_disjoint(&values(&mut client, &["SELECT now()"])));
        // A failed message ends its transaction too.
        client.simple("SELECT now(); SELECT 1/0");
        assert_eq!(client.simple(sql).shown(), "t");
        client.pipeline(&["SELECT 1/0"]);
        assert_eq!(client.simple(sql).shown(), "t");
    })
    .await;
}
