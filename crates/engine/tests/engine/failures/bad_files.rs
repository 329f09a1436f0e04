//! Promised: a file that is missing, not Parquet, truncated, damaged or replaced gives an error
//! that names it (and the row group and column, if there is one), and fails no query that does not
//! need it.

use crate::common;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::common::{collect, config, rows, session};
use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field};
use coscan::{EngineConfig, Session, StorageError, storage_error};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};

fn write(path: &Path, from: i64) {
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("s", DataType::Utf8, false),
    ]);
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from_iter_values(from..from + 10_000)),
            Arc::new(StringArray::from_iter_values(
                (from..from + 10_000).map(|k| format!("value {}", k * 7919 % 10_007)),
            )),
        ],
    )
    .expect("a batch");
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(2000))
        .set_dictionary_enabled(false)
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    common::write_with(path, schema, &[batch], properties);
}

/// Damages the page of column s in row group 3.
fn damage(path: &Path) {
    let reader =
        SerializedFileReader::new(fs::File::open(path).expect("opened")).expect("a footer");
    let (start, length) = reader.metadata().row_group(3).column(1).byte_range();
    let mut bytes = fs::read(path).expect("read");
    let middle = usize::try_from(start + length / 2).expect("small");
    bytes[middle..middle + 64]
        .iter_mut()
        .for_each(|byte| *byte ^= 0xff);
    fs::write(path, bytes).expect("written");
}

/// An engine that leaves tables of this size to DataFusion's reader.
fn small_tables() -> EngineConfig {
    EngineConfig {
        small_table_bytes: EngineConfig::default().small_table_bytes,
        ..config()
    }
}

