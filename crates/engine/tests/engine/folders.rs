//! Promised: a folder is a table of its Parquet files, whatever other tools left beside them; one whose files lie further down says so.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use coscan::Session;

use crate::common::{self, config, rows, session};

const ROWS: i64 = 1000;

fn write(path: &Path, from: i64) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let schema = common::schema(vec![Field::new("k", DataType::Int64, false)]);
    let keys = Int64Array::from_iter_values(from..from + ROWS);
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(keys)]);
    common::write(path, schema, &[batch.expect("a batch")], 500);
}

/// What Spark, macOS, people and we leave beside Parquet files. Some come first when files are listed, some end in `.parquet`.
fn litter(folder: &Path) {
    for name in [
        ".part-0.parquet.crc",
        "._part-0.parquet",
        "_SUCCESS",
        "_metadata",
        "_common.parquet",
        "0-read.me",
        "README",
        "notes.csv",
    ] {
        fs::write(folder.join(name), "no Parquet").expect("written");
    }
    fs::write(folder.join("_EMPTY"), "").expect("written");
    fs::create_dir(folder.join("_coscan")).expect("made");
    fs::write(folder.join("_coscan/i.parquet"), "no Parquet").expect("written");
}

async fn register(session: &Session, path: &Path) -> Result<(), String> {
    let done = session.register("t", path.to_str().expect("UTF-8")).await;
    done.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_is_its_parquet_files() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("part-0.parquet"), 0);
    litter(folder.path());
    let session = session(config(), &[("t", folder.path())]).await;
    let sql = "SELECT count(*), max(k) FROM t";
    assert_eq!(rows(&session, sql).await, ["1000|999"]);
    // What is added later is seen, with the same eyes.
    write(&folder.path().join("part-1.parquet"), 5000);
    fs::write(folder.path().join(".part-1.parquet"), "no Parquet").expect("written");
    assert_eq!(rows(&session, sql).await, ["2000|5999"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_of_partitions_is_its_parquet_files() {
    let folder = tempfile::tempdir().expect("a folder");
    for day in 1..=3 {
        let part = folder.path().join(format!("_day={day}"));
        write(&part.join("part-0.parquet"), day * 1000);
        litter(&part);
    }
    litter(folder.path());
    let session = session(config(), &[("t", &folder.path().join(""))]).await;
    let sql = "SELECT _day, count(*) FROM t GROUP BY 1";
    assert_eq!(rows(&session, sql).await, ["1|1000", "2|1000", "3|1000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_without_an_extension_are_parquet() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("000000_0"), 0);
    fs::write(folder.path().join(".000000_0.crc"), "no Parquet").expect("written");
    let session = session(config(), &[("t", folder.path())]).await;
    assert_eq!(rows(&session, "SELECT count(*) FROM t").await, ["1000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_named_is_not_hidden() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("_x.parquet");
    write(&path, 0);
    let session = session(config(), &[("t", &path)]).await;
    assert_eq!(rows(&session, "SELECT count(*) FROM t").await, ["1000"]);
    let glob = folder.path().join("_*.parquet");
    register(&session, &glob).await.expect("registered");
    assert_eq!(rows(&session, "SELECT count(*) FROM t").await, ["1000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_whose_files_lie_further_down_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    litter(folder.path());
    for name in ["README", "notes.csv", "0-read.me"] {
        fs::remove_file(folder.path().join(name)).expect("removed");
    }
    let session = session(config(), &[]).await;
    let text = register(&session, folder.path()).await.expect_err("litter");
    assert!(text.contains("there are no files"), "{text}");
    write(&folder.path().join("2024/a.parquet"), 0);
    let text = register(&session, folder.path()).await.expect_err("below");
    assert!(
        text.contains(&folder.path().display().to_string()) && text.contains("2024/a.parquet"),
        "{text}"
    );
    let below = folder.path().join("2024");
    register(&session, &below).await.expect("registered");
    assert_eq!(rows(&session, "SELECT count(*) FROM t").await, ["1000"]);
}
