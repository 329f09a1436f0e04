//! What do the system tables `coscan.*` show?
//!
//! | table | rows |
//! |---|---|
//! | `scans`, `chunks` | the running scans, the resident and the loading chunks, and who wants them |
//! | `devices`, `memory` | the load of each device, the holders of the budget |
//! | `indexes` | the known indexes |
//! | `fragments`, `state_cache` | the fragment classes, the states of chunks that are kept |
//! | `operators` | the shared operators |
//! | `queries` | the open queries, their memory, what they wait for |
//!
//! Every query computes the rows from one snapshot of each pool. For `coscan.indexes` it also
//! reads the manifests, because another process may have refreshed or dropped an index.
//!
//! R4: a session with an owner sees of other users' queries that they are there, as in
//! `pg_stat_activity`.
//! Not here: settings (`SHOW ALL`, `information_schema.df_settings`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float64Array, Int32Array, RecordBatch, StringArray,
    UInt32Array, UInt64Array,
};
use arrow::compute::nullif;
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use coscan_core::DeviceId;
use coscan_storage::pool::{ChunkRow, ScanRow};
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, Session, TableProvider};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::fragment::Counts;
use crate::index::look_again;
use crate::memory::{Cause, Wait};
use crate::rights::places;
use crate::session::engine::{Engine, EngineMetrics, WeakEngine};
use crate::session::open_queries::{OpenQueries, QueryRow};

/// The schema with the system tables.
pub(crate) fn schema(engine: &WeakEngine) -> Result<MemorySchemaProvider> {
    let schema = MemorySchemaProvider::new();
    let tables: [(&str, Rows); 9] = [
        ("scans", scans),
        ("chunks", chunks),
        ("devices", devices),
        ("memory", memory),
        ("indexes", indexes),
        ("fragments", fragments),
        ("state_cache", state_cache),
        ("operators", operators),
        ("queries", queries),
    ];
    for (name, rows) in tables {
        let table = SystemTable {
            engine: engine.clone(),
            rows,
            schema: rows(None)?.schema(),
            of_indexes: name == "indexes",
        };
        schema.register_table(name.to_owned(), Arc::new(table))?;
    }
    Ok(schema)
}

/// The columns of any system table that show paths of files and devices.
const PLACES: [&str; 5] = ["file", "folder", "name", "paths", "state"];

/// The columns that show other users' rows too, and the one that says whose a row is.
const SHOWN_TO_ALL: [&str; 2] = ["pid", USER];
const USER: &str = "usename";

/// Computes the rows of a table; without an engine, no rows.
type Rows = fn(Option<&Engine>) -> Result<RecordBatch>;

struct SystemTable {
    engine: WeakEngine,
    rows: Rows,
    schema: SchemaRef,
    of_indexes: bool,
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let engine = self.engine.upgrade();
        if let (Some(engine), true) = (&engine, self.of_indexes) {
            let indexes = engine.resources().indexes();
            look_again(indexes, session.runtime_env(), |_| true).await;
        }
        let mut rows = (self.rows)(engine.as_ref())?;
        if !places::may_see(session.config()) {
            // R3: the session does not see where files are.
            rows = places::hide(&rows, &PLACES)?;
        }
        let own = session.config().get_extension::<OpenQueries>();
        if let Some(user) = own.as_ref().and_then(|own| own.user()) {
            rows = hide_others(rows, user)?;
        }
        let schema = Arc::clone(&self.schema);
        Ok(MemorySourceConfig::try_new_exec(
            &[vec![rows]],
            schema,
            projection.cloned(),
        )?)
    }
}

impl fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemTable")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

