//! Promised: a folder is a table of its Parquet files, whatever other tools leave beside them. A
//! folder whose files are in subfolders gives an error that says so. `CREATE EXTERNAL TABLE`
//! follows the same rules, and it too names a file that is not Parquet.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use coscan::Session;
use tempfile::TempDir;

use crate::common::{self, config, rows, session};

const ROWS: i64 = 1000;

fn write(path: &Path, from: i64) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let schema = common::schema(vec![Field::new("k", DataType::Int64, false)]);
    let keys = Int64Array::from_iter_values(from..from + ROWS);
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(keys)]);
    common::write(path, schema, &[batch.expect("a batch")], 500);
}

/// Files that Spark, macOS, users and Coscan leave beside Parquet files. Some come first in a
/// listing, some end in `.parquet`.
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

/// A folder of three partitions by `_day`, each with one file.
fn partitions() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for day in 1..=3 {
        let part = folder.path().join(format!("_day={day}"));
        write(&part.join("part-0.parquet"), day * 1000);
        litter(&part);
    }
    litter(folder.path());
    folder
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
    // A file that is added later is seen, under the same rules.
    write(&folder.path().join("part-1.parquet"), 5000);
    fs::write(folder.path().join(".part-1.parquet"), "no Parquet").expect("written");
    assert_eq!(rows(&session, sql).await, ["2000|5999"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_of_partitions_is_its_parquet_files() {
    let folder = partitions();
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
async fn the_error_for_a_folder_without_files_names_its_subfolders() {
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

/// Declares a table of a folder, with some columns or none.
async fn declare(session: &Session, columns: &str, folder: &Path) -> Result<(), String> {
    let place = folder.display();
    let sql = format!("CREATE EXTERNAL TABLE t {columns} STORED AS PARQUET LOCATION '{place}/'");
    let done = match session.sql(&sql).await {
        Ok(stream) => common::collect(stream).await,
        Err(error) => return Err(error.to_string()),
    };
    done.map(drop).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declared_folder_is_its_parquet_files() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("part-0.parquet"), 0);
    litter(folder.path());
    for columns in ["", "(k BIGINT NOT NULL)"] {
        let session = session(config(), &[]).await;
        let declared = declare(&session, columns, folder.path()).await;
        declared.unwrap_or_else(|error| panic!("{columns}: {error}"));
        let sql = "SELECT count(*), max(k) FROM t";
        assert_eq!(rows(&session, sql).await, ["1000|999"], "{columns}");
        // A file that is added later is seen, under the same rules.
        let (later, hidden) = ("part-1.parquet", ".part-1.parquet");
        write(&folder.path().join(later), 5000);
        fs::write(folder.path().join(hidden), "no Parquet").expect("written");
        assert_eq!(rows(&session, sql).await, ["2000|5999"], "{columns}");
        for name in [later, hidden] {
            fs::remove_file(folder.path().join(name)).expect("removed");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declared_folder_of_partitions_is_its_parquet_files() {
    let folder = partitions();
    let session = session(config(), &[]).await;
    let declared = declare(&session, "", folder.path()).await;
    declared.expect("declared");
    let sql = "SELECT _day, count(*) FROM t GROUP BY 1";
    assert_eq!(rows(&session, sql).await, ["1|1000", "2|1000", "3|1000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_may_be_declared_before_it_has_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = session(config(), &[]).await;
    let declared = declare(&session, "(k BIGINT)", folder.path()).await;
    declared.expect("declared");
    let sql = "SELECT count(*), max(k) FROM t";
    assert_eq!(rows(&session, sql).await, ["0|NULL"]);
    rows(&session, "INSERT INTO t VALUES (1), (7)").await;
    assert_eq!(rows(&session, sql).await, ["2|7"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_not_parquet_in_a_declared_folder_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("a.parquet"), 0);
    fs::write(folder.path().join("b.parquet"), "no Parquet at all").expect("written");
    let session = session(config(), &[]).await;
    let error = declare(&session, "", folder.path()).await;
    let error = error.expect_err("no Parquet");
    let name = folder.path().join("b.parquet").display().to_string();
    assert!(error.contains(&name), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_folders_are_integers_where_all_are() {
    let folder = tempfile::tempdir().expect("a folder");
    for (place, values) in [
        ("a", &["2", "10"][..]),
        ("b", &["3", "x"]),
        ("c", &["01", "10"]),
    ] {
        for value in values {
            let part = folder.path().join(place).join(format!("p={value}"));
            write(&part.join("0.parquet"), 0);
        }
    }
    let at = |places: &[&str]| {
        let paths = places
            .iter()
            .map(|place| folder.path().join(place).join(""));
        let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        paths.join(",")
    };
    let session = coscan::Engine::new(common::config()).unwrap().session();
    for (name, places) in [
        ("a", &["a"][..]),
        ("b", &["b"]),
        ("c", &["c"]),
        ("ab", &["a", "b"]),
    ] {
        session.register(name, &at(places)).await.unwrap();
    }
    for (sql, expected) in [
        ("SELECT max(p), min(p), sum(p) > 0 FROM a", "10|2|true"),
        ("SELECT count(*) > 0 FROM a WHERE p > 9", "true"),
        ("SELECT count(DISTINCT p) FROM a WHERE p = 10", "1"),
        ("SELECT max(p) FROM b", "x"),
        ("SELECT min(p) FROM c", "01"),
        ("SELECT max(p), count(DISTINCT p) FROM ab", "x|4"),
    ] {
        assert_eq!(rows(&session, sql).await, [expected], "{sql}");
    }
}
