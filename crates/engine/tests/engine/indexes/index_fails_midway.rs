//! Promised: an index that fails after it has returned rows costs only time, whatever the access
//! path: each row is returned once, in order if the query needs one.

use std::fs;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use coscan::EngineConfig;
use futures::TryStreamExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

use super::index_scans::{Layout, PATHS, batch, run, write};
use crate::common::{self, plain, plain_rows, rows, rows_in_order};

/// A table whose index on k has ten leaves, and the index's data file.
async fn table() -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    fs::create_dir(&path).unwrap();
    let mut random = StdRng::seed_from_u64(40);
    for (number, layout) in [Layout::Aligned, Layout::Ragged].into_iter().enumerate() {
        let rows = batch(&mut random, number as i64 * 20_000, 20_000, false);
        write(&path.join(format!("{number}.parquet")), &[rows], layout);
    }
    let path = path.join("");
    let session = common::session(common::config(), &[("t", &path)]).await;
    run(&session, "CREATE INDEX i ON t (k)").await.unwrap();
    let data = fs::read_dir(path.join("_coscan")).unwrap();
    let mut data = data.map(|entry| entry.unwrap().path());
    let data = data.find(|file| file.extension().is_some_and(|e| e == "index"));
    (folder, path, data.unwrap())
}

/// Settings under which rows are first fetched one by one, or never.
const WAYS: [&[(&str, &str)]; 7] = [
    &[("access_path", "index")],
    &[("access_path", "sort")],
    &[("access_path", "switch"), ("smooth_estimate", "3000")],
    &[("access_path", "switch"), ("smooth_estimate", "100000")],
    &[("access_path", "smooth")],
    &[
        ("access_path", "smooth"),
        ("smooth_trigger", "optimizer"),
        ("smooth_estimate", "3000"),
    ],
    &[
        ("access_path", "smooth"),
        ("smooth_trigger", "optimizer"),
        ("smooth_estimate", "100000"),
    ],
];

#[tokio::test(flavor = "multi_thread")]
async fn a_later_leaf_is_damaged() {
    let (_folder, path, data) = table().await;
    let plain = plain(&[("t", &path)]).await;
    let sql = "SELECT k, id, s FROM t WHERE k >= 0 AND k < 400";
    let expected = plain_rows(&plain, sql).await;
    let good = fs::read(&data).unwrap();
    let mut random = StdRng::seed_from_u64(41);
    let mut broke = 0;
    // The damage is in the second to the fourth of ten leaves; the footer follows all leaves.
    for round in 0..6 {
        let mut bad = good.clone();
        let at = good.len() * (12 + 5 * round) / 100 + random.random_range(0..100);
        bad[at] ^= 1;
        fs::write(&data, &bad).unwrap();
        for way in WAYS {
            let session = session(&path, way).await;
            let found = rows(&session, sql).await;
            let context = format!("round {round}, {way:?}");
            assert_eq!(found.len(), expected.len(), "{context}");
            assert_eq!(found, expected, "{context}");
            let state = rows(&session, "SELECT state FROM coscan.indexes").await;
            broke += usize::from(state[0].starts_with("broken"));

            let session = self::session(&path, way).await;
            let ordered = format!("{sql} ORDER BY k");
            let found = rows_in_order(&session, &ordered).await;
            let key = |row: &String| row.split('|').next().unwrap().parse::<i32>().unwrap();
            assert!(found.iter().is_sorted_by_key(key), "{context}");
            let mut found = found;
            found.sort_unstable();
            assert_eq!(found, expected, "{context}, ordered");
        }
    }
    assert!(
        broke >= 6 * WAYS.len() - 6,
        "the index failed {broke} times"
    );
}

async fn session(path: &Path, way: &[(&str, &str)]) -> coscan::Session {
    let session = common::session(config(), &[("t", path)]).await;
    for (name, value) in way {
        session.set(&format!("coscan.{name}"), value).unwrap();
    }
    session
}

fn config() -> EngineConfig {
    EngineConfig {
        chunk_bytes: 64 << 10,
        ..common::config()
    }
}

/// While a query reads the index, the index is truncated or replaced.
#[tokio::test(flavor = "multi_thread")]
async fn the_index_changes_under_a_query() {
    let sql = "SELECT k, id FROM t WHERE k >= 0";
    for change in ["cut", "DROP INDEX i", "REFRESH INDEX i"] {
        for access_path in PATHS {
            let (_folder, path, data) = table().await;
            let expected = plain_rows(&plain(&[("t", &path)]).await, sql).await;
            let session = session(&path, &[("access_path", access_path)]).await;
            session
                .set("datafusion.execution.target_partitions", "1")
                .unwrap();
            session
                .set("datafusion.execution.batch_size", "512")
                .unwrap();
            let mut stream = session.sql(sql).await.unwrap();
            let first = stream.try_next().await.unwrap().unwrap();
            if change == "cut" {
                let file = fs::OpenOptions::new().write(true).open(&data).unwrap();
                file.set_len(100).unwrap();
            } else {
                let other = common::session(common::config(), &[("t", &path)]).await;
                run(&other, change).await.unwrap();
            }
            let mut batches: Vec<RecordBatch> = stream.try_collect().await.unwrap();
            batches.push(first);
            let mut found: Vec<String> = batches.iter().flat_map(common::texts).collect();
            found.sort_unstable();
            assert_eq!(found.len(), expected.len(), "{change}, {access_path}");
            assert_eq!(found, expected, "{change}, {access_path}");
        }
    }
}
