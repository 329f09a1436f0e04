//! Promised: if few rows of a chunk pass the predicate, a query that runs alone decodes the other
//! columns only at these rows, and EXPLAIN ANALYZE shows at how many; if no row passes, it does
//! not decode them at all. The rows are plain DataFusion's, in its order if there is one.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, SchemaRef};
use coscan::{EngineConfig, Session};
use parquet::file::properties::WriterProperties;

use crate::common::{self, config, plain, plain_rows, plain_rows_in_order, rows, rows_in_order};

const ROWS: i64 = 60_000;
const GROUP_ROWS: usize = 20_000;

/// Writes texts that begin with a dictionary.
fn write(path: &Path) {
    let (schema, batch) = table();
    common::write(path, schema, &[batch], GROUP_ROWS);
}

/// Like [`write`], but without a dictionary, which is decoded as a whole even for a single row.
fn write_plain(path: &Path) {
    let (schema, batch) = table();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(GROUP_ROWS / 4)
        .set_write_batch_size(256)
        .set_dictionary_enabled(false)
        .build();
    common::write_with(path, schema, &[batch], properties);
}

/// `k` is every number below [`ROWS`] once, scattered; `name` and `note` are wide, `x` has nulls.
fn table() -> (SchemaRef, RecordBatch) {
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("x", DataType::Int64, true),
        Field::new("name", DataType::Utf8, false),
        Field::new("note", DataType::Utf8, true),
    ]);
    let name = |k: i64| format!("{k} has a name of some length, {}", k * 7919);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(
            (0..ROWS).map(|row| row * 7919 % ROWS),
        )),
        Arc::new(Int64Array::from_iter(
            (0..ROWS).map(|row| (row % 3 != 0).then_some(row)),
        )),
        Arc::new(StringArray::from_iter_values((0..ROWS).map(name))),
        Arc::new(StringArray::from_iter(
            (0..ROWS).map(|row| (row % 5 != 0).then(|| name(-row))),
        )),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
    (schema, batch)
}

/// A session whose chunks are some pages of a row group, or all row groups in one. Batches are so
/// small that few rows touch few of them.
async fn session(path: &Path, chunk_bytes: u64) -> Session {
    let config = EngineConfig {
        chunk_bytes,
        ..config()
    };
    let session = common::session(config, &[("t", path)]).await;
    rows(&session, "SET datafusion.execution.batch_size = 256").await;
    session
}

const PARTS: u64 = 16 << 10;
const JOINED: u64 = 64 << 20;

/// The bytes that a query decodes when it is alone on its engine.
async fn decoded(path: &Path, sql: &str) -> u64 {
    let session = session(path, JOINED).await;
    rows(&session, sql).await;
    session.engine().metrics().decode_bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_rows_cost_little_decode() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    write_plain(&path);
    let predicate = decoded(&path, "SELECT count(*) FROM t WHERE k % 9973 = 5").await;
    let everything = decoded(&path, "SELECT k, x, name, note FROM t").await;
    let few = decoded(&path, "SELECT x, name, note FROM t WHERE k % 9973 = 5").await;
    let none = decoded(&path, "SELECT x, name, note FROM t WHERE k % 99991 = 60001").await;
    assert_eq!(none, predicate);
    let (few, everything) = (few - predicate, everything - predicate);
    assert!(few > 0 && few * 5 < everything, "{few} of {everything}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_shows_how_many_rows_were_picked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    write(&path);
    for (predicate, picked) in [
        ("k % 9973 = 5", 7),
        ("k % 99991 = 60001", 0),
        // Too many rows: whole batches are decoded.
        ("k % 10 = 5", 0),
    ] {
        let sql = format!("EXPLAIN ANALYZE SELECT name FROM t WHERE {predicate}");
        let session = session(&path, JOINED).await;
        let shown = rows_in_order(&session, &sql).await.concat();
        let expected = format!("rows_picked={picked}");
        assert!(shown.contains(&expected), "{predicate}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_plain_datafusions() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    write(&path);
    let theirs = plain(&[("t", &path)]).await;
    for chunk_bytes in [PARTS, JOINED] {
        for sql in [
            "SELECT * FROM t WHERE k = 77",
            // About the largest share of rows that counts as few.
            "SELECT * FROM t WHERE k % 64 = 5",
            "SELECT * FROM t WHERE k % 60 = 5",
            "SELECT name, k + x FROM t WHERE k % 1000 < 2 AND x > 100",
            // Few rows in the first batches of a chunk and many in a later one, and the reverse.
            "SELECT note, x FROM t WHERE k % 500 = 3 OR x BETWEEN 15000 AND 27000",
            "SELECT note, k FROM t WHERE (x < 9000 OR x > 19000) AND (x < 30000 OR k % 500 = 3)",
            // One run of rows that crosses batches.
            "SELECT name FROM t WHERE x BETWEEN 8100 AND 8300",
            // A conjunct that fails on rows that another one excludes; an output column that the
            // conjuncts read, too; a query whose conjuncts read all of its columns.
            "SELECT name FROM t WHERE k > 59000 AND 100 / (k - 77) >= 0 AND x % 7 = 1",
            "SELECT name, note FROM t WHERE name LIKE '%77 has%' AND note IS NOT NULL",
            "SELECT name FROM t WHERE name LIKE '%777 has%'",
            "SELECT max(note), count(*) FROM t WHERE k < 20",
            "SELECT a.name FROM t a JOIN t b ON a.k = b.x WHERE b.k % 3000 = 1",
        ] {
            let ours = rows(&session(&path, chunk_bytes).await, sql).await;
            assert!(!ours.is_empty(), "{sql}");
            assert_eq!(ours, plain_rows(&theirs, sql).await, "{sql}");
        }
        for sql in [
            "SELECT name, k FROM t WHERE k % 1000 = 3 ORDER BY k DESC",
            "SELECT name, x FROM t WHERE k % 300 = 3 ORDER BY x, k LIMIT 20",
        ] {
            let ours = rows_in_order(&session(&path, chunk_bytes).await, sql).await;
            assert_eq!(ours, plain_rows_in_order(&theirs, sql).await, "{sql}");
        }
        let limited = rows(
            &session(&path, chunk_bytes).await,
            "SELECT name FROM t WHERE k % 700 = 3 LIMIT 9",
        )
        .await;
        let all = plain_rows(&theirs, "SELECT name FROM t WHERE k % 700 = 3").await;
        assert_eq!(limited.len(), 9);
        assert!(limited.iter().all(|row| all.binary_search(row).is_ok()));
    }
}
