//! Promised: a file that is overwritten in the middle of a scan makes only those queries fail that
//! still need it, with an error that names it. A file that is replaced by a rename, so that the
//! old file can still be read, returns all rows of the planned version. Queries that need other
//! files of the table are not affected, and the next query sees the new version.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use coscan::{Engine, EngineConfig, Policy, Session, StorageError, StorageModel, storage_error};
use futures::StreamExt;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use url::Url;

use crate::common::{self, collect, config, rows};

const ROWS: i64 = 10_000;

fn write(path: &Path, from: i64) {
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("x", DataType::Int64, false),
    ]);
    let keys = || from..from + ROWS;
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from_iter_values(keys())),
            Arc::new(Int64Array::from_iter_values(
                keys().map(|k| k.wrapping_mul(0x5851_f42d_4c95_7f2d)),
            )),
        ],
    );
    common::write(path, schema, &[batch.expect("a batch")], 500);
}

/// An engine that leaves tables of this size to DataFusion's reader, which reads a row group only
/// when it needs it.
fn small_tables() -> EngineConfig {
    EngineConfig {
        small_table_bytes: EngineConfig::default().small_table_bytes,
        target_partitions: Some(1),
        batch_rows: 512,
        ..config()
    }
}

/// Reads a small table, one file of which is replaced after the first rows.
async fn small_and_replaced(session: &Session, name: &str, replace: impl AsyncFnOnce()) {
    let sql = "SELECT k, x FROM t";
    assert!(
        !session
            .explain(sql)
            .await
            .expect("a plan")
            .contains("CScan")
    );
    let mut hit = session.sql(sql).await.expect("planned");
    hit.next().await.expect("rows").expect("no error yet");
    replace().await;
    let error = loop {
        match hit.next().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error,
            None => panic!("rows of a file that is gone"),
        }
    };
    assert!(
        matches!(storage_error(&error), Some(StorageError::Replaced { file }) if file == name),
        "{error}"
    );
    assert_eq!(
        rows(session, "SELECT count(*), min(k), count(x) FROM t").await,
        [format!("{ROWS}|2000000|{ROWS}")]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_in_the_middle_of_a_small_file_that_is_replaced_fails() {
    let aside = tempfile::tempdir().expect("a folder");
    let new = aside.path().join("new.parquet");
    write(&new, 2_000_000);
    for how in [How::Renamed, How::Overwritten] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.parquet");
        write(&path, 0);
        tokio::time::sleep(std::time::Duration::from_millis(12)).await;
        let session = common::session(small_tables(), &[("t", &path)]).await;
        small_and_replaced(
            &session,
            path.to_str().expect("UTF-8"),
            async || match how {
                How::Renamed => {
                    let copy = folder.path().join("copy");
                    fs::copy(&new, &copy).expect("copied");
                    fs::rename(&copy, &path).expect("renamed");
                }
                How::Overwritten => {
                    fs::copy(&new, &path).expect("copied");
                }
            },
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_in_the_middle_of_a_small_object_that_is_replaced_fails() {
    let aside = tempfile::tempdir().expect("a folder");
    let (old, new) = (aside.path().join("old"), aside.path().join("new"));
    write(&old, 0);
    write(&new, 2_000_000);
    let store = InMemory::new();
    let object = object_store::path::Path::from("t/a.parquet");
    let bytes = fs::read(&old).expect("read");
    store.put(&object, bytes.into()).await.expect("put");
    let store = Arc::new(store);
    let engine = Engine::new(small_tables()).expect("an engine");
    let url = Url::parse("mem://bucket").expect("a URL");
    engine
        .runtime()
        .register_object_store(&url, Arc::clone(&store) as _);
    let session = engine.session();
    let table = session.register("t", "mem://bucket/t/").await;
    table.expect("registered");
    small_and_replaced(&session, "mem://bucket/t/a.parquet", async || {
        let bytes = fs::read(&new).expect("read");
        store.put(&object, bytes.into()).await.expect("put");
    })
    .await;
}

/// How a file is replaced.
#[derive(Clone, Copy, Debug)]
enum How {
    Renamed,
    Overwritten,
}

async fn replaced_in_the_middle(policy: Policy, model: StorageModel, how: How) {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("a.parquet"), 0);
    write(&folder.path().join("b.parquet"), 1_000_000);
    let aside = tempfile::tempdir().expect("a folder");
    let new = aside.path().join("new.parquet");
    // Longer than a tick of the coarsest known file system clock: DataFusion's caches distinguish
    // versions only by size and time.
    tokio::time::sleep(std::time::Duration::from_millis(12)).await;
    write(&new, 2_000_000);
    let slow = EngineConfig {
        policy,
        model,
        // Each file takes some seconds.
        bandwidth: Some(50_000),
        chunk_bytes: 16 << 10,
        // A batch is a part of a chunk, so that the first batch comes long before the last.
        batch_rows: 512,
        ..config()
    };
    let session: Session = common::session(slow, &[("t", &folder.path().join(""))]).await;
    let mut hit = session.sql("SELECT k, x FROM t").await.expect("planned");
    let first = hit.next().await.expect("rows").expect("no error yet");
    assert!(first.num_rows() > 0);
    let spared = session.sql("SELECT count(*), count(x) FROM t WHERE k >= 1000000");
    let spared = tokio::spawn(collect(spared.await.expect("planned")));
    // The scan is in the middle of both files now.
    match how {
        How::Renamed => fs::rename(&new, folder.path().join("a.parquet")).expect("renamed"),
        How::Overwritten => {
            fs::copy(&new, folder.path().join("a.parquet")).expect("copied");
        }
    }
    let mut count = first.num_rows();
    let outcome = loop {
        match hit.next().await {
            Some(Ok(batch)) => count += batch.num_rows(),
            Some(Err(error)) => break Err(error),
            None => break Ok(count),
        }
    };
    let about = format!("{policy:?} {model:?} {how:?}");
    match (how, outcome) {
        (How::Renamed, Ok(rows)) => assert_eq!(i64::try_from(rows), Ok(2 * ROWS), "{about}"),
        // This also holds if the old file was closed in the meantime.
        (_, Err(error)) => assert!(
            matches!(storage_error(&error), Some(StorageError::Replaced { file }) if file.ends_with("a.parquet"))
                && error.to_string().contains("a.parquet"),
            "{about}: {error}"
        ),
        (How::Overwritten, Ok(rows)) => panic!("{about}: {rows} rows of a file that is gone"),
    }
    drop(hit);
    let spared = spared.await.expect("joined").expect("not harmed");
    assert_eq!(
        spared,
        [format!("{ROWS}|{ROWS}")],
        "{policy:?} {model:?} {how:?}"
    );
    assert_eq!(
        rows(&session, "SELECT count(*), min(k), max(k), count(x) FROM t").await,
        [format!(
            "{}|1000000|{}|{}",
            2 * ROWS,
            2_000_000 + ROWS - 1,
            2 * ROWS
        )]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_in_the_middle_of_a_replaced_file_fail_and_others_go_on() {
    for (policy, model, how) in [
        (Policy::Relevance, StorageModel::Dsm, How::Renamed),
        (Policy::Elevator, StorageModel::Nsm, How::Overwritten),
        (Policy::Relevance, StorageModel::Dsm, How::Overwritten),
    ] {
        replaced_in_the_middle(policy, model, how).await;
    }
}
