//! What do the streams of one execution of a cooperative scan share?
//!
//! The first stream that is polled opens the files (their footers are cached), judges every chunk,
//! groups the wanted chunks by the columns that they still need, and announces the scan to the
//! buffer manager. The other streams wait for that. When the last stream is dropped, the scan
//! ends, wherever it is.
//! Not here: how a chunk is processed (`partition/by_chunk.rs`, `pipeline/`).
//! I1: every chunk that is not pruned is in exactly one run.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::datatypes::SchemaRef;
use coscan_storage::pool::{
    BufferPool, ChunkInfo, Scan, ScanMetrics, ScanPart, ScanRequest, TableFile, TableView,
};
use coscan_storage::{Batches, FileChunk};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::claims::Claims;
use super::dynamic::DynamicPruner;
use super::spec::{Delivery, FilePart, ScanPlan};
use crate::error::external;
use crate::read::pipeline::Pipeline;
use crate::read::prune::{BatchPruner, Questions, Verdicts, WantedBatches, bloom};
use crate::read::{FilePlan, FilePlans};

/// The state that the streams of one execution share.
pub(crate) struct Execution {
    pub(crate) plan: Arc<ScanPlan>,
    pub(crate) metrics: ExecutionPlanMetricsSet,
    running: OnceCell<Result<Arc<Running>, Arc<DataFusionError>>>,
    remembers: Option<Arc<dyn Remembers>>,
}

/// A cache of results of chunks, which then need not be read.
pub(crate) trait Remembers: Send + Sync {
    /// Whether this chunk need not be read. Called once for each wanted chunk, in the table's
    /// order.
    ///
    /// # Errors
    /// If the chunk's file does not fit the plan: a bug.
    fn remembers(&self, chunk: &ChunkInfo, judged: &Judged) -> Result<bool>;
}

/// An execution whose files are open.
pub(crate) struct Running {
    pub(crate) table: TableView,
    /// The files, in the plan's order.
    pub(crate) files: Vec<Arc<TableFile>>,
    /// The schema of the output.
    pub(crate) schema: SchemaRef,
    /// Per chunk of `table`: its pipeline; `None` if the chunk is not wanted.
    pub(crate) pipelines: Vec<Option<Arc<Pipeline>>>,
    /// Per chunk of `table`: the work that statistics left; `None` if they excluded the chunk.
    pub(crate) judged: Vec<Option<Judged>>,
    /// The chunks that workers have claimed.
    pub(crate) claims: Claims,
    /// Per partition: the runs that it processes, one after the other. Partitions may share a run.
    runs: Vec<Vec<Arc<Run>>>,
    pub(crate) dynamic: Option<DynamicPruner>,
    /// The rows that the limit still allows; `None` without a limit, or if delivery is not shared.
    rows_left: Option<AtomicUsize>,
    pub(crate) pool: BufferPool,
    label: Arc<str>,
    devices_max: Option<u32>,
}

/// The work that statistics left for a chunk.
#[derive(Clone)]
pub(crate) struct Judged {
    pub(crate) plan: Arc<FilePlan>,
    /// The conjuncts that are not proved, as a set of their positions.
    pub(crate) residual: u64,
    /// Rules out batches; `None` if none can be ruled out.
    batches: Option<Arc<BatchPruner>>,
}

/// Chunks that are handed out together.
pub(crate) struct Run {
    parts: Vec<ScanPart>,
    consumers: usize,
    ordered: bool,
    scan: OnceCell<Arc<Scan>>,
    /// The part of the scan's metrics that the plan's metrics already contain.
    reported: Mutex<ScanMetrics>,
}

impl Execution {
    pub(crate) fn new(plan: Arc<ScanPlan>, metrics: ExecutionPlanMetricsSet) -> Self {
        Self {
            plan,
            metrics,
            running: OnceCell::new(),
            remembers: None,
        }
    }

    /// The same execution without the chunks that `remembers` knows.
    pub(crate) fn with_memory(self, remembers: Arc<dyn Remembers>) -> Self {
        Self {
            remembers: Some(remembers),
            ..self
        }
    }

    /// The open execution; the first caller opens it. Cancel safe: if that caller is cancelled,
    /// another caller opens it instead.
    ///
    /// # Errors
    /// A file cannot be opened, or was changed after planning; all streams get the same error.
    pub(crate) async fn running(&self) -> Result<Arc<Running>> {
        self.running
            .get_or_init(|| {
                // Boxed: the compiler cannot prove the nested futures `Send` for every lifetime at
                // once.
                let start: BoxFuture<'_, Result<Running>> = Box::pin(self.start());
                async { start.await.map(Arc::new).map_err(Arc::new) }
            })
            .await
            .clone()
            .map_err(DataFusionError::Shared)
    }

