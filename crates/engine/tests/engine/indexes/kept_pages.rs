//! Promised: a scan that fetches rows one by one reads and decodes a page once while the page is
//! kept, asks for several pages at once, and returns the same rows whatever it keeps.

use std::time::Duration;

use coscan::{EngineConfig, Session};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tempfile::TempDir;

use super::index_scans::{Layout, batch, run, write};
use crate::common::{self, memory_comes_back, plain, plain_rows, rows, rows_in_order};

/// Pages of 128 rows.
const ROWS: usize = 40_000;
const COLUMNS: u64 = 7;

/// Each query reads its pages itself.
fn config() -> EngineConfig {
    EngineConfig {
        share_fragments: false,
        share_operators: false,
        ..common::config()
    }
}

/// A table with an index on `k`; if `clustered`, in the order of `k`.
async fn table(clustered: bool, config: EngineConfig) -> (TempDir, Session) {
    let folder = tempfile::tempdir().unwrap();
    let batch = batch(&mut StdRng::seed_from_u64(13), 0, ROWS, clustered);
    write(&folder.path().join("0.parquet"), &[batch], Layout::Aligned);
    let session = common::session(config, &[("t", &folder.path().join(""))]).await;
    run(&session, "CREATE INDEX i ON t (k)").await.unwrap();
    (folder, session)
}

/// The rows, and the pages that were read for them.
async fn read(session: &Session, settings: [(&str, &str); 2], sql: &str) -> (Vec<String>, u64) {
    for (name, value) in settings {
        session.set(&format!("coscan.{name}"), value).unwrap();
    }
    let before = session.engine().metrics().pages_read;
    let rows = rows(session, sql).await;
    (rows, session.engine().metrics().pages_read - before)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_is_read_once_while_it_is_kept() {
    let (folder, session) = table(false, config()).await;
    let plain = plain(&[("t", &folder.path().join(""))]).await;
    let sql = "SELECT * FROM t WHERE k BETWEEN 100 AND 130 AND id % 3 <> 1";
    let expected = plain_rows(&plain, sql).await;
    let by = |path, cache| [("access_path", path), ("index_cache", cache)];
    let (_, pages) = read(&session, by("sort", "0"), sql).await;
    assert!(pages > 250, "{pages}");
    for path in ["index", "switch"] {
        let (kept, of_kept) = read(&session, by(path, "64MiB"), sql).await;
        let (alone, of_alone) = read(&session, by(path, "0"), sql).await;
        assert!(kept == expected && alone == expected, "{path}");
        assert_eq!(of_kept, pages, "{path}");
        assert!(of_alone > 2 * pages, "{path}: {of_alone}");
        // With room for a few pages, or for none.
        for cache in ["200KiB", "1KiB"] {
            let (few, of_few) = read(&session, by(path, cache), sql).await;
            assert!(few == expected && of_few >= pages, "{path}, {cache}");
        }
    }
    memory_comes_back(&session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_pages_do_not_change_the_order() {
    let (_folder, session) = table(false, config()).await;
    session.set("coscan.access_path", "index").unwrap();
    for direction in ["", " DESC"] {
        let sql = format!("SELECT k FROM t WHERE k >= 900 AND id % 3 = 0 ORDER BY k{direction}");
        let explained = session.explain(&sql).await.unwrap();
        assert!(!explained.contains("SortExec"), "{explained}");
        session.set("coscan.index_cache", "0").unwrap();
        let alone = rows_in_order(&session, &sql).await;
        session.set("coscan.index_cache", "64MiB").unwrap();
        assert!(rows_in_order(&session, &sql).await == alone, "{direction}");
        assert!(alone.len() > 1_000, "{}", alone.len());
    }
}

/// The index names all rows of a page shortly after each other, more than a job of single rows has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_pages_are_on_their_way_even_if_each_has_many_rows() {
    let config = EngineConfig {
        latency: Duration::from_millis(50),
        ..config()
    };
    let (_folder, session) = table(true, config).await;
    session.set("coscan.access_path", "index").unwrap();
    session.set("coscan.index_cache", "64MiB").unwrap();
    let memory = session.engine().memory();
    let mut most = 0;
    let found = tokio::select! {
        found = rows(&session, "SELECT * FROM t WHERE k < 500") => found,
        () = async {
            loop {
                most = most.max(memory.page_bytes());
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        } => unreachable!("the loop does not end"),
    };
    assert!(found.len() > ROWS / 3, "{}", found.len());
    // A page of a column is at least a sector. Jobs of 16 rows would have at most three pages.
    assert!(most >= 32 * COLUMNS * 4096, "{most}");
}
