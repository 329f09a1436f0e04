//! Promised: a query that reads only memory and returns hardly a row gives way to other tasks
//! every few batches that it reads, however few it returns: in a scan, in an aggregation in the
//! order of the table, and in a join of two tables in their order.

use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use coscan::{EngineConfig, MergeJoins, Session};
use futures::StreamExt;

use crate::common::{self, config, rows};

const ROWS: i64 = 100_000;
const BATCH_ROWS: i64 = 16;
/// The budget of a task in Tokio, in units.
const TOKIO_BUDGET: i64 = 128;

fn write(path: &Path) {
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("v", DataType::Int64, false),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..ROWS)),
        Arc::new(Int64Array::from_iter_values(
            (0..ROWS).map(|row| row * 7919 % 1000),
        )),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
    common::write(path, schema, &[batch], ROWS as usize / 2);
}

/// The number of times that the stream of a query's only partition was polled and returned
/// nothing.
async fn pauses(session: &Session, sql: &str) -> i64 {
    // The plan's own stream, because tasks compute the stream of a session.
    let planned = session.context().sql(sql).await.unwrap();
    let mut stream = planned.execute_stream().await.unwrap();
    let mut pauses = 0;
    poll_fn(|cx| {
        loop {
            match stream.poll_next_unpin(cx) {
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Ready(Some(batch)) => assert_eq!(batch.unwrap().num_rows(), 0),
                Poll::Pending => {
                    pauses += 1;
                    return Poll::Pending;
                }
            }
        }
    })
    .await;
    pauses
}

#[tokio::test]
async fn work_without_rows_gives_way() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a.parquet", "b.parquet"].map(|name| folder.path().join(name));
    write(&a);
    write(&b);
    let config = EngineConfig {
        target_partitions: Some(1),
        merge_joins: MergeJoins::On,
        ..config()
    };
    let session = common::session(config, &[("a", &a), ("b", &b)]).await;
    for (name, value) in [
        ("datafusion.execution.batch_size", BATCH_ROWS.to_string()),
        ("coscan.share_operators", "off".to_owned()),
        ("coscan.share_fragments", "off".to_owned()),
    ] {
        session.set(name, &value).unwrap();
    }
    for (sql, node) in [
        ("SELECT k FROM a WHERE v % 1000 = 1001", "CScan"),
        (
            "SELECT k, count(*) FROM a WHERE v % 1000 = 1001 GROUP BY k",
            "OrderedAggregateExec",
        ),
        (
            "SELECT a.k FROM a JOIN b ON a.k = b.k WHERE a.v % 1000 = 1001",
            "ClusteredJoinExec",
        ),
    ] {
        let plan = session.explain(sql).await.unwrap();
        assert!(plan.contains(node), "{sql}: {plan}");
        // The first run loads everything into memory.
        assert!(rows(&session, sql).await.is_empty());
        let pauses = pauses(&session, sql).await;
        let batches = ROWS / BATCH_ROWS;
        assert!(
            pauses >= batches / TOKIO_BUDGET - 2,
            "{sql}: {pauses} pauses in {batches} batches"
        );
    }
}
