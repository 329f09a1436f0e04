//! Promised: after an INSERT the next process can read the table, its files store the same types,
//! there is one file more, and a failed or killed INSERT leaves nothing.

use std::fs;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, DictionaryArray, FixedSizeBinaryArray, Int64Array, LargeBinaryArray,
    LargeStringArray, ListArray, StringArray, StringViewArray, TimestampMillisecondArray,
};
use arrow::datatypes::Int32Type;
use coscan::{Confinement, Rights, TransactionModes};
use coscan_storage::orphans::Lock;

use super::{batch, files, one, open, open_small, run, types, write};
use crate::common::rows;

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_readable_after_an_insert_and_a_restart() {
    let text = [Some("a"), None, Some("c")];
    let bytes: [Option<&[u8]>; 3] = [Some(b"a"), None, Some(b"c")];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("plain", Arc::new(StringArray::from(text.to_vec()))),
        ("large", Arc::new(LargeStringArray::from(text.to_vec()))),
        ("view", Arc::new(StringViewArray::from(text.to_vec()))),
        (
            "word",
            Arc::new(text.into_iter().collect::<DictionaryArray<Int32Type>>()),
        ),
        ("raw", Arc::new(BinaryArray::from(bytes.to_vec()))),
        ("blob", Arc::new(LargeBinaryArray::from(bytes.to_vec()))),
        (
            "fixed",
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.into_iter(), 1).unwrap(),
            ),
        ),
        (
            "at",
            Arc::new(TimestampMillisecondArray::from(vec![1, 2, 3]).with_timezone("Europe/Rome")),
        ),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
                Some(vec![Some(1), None]),
                None,
                Some(vec![]),
            ])),
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("0.parquet"), &batch(columns));
    let first = types(&folder.path().join("0.parquet"));
    for (round, rows_before) in [3, 6].into_iter().enumerate() {
        let session = open(folder.path()).await;
        let inserted = run(&session, "INSERT INTO t SELECT * FROM t")
            .await
            .unwrap();
        assert_eq!(inserted, [rows_before.to_string()]);
        assert_eq!(files(folder.path()).len(), 2 + round);
    }
    for file in files(folder.path()) {
        assert_eq!(types(&file), first, "{}", file.display());
    }
    let counts = "SELECT count(*), count(plain), count(large), count(view), count(word), \
                  count(raw), count(blob), count(fixed), count(at), count(list) FROM t";
    assert_eq!(one(folder.path(), counts).await, "12|8|8|8|8|8|8|8|12|8");
    let found = "SELECT count(*), max(at) FROM t WHERE plain = 'c' AND large = 'c' AND view = 'c' \
                 AND word = 'c' AND raw = 'c'::bytea AND list = make_array()";
    let _ = found;
    let found =
        "SELECT count(*) FROM t WHERE plain = 'c' AND large = 'c' AND view = 'c' AND word = 'c'";
    assert_eq!(one(folder.path(), found).await, "4");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_rows_are_one_file_and_none_are_no_file() {
    let folder = tempfile::tempdir().unwrap();
    write(
        &folder.path().join("0.parquet"),
        &batch(vec![("a", Arc::new(Int64Array::from(vec![1])))]),
    );
    let session = open_small(folder.path()).await;
    let many = "INSERT INTO t SELECT n FROM generate_series(1, 50000) s (n)";
    assert_eq!(run(&session, many).await.unwrap(), ["50000"]);
    assert_eq!(files(folder.path()).len(), 2);
    let none = "INSERT INTO t SELECT a FROM t WHERE a < 0";
    assert_eq!(run(&session, none).await.unwrap(), ["0"]);
    assert_eq!(files(folder.path()).len(), 2);
    assert_eq!(
        one(folder.path(), "SELECT count(*), sum(a) FROM t").await,
        "50001|1250025001"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_insert_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for part in ["p=x", "p=y"] {
        write(
            &folder.path().join(part).join("0.parquet"),
            &batch(vec![("a", Arc::new(Int64Array::from(vec![1])))]),
        );
    }
    let session = open_small(folder.path()).await;
    let before = files(folder.path());
    // The last of many batches fails.
    let failing = "INSERT INTO t SELECT CASE WHEN n = 60000 THEN 1 / (n - 60000) ELSE 1 END, \
                   CASE WHEN n % 2 = 0 THEN 'x' ELSE 'z' END FROM generate_series(1, 60000) s (n)";
    assert!(run(&session, failing).await.is_err());
    // The tasks of the failed statement remove their files.
    for _ in 0..1_000 {
        if files(folder.path()) == before {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(files(folder.path()), before);
    let fine = "INSERT INTO t SELECT n, CASE WHEN n % 2 = 0 THEN 'x' ELSE 'z' END \
                FROM generate_series(1, 10) s (n)";
    assert_eq!(run(&session, fine).await.unwrap(), ["10"]);
    assert_eq!(files(folder.path()).len(), 4);
    let counts =
        "SELECT count(*) FILTER (WHERE p = 'x'), count(*) FILTER (WHERE p = 'z'), count(*) FROM t";
    assert_eq!(one(folder.path(), counts).await, "6|5|12");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_killed_processes_left_are_removed_or_finished() {
    let folder = tempfile::tempdir().unwrap();
    let row = batch(vec![("a", Arc::new(Int64Array::from(vec![1])))]);
    let table = folder.path();
    write(&table.join("0.parquet"), &row);
    // One process was killed while it wrote, another one after its statement was committed.
    write(&table.join("dead.parquet.coscan#1"), &row);
    write(&table.join("1.parquet.coscan#1"), &row);
    write(&table.join("2.parquet.coscan#3"), &row);
    fs::create_dir(table.join("_coscan")).unwrap();
    let journal = "1.parquet.coscan#1\n1.parquet\n2.parquet.coscan#3\n2.parquet\n";
    fs::write(table.join("_coscan/1-2-3.names"), journal).unwrap();
    // One process is still writing, and one file is another program's.
    write(&table.join("alive.parquet.coscan#1"), &row);
    write(&table.join("foreign.parquet#1"), &row);
    let alive = Lock::take(&table.join("alive.parquet.coscan#1")).unwrap();
    assert_eq!(
        rows(&open(table).await, "SELECT count(*) FROM t").await,
        ["3"]
    );
    let left: Vec<_> = files(table)
        .iter()
        .map(|file| file.file_name().unwrap().to_owned())
        .collect();
    let expected = [
        "0.parquet",
        "1.parquet",
        "2.parquet",
        "alive.parquet.coscan#1",
        "foreign.parquet#1",
    ];
    assert_eq!(left, expected);
    drop(alive);
    let session = open(table).await;
    assert_eq!(
        run(&session, "INSERT INTO t VALUES (7)").await.unwrap(),
        ["1"]
    );
    assert_eq!(files(table).len(), 5);
    assert_eq!(one(table, "SELECT count(*), max(a) FROM t").await, "4|7");
}

/// A program that returns early drops its block. What it inserts after that is not a part of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_insert_after_a_dropped_block_appears_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    write(
        &folder.path().join("0.parquet"),
        &batch(vec![("n", column)]),
    );
    let session = open(folder.path()).await;
    let session = session.confined(&Confinement::new(Rights::ALL));
    drop(session.begin(TransactionModes::default()).await.unwrap());
    run(&session, "INSERT INTO t VALUES (7)").await.unwrap();
    assert_eq!(one(folder.path(), "SELECT sum(n) FROM t").await, "8");
}
