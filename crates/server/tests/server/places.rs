//! Promised: a client that may not name the server's files cannot find out where they are (R3 of
//! docs/design/rights.md): not from settings, system tables, the catalog, definitions of tables or
//! EXPLAIN. A client that may name files can.

use std::path::Path;

use coscan::{Engine, EngineConfig, Rights};
use futures::TryStreamExt;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::common::TestServer;

/// Statements that reveal something about the server.
const SHOWING: &[&str] = &[
    "SHOW coscan.index_folder",
    "SHOW ALL",
    "SHOW INDEXES",
    "SHOW CREATE TABLE declared",
    "SELECT current_setting('coscan.index_folder')",
    "SELECT value FROM information_schema.df_settings WHERE name LIKE '%directory%' OR name LIKE '%folder%'",
    "SELECT max(value), count(*) FROM information_schema.df_settings AS s",
    "CREATE VIEW mine AS SELECT * FROM information_schema.df_settings; SELECT * FROM mine",
    "SELECT (SELECT max(definition) FROM information_schema.df_views WHERE table_name = 'declared')",
    "EXPLAIN SELECT * FROM t WHERE k > 5",
    "EXPLAIN VERBOSE SELECT * FROM t JOIN declared USING (k)",
    "EXPLAIN ANALYZE SELECT * FROM declared",
    "SET datafusion.explain.format = 'tree'; EXPLAIN SELECT * FROM small",
    "SET datafusion.explain.format = 'pgjson'; EXPLAIN SELECT * FROM small",
    "SET datafusion.explain.format = 'indent'; EXPLAIN SELECT * FROM small",
];

async fn rows(client: &Client, sql: &str) -> Vec<String> {
    let answer = client.simple_query(sql).await;
    let answer = answer.unwrap_or_else(|error| panic!("{sql}: {:?}", error.as_db_error()));
    let rows = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let cells = (0..row.len()).map(|n| row.get(n).unwrap_or("NULL"));
            Some(cells.collect::<Vec<_>>().join("|"))
        }
        _ => None,
    });
    rows.collect()
}

/// All rows of the statements, and of all tables that describe the server.
async fn all_shown(client: &Client) -> Vec<String> {
    let mut shown = vec![];
    for sql in SHOWING {
        shown.extend(rows(client, sql).await);
    }
    let tables = "SELECT table_schema || '.' || table_name FROM information_schema.tables \
                  WHERE table_schema IN ('coscan', 'information_schema', 'pg_catalog')";
    let tables = rows(client, tables).await;
    assert!(tables.len() > 80, "{tables:?}");
    for table in tables {
        shown.extend(rows(client, &format!("SELECT * FROM {table}")).await);
    }
    shown
}

/// An engine whose tables and indexes are in `folder`: one table is scanned in chunks, one is
/// declared by SQL, and one is small enough for DataFusion's reader.
async fn engine(folder: &Path) -> Engine {
    let place = folder.to_str().unwrap();
    let config = EngineConfig {
        small_table_bytes: 2_000,
        index_folder: Some(format!("{place}/hidden-away/indexes")),
        ..EngineConfig::default()
    };
    let engine = Engine::new(config).unwrap();
    let session = engine.session();
    for (name, rows) in [("t", 20_000), ("declared", 20_000), ("small", 3)] {
        std::fs::create_dir_all(folder.join("hidden-away").join(name)).unwrap();
        let copy = format!(
            "COPY (SELECT value AS k FROM generate_series(1, {rows}) AS g(value)) \
             TO '{place}/hidden-away/{name}/0.parquet'"
        );
        run(&session, &copy).await;
        if name != "declared" {
            let path = format!("{place}/hidden-away/{name}");
            session.register(name, &path).await.unwrap();
        }
    }
    let declare = format!(
        "CREATE EXTERNAL TABLE declared STORED AS PARQUET LOCATION '{place}/hidden-away/declared/'"
    );
    run(&session, &declare).await;
    run(&session, "CREATE INDEX j ON t (k)").await;
    engine
}

async fn run(session: &coscan::Session, sql: &str) {
    let rows = session.sql(sql).await.unwrap();
    let _: Vec<_> = rows.try_collect().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_without_the_right_cannot_see_where_files_are() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    // Every path of the server contains this name.
    let above = folder.path().file_name().unwrap().to_str().unwrap();
    for (writes, engine_settings) in [(false, false), (true, true)] {
        let rights = Rights {
            writes,
            files: false,
            engine_settings,
        };
        let server = TestServer::start_with_rights(&engine, rights).await;
        let client = server.connect().await;
        rows(&client, "SELECT sum(k) FROM t").await;
        let shown = all_shown(&client).await;
        assert!(shown.len() > 1_000, "{}", shown.len());
        for row in &shown {
            assert!(
                !row.contains(above) && !row.contains("hidden-away"),
                "{row}"
            );
        }
        let is_named = shown.iter().any(|row| row.contains("0.parquet"));
        assert!(is_named, "files have names");
        let spills = "SELECT value FROM information_schema.df_settings \
                      WHERE name = 'datafusion.runtime.temp_directory'";
        for value in rows(&client, spills).await {
            assert!(!value.contains('/'), "{value}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_may_name_files_can_see_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let rights = Rights {
        files: true,
        ..Rights::NONE
    };
    let server = TestServer::start_with_rights(&engine, rights).await;
    let client = server.connect().await;
    let place = folder.path().to_str().unwrap();
    rows(&client, "SET coscan.index_folder = ''").await;
    rows(&client, "SET coscan.index_folder = 'default'").await;
    for (sql, expected) in [
        ("SHOW coscan.index_folder", "/hidden-away/indexes"),
        ("SELECT folder FROM coscan.indexes", "/hidden-away/indexes"),
        (
            "SELECT definition FROM information_schema.df_views WHERE table_name = 'declared'",
            "/hidden-away/declared/",
        ),
        (
            "EXPLAIN SELECT * FROM small",
            "/hidden-away/small/0.parquet",
        ),
    ] {
        let shown = rows(&client, sql).await.join("\n");
        // DataFusion prints paths without their first slash.
        let whole = format!("{}{expected}", place.trim_start_matches('/'));
        assert!(shown.contains(&whole), "{sql}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_index_folder_can_be_changed_and_reset_without_being_seen() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let server = TestServer::start_on_engine(&engine).await;
    let client = server.connect().await;
    let shown = async || rows(&client, "SHOW coscan.index_folder").await.join(",");
    assert_eq!(shown().await, "default");
    for back in [
        "RESET coscan.index_folder",
        "RESET ALL",
        "SET coscan.index_folder = 'default'",
        "SET coscan.index_folder TO DEFAULT",
    ] {
        rows(&client, "SET coscan.index_folder = ''").await;
        assert_eq!(shown().await, "");
        rows(&client, back).await;
        assert_eq!(shown().await, "default", "{back}");
    }
    rows(&client, "BEGIN; SET LOCAL coscan.index_folder = ''").await;
    assert_eq!(shown().await, "");
    rows(&client, "COMMIT").await;
    assert_eq!(shown().await, "default");
    // An existing path is refused like any other.
    for path in ["/hidden-away/indexes", "/hidden-away/other"] {
        let place = folder.path().to_str().unwrap();
        let sql = format!("SET coscan.index_folder = '{place}{path}'");
        let refused = client.simple_query(&sql).await.unwrap_err();
        let refused = refused.as_db_error().unwrap();
        assert_eq!(refused.code().code(), "42501", "{path}");
    }
}
