//! Promised: a query over small tables runs in one partition, without exchanges, and gives the rows
//! of the divided plan; EXPLAIN shows the plan that runs; a session that names a number of
//! partitions gets it; files in order that end with NULLs are in no order together, in one
//! partition or in several.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use coscan::{EngineConfig, Session};
use tempfile::TempDir;

use crate::common::{self, rows, rows_in_order};

/// More than DataFusion leaves in one partition.
const ROWS: i64 = 20_000;

const QUERIES: [&str; 4] = [
    "SELECT g, count(*), sum(k) FROM t GROUP BY g",
    "SELECT t.g, count(*) FROM t JOIN u ON t.k = u.k WHERE u.g < 50 GROUP BY t.g",
    "SELECT g, count(*) FROM t WHERE k > (SELECT avg(k) FROM u) GROUP BY g ORDER BY g",
    "SELECT DISTINCT g FROM several",
];

/// A session with the tables `t` and `u` of one file each, and `several` of three files.
async fn session() -> (TempDir, Session) {
    let folder = tempfile::tempdir().expect("a folder");
    let fields = ["k", "g"].map(|name| Field::new(name, DataType::Int64, false));
    let schema = common::schema(fields.to_vec());
    let numbers = |step: i64| -> ArrayRef {
        let numbers = (0..ROWS).map(|n| n * 7919 % ROWS % step);
        Arc::new(Int64Array::from_iter_values(numbers))
    };
    let columns = vec![numbers(ROWS), numbers(100)];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
    std::fs::create_dir(folder.path().join("several")).expect("a folder");
    let files = ["t", "u", "several/a", "several/b", "several/c"];
    for file in files {
        let path = folder.path().join(format!("{file}.parquet"));
        common::write(
            &path,
            Arc::clone(&schema),
            std::slice::from_ref(&batch),
            5_000,
        );
    }
    let at = |name: &str| folder.path().join(name);
    let (t, u, several) = (at("t.parquet"), at("u.parquet"), at("several/"));
    let tables = [("t", &*t), ("u", &*u), ("several", &*several)];
    let session = common::session(EngineConfig::default(), &tables).await;
    (folder, session)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_over_small_tables_has_no_exchanges_and_the_rows_of_the_divided_plan() {
    let (_folder, usual) = session().await;
    let (off, divided) = (usual.engine().session(), usual.engine().session());
    off.set("coscan.small_plan_bytes", "0").expect("a size");
    divided
        .set("datafusion.execution.target_partitions", "7")
        .expect("a number");
    for sql in QUERIES {
        let plan = usual.explain(sql).await.expect("a plan");
        assert!(!plan.contains("RepartitionExec"), "{sql}: {plan}");
        assert!(!plan.contains("CoalescePartitions"), "{sql}: {plan}");
        assert!(!plan.contains("unsupported_filters"), "{sql}: {plan}");
        let is_filtered = plan.contains("partial_filters");
        let plan = divided.explain(sql).await.expect("a plan");
        assert!(plan.contains("RepartitionExec"), "{sql}: {plan}");
        assert_eq!(plan.contains("partial_filters"), is_filtered, "{sql}");
        let expected = rows(&usual, sql).await;
        assert!(!expected.is_empty(), "{sql}");
        assert_eq!(rows(&off, sql).await, expected, "{sql}");
        assert_eq!(rows(&divided, sql).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_cannot_be_opened_fails_as_in_a_divided_plan() {
    let (folder, usual) = session().await;
    let off = usual.engine().session();
    off.set("coscan.small_plan_bytes", "0").expect("a size");
    std::fs::write(folder.path().join("t.parquet"), "no Parquet").expect("written");
    let sql = QUERIES[0];
    let mut told = vec![];
    for session in [&usual, &off] {
        let Err(error) = session.sql(sql).await else {
            panic!("{sql} was planned");
        };
        told.push(error.to_string());
        let plan = session.explain(sql).await.expect("a plan with an error");
        assert!(plan.contains("physical_plan_error"), "{plan}");
    }
    assert_eq!(told[0], told[1]);
    assert!(told[0].contains("t.parquet"), "{}", told[0]);
}

/// Two files would be two partitions of a divided plan, each in order; of three, two are one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_end_with_nulls_are_sorted_together() {
    let schema = common::schema(vec![Field::new("k", DataType::Int64, true)]);
    let config = EngineConfig {
        target_partitions: Some(2),
        ..EngineConfig::default()
    };
    let usual = common::session(EngineConfig::default(), &[]).await;
    let divided = common::session(config, &[]).await;
    for files in [2, 3] {
        let folder = tempfile::tempdir().expect("a folder");
        for file in 0..files {
            let keys = (0..ROWS).map(|n| (n < ROWS - 2).then_some(file * ROWS + n));
            let keys: ArrayRef = Arc::new(keys.collect::<Int64Array>());
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![keys]).expect("a batch");
            let path = folder.path().join(format!("{file}.parquet"));
            common::write(&path, Arc::clone(&schema), &[batch], 5_000);
        }
        let declare = format!(
            "CREATE EXTERNAL TABLE t{files} (k BIGINT) STORED AS PARQUET \
             WITH ORDER (k ASC NULLS LAST) LOCATION '{}/'",
            folder.path().display()
        );
        let keys = (0..files * ROWS).filter(|n| n % ROWS < ROWS - 2);
        let mut expected: Vec<String> = keys.map(|key| key.to_string()).collect();
        expected.extend((0..files * 2).map(|_| "NULL".to_owned()));
        let sql = format!("SELECT k FROM t{files} ORDER BY k");
        for session in [&usual, &divided] {
            rows(session, &declare).await;
            assert_eq!(rows_in_order(session, &sql).await, expected, "{sql}");
        }
    }
}