/// R4: the rows, without what `user` may not see of others'.
fn hide_others(rows: RecordBatch, user: &str) -> Result<RecordBatch> {
    let Some(users) = rows.column_by_name(USER) else {
        return Ok(rows);
    };
    let users = users.as_string::<i32>().iter();
    let of_others: BooleanArray = users.map(|one| Some(one != Some(user))).collect();
    let schema = rows.schema();
    let columns = schema.fields().iter().zip(rows.columns());
    let columns = columns.map(|(field, column)| {
        if SHOWN_TO_ALL.contains(&field.name().as_str()) {
            Ok(Arc::clone(column))
        } else {
            nullif(column, &of_others)
        }
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// The columns of a table, as they are added.
#[derive(Default)]
struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn add(&mut self, name: &str, array: ArrayRef) {
        self.fields
            .push(Field::new(name, array.data_type().clone(), false));
        self.arrays.push(array);
    }

    /// A column that may hold NULL.
    fn known(&mut self, name: &str, array: ArrayRef) {
        self.fields
            .push(Field::new(name, array.data_type().clone(), true));
        self.arrays.push(array);
    }

    fn text<'a>(&mut self, name: &str, values: impl Iterator<Item = &'a str>) {
        self.add(name, Arc::new(StringArray::from_iter_values(values)));
    }

    fn count(&mut self, name: &str, values: impl Iterator<Item = u64>) {
        self.add(name, Arc::new(UInt64Array::from_iter_values(values)));
    }

    /// The same for numbers that others than their owner see as NULL.
    fn known_count(&mut self, name: &str, values: impl Iterator<Item = u64>) {
        self.known(name, Arc::new(UInt64Array::from_iter_values(values)));
    }

    fn id(&mut self, name: &str, values: impl Iterator<Item = u32>) {
        self.add(name, Arc::new(UInt32Array::from_iter_values(values)));
    }

    fn number(&mut self, name: &str, values: impl Iterator<Item = f64>) {
        self.add(name, Arc::new(Float64Array::from_iter_values(values)));
    }

    fn flag(&mut self, name: &str, values: impl Iterator<Item = bool>) {
        self.add(name, Arc::new(values.map(Some).collect::<BooleanArray>()));
    }

    fn finish(self) -> Result<RecordBatch> {
        Ok(RecordBatch::try_new(
            Arc::new(Schema::new(self.fields)),
            self.arrays,
        )?)
    }
}

/// A row of a pool, with the pool's policy and storage model.
type Of<T> = (&'static str, &'static str, T);

fn of_pools<T>(
    engine: Option<&Engine>,
    rows: impl Fn(coscan_storage::pool::PoolSnapshot) -> Vec<T>,
) -> Vec<Of<T>> {
    let pools = engine.map(|engine| engine.resources().pools());
    let pools = pools.unwrap_or_default();
    let mut all = Vec::new();
    for pool in pools {
        let (policy, model) = (pool.config().policy.name(), pool.config().model.name());
        all.extend(
            rows(pool.snapshot())
                .into_iter()
                .map(|row| (policy, model, row)),
        );
    }
    all
}

fn scans(engine: Option<&Engine>) -> Result<RecordBatch> {
    let rows: Vec<Of<ScanRow>> = of_pools(engine, |pool| pool.scans);
    let row = || rows.iter().map(|(_, _, row)| row);
    let mut columns = Columns::default();
    columns.text("policy", rows.iter().map(|(policy, ..)| *policy));
    columns.text("storage_model", rows.iter().map(|(_, model, _)| *model));
    columns.count("scan", row().map(|scan| scan.scan));
    columns.id("table", row().map(|scan| scan.table));
    columns.text("label", row().map(|scan| scan.label.as_str()));
    columns.count(
        "chunks_wanted",
        row().map(|scan| scan.metrics.chunks_wanted),
    );
    columns.count("chunks_left", row().map(|scan| scan.chunks_left));
    columns.count("chunks_held", row().map(|scan| scan.chunks_held));
    columns.count("chunks_in_jobs", row().map(|scan| scan.chunks_in_jobs));
    columns.count("chunks_coming", row().map(|scan| scan.chunks_coming));
    columns.id("consumers_waiting", row().map(|scan| scan.waiting));
    columns.flag("starved", row().map(|scan| scan.starved));
    columns.flag("stalled", row().map(|scan| scan.stalled));
    columns.count(
        "chunks_from_buffer",
        row().map(|scan| scan.metrics.chunks_from_buffer),
    );
    columns.count(
        "chunks_loaded_for_me",
        row().map(|scan| scan.metrics.chunks_loaded_for_me),
    );
    columns.count(
        "chunks_loaded_for_others",
        row().map(|scan| scan.metrics.chunks_loaded_for_others),
    );
    columns.count(
        "chunks_withdrawn",
        row().map(|scan| scan.metrics.chunks_withdrawn),
    );
    columns.count(
        "chunks_joined",
        row().map(|scan| scan.metrics.chunks_joined),
    );
    columns.count("bytes_read", row().map(|scan| scan.metrics.load_bytes));
    columns.number(
        "waited_ms",
        row().map(|scan| scan.metrics.waited_ns as f64 / 1e6),
    );
    columns.finish()
}

fn chunks(engine: Option<&Engine>) -> Result<RecordBatch> {
    let rows: Vec<Of<ChunkRow>> = of_pools(engine, |pool| pool.chunks);
    let row = || rows.iter().map(|(_, _, row)| row);
    let joined = |pick: fn(&ChunkRow) -> &Vec<String>| -> Vec<String> {
        row().map(|chunk| pick(chunk).join(", ")).collect()
    };
    let mut columns = Columns::default();
    columns.text("policy", rows.iter().map(|(policy, ..)| *policy));
    columns.text("storage_model", rows.iter().map(|(_, model, _)| *model));
    columns.id("table", row().map(|chunk| chunk.table));
    columns.id("chunk", row().map(|chunk| chunk.chunk));
    columns.text("file", row().map(|chunk| chunk.file.as_str()));
    columns.text(
        "resident",
        joined(|chunk| &chunk.resident).iter().map(String::as_str),
    );
    columns.text(
        "loading",
        joined(|chunk| &chunk.loading).iter().map(String::as_str),
    );
    columns.text(
        "pinned",
        joined(|chunk| &chunk.pinned).iter().map(String::as_str),
    );
    columns.count(
        "scans_interested",
        row().map(|chunk| chunk.interested.len() as u64),
    );
    let scans: Vec<String> = row()
        .map(|chunk| {
            let scans: Vec<String> = chunk.interested.iter().map(u64::to_string).collect();
            scans.join(", ")
        })
        .collect();
    columns.text("scans", scans.iter().map(String::as_str));
    columns.finish()
}

fn devices(engine: Option<&Engine>) -> Result<RecordBatch> {
    let rows = engine
        .map(|engine| engine.devices().snapshots())
        .unwrap_or_default();
    let mut workers: BTreeMap<DeviceId, u64> = BTreeMap::new();
    for pool in engine.iter().flat_map(|engine| engine.resources().pools()) {
        for (device, scans) in pool.workers() {
            *workers.entry(device).or_default() += scans as u64;
        }
    }
    let workers = rows
        .iter()
        .map(|device| workers.get(&device.id).copied().unwrap_or(0));
    let paths: Vec<String> = rows.iter().map(|device| device.paths.join(",")).collect();
    let meter = || rows.iter().map(|device| &device.meter);
    let mut columns = Columns::default();
    columns.id("device", rows.iter().map(|device| u32::from(device.id.0)));
    columns.text("name", rows.iter().map(|device| device.name.as_str()));
    columns.text("paths", paths.iter().map(String::as_str));
    columns.count("requests", meter().map(|meter| meter.requests));
    columns.count(
        "requests_failed",
        meter().map(|meter| meter.requests_failed),
    );
    columns.count("bytes", meter().map(|meter| meter.bytes));
    columns.count("bytes_wanted", meter().map(|meter| meter.bytes_wanted));
    columns.count("queue_depth", meter().map(|meter| meter.depth));
    columns.count("queue_depth_max", meter().map(|meter| meter.depth_max));
    columns.number(
        "utilisation",
        meter().map(coscan_storage::device::MeterSnapshot::utilisation),
    );
    columns.count("workers", workers);
    columns.number(
        "bytes_per_second",
        meter().map(|meter| meter.bytes_per_second),
    );
    columns.number(
        "latency_ms",
        meter().map(|meter| meter.latency.as_secs_f64() * 1e3),
    );
    columns.finish()
}

/// One row: the limit, and the bytes of it that each kind of holder has.
fn memory(engine: Option<&Engine>) -> Result<RecordBatch> {
    let budget = || engine.map(Engine::memory).into_iter();
    let mut columns = Columns::default();
    columns.count("limit", budget().map(|b| b.limit()));
    columns.count("operators", budget().map(|b| b.operator_bytes()));
    columns.count("frames", budget().map(|b| b.frame_bytes()));
    columns.count("pages", budget().map(|b| b.page_bytes()));
    columns.count("arrays", budget().map(|b| b.decoded_bytes()));
    columns.count("arrays_in_use", budget().map(|b| b.read_array_bytes()));
    columns.count("metadata", budget().map(|b| b.metadata_bytes()));
    columns.count("statements", budget().map(|b| b.statement_bytes()));
    columns.count("connections", budget().map(|b| b.connection_bytes()));
    columns.finish()
}

fn indexes(engine: Option<&Engine>) -> Result<RecordBatch> {
    let rows = engine
        .map(|engine| engine.resources().indexes().all())
        .unwrap_or_default();
    let manifest = || rows.iter().map(|index| &index.manifest);
    let folders: Vec<String> = rows.iter().map(|index| index.folder.display()).collect();
    let states: Vec<String> = rows
        .iter()
        .map(|index| {
            index
                .broken()
                .map_or_else(|| "ready".to_owned(), |why| format!("broken: {why}"))
        })
        .collect();
    let mut columns = Columns::default();
    columns.text("index", manifest().map(|m| m.name.as_str()));
    columns.text("table", manifest().map(|m| m.table.as_str()));
    columns.text("column", manifest().map(|m| m.column.as_str()));
    columns.count("files", manifest().map(|m| m.files.len() as u64));
    columns.count("entries", manifest().map(|m| m.entries));
    columns.count("bytes", manifest().map(|m| m.bytes));
    columns.text("folder", folders.iter().map(String::as_str));
    columns.text("state", states.iter().map(String::as_str));
    columns.finish()
}

fn fragments(engine: Option<&Engine>) -> Result<RecordBatch> {
    let rows = engine.map(|engine| engine.board().classes());
    let rows = rows.unwrap_or_default();
    let mut columns = Columns::default();
    columns.id("table", rows.iter().map(|class| class.table));
    columns.text("grouping", rows.iter().map(|class| class.grouping.as_str()));
    columns.count("members", rows.iter().map(|class| class.members));
    columns.count("members_alone", rows.iter().map(|class| class.alone));
    columns.count("jobs_awaited", rows.iter().map(|class| class.outstanding));
    columns.finish()
}

/// One row for each kind of operator.
fn operators(engine: Option<&Engine>) -> Result<RecordBatch> {
    let rows = engine.map(|engine| engine.resources().operators().micro_engines());
    let rows = rows.unwrap_or_default();
    let now = || rows.values();
    let done = || rows.values().map(|engine| &engine.done);
    let mut columns = Columns::default();
    columns.text("operator", rows.keys().map(|kind| kind.name()));
    columns.count("runs", now().map(|engine| engine.runs));
    columns.count("kept", now().map(|engine| engine.kept));
    columns.count("satellites", now().map(|engine| engine.satellites));
    columns.count("waiting", now().map(|engine| engine.waiting));
    columns.count("windows_open", now().map(|engine| engine.windows_open));
    columns.count("retained_bytes", now().map(|engine| engine.retained_bytes));
    columns.count("hosted", done().map(|done| done.hosted));
    columns.count("joined", done().map(|done| done.joined));
    columns.count("late", done().map(|done| done.late));
    columns.count("batches_shared", done().map(|done| done.batches_shared));
    columns.count("batches_to_disk", done().map(|done| done.batches_to_disk));
    columns.count("reruns", done().map(|done| done.reruns));
    columns.count("deadlocks", done().map(|done| done.deadlocks));
    columns.count("failed", done().map(|done| done.failed));
    columns.finish()
}

/// One row for each open query.
fn queries(engine: Option<&Engine>) -> Result<RecordBatch> {
    let rows = engine.map(|engine| engine.sessions().queries());
    let rows: Vec<QueryRow> = rows.unwrap_or_default();
    let owner = || rows.iter().map(|query| query.owner.as_ref());
    let look = || rows.iter().map(|query| &query.look);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mut columns = Columns::default();
    let pids: Int32Array = owner().map(|owner| Some(owner?.pid)).collect();
    columns.known("pid", Arc::new(pids));
    let users: StringArray = owner().map(|owner| Some(&owner?.user)).collect();
    columns.known(USER, Arc::new(users));
    let state = |waits: bool| Some(if waits { "waiting" } else { "running" });
    let states: StringArray = look().map(|look| state(look.wait.is_some())).collect();
    columns.known("state", Arc::new(states));
    let events: StringArray = look().map(|look| look.wait.map(Wait::event)).collect();
    columns.known("wait_event", Arc::new(events));
    let open: Float64Array = rows.iter().map(|query| Some(ms(query.runs))).collect();
    columns.known("open_ms", Arc::new(open));
    let waited: Float64Array = look().map(|look| look.waited.map(ms)).collect();
    columns.known("waited_ms", Arc::new(waited));
    columns.known_count("bytes_held", look().map(|look| look.held));
    columns.known_count("bytes_promised", look().map(|look| look.promised));
    columns.known_count("bytes_awaited", look().map(|look| look.awaited));
    columns.known_count("reruns", look().map(|look| look.reruns));
    let causes: StringArray = look().map(|look| look.cause.map(Cause::name)).collect();
    columns.known("rerun_cause", Arc::new(causes));
    columns.finish()
}

fn state_cache(engine: Option<&Engine>) -> Result<RecordBatch> {
    let rows: Vec<(Counts, EngineMetrics)> = engine
        .map(|engine| (engine.board().cache.counts(), engine.metrics()))
        .into_iter()
        .collect();
    let counts = || rows.iter().map(|(counts, _)| counts);
    let metrics = || rows.iter().map(|(_, metrics)| metrics);
    let mut columns = Columns::default();
    columns.count("states", counts().map(|counts| counts.states as u64));
    columns.count("bytes", counts().map(|counts| counts.bytes));
    columns.count("hits", counts().map(|counts| counts.hits));
    columns.count("misses", counts().map(|counts| counts.misses));
    columns.count("evicted", counts().map(|counts| counts.evicted));
    columns.count("jobs", metrics().map(|m| m.fragment_jobs));
    columns.count("states_by_jobs", metrics().map(|m| m.fragment_states));
    columns.count(
        "chunks_given_back",
        metrics().map(|m| m.fragment_chunks_given_back),
    );
    columns.finish()
}
