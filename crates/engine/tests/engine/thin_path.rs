//! Promised: the shortest path through all layers works: a file is registered, scanned
//! cooperatively, filtered and summed.

use crate::common;
use std::sync::Arc;

use crate::common::{config, plain, plain_rows, rows, session};
use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sum_over_a_cooperative_scan_is_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("x", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
    ]);
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from_iter_values(0..10_000)),
            Arc::new(Int64Array::from_iter(
                (0..10_000).map(|i| (i % 7 != 0).then_some(i * 3)),
            )),
            Arc::new(StringArray::from_iter(
                (0..10_000).map(|i| (i % 5 != 0).then(|| format!("s{i}"))),
            )),
        ],
    )
    .expect("a batch");
    common::write(&path, schema, &[batch], 1000);

    let tables = [("t", path.as_path())];
    let (ours, theirs) = (session(config(), &tables).await, plain(&tables).await);
    for sql in [
        "SELECT sum(x), count(*) FROM t WHERE k >= 2500 AND k < 7700",
        "SELECT count(*) FROM t",
        "SELECT count(*) FROM t WHERE k >= 3000",
        "SELECT k, s FROM t WHERE s LIKE '%99%' AND x > 100",
        "SELECT k + x AS kx, s FROM t WHERE x IS NULL OR k < 3",
        "SELECT max(s) FROM t WHERE x % 2 = 0 AND 100 / (k + 1) > 1 AND k > 5",
        "SELECT k FROM t ORDER BY x DESC NULLS LAST, k LIMIT 5",
        "SELECT a.k, b.s FROM t a JOIN t b ON a.k = b.x WHERE a.k BETWEEN 100 AND 200",
        "SELECT 1 FROM t WHERE k > 9990",
        "SELECT count(*) FROM t WHERE k > 100000",
    ] {
        let plan = ours.explain(sql).await.expect("a plan");
        assert!(
            plan.contains("CScan: policy=relevance") || sql.ends_with("FROM t"),
            "{plan}"
        );
        assert_eq!(
            rows(&ours, sql).await,
            plain_rows(&theirs, sql).await,
            "{sql}\n{plan}"
        );
    }
}