    async fn start(&self) -> Result<Running> {
        let plan = &self.plan;
        let pool = plan.resources.pool(&plan.settings);
        let cache = pool.shared().files();
        let files = cache.open(&plan.keys(), plan.settings.chunk_bytes).await;
        let files = files.map_err(external)?;
        let table = pool.table(&files).map_err(external)?;
        let chunks = chunks_of(&table, &files);
        let mut pipelines: Vec<Option<Arc<Pipeline>>> = vec![None; table.chunks().len()];
        let mut judged: Vec<Option<Judged>> = vec![None; table.chunks().len()];
        let mut dynamic = Vec::new();
        let mut by_bloom = 0;
        let mut file_plans = FilePlans::new(&plan.table);
        let mut shared: HashMap<usize, OfPlan> = HashMap::new();
        for (position, file) in files.iter().enumerate() {
            let file_plan = file_plans.of(&plan.files[position], file)?;
            let of_plan = shared.entry(Arc::as_ptr(&file_plan).addr());
            let of_plan = of_plan.or_insert_with(|| OfPlan::new(plan, &file_plan));
            let mut verdicts = of_plan.questions.judge(file, &file_plan.schema);
            if !plan.rules_out_batches {
                verdicts.batches = None;
            }
            if plan.blooms {
                by_bloom += bloom::prune(file, &file_plan, plan.in_list_max, &mut verdicts).await;
            }
            if plan.is_part {
                keep_own(plan, position, file, &mut verdicts.wanted);
            }
            of_plan.make_pipelines(&verdicts, &chunks[position], &mut pipelines, &mut judged)?;
            if file_plan.conjuncts.iter().any(|conjunct| conjunct.dynamic) {
                dynamic.push((Arc::clone(file), file_plan, chunks[position].clone()));
            }
        }
        if let Some(enough) = limited(plan, &table, &pipelines, &judged) {
            for (chunk, pipeline) in pipelines.iter_mut().enumerate() {
                if !enough.contains(&chunk) {
                    *pipeline = None;
                }
            }
        }
        self.count(&pipelines, by_bloom);
        self.leave_remembered(&table, &judged, &mut pipelines)?;
        let runs = runs_of(plan, &files, &chunks, &pipelines);
        Ok(Running {
            dynamic: DynamicPruner::new(plan, dynamic, &pipelines),
            claims: Claims::new(pipelines.len()),
            judged,
            table,
            files,
            schema: Arc::clone(&plan.schema),
            pipelines,
            runs,
            rows_left: rows_left(plan),
            pool,
            label: plan.settings.label.as_str().into(),
            devices_max: plan.settings.parallelism,
        })
    }

    /// Leaves out the chunks that are remembered.
    fn leave_remembered(
        &self,
        table: &TableView,
        judged: &[Option<Judged>],
        pipelines: &mut [Option<Arc<Pipeline>>],
    ) -> Result<()> {
        let Some(remembers) = &self.remembers else {
            return Ok(());
        };
        for (chunk, info) in table.chunks().iter().enumerate() {
            if pipelines[chunk].is_some()
                && let Some(judged) = &judged[chunk]
                && remembers.remembers(info, judged)?
            {
                pipelines[chunk] = None;
            }
        }
        Ok(())
    }

    fn count(&self, pipelines: &[Option<Arc<Pipeline>>], by_bloom: usize) {
        let wanted = pipelines.iter().flatten().count();
        let counter = |name: &'static str| MetricBuilder::new(&self.metrics).global_counter(name);
        counter("chunks_wanted").add(wanted);
        counter("chunks_pruned").add(pipelines.len() - wanted);
        if by_bloom > 0 {
            counter("chunks_pruned_by_bloom_filter").add(by_bloom);
        }
    }
}

impl Running {
    /// The runs of a partition, in order.
    pub(crate) fn runs(&self, partition: usize) -> &[Arc<Run>] {
        self.runs.get(partition).map_or(&[], Vec::as_slice)
    }

    /// The position in [`Running::files`] of a chunk's file.
    pub(crate) fn file_of(&self, chunk: usize) -> usize {
        let file = &self.table.chunks()[chunk].file;
        let known = self.files.iter().position(|known| Arc::ptr_eq(known, file));
        known.unwrap_or_default()
    }

    /// The batches of a leased chunk of the table that may hold a row of the result.
    pub(crate) fn wanted_batches(&self, chunk: usize, batches: &Batches) -> WantedBatches {
        let judged = self.judged[chunk].as_ref();
        let Some(pruner) = judged.and_then(|judged| judged.batches.as_ref()) else {
            return WantedBatches::all(batches.len());
        };
        let info = &self.table.chunks()[chunk];
        let (file, chunk) = (&info.file, &info.file.chunks().chunks[info.file_chunk]);
        pruner.wanted(file.metadata(), chunk, batches)
    }

