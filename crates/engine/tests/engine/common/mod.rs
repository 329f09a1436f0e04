//! What the engine's tests share: data, engines, rows that can be compared.
// Every test binary uses its own part, as a module of its own.
#![allow(dead_code, unreachable_pub)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use coscan::{Engine, EngineConfig, Session};
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::TryStreamExt;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

/// The configuration of engines for tests: all scans are cooperative, chunks are small.
pub fn config() -> EngineConfig {
    EngineConfig {
        memory_bytes: Some(512 << 20),
        small_table_bytes: 0,
        chunk_bytes: 64 << 10,
        target_partitions: Some(4),
        ..EngineConfig::default()
    }
}

/// A session on an engine with this configuration, with these tables.
pub async fn session(config: EngineConfig, tables: &[(&str, &Path)]) -> Session {
    let session = Engine::new(config).expect("an engine").session();
    for (name, path) in tables {
        session
            .register(name, path.to_str().expect("UTF-8"))
            .await
            .expect("registered");
    }
    session
}

/// Plain DataFusion with PostgreSQL's SQL, as in Coscan's sessions, and with the same tables.
pub async fn plain(tables: &[(&str, &Path)]) -> SessionContext {
    let state = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(4))
        .with_default_features();
    let context = SessionContext::new_with_state(coscan_pg::install(state).build());
    for (name, path) in tables {
        let path = path.to_str().expect("UTF-8");
        context
            .register_parquet(*name, path, ParquetReadOptions::default())
            .await
            .expect("registered");
    }
    context
}

/// The rows of a query, each as text, sorted.
pub async fn rows(session: &Session, sql: &str) -> Vec<String> {
    let mut rows = rows_in_order(session, sql).await;
    rows.sort_unstable();
    rows
}

