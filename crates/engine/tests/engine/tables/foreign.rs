//! Promised: `with_coscan` adds cooperative scans to a DataFusion session that the user made. The
//! session keeps its own runtime: memory pool, object stores, files. Its scans share reads with
//! the engine's other sessions.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field};
use coscan::{CoscanExt, Engine};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use url::Url;

use crate::common::{self, config, memory_comes_back, plain_rows, rows, session};

const ROWS: i64 = 40_000;
/// More than a sum needs, less than one group per row needs.
const FOREIGN_BYTES: usize = 256 << 10;

fn file(path: &std::path::Path) {
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("s", DataType::Utf8, false),
    ]);
    let texts = (0..ROWS).map(|k| format!("value {k}"));
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from_iter_values(0..ROWS)),
            Arc::new(StringArray::from_iter_values(texts)),
        ],
    );
    common::write(path, schema, &[batch.expect("a batch")], 5000);
}

/// A session that has only `with_coscan` from Coscan.
async fn foreign(engine: &Engine, path: &std::path::Path) -> SessionContext {
    let store = InMemory::new();
    let object = object_store::path::Path::from("t.parquet");
    let bytes = std::fs::read(path).expect("read");
    store.put(&object, bytes.into()).await.expect("put");
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(FOREIGN_BYTES)))
        .build_arc()
        .expect("a runtime");
    let url = Url::parse("theirs://bucket").expect("a URL");
    runtime.register_object_store(&url, Arc::new(store));
    let state = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(2))
        .with_runtime_env(runtime)
        .with_default_features()
        .with_coscan(engine)
        .build();
    let context = SessionContext::new_with_state(state);
    let local = path.to_str().expect("UTF-8");
    for (name, path) in [("local", local), ("remote", "theirs://bucket/t.parquet")] {
        let table = context.register_parquet(name, path, ParquetReadOptions::default());
        table.await.expect("registered");
    }
    context
}

async fn explain(context: &SessionContext, sql: &str) -> String {
    let plan = context.sql(&format!("EXPLAIN {sql}")).await.expect(sql);
    let plan = plan.collect().await.expect(sql);
    pretty_format_batches(&plan).expect("printable").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_session_has_our_scans_and_its_own_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    file(&path);
    let ours = session(config(), &[("local", &path)]).await;
    let context = foreign(ours.engine(), &path).await;
    for table in ["local", "remote"] {
        let sql = format!("SELECT count(*), sum(k), max(s) FROM {table} WHERE k % 3 = 1");
        let plan = explain(&context, &sql).await;
        assert!(plan.contains("CScan: policy=relevance"), "{plan}");
        let expected = ["13333|266646667|value 9997"];
        assert_eq!(plain_rows(&context, &sql).await, expected, "{table}");
    }
    // The local file is now in memory, for the engine's own sessions, too.
    let read = ours.engine().metrics().io_bytes;
    let sql = "SELECT count(*), sum(k), max(s) FROM local WHERE k % 3 = 2";
    assert_eq!(rows(&ours, sql).await.len(), 1);
    assert_eq!(ours.engine().metrics().io_bytes, read);
    // Tasks of the engine's own query may still hold its memory, which is counted below.
    memory_comes_back(&ours).await;
    // Operators draw on the session's own pool: it refuses memory that the engine's pool grants.
    let sql = "SELECT count(*) FROM (SELECT s, count(*) FROM local GROUP BY s)";
    context
        .sql("SET datafusion.execution.batch_size = 1024")
        .await
        .expect("set");
    let frame = context
        .sql(&format!("SELECT array_agg(s) FROM ({sql}), local"))
        .await;
    let error = frame
        .expect("planned")
        .collect()
        .await
        .expect_err("refused");
    assert!(error.to_string().contains("Resources exhausted"), "{error}");
    // Its scan reads for the engine, and may end a little later.
    memory_comes_back(&ours).await;
    assert_eq!(rows(&ours, sql).await, ["40000"]);
    // Settings are the session's own.
    context
        .sql("SET coscan.policy = 'elevator'")
        .await
        .expect("set");
    let plan = explain(&context, "SELECT max(s) FROM remote WHERE k % 3 = 1").await;
    assert!(plan.contains("CScan: policy=elevator"), "{plan}");
    context
        .sql("SET coscan.cooperative = off")
        .await
        .expect("set");
    let plan = explain(&context, "SELECT max(s) FROM remote WHERE k % 3 = 1").await;
    assert!(!plan.contains("CScan"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_engine_a_foreign_session_is_plain_datafusion() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    file(&path);
    let engine = Engine::new(config()).expect("an engine");
    let context = foreign(&engine, &path).await;
    let sql = "SELECT count(*), max(s) FROM local WHERE k % 3 = 1";
    assert!(explain(&context, sql).await.contains("CScan"));
    drop(engine);
    assert!(!explain(&context, sql).await.contains("CScan"));
    assert_eq!(plain_rows(&context, sql).await, ["13333|value 9997"]);
}