    /// Takes up to `rows` of the rows that the limit still allows, and returns how many it took.
    pub(crate) fn take_rows(&self, rows: usize) -> usize {
        let Some(left) = &self.rows_left else {
            return rows;
        };
        let before = left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left.saturating_sub(rows))
            })
            .unwrap_or(0);
        before.min(rows)
    }

    /// Whether the limit allows no more rows.
    pub(crate) fn limit_reached(&self) -> bool {
        self.rows_left
            .as_ref()
            .is_some_and(|left| left.load(Ordering::Relaxed) == 0)
    }

    /// The scan of a run; its first consumer announces it to the buffer manager.
    ///
    /// # Errors
    /// If the buffer manager refuses it: a chunk does not fit into memory.
    pub(crate) async fn scan(&self, run: &Run) -> Result<Arc<Scan>> {
        run.scan
            .get_or_try_init(|| async {
                let request = ScanRequest {
                    table: self.table.clone(),
                    parts: run.parts.clone(),
                    consumers: run.consumers,
                    ordered: run.ordered,
                    devices_max: self.devices_max,
                    label: Arc::clone(&self.label),
                };
                self.pool.scan(request).map(Arc::new).map_err(external)
            })
            .await
            .cloned()
    }
}

impl Run {
    /// The work of the run's scan since any of its consumers last called this.
    pub(crate) fn news(&self) -> Option<ScanMetrics> {
        let now = self.scan.get()?.metrics();
        let before = std::mem::replace(&mut *self.reported.lock(), now);
        Some(ScanMetrics {
            load_bytes: now.load_bytes.saturating_sub(before.load_bytes),
            loads: now.loads.saturating_sub(before.loads),
            decode_shared: now.decode_shared.saturating_sub(before.decode_shared),
            decode_begun: now.decode_begun.saturating_sub(before.decode_begun),
            rows_picked: now.rows_picked.saturating_sub(before.rows_picked),
            ..now
        })
    }
}

/// Per file, its chunks' positions in the table, in the file's order.
fn chunks_of(table: &TableView, files: &[Arc<TableFile>]) -> Vec<Vec<usize>> {
    let positions: HashMap<*const TableFile, usize> = files
        .iter()
        .enumerate()
        .map(|(position, file)| (Arc::as_ptr(file), position))
        .collect();
    let mut chunks: Vec<Vec<usize>> = vec![Vec::new(); files.len()];
    for (chunk, info) in table.chunks().iter().enumerate() {
        if let Some(position) = positions.get(&Arc::as_ptr(&info.file)) {
            chunks[*position].push(chunk);
        }
    }
    for (file, chunks) in files.iter().zip(&mut chunks) {
        debug_assert_eq!(
            chunks.len(),
            file.chunks().chunks.len(),
            "I1: a view holds all chunks of its files"
        );
        chunks.sort_by_key(|chunk| table.chunks()[*chunk].file_chunk);
    }
    chunks
}

/// The state that the chunks of all files with one plan share.
struct OfPlan {
    plan: Arc<FilePlan>,
    questions: Questions,
    /// By the set of the conjuncts that remain.
    pipelines: HashMap<u64, Arc<Pipeline>>,
}

impl OfPlan {
    fn new(scan: &ScanPlan, plan: &Arc<FilePlan>) -> Self {
        Self {
            questions: Questions::new(plan, scan.prunes, scan.in_list_max),
            plan: Arc::clone(plan),
            pipelines: HashMap::new(),
        }
    }

    /// Sets `pipelines` and `judged` for each wanted chunk of a file.
    fn make_pipelines(
        &mut self,
        verdicts: &Verdicts,
        chunks: &[usize],
        pipelines: &mut [Option<Arc<Pipeline>>],
        judged: &mut [Option<Judged>],
    ) -> Result<()> {
        for (at, chunk) in chunks.iter().enumerate() {
            if !verdicts.wanted[at] {
                continue;
            }
            let residual = verdicts.residual[at];
            let pipeline = match self.pipelines.entry(residual) {
                Entry::Occupied(known) => Arc::clone(known.get()),
                Entry::Vacant(new) => {
                    Arc::clone(new.insert(Arc::new(Pipeline::new(&self.plan, residual)?)))
                }
            };
            pipelines[*chunk] = Some(pipeline);
            judged[*chunk] = Some(Judged {
                plan: Arc::clone(&self.plan),
                residual,
                batches: verdicts.batches.clone().filter(|_| residual != 0),
            });
        }
        Ok(())
    }
}

