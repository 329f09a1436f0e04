//! Promised: folders named `key=value` are columns of the type that all their values have, and
//! Hive's folder for NULL is NULL, in reads and writes.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};

use super::{batch, files, one, open, open_small, run, write};
use crate::common::rows_in_order;

fn part(table: &Path, folder: &str, value: i64) {
    let rows = batch(vec![("v", Arc::new(Int64Array::from(vec![value])))]);
    write(&table.join(folder).join("0.parquet"), &rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_and_dates_are_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    part(table, "p=2/d=2024-01-31/s=01", 1);
    part(table, "p=10/d=2023-12-01/s=1", 2);
    part(table, "p=-3/d=2025-01-01/s=x", 3);
    for (sql, expected) in [
        (
            "SELECT max(p), min(p), max(d), max(s), min(s) FROM t",
            "10|-3|2025-01-01|x|01",
        ),
        ("SELECT v FROM t WHERE p > 2", "2"),
        ("SELECT v FROM t WHERE p = 2 AND s = '01'", "1"),
        ("SELECT sum(p) FROM t", "9"),
        ("SELECT v FROM t WHERE d < date '2024-01-01'", "2"),
        ("SELECT count(*) FROM t WHERE p + v > 3 AND s <> 'x'", "1"),
        ("SELECT v FROM t ORDER BY p DESC LIMIT 1", "2"),
        ("SELECT count(*) FROM (SELECT v FROM t LIMIT 2)", "2"),
    ] {
        assert_eq!(one(table, sql).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_for_null_is_null() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    part(table, "p=7", 1);
    part(table, "p=__HIVE_DEFAULT_PARTITION__", 2);
    for (sql, expected) in [
        ("SELECT v FROM t WHERE p IS NULL", "2"),
        ("SELECT v FROM t WHERE p IS NOT NULL", "1"),
        ("SELECT count(*) FROM t WHERE p <> 5", "1"),
        (
            "SELECT count(p), count(*), max(p), min(p) FROM t",
            "1|2|7|7",
        ),
        ("SELECT v FROM t WHERE coalesce(p, 0) = 0", "2"),
    ] {
        assert_eq!(one(table, sql).await, expected, "{sql}");
    }
    let session = open(table).await;
    let inserted = run(&session, "INSERT INTO t VALUES (3, NULL), (4, 8), (5, 7)").await;
    assert_eq!(inserted.unwrap(), ["3"]);
    assert!(table.join("p=8").is_dir());
    assert_eq!(files(table).len(), 5);
    for session in [open(table).await, open_small(table).await] {
        let found = rows_in_order(&session, "SELECT v, p FROM t ORDER BY v").await;
        assert_eq!(found, ["1|7", "2|NULL", "3|NULL", "4|8", "5|7"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_another_type_makes_the_column_text() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    part(table, "p=7", 1);
    let session = open(table).await;
    part(table, "p=seven", 2);
    let found = rows_in_order(&session, "SELECT v, p FROM t ORDER BY v").await;
    assert_eq!(found, ["1|7", "2|seven"]);
    assert_eq!(one(table, "SELECT max(p) FROM t").await, "seven");
}

/// A list has a key for each of its rows.
#[tokio::test(flavor = "multi_thread")]
async fn texts_of_folders_may_be_listed_for_many_rows() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..66_000));
    write(&table.join("p=x/0.parquet"), &batch(vec![("v", values)]));
    let sql = "SELECT cardinality(array_agg(p ORDER BY v)) FROM t";
    assert_eq!(one(table, sql).await, "66000");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_files_appear_together() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    part(table, "p=0", 0);
    let session = open_small(table).await;
    let reader = open_small(table).await;
    let counting = async {
        let mut seen = Vec::new();
        loop {
            let count = rows_in_order(&session, "SELECT count(*) FROM t").await;
            let count: i64 = count[0].parse().unwrap();
            seen.push(count);
            if count > 5 * 40 {
                return seen;
            }
        }
    };
    let inserting = async {
        for _ in 0..5 {
            let sql = "INSERT INTO t SELECT n, n % 40 FROM generate_series(1, 40) s (n)";
            run(&session, sql).await.unwrap();
        }
    };
    let (seen, ()) = tokio::join!(counting, inserting);
    assert!(seen.iter().all(|count| count % 40 == 1), "{seen:?}");
    drop(reader);
    assert_eq!(one(table, "SELECT count(*) FROM t").await, "201");
}
