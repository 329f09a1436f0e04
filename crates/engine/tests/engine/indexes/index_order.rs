//! Promised: ORDER BY the indexed column, ascending or descending, needs no sort, whatever the
//! memory, and returns plain DataFusion's rows in their order; rows with the same key may come in
//! any order. With a LIMIT little is read.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Int32Array, Int64Array, RecordBatch, StringArray};
use parquet::file::properties::WriterProperties;

use super::index_scans::run;
use crate::common::{self, plain, plain_rows_in_order, rows_in_order};

const ROWS: i32 = 20_000;
const PAGE_ROWS: usize = 64;

/// Each key occurs about five times, anywhere in the table; the last key's rows are far apart.
fn write(path: &Path) {
    let keys = || (0..ROWS).map(|n| n * 7919 % 4_001);
    let batch = RecordBatch::try_from_iter_with_nullable([
        (
            "k",
            Arc::new(Int32Array::from_iter_values(keys())) as _,
            true,
        ),
        (
            "s",
            Arc::new(StringArray::from_iter_values(
                keys().map(|k| format!("{k:05}")),
            )) as _,
            true,
        ),
        (
            "id",
            Arc::new(Int64Array::from_iter_values(0..i64::from(ROWS))) as _,
            true,
        ),
    ]);
    let batch = batch.unwrap();
    let properties = WriterProperties::builder()
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(PAGE_ROWS)
        .build();
    common::write_with(path, batch.schema(), &[batch], properties);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_in_the_order_of_the_key_without_a_sort() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("0.parquet"));
    let path = folder.path().join("");
    let session = common::session(common::config(), &[("t", &path)]).await;
    let plain = plain(&[("t", &path)]).await;
    for column in ["k", "s"] {
        run(
            &session,
            &format!("CREATE INDEX i_{column} ON t ({column})"),
        )
        .await
        .unwrap();
    }
    let first = |rows: &[String]| -> Vec<String> {
        let key = |row: &String| row.split('|').next().unwrap().to_owned();
        rows.iter().map(key).collect()
    };
    for (column, condition) in [
        ("k", "k BETWEEN 40 AND 60"),
        ("k", "k >= 3 AND id % 7 <> 2"),
        ("s", "s LIKE '011%'"),
        ("s", "s < '03000'"),
    ] {
        for direction in ["", " DESC", " DESC NULLS LAST"] {
            let sql = format!(
                "SELECT {column}, id FROM t WHERE {condition} ORDER BY {column}{direction}"
            );
            let expected = plain_rows_in_order(&plain, &sql).await;
            let mut sorted = expected.clone();
            sorted.sort_unstable();
            for (path, cache) in [
                ("index", "unlimited"),
                ("smooth", "unlimited"),
                ("smooth", "100KiB"),
            ] {
                session.set("coscan.access_path", path).unwrap();
                session.set("coscan.smooth_cache", cache).unwrap();
                let explained = session.explain(&sql).await.unwrap();
                let descending = explained.contains(", ordered descending");
                assert!(
                    !explained.contains("SortExec") && explained.contains(", ordered"),
                    "{explained}"
                );
                assert_eq!(descending, direction.contains("DESC"), "{explained}");
                let mut found = rows_in_order(&session, &sql).await;
                assert_eq!(first(&found), first(&expected), "{path}, {cache}: {sql}");
                found.sort_unstable();
                assert_eq!(found, sorted, "{path}, {cache}: {sql}");
                let few = rows_in_order(&session, &format!("{sql} LIMIT 7")).await;
                assert_eq!(first(&few), first(&expected[..7]), "{path}, {cache}: {sql}");
                assert!(few.iter().all(|row| sorted.binary_search(row).is_ok()));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_join_needs_no_sort() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("0.parquet"));
    let path = folder.path().join("");
    let session = common::session(common::config(), &[("t", &path)]).await;
    let plain = plain(&[("t", &path)]).await;
    run(&session, "CREATE INDEX i ON t (k)").await.unwrap();
    run(
        &session,
        "SET datafusion.optimizer.prefer_hash_join = false",
    )
    .await
    .unwrap();
    let (a, b) = ("a.k BETWEEN 40 AND 2000", "b.k BETWEEN 90 AND 3000");
    for (sql, sorts) in [
        (
            format!("SELECT a.k, a.id, b.id FROM t a JOIN t b ON a.k = b.k WHERE {a} AND {b}"),
            0,
        ),
        // The key of the other side is an expression, not a column.
        (
            format!(
                "SELECT a.k, a.id, b.id FROM t a JOIN t b ON a.k = CAST(b.id AS INT) WHERE {a} AND {b}"
            ),
            1,
        ),
    ] {
        let explained = session.explain(&sql).await.unwrap();
        assert!(explained.contains("SortMergeJoin"), "{explained}");
        assert_eq!(explained.matches("SortExec").count(), sorts, "{explained}");
        let found = common::rows(&session, &sql).await;
        assert!(found.len() > 1_000, "{} rows", found.len());
        assert!(found == common::plain_rows(&plain, &sql).await, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_rows_cost_no_more_than_the_first() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("0.parquet"));
    let path = folder.path().join("");
    let session = common::session(common::config(), &[("t", &path)]).await;
    run(&session, "CREATE INDEX i ON t (k)").await.unwrap();
    session.set("coscan.access_path", "index").unwrap();
    let leaf_rows = 4096;
    for direction in ["ASC", "DESC"] {
        let before = session.engine().metrics().pages_read;
        let sql = format!("SELECT k, id FROM t WHERE k >= 0 ORDER BY k {direction} LIMIT 3");
        assert_eq!(rows_in_order(&session, &sql).await.len(), 3);
        let read = session.engine().metrics().pages_read - before;
        // All rows of a leaf are found before the first is returned, 16 rows at a time, and some
        // rows beyond the leaf.
        assert!((1..2 * leaf_rows).contains(&read), "{direction}: {read}");
    }
}
