//! The engine as the benchmark uses it: no other file of this crate touches it.
//!
//! An arena is one engine with one device, a few tables and one way of sharing. It starts with
//! nothing in memory, so a "cold" measurement takes a new arena.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use coscan::tasks::{self, TaskQueue};
use coscan::{
    DeviceSnapshot, Engine, EngineConfig, NamedDevice, Policy, Session, StorageModel, UnknownName,
};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionContext, col};
use futures::{FutureExt, TryStreamExt};

use super::answer::Answer;
use crate::error::{BenchError, Result};

/// How an arena's engine is set up.
#[derive(Clone, Debug)]
pub(crate) struct ArenaConfig {
    pub(crate) sharing: Sharing,
    pub(crate) model: String,
    /// None: all the memory there is.
    pub(crate) buffer_bytes: Option<u64>,
    pub(crate) bandwidth: Option<u64>,
    pub(crate) latency: Duration,
    /// Devices by name; files outside of them are on the system's own devices.
    pub(crate) devices: Vec<NamedDevice>,
    /// From how many devices a scan reads at a time; None: chosen while the scan runs.
    pub(crate) parallelism: Option<u32>,
    /// Whether pages that a query waits for may overtake loads.
    pub(crate) page_reserve: bool,
    pub(crate) chunk_bytes: u64,
    pub(crate) target_partitions: Option<usize>,
    /// Where the scheduler's log goes.
    pub(crate) record: Option<PathBuf>,
    /// The settings of every session, by full names.
    pub(crate) settings: Vec<(&'static str, &'static str)>,
    /// Whether a query's tasks wait for the query's turn, as in a server.
    pub(crate) in_turn: bool,
}

/// The file of the scheduler's log for one way of sharing: the name of the way is appended.
pub(crate) fn log_of(name: &str, record: &Path) -> PathBuf {
    let mut path = record.as_os_str().to_owned();
    path.push(".");
    path.push(name.replace(' ', "-"));
    path.into()
}

/// What queries share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// How scans are scheduled; under `normal` each scan runs by itself.
    pub(crate) policy: String,
    /// Whether the work above scans is done once per chunk.
    pub(crate) fragments: bool,
    /// Whether an operator runs once for all queries that want its output.
    pub(crate) operators: bool,
}

/// Added to a policy's name to share the work above the scans too.
const FRAGMENTS: &str = "+fragments";

impl Sharing {
    /// The papers' policies share scans alone. A name that ends in `+fragments` also shares the
    /// work above them.
    pub(crate) fn of_scans(name: &str) -> Self {
        let (policy, fragments) = match name.strip_suffix(FRAGMENTS) {
            Some(policy) => (policy, true),
            None => (name, false),
        };
        Self {
            policy: policy.to_owned(),
            fragments,
            operators: false,
        }
    }
}

/// A table of an arena.
#[derive(Clone, Debug)]
pub(crate) struct TableFile {
    /// Its name in SQL.
    pub(crate) name: String,
    /// A Parquet file, a folder of them, or several folders separated by commas.
    pub(crate) path: PathBuf,
    /// The column whose order is declared, if any: scans that must deliver that order keep it.
    pub(crate) order: Option<&'static str>,
}

impl TableFile {
    /// A table without a declared order.
    pub(crate) fn new(name: &str, path: &Path) -> Self {
        Self {
            name: name.to_owned(),
            path: path.to_owned(),
            order: None,
        }
    }
}

/// An engine with its tables.
pub(crate) struct Arena {
    engine: Engine,
    settings: Vec<(&'static str, &'static str)>,
    tasks: Option<Arc<TaskQueue>>,
}

/// What an arena has done since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) io_requests: u64,
    pub(crate) io_bytes: u64,
    pub(crate) decode_bytes: u64,
    pub(crate) sched_cpu: Duration,
    /// Operators whose output a query took from another query's run.
    pub(crate) satellites: u64,
    /// Chunks whose result a query found remembered.
    pub(crate) states_remembered: u64,
}

/// One chunk job.
pub(crate) struct Job {
    /// When it began, since the buffer was made.
    pub(crate) begun: Duration,
    pub(crate) ended: Duration,
    pub(crate) chunk: u32,
    /// The label of the query that began it.
    pub(crate) label: String,
    /// The labels of the other queries that it served.
    pub(crate) served: Vec<String>,
}

/// One run of an operator.
pub(crate) struct OperatorRun {
    pub(crate) kind: &'static str,
    /// The label of the query that it began for.
    pub(crate) label: String,
    /// The labels of the other queries that took its output, and when they requested it.
    pub(crate) takers: Vec<(String, Instant)>,
}

/// What a device has done since it was first used.
#[derive(Clone, Debug)]
pub(crate) struct DeviceMeter {
    /// The name that the device was given.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// How long at least one request was outstanding.
    pub(crate) busy: Duration,
}

/// One load.
pub(crate) struct Load {
    /// When it was decided, since the buffer was made (when the first query was planned).
    pub(crate) time: Duration,
    pub(crate) chunk: u32,
    /// The label of the query for which it was chosen.
    pub(crate) label: String,
}

