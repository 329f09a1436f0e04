//! Promised: the next process that opens a folder removes what a killed process left there, and
//! nothing else: drafts of indexes, found by their lock files, and folders of spilled rows
//! (`coscan-cli`'s tests kill a process). Spilled rows go into the configured folder, and are
//! removed with the engine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use coscan::{Engine, EngineConfig};

use crate::common::{self, config, rows, session};

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A table of keys 0 .. 999, and its folder.
fn table() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let schema = common::schema(vec![Field::new("k", DataType::Int64, false)]);
    let keys = Int64Array::from_iter_values(0..1000);
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(keys)]).unwrap();
    common::write(&folder.path().join("0.parquet"), schema, &[batch], 500);
    let indexes = folder.path().join("_coscan");
    (folder, indexes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drafts_of_dead_builds_are_removed_and_nothing_else() {
    let (folder, indexes) = table();
    let first = session(config(), &[("t", folder.path())]).await;
    rows(&first, "CREATE INDEX i ON t (k)").await;
    let made = names(&indexes);
    assert_eq!(made.len(), 2, "its data and its manifest: {made:?}");
    let data = made
        .iter()
        .find(|name| name.rsplit('.').next() == Some("index"))
        .unwrap();

    let write = |name: &str| fs::write(indexes.join(name), "x").unwrap();
    // A build that was killed while it wrote; one that was killed after its manifest was in place;
    // a running one; and files that no process has locked.
    for name in ["d-1-2.index", "d-1-2.index#1", "d-1-2.index.lock"] {
        write(name);
    }
    write(&format!("{data}.lock"));
    for name in ["l-1-2.index", "l-1-2.index#1", "l-1-2.index.lock"] {
        write(name);
    }
    let held = File::open(indexes.join("l-1-2.index.lock")).unwrap();
    held.lock().unwrap();
    for name in ["old-1-2.index", "note.lock", "d-1-2.index2"] {
        write(name);
    }
    let mut kept = made.clone();
    kept.extend(
        [
            "l-1-2.index",
            "l-1-2.index#1",
            "l-1-2.index.lock",
            "old-1-2.index",
            "note.lock",
            "d-1-2.index2",
        ]
        .map(str::to_owned),
    );
    kept.sort();

    let second = session(config(), &[("t", folder.path())]).await;
    assert_eq!(names(&indexes), kept);
    assert_eq!(
        rows(&second, "SELECT count(*) FROM t WHERE k < 10").await,
        rows(&first, "SELECT 10").await
    );
    drop(held);
    // A manifest that cannot be read may name any file.
    fs::write(indexes.join("x.index.json"), "{").unwrap();
    let _third = session(config(), &[("t", folder.path())]).await;
    assert!(indexes.join("l-1-2.index").exists());
    fs::remove_file(indexes.join("x.index.json")).unwrap();
    let _fourth = session(config(), &[("t", folder.path())]).await;
    assert!(!indexes.join("l-1-2.index").exists());
    assert!(!indexes.join("l-1-2.index#1").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spilled_rows_go_to_the_configured_folder_and_are_removed_with_the_engine() {
    let base = tempfile::tempdir().unwrap();
    let engine = |place: &Path| {
        Engine::new(EngineConfig {
            memory_bytes: Some(24 << 20),
            spill_folder: Some(place.to_owned()),
            ..EngineConfig::default()
        })
    };
    let one = engine(base.path()).unwrap();
    let session = one.session();
    let sql = "SELECT max(s), max(n) FROM (SELECT s, row_number() OVER (ORDER BY s DESC) AS n \
               FROM (SELECT value || ' padded, so that it takes some memory' AS s FROM generate_series(1, 400000) s (value)))";
    let explained = session
        .sql(&format!("EXPLAIN ANALYZE {sql}"))
        .await
        .unwrap();
    let explained = common::collect(explained).await.unwrap().join("\n");
    assert!(explained.contains("spill_count="), "{explained}");
    assert!(
        explained
            .split("spill_count=")
            .skip(1)
            .any(|rest| !rest.starts_with('0')),
        "nothing was spilled: {explained}"
    );
    let made = names(base.path());
    assert!(made.len() == 1 && made[0].starts_with("coscan-spill-"));
    let used = one.runtime().disk_manager.temp_dir_paths();
    assert!(
        used.iter().all(|path| path.starts_with(base.path())),
        "{used:?}"
    );
    // Another engine can use the same place at the same time.
    let two = engine(base.path()).unwrap();
    assert_eq!(names(base.path()).len(), 2);
    drop((session, one));
    // A task of the query may be about to end, and holds the engine until then.
    let begun = Instant::now();
    while names(base.path()).len() != 1 {
        assert!(begun.elapsed() < Duration::from_secs(5), "it stays");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(two);
    assert!(names(base.path()).is_empty());
    assert!(engine(Path::new("/proc/nowhere")).is_err());
}
