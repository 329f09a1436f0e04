//! Promised: a repartition whose batches are spilled ends, and returns every row.
//!
//! Readers of spilled batches hang when two tasks of a repartition spill at once into files that
//! hold more than one batch while the other outputs are not read (apache/datafusion#24883).
//! Whether two tasks do so is random, so the test tries many times; with DataFusion's default of
//! the option that `with_coscan` sets, one of the first tries hangs.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use coscan::Engine;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use futures::TryStreamExt;

use crate::common::{config, schema};

const TRIES: usize = 10;
/// The time limit of one try, which normally takes a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(60);
const PARTITIONS: usize = 4;
const BATCHES: i64 = 20;
const BATCH_ROWS: i64 = 1_000;

/// Reads the outputs one after the other; returns the number of rows in all of them.
async fn read_in_turn(context: Arc<TaskContext>) -> usize {
    let columns = schema(vec![Field::new("k", DataType::Int64, false)]);
    let batch = |n: i64| {
        let keys = Int64Array::from_iter_values(n * BATCH_ROWS..(n + 1) * BATCH_ROWS);
        RecordBatch::try_new(Arc::clone(&columns), vec![Arc::new(keys)]).expect("a batch")
    };
    let partitions = vec![(0..BATCHES).map(batch).collect(); PARTITIONS];
    let input = MemorySourceConfig::try_new_exec(&partitions, Arc::clone(&columns), None);
    let key = col("k", &columns).expect("a column");
    let by_key = Partitioning::Hash(vec![key], PARTITIONS);
    let exec = RepartitionExec::try_new(input.expect("a source"), by_key).expect("a repartition");
    let mut rows = 0;
    for output in 0..PARTITIONS {
        let stream = exec
            .execute(output, Arc::clone(&context))
            .expect("a stream");
        let batches: Vec<RecordBatch> = stream.try_collect().await.expect("batches");
        rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn spilled_repartitions_end() {
    let session = Engine::new(config()).expect("an engine").session();
    // Nothing fits into memory: every batch is spilled.
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(1)))
        .build_arc()
        .expect("a runtime");
    let settings = session.context().copied_config().with_batch_size(64);
    for attempt in 0..TRIES {
        let context = TaskContext::default()
            .with_session_config(settings.clone())
            .with_runtime(Arc::clone(&runtime));
        let read = tokio::time::timeout(PATIENCE, read_in_turn(Arc::new(context)));
        let rows = read.await.unwrap_or_else(|_| panic!("try {attempt} hangs"));
        let all = PARTITIONS as i64 * BATCHES * BATCH_ROWS;
        assert_eq!(rows, usize::try_from(all).expect("rows"));
    }
}
