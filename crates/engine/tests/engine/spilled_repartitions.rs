//! Promise: a query whose repartitions spill ends, and its rows are right.
//!
//! Readers of spilled batches wait for ever when two tasks of a repartition spill at once into
//! files that hold more than one batch (apache/datafusion#24883). Which tasks meet is chance, so
//! the query runs many times.

use std::time::Duration;

use coscan::EngineConfig;

use crate::common::{borrowed, config, rows, session, tpch, tpch_tables};

const TRIES: usize = 12;
/// What one try may take; it takes about a second.
const PATIENCE: Duration = Duration::from_secs(60);
/// Too little for the groups of the query, so that its operators spill.
const MEMORY: u64 = 6 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_whose_repartitions_spill_end() {
    let tables = tpch_tables(&tpch(0.05));
    let sql = "SELECT l_suppkey % 20, count(DISTINCT l_orderkey), count(DISTINCT l_comment)
        FROM lineitem GROUP BY 1";
    let roomy = session(config(), &borrowed(&tables)).await;
    let right = rows(&roomy, sql).await;
    let small = EngineConfig {
        memory_bytes: Some(MEMORY),
        ..config()
    };
    let session = session(small, &borrowed(&tables)).await;
    session.set("coscan.share_fragments", "off").unwrap();
    for attempt in 0..TRIES {
        let run = tokio::time::timeout(PATIENCE, rows(&session, sql));
        let got = run.await.unwrap_or_else(|_| panic!("try {attempt} hangs"));
        assert!(got == right, "try {attempt} has other rows");
    }
}