async fn failure(session: &Session, sql: &str) -> datafusion::error::DataFusionError {
    match session.sql(sql).await {
        Ok(stream) => collect(stream).await.expect_err(sql),
        Err(coscan::Error::Query(error)) => error,
        Err(other) => panic!("{sql}: {other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registering_a_missing_or_foreign_file_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = session(config(), &[]).await;
    let cases = [
        ("missing.parquet", None),
        ("text.parquet", Some("not Parquet, I am afraid".as_bytes())),
        ("empty.parquet", Some(&[][..])),
    ];
    for (name, bytes) in cases {
        let path = folder.path().join(name);
        if let Some(bytes) = bytes {
            fs::write(&path, bytes).expect("written");
        }
        let error = session
            .register("t", path.to_str().expect("UTF-8"))
            .await
            .expect_err(name);
        assert!(error.to_string().contains(name), "{error}");
    }
    let error = session
        .register(
            "t",
            folder
                .path()
                .join("none/*.parquet")
                .to_str()
                .expect("UTF-8"),
        )
        .await;
    assert!(
        error
            .expect_err("nothing there")
            .to_string()
            .contains("none/*.parquet")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_footer_names_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cut.parquet");
    write(&path, 0);
    let bytes = fs::read(&path).expect("read");
    fs::write(&path, &bytes[..bytes.len() - 100]).expect("written");
    let session = session(config(), &[]).await;
    let error = session
        .register("t", path.to_str().expect("UTF-8"))
        .await
        .expect_err("cut");
    assert!(error.to_string().contains("cut.parquet"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_page_fails_only_the_scans_that_need_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("damaged.parquet");
    write(&path, 0);
    damage(&path);
    let session = session(
        EngineConfig {
            chunk_bytes: 4 << 10,
            ..config()
        },
        &[("t", &path)],
    )
    .await;
    // At once: queries that need the page fail, the others are not affected.
    let needs = failure(&session, "SELECT count(*) FROM t WHERE s LIKE '%7%'");
    let (error, keys, others) = tokio::join!(
        needs,
        rows(&session, "SELECT count(*), sum(k) FROM t WHERE k % 3 > 0"),
        rows(
            &session,
            "SELECT count(s) FROM t WHERE k < 5999 AND s LIKE 'value%'"
        ),
    );
    assert_eq!(keys, ["6666|33326667"]);
    assert_eq!(others, ["5999"]);
    let text = error.to_string();
    assert!(
        text.contains("damaged.parquet")
            && text.contains("row group 3")
            && text.contains("column s"),
        "{text}"
    );
    assert!(
        matches!(
            storage_error(&error),
            Some(StorageError::BadPage { row_group: 3, .. })
        ),
        "{text}"
    );
    assert_eq!(
        rows(
            &session,
            "SELECT count(*) FROM t WHERE k >= 8000 AND s >= ''"
        )
        .await,
        ["2000"]
    );
    assert_eq!(
        session
            .engine()
            .snapshots()
            .iter()
            .map(|pool| pool.scans.len())
            .sum::<usize>(),
        0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_page_of_a_small_table_is_named_too() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("whole.parquet"), 100_000);
    write(&folder.path().join("damaged.parquet"), 0);
    damage(&folder.path().join("damaged.parquet"));
    let session = session(small_tables(), &[("t", &folder.path().join(""))]).await;
    for sql in [
        "SELECT count(DISTINCT s) FROM t",
        "SELECT k FROM t WHERE s LIKE '%7%'",
        "SELECT s FROM t WHERE k BETWEEN 6500 AND 6600 ORDER BY s",
    ] {
        assert!(!session.explain(sql).await.expect(sql).contains("CScan"));
        let error = failure(&session, sql).await;
        let text = error.to_string();
        assert!(
            text.contains(&format!(
                "{}/damaged.parquet: row group 3, column s:",
                folder.path().display()
            )),
            "{sql}: {text}"
        );
        assert!(
            matches!(
                storage_error(&error),
                Some(StorageError::BadPage { row_group: 3, .. })
            ),
            "{sql}: {text}"
        );
    }
    for (sql, expected) in [
        (
            "SELECT count(*), sum(k) FROM t WHERE k % 3 > 0 AND k < 10000",
            "6666|33326667",
        ),
        (
            "SELECT count(s) FROM t WHERE k < 5999 AND s LIKE 'value%'",
            "5999",
        ),
    ] {
        assert_eq!(rows(&session, sql).await, [expected], "{sql}");
    }
    // An error that is not about a file stays as it is.
    let error = failure(&session, "SELECT 1 / (k - k) FROM t WHERE k < 10").await;
    assert!(storage_error(&error).is_none(), "{error}");
    assert!(error.to_string().contains("division by zero"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_file_of_a_folder_is_named_when_registered_and_when_added() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("a.parquet"), 0);
    let cut = folder.path().join("cut.parquet");
    for config in [config(), small_tables()] {
        write(&cut, 10_000);
        let session = session(config, &[("t", &folder.path().join(""))]).await;
        assert_eq!(rows(&session, "SELECT count(*) FROM t").await, ["20000"]);
        let bytes = fs::read(&cut).expect("read");
        fs::write(&cut, &bytes[..bytes.len() - 100]).expect("written");
        let folder = folder.path().join("");
        let error = session.register("u", folder.to_str().expect("UTF-8")).await;
        let text = error.expect_err("cut").to_string();
        assert!(text.contains(&cut.display().to_string()), "{text}");
        let error = failure(&session, "SELECT max(s) FROM t").await;
        let text = error.to_string();
        assert!(text.contains(&cut.display().to_string()), "{text}");
        assert!(
            matches!(storage_error(&error), Some(StorageError::BadFooter { .. })),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_query_sees_a_replaced_file_and_an_added_one() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("a.parquet"), 0);
    let session = session(config(), &[("t", &folder.path().join(""))]).await;
    let sql = "SELECT count(*), max(k) FROM t WHERE s <> ''";
    assert_eq!(rows(&session, sql).await, ["10000|9999"]);
    write(&folder.path().join("b.parquet"), 50_000);
    assert_eq!(rows(&session, sql).await, ["20000|59999"]);
    write(&folder.path().join("b.parquet"), 90_000);
    assert_eq!(rows(&session, sql).await, ["20000|99999"]);
    fs::remove_file(folder.path().join("b.parquet")).expect("removed");
    assert_eq!(rows(&session, sql).await, ["10000|9999"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_different_schema_are_refused_with_file_and_column_named() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("a.parquet"), 0);
    let schema = common::schema(vec![Field::new("k", DataType::Utf8, false)]);
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![Arc::new(StringArray::from(vec!["x"]))],
    );
    common::write(
        &folder.path().join("b.parquet"),
        schema,
        &[batch.expect("a batch")],
        10,
    );
    let session = session(config(), &[]).await;
    let error = session
        .register("t", folder.path().join("").to_str().expect("UTF-8"))
        .await;
    let text = error.expect_err("two types").to_string();
    let named = format!("{}/b.parquet: ", folder.path().display());
    assert!(text.contains(&named), "{text}");
    assert!(text.contains("column \"k\""), "{text}");
    assert!(text.contains("Utf8"), "{text}");
}