/// Chunks with enough rows for the limit, because every row of them passes the predicate. `None`
/// if there is no limit, if delivery is not shared, or if these chunks do not have enough rows.
fn limited(
    plan: &ScanPlan,
    table: &TableView,
    pipelines: &[Option<Arc<Pipeline>>],
    judged: &[Option<Judged>],
) -> Option<Vec<usize>> {
    let limit = plan.limit?;
    if plan.delivery != Delivery::Shared {
        return None;
    }
    let mut rows = 0;
    let mut enough = Vec::new();
    for (chunk, info) in table.chunks().iter().enumerate() {
        if rows >= limit as u64 {
            break;
        }
        let proved = judged[chunk]
            .as_ref()
            .is_some_and(|judged| judged.residual == 0);
        if proved && pipelines[chunk].is_some() {
            rows += info.rows();
            enough.push(chunk);
        }
    }
    (rows >= limit as u64).then_some(enough)
}

/// How many rows all consumers together still want, if the limit counts for them together.
fn rows_left(plan: &ScanPlan) -> Option<AtomicUsize> {
    match plan.delivery {
        Delivery::Shared => plan.limit.map(AtomicUsize::new),
        Delivery::Partitioned | Delivery::Ordered => None,
    }
}

/// The runs of each partition.
fn runs_of(
    plan: &ScanPlan,
    files: &[Arc<TableFile>],
    chunks: &[Vec<usize>],
    pipelines: &[Option<Arc<Pipeline>>],
) -> Vec<Vec<Arc<Run>>> {
    let own = |part: &FilePart| -> Vec<usize> {
        let file = &files[part.file];
        let mine = chunks[part.file].iter().zip(&file.chunks().chunks);
        mine.filter(|(_, info)| part.range.contains(&begin(file, info)))
            .map(|(chunk, _)| *chunk)
            .collect()
    };
    match plan.delivery {
        Delivery::Shared => {
            let all: Vec<usize> = chunks.iter().flatten().copied().collect();
            let run = Arc::new(Run::new(&all, pipelines, plan.partitions.len(), false));
            vec![vec![run]; plan.partitions.len()]
        }
        Delivery::Partitioned => plan
            .partitions
            .iter()
            .map(|parts| {
                let own: Vec<usize> = parts.iter().flat_map(own).collect();
                vec![Arc::new(Run::new(&own, pipelines, 1, false))]
            })
            .collect(),
        Delivery::Ordered => plan
            .partitions
            .iter()
            .map(|parts| {
                parts
                    .iter()
                    .map(|part| Arc::new(Run::new(&own(part), pipelines, 1, true)))
                    .collect()
            })
            .collect(),
    }
}

/// Rules out the chunks of a file that are in no partition: another node reads them.
fn keep_own(plan: &ScanPlan, position: usize, file: &TableFile, wanted: &mut [bool]) {
    let parts = plan.partitions.iter().flatten();
    let own: Vec<_> = parts.filter(|part| part.file == position).collect();
    for (wanted, chunk) in wanted.iter_mut().zip(&file.chunks().chunks) {
        let begin = begin(file, chunk);
        *wanted &= own.iter().any(|part| part.range.contains(&begin));
    }
}

/// The beginning of a chunk in its file: DataFusion assigns a row group to the range that contains
/// its first page.
pub(crate) fn begin(file: &TableFile, chunk: &FileChunk) -> u64 {
    let Some(piece) = chunk.pieces.first() else {
        return 0;
    };
    let group = file.metadata().row_group(piece.row_group);
    let Some(column) = group.columns().first() else {
        return 0;
    };
    let offset = column
        .dictionary_page_offset()
        .unwrap_or_else(|| column.data_page_offset());
    u64::try_from(offset).unwrap_or(0)
}

impl Run {
    pub(crate) fn new(
        chunks: &[usize],
        pipelines: &[Option<Arc<Pipeline>>],
        consumers: usize,
        ordered: bool,
    ) -> Self {
        let mut parts: Vec<ScanPart> = Vec::new();
        let mut by_columns: HashMap<Vec<String>, usize> = HashMap::new();
        let mut by_pipeline: HashMap<*const Pipeline, usize> = HashMap::new();
        for chunk in chunks {
            let Some(pipeline) = &pipelines[*chunk] else {
                continue;
            };
            let part = *by_pipeline.entry(Arc::as_ptr(pipeline)).or_insert_with(|| {
                let columns = pipeline.columns.iter();
                let mut columns: Vec<String> = columns.map(|column| column.name.clone()).collect();
                columns.sort_unstable();
                *by_columns.entry(columns).or_insert_with_key(|columns| {
                    parts.push(ScanPart {
                        chunks: Vec::new(),
                        columns: columns.clone(),
                    });
                    parts.len() - 1
                })
            });
            parts[part].chunks.push(*chunk);
        }
        Self {
            parts,
            consumers,
            ordered,
            scan: OnceCell::new(),
            reported: Mutex::default(),
        }
    }
}
