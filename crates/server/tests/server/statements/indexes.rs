//! Promised: index statements answer with their tag, in both protocols, alone and among other
//! statements, which run in order; `SHOW INDEXES` returns rows; clients cannot choose the folder
//! of an index.

use std::process::Command;

use coscan::{Engine, EngineConfig, Rights};
use futures::TryStreamExt;
use tokio_postgres::SimpleQueryMessage;

use crate::common::{TestServer, state};
use crate::psql::psql;

/// A server over the table `t` of a thousand rows: k = 0 .. 999.
async fn server(folder: &tempfile::TempDir) -> TestServer {
    let config = EngineConfig {
        memory_bytes: Some(64 << 20),
        small_table_bytes: 0,
        ..EngineConfig::default()
    };
    let engine = Engine::new(config).unwrap();
    let session = engine.session();
    let path = folder.path().join("t.parquet");
    let path = path.to_str().unwrap();
    let copy =
        format!("COPY (SELECT value AS k FROM generate_series(0, 999) AS g(value)) TO '{path}'");
    let copied = session.sql(&copy).await.unwrap();
    copied.try_collect::<Vec<_>>().await.unwrap();
    session.register("t", path).await.unwrap();
    let rights = Rights {
        writes: true,
        ..Rights::NONE
    };
    TestServer::start_with_rights(&engine, rights).await
}

/// The answers to a text of statements: rows as their cells, the end of a statement as `.`.
async fn answers(client: &tokio_postgres::Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await.unwrap();
    let shown = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
        SimpleQueryMessage::CommandComplete(_) => Some(".".to_owned()),
        SimpleQueryMessage::RowDescription(columns) => Some(format!("{}:", columns[0].name())),
        _ => None,
    });
    shown.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn index_statements_return_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder).await;
    let client = server.connect().await;
    assert_eq!(answers(&client, "CREATE INDEX i ON t (k)").await, ["."]);
    assert_eq!(
        answers(&client, "CREATE INDEX IF NOT EXISTS i ON t (k)").await,
        ["."]
    );
    assert_eq!(answers(&client, "SHOW INDEXES").await, ["index:", "i", "."]);
    for sql in ["REFRESH INDEX i", "DROP INDEX i", "CREATE INDEX i ON t (k)"] {
        let prepared = client.prepare(sql).await.unwrap();
        assert!(prepared.columns().is_empty(), "{sql}");
        assert_eq!(client.execute(&prepared, &[]).await.unwrap(), 0, "{sql}");
    }
    assert_eq!(
        state(client.execute("CREATE INDEX i ON t (k)", &[]).await),
        "42P07"
    );
    let shown = client.query("SHOW INDEXES", &[]).await.unwrap();
    assert_eq!(shown[0].get::<_, &str>("index"), "i");
    for (sql, code) in [
        ("DROP INDEX nix", "42704"),
        ("REFRESH INDEX nix", "42704"),
        ("CREATE INDEX j ON nix (k)", "42P01"),
        ("CREATE INDEX j ON t (nix)", "42703"),
    ] {
        assert_eq!(state(client.simple_query(sql).await), code, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn index_statements_run_in_order_with_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder).await;
    let client = server.connect().await;
    let text = "SELECT count(*) FROM coscan.indexes; -- none; yet
                CREATE INDEX i ON t (k); SELECT count(*) FROM coscan.indexes;
                SET coscan.access_path = 'smooth'; SELECT k FROM t WHERE k = 77;
                REFRESH INDEX i; SHOW INDEXES; DROP INDEX i; SELECT count(*) FROM coscan.indexes;";
    let found = answers(&client, text).await;
    let expected = [
        "count:", "0", ".", ".", "count:", "1", ".", ".", "k:", "77", ".", ".", "index:", "i", ".",
        ".", "count:", "0", ".",
    ];
    assert_eq!(found, expected);
    // If a text cannot be parsed, none of it runs; after a failure, the rest of the text does not
    // run.
    let unread = client
        .simple_query("CREATE INDEX i ON t (k); SELEC 1")
        .await;
    assert_eq!(state(unread), "42601");
    assert_eq!(answers(&client, "SHOW INDEXES").await, ["index:", "."]);
    let failed = "CREATE INDEX i ON t (k); CREATE INDEX i ON t (k); DROP INDEX i";
    assert_eq!(state(client.simple_query(failed).await), "42P07");
    assert_eq!(answers(&client, "SHOW INDEXES").await, ["index:", "i", "."]);
    let two = client.prepare("DROP INDEX i; SELECT 1").await;
    assert_eq!(state(two), "42601");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_on_a_table_in_memory_can_be_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder).await;
    let client = server.connect().await;
    let text = "CREATE TABLE own (k int); CREATE INDEX own_k ON own (k); DROP INDEX own_k";
    assert_eq!(answers(&client, text).await, [".", ".", "."]);
    let other = client.simple_query("DROP INDEX own_l").await;
    assert_eq!(state(other), "42704");
    // An index of files that has the name comes first.
    let text = "CREATE INDEX i ON own (k); CREATE INDEX i ON t (k); DROP INDEX i; SHOW INDEXES";
    let dropped = answers(&client, text).await;
    assert_eq!(dropped, [".", ".", ".", "index:", "."]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_shows_the_tags() {
    if Command::new("psql").arg("--version").output().is_err() {
        eprintln!("skipped: no psql");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder).await;
    for (sql, expected) in [
        ("CREATE INDEX i ON t (k)", "CREATE INDEX\n"),
        ("refresh index i; select 7", "REFRESH INDEX\n7\n"),
        ("DROP INDEX i", "DROP INDEX\n"),
        (
            "DROP INDEX IF EXISTS i",
            "DROP INDEX\nNOTICE:  index \"i\" does not exist, skipping\n",
        ),
    ] {
        let (success, text) = psql(&server, sql).await;
        assert!(success && text == expected, "{sql}:\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_cannot_choose_the_folder_for_indexes() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder).await;
    let client = server.connect().await;
    let named = folder.path().join("indexes");
    let set = format!("SET coscan.index_folder = '{}'", named.display());
    assert_eq!(state(client.simple_query(&set).await), "42501");
    let options = format!("-c coscan.index_folder={}", named.display());
    let mut config = server.config();
    config.options(&options);
    assert_eq!(state(crate::common::connect(&config).await), "42501");
    assert!(!named.exists());
    assert_eq!(
        answers(
            &client,
            "RESET coscan.index_folder; SHOW coscan.index_folder"
        )
        .await[1..],
        ["coscan.index_folder:", "", "."]
    );
}