impl Arena {
    /// A new engine with these tables.
    pub(crate) async fn open(config: &ArenaConfig, tables: &[TableFile]) -> Result<Self> {
        let failed = |error| BenchError::engine("starting the engine", error);
        let engine = Engine::new(EngineConfig {
            buffer_bytes_max: config.buffer_bytes,
            policy: policy(&config.sharing.policy)?,
            share_fragments: config.sharing.fragments,
            share_operators: config.sharing.operators,
            model: model(&config.model)?,
            chunk_bytes: config.chunk_bytes,
            // Every scan of the workload must be scheduled, however small its range.
            small_table_bytes: 0,
            bandwidth: config.bandwidth,
            latency: config.latency,
            devices: config.devices.clone(),
            parallelism: config.parallelism,
            page_reserve: config.page_reserve,
            record_trace: true,
            target_partitions: config.target_partitions,
            record: config.record.clone(),
            ..EngineConfig::default()
        })
        .map_err(failed)?;
        let tasks = config.in_turn.then(|| {
            tasks::install();
            let workers = tokio::runtime::Handle::current().metrics().num_workers();
            TaskQueue::new(super::cpu::cores(), workers, None)
        });
        let arena = Self {
            engine,
            settings: config.settings.clone(),
            tasks,
        };
        let session = arena.engine.session();
        for table in tables {
            let failed = |error| BenchError::engine(format!("opening {}", table.name), error);
            register(&session, table).await.map_err(failed)?;
        }
        Ok(arena)
    }

    /// Runs one statement in a session of its own; `label` marks its loads in the trace.
    pub(crate) async fn run(&self, label: &str, sql: &str) -> Result<Vec<RecordBatch>> {
        let failed = |error: coscan::Error| BenchError::engine(label.to_owned(), error);
        let session = self.session(label).map_err(failed)?;
        let sql = sql.to_owned();
        let rows = async move {
            let rows = session.sql(&sql).await?;
            Ok(rows.try_collect().await?)
        };
        let rows = match &self.tasks {
            Some(tasks) => tasks.begin().schedule(rows.boxed()).await,
            None => rows.await,
        };
        rows.map_err(failed)
    }

    fn session(&self, label: &str) -> coscan::Result<Session> {
        let session = self.engine.session();
        session.label(label)?;
        for (name, value) in &self.settings {
            session.set(name, value)?;
        }
        Ok(session)
    }

    pub(crate) fn counters(&self) -> Counters {
        let metrics = self.engine.metrics();
        Counters {
            io_requests: metrics.io_requests,
            io_bytes: metrics.io_bytes,
            decode_bytes: metrics.decode_bytes,
            sched_cpu: Duration::from_nanos(metrics.sched_cpu_ns),
            satellites: metrics.operators_joined,
            states_remembered: metrics.fragment_states_remembered,
        }
    }

    pub(crate) fn devices(&self) -> Vec<DeviceMeter> {
        let devices = self.engine.devices().snapshots().into_iter();
        let meter = |device: DeviceSnapshot| DeviceMeter {
            // The rest of the string says how the device is read.
            name: device
                .name
                .split(" (")
                .next()
                .unwrap_or_default()
                .to_owned(),
            bytes: device.meter.bytes,
            busy: device.meter.busy,
        };
        devices.map(meter).collect()
    }

    /// Waits until the scheduler's log is written, if there is one.
    pub(crate) fn finish_recording(&self) {
        self.engine.finish_recording();
    }

    pub(crate) fn jobs(&self) -> Vec<Job> {
        let jobs = self.engine.job_trace().into_iter();
        let job = |job: coscan::JobTrace| Job {
            begun: Duration::from_nanos(job.begun_ns),
            ended: Duration::from_nanos(job.ended_ns),
            chunk: job.chunk,
            label: job.label.to_string(),
            served: job.served.iter().map(ToString::to_string).collect(),
        };
        jobs.map(job).collect()
    }

    /// The runs of operators so far.
    pub(crate) fn operators(&self) -> Vec<OperatorRun> {
        let runs = self.engine.operator_trace().into_iter();
        let run = |run: coscan::OperatorTrace| OperatorRun {
            kind: run.kind,
            label: run.label.to_string(),
            takers: {
                let takers = run.takers.into_iter();
                takers.map(|of| (of.label.to_string(), of.came)).collect()
            },
        };
        runs.map(run).collect()
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

impl Counters {
    /// What was added since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            io_requests: self.io_requests - before.io_requests,
            io_bytes: self.io_bytes - before.io_bytes,
            decode_bytes: self.decode_bytes - before.decode_bytes,
            sched_cpu: self.sched_cpu.saturating_sub(before.sched_cpu),
            satellites: self.satellites - before.satellites,
            states_remembered: self.states_remembered - before.states_remembered,
        }
    }
}

/// An order is declared by DataFusion's own means. All sessions see the table either way.
async fn register(session: &Session, table: &TableFile) -> coscan::Result<()> {
    let path = table.path.to_string_lossy();
    let Some(column) = table.order else {
        return session.register(&table.name, &path).await;
    };
    let options = ParquetReadOptions::default();
    let options = options.file_sort_order(vec![vec![col(column).sort(true, true)]]);
    let context = session.context();
    Ok(context.register_parquet(&table.name, path, options).await?)
}

/// Plain DataFusion over the same tables with PostgreSQL's semantics, as in Coscan: the oracle.
pub(crate) struct Oracle(SessionContext);

impl Oracle {
    /// A DataFusion session without Coscan's scans and sharing.
    pub(crate) async fn open(tables: &[TableFile]) -> Result<Self> {
        let state = SessionStateBuilder::new().with_default_features();
        let context = SessionContext::new_with_state(coscan_pg::install(state).build());
        for table in tables {
            let (path, options) = (table.path.to_string_lossy(), ParquetReadOptions::default());
            let opened = context.register_parquet(&table.name, path, options).await;
            opened.map_err(|error| {
                let doing = format!("opening {} with plain DataFusion", table.name);
                BenchError::engine(doing, error)
            })?;
        }
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