/// The rows of a query, each as text.
pub async fn rows_in_order(session: &Session, sql: &str) -> Vec<String> {
    let stream = session
        .sql(sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    collect(stream)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Waits until operators hold no memory: separate tasks drop the operators of a query that ended
/// early.
pub async fn memory_comes_back(session: &Session) {
    let come = async {
        while session.engine().metrics().operator_bytes > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let come = tokio::time::timeout(Duration::from_secs(60), come);
    come.await.expect("all memory came back");
}

/// Waits until no chunk is loading: a load that a query left behind fails whoever joins it.
pub async fn loads_end(engine: &Engine) {
    let end = async {
        let loads = |pool: &coscan::PoolSnapshot| {
            let mut chunks = pool.chunks.iter();
            chunks.any(|chunk| !chunk.loading.is_empty())
        };
        while engine.snapshots().iter().any(loads) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let end = tokio::time::timeout(Duration::from_secs(60), end);
    end.await.expect("all loads ended");
}

/// Runs four different queries, each in three sessions at once. Of each query, one run computes the
/// rows that the other two take: it still runs when they come, or has left its rows behind. So it
/// is however slow the machine is. The engine must record a trace.
pub async fn equal_queries_run_once(
    session: &Session,
    plain: &SessionContext,
    query: impl Fn(usize) -> String,
) {
    let asked = |n: usize| {
        let (own, label) = (session.engine().session(), format!("query {}", n % 4));
        own.label(&label).expect("set");
        (own, label, query(n % 4))
    };
    let asked: Vec<(Session, String, String)> = (0..12).map(asked).collect();
    let all = asked.iter().map(|(own, _, sql)| rows(own, sql));
    let found = futures::future::join_all(all).await;
    for ((_, _, sql), found) in asked.iter().zip(found) {
        assert_eq!(found, plain_rows(plain, sql).await, "{sql}");
    }
    let trace = session.engine().operator_trace();
    for (_, label, sql) in &asked[..4] {
        // Runs for parts of the query may have takers that ask other queries.
        let is_whole = trace.iter().any(|run| {
            let mut takers = run.takers.iter();
            *run.label == **label
                && run.takers.len() == 2
                && takers.all(|taker| *taker.label == **label)
        });
        assert!(is_whole, "{label}: {sql}: {trace:?}");
    }
}

/// The rows of a query of plain DataFusion, each as text, sorted.
pub async fn plain_rows(context: &SessionContext, sql: &str) -> Vec<String> {
    let mut rows = plain_rows_in_order(context, sql).await;
    rows.sort_unstable();
    rows
}

/// The rows of a query of plain DataFusion, each as text.
pub async fn plain_rows_in_order(context: &SessionContext, sql: &str) -> Vec<String> {
    let frame = context
        .sql(sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let stream = frame
        .execute_stream()
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    collect(stream)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

pub async fn collect(stream: SendableRecordBatchStream) -> datafusion::error::Result<Vec<String>> {
    let batches: Vec<RecordBatch> = stream.try_collect().await?;
    Ok(batches.iter().flat_map(texts).collect())
}

pub fn texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("printable"))
        .collect();
    (0..batch.num_rows())
        .map(|row| {
            let values: Vec<String> = columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect();
            values.join("|")
        })
        .collect()
}

/// Writes batches as one Parquet file with row groups of `group_rows` rows.
pub fn write(path: &Path, schema: SchemaRef, batches: &[RecordBatch], group_rows: usize) {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group_rows))
        .set_data_page_row_count_limit(group_rows.div_ceil(4))
        .set_write_batch_size(256)
        .build();
    write_with(path, schema, batches, properties);
}

pub fn write_with(
    path: &Path,
    schema: SchemaRef,
    batches: &[RecordBatch],
    properties: WriterProperties,
) {
    let file = File::create(path).expect("created");
    let mut writer = ArrowWriter::try_new(file, schema, Some(properties)).expect("a writer");
    for batch in batches {
        writer.write(batch).expect("written");
    }
    writer.close().expect("closed");
}

/// The names of TPC-H's tables.
pub const TPCH_TABLES: [&str; 8] = [
    "lineitem", "orders", "customer", "part", "partsupp", "supplier", "nation", "region",
];

/// The folder with TPC-H at this scale, one folder per table; created on first use.
pub fn tpch(scale: f64) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("tpch-{scale}-v1"));
    if root.exists() {
        return root;
    }
    // Created under another name, so that tests in other processes see all of it or nothing.
    let making = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    macro_rules! table {
        ($name:literal, $generator:ident, $arrow:ident, $parts:literal, $group_rows:literal) => {
            for part in 1..=$parts {
                let generator = tpchgen::generators::$generator::new(scale, part, $parts);
                let batches = tpchgen_arrow::$arrow::new(generator).with_batch_size(4096);
                let folder = making.path().join($name);
                fs::create_dir_all(&folder).expect("a folder");
                let batches: Vec<RecordBatch> = batches.map(|b| b.expect("generated")).collect();
                let schema = tpchgen_arrow::$arrow::schema_ref();
                let properties = WriterProperties::builder()
                    .set_max_row_group_row_count(Some($group_rows))
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .build();
                write_with(
                    &folder.join(format!("{part}.parquet")),
                    schema,
                    &batches,
                    properties,
                );
            }
        };
    }
    table!("lineitem", LineItemGenerator, LineItemArrow, 3, 20_000);
    table!("orders", OrderGenerator, OrderArrow, 2, 10_000);
    table!("customer", CustomerGenerator, CustomerArrow, 1, 4_000);
    table!("part", PartGenerator, PartArrow, 1, 5_000);
    table!("partsupp", PartSuppGenerator, PartSuppArrow, 1, 20_000);
    table!("supplier", SupplierGenerator, SupplierArrow, 1, 1_000);
    table!("nation", NationGenerator, NationArrow, 1, 25);
    table!("region", RegionGenerator, RegionArrow, 1, 5);
    // The rename fails if another process's data is already there; that data is as good.
    let _ = fs::rename(making.keep(), &root);
    root
}

/// TPC-H's tables as (name, folder).
pub fn tpch_tables(root: &Path) -> Vec<(&'static str, PathBuf)> {
    TPCH_TABLES
        .iter()
        .map(|name| (*name, root.join(name).join("")))
        .collect()
}

/// `(name, path)` pairs as the helpers above take them.
pub fn borrowed<'a>(tables: &'a [(&'static str, PathBuf)]) -> Vec<(&'a str, &'a Path)> {
    tables
        .iter()
        .map(|(name, path)| (*name, path.as_path()))
        .collect()
}

/// A reference-counted schema, for short.
pub fn schema(fields: Vec<arrow::datatypes::Field>) -> SchemaRef {
    Arc::new(arrow::datatypes::Schema::new(fields))
}
