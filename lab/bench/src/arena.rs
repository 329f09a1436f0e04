//! The engine as the benchmark sees it: the only file of this crate that touches it.
//!
//! An arena is one engine with one policy, one device and one table. It starts with nothing in
//! memory: measuring "cold" means taking a new one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow::array::RecordBatch;
use coscan::{Engine, EngineConfig, Policy, StorageModel, UnknownName};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::TryStreamExt;

use crate::answer::Answer;
use crate::error::{BenchError, Result};

/// How an arena's engine is set up.
#[derive(Clone, Debug)]
pub(crate) struct ArenaConfig {
    pub(crate) policy: String,
    pub(crate) model: String,
    pub(crate) buffer_bytes: u64,
    pub(crate) bandwidth: Option<u64>,
    pub(crate) latency: Duration,
    pub(crate) chunk_bytes: u64,
    pub(crate) target_partitions: Option<usize>,
    /// Where the scheduler's log goes.
    pub(crate) record: Option<PathBuf>,
}

/// What is added to a policy's name to have work above the scans shared too.
const FRAGMENTS: &str = "+fragments";

/// An engine with one table.
pub(crate) struct Arena {
    engine: Engine,
    table: String,
    path: String,
}

/// What an arena has done since it was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) io_requests: u64,
    pub(crate) io_bytes: u64,
    pub(crate) decode_bytes: u64,
    pub(crate) sched_cpu: Duration,
}

/// One load.
pub(crate) struct Load {
    /// Since the buffer was made, which is when the first query was planned.
    pub(crate) time: Duration,
    pub(crate) chunk: u32,
    /// The label of the query that it was chosen for.
    pub(crate) label: String,
}

impl Arena {
    /// A new engine with `table` at `path`.
    pub(crate) async fn open(config: &ArenaConfig, table: &str, path: &Path) -> Result<Self> {
        let failed = |error| BenchError::engine("starting the engine", error);
        // The paper's policies share reads and nothing else; states that are remembered would hide
        // the second read.
        let (name, share_fragments) = match config.policy.strip_suffix(FRAGMENTS) {
            Some(name) => (name, true),
            None => (config.policy.as_str(), false),
        };
        let engine = Engine::new(EngineConfig {
            buffer_bytes_max: Some(config.buffer_bytes),
            policy: policy(name)?,
            share_fragments,
            share_operators: false,
            model: model(&config.model)?,
            chunk_bytes: config.chunk_bytes,
            // Every scan of the workload is to be scheduled, however small its range.
            small_table_bytes: 0,
            bandwidth: config.bandwidth,
            latency: config.latency,
            record_trace: true,
            target_partitions: config.target_partitions,
            record: config.record.clone(),
            ..EngineConfig::default()
        })
        .map_err(failed)?;
        let arena = Self {
            engine,
            table: table.to_owned(),
            path: path.to_string_lossy().into(),
        };
        let session = arena.engine.session();
        session
            .register(&arena.table, &arena.path)
            .await
            .map_err(|error| BenchError::engine("opening the table", error))?;
        Ok(arena)
    }

    /// Runs one statement in a session of its own; `label` marks its loads in the trace.
    pub(crate) async fn run(&self, label: &str, sql: &str) -> Result<Vec<RecordBatch>> {
        let failed = |error: coscan::Error| BenchError::engine(label.to_owned(), error);
        let session = self.engine.session();
        session.label(label).map_err(failed)?;
        let rows = session.sql(sql).await.map_err(failed)?;
        rows.try_collect()
            .await
            .map_err(|error| BenchError::engine(label.to_owned(), error))
    }

    pub(crate) fn counters(&self) -> Counters {
        let metrics = self.engine.metrics();
        Counters {
            io_requests: metrics.io_requests,
            io_bytes: metrics.io_bytes,
            decode_bytes: metrics.decode_bytes,
            sched_cpu: Duration::from_nanos(metrics.sched_cpu_ns),
        }
    }

    /// Waits until the scheduler's log is written, if there is one.
    pub(crate) fn finish_recording(&self) {
        self.engine.finish_recording();
    }

    pub(crate) fn trace(&self) -> Vec<Load> {
        self.engine
            .trace()
            .into_iter()
            .map(|load| Load {
                time: Duration::from_nanos(load.time_ns),
                chunk: load.chunk,
                label: load.label.to_string(),
            })
            .collect()
    }
}

/// Plain DataFusion over the same table: the oracle.
pub(crate) struct Oracle(SessionContext);

impl Oracle {
    /// A DataFusion session of its own, with nothing of Coscan in it.
    pub(crate) async fn open(table: &str, path: &Path) -> Result<Self> {
        let context = SessionContext::new_with_config(SessionConfig::new());
        context
            .register_parquet(table, path.to_string_lossy(), ParquetReadOptions::default())
            .await
            .map_err(|error| {
                BenchError::engine("opening the table with plain DataFusion", error)
            })?;
        Ok(Self(context))
    }

    pub(crate) async fn run(&self, sql: &str) -> Result<Answer> {
        let failed = |error| BenchError::engine("plain DataFusion", error);
        let frame = self.0.sql(sql).await.map_err(failed)?;
        let batches = frame.collect().await.map_err(failed)?;
        answer(&batches)
    }
}

/// A result in comparable form.
pub(crate) fn answer(batches: &[RecordBatch]) -> Result<Answer> {
    Answer::new(batches).map_err(|error| BenchError::engine("comparing results", error))
}

/// Whether a model reads all columns of a chunk.
pub(crate) fn reads_whole_rows(name: &str) -> Result<bool> {
    Ok(model(name)? == StorageModel::Nsm)
}

fn policy(name: &str) -> Result<Policy> {
    name.parse()
        .map_err(|error: UnknownName| BenchError::engine("--policies", error))
}

fn model(name: &str) -> Result<StorageModel> {
    name.parse()
        .map_err(|error: UnknownName| BenchError::engine("--model", error))
}
