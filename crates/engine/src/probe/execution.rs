//! What do the streams of one execution of an index scan share?
//!
//! The first stream that is polled opens the table's files and the index at the same time, and
//! divides the table into pages. If the index cannot be used, the take-over scan reads everything.
//! Not here: what a stream does (`streams/stream.rs`), which pages are next
//! (`coscan_core::smooth`).

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock, Weak};

use arrow::array::ArrayRef;
use coscan_core::smooth::{Examined, FetchedRows, HandOver, JobId, PageRun, SAMPLED_LEAVES};
use coscan_storage::pool::{Lapses, PageRequest, TableFile, Watch};
use coscan_storage::{PageMap, PagePiece};
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all, try_join_all};
use tokio::sync::{Mutex, OnceCell};

use super::metrics::{RowsLeft, SmoothMetrics};
use super::plan::{IndexCondition, SmoothPlan};
use super::prices::prices;
use super::probing::{Probing, Work};
use super::rows::{PIECE_ROWS_MAX, ReadPages};
use super::single_rows::{DecodedPage, KeptPages};
use super::takeover::TakeOver;
use crate::error::external;
use crate::index::Cursor;
use crate::index_catalog::Index;
use crate::read::scan::{Execution, Running};
use crate::tables::metadata::footers;

/// The state that the streams of one execution share.
pub(crate) struct SmoothExecution {
    pub(crate) plan: Arc<SmoothPlan>,
    covered: Execution,
    /// The scan of the files that the index does not cover.
    pub(crate) rest: Option<Arc<Execution>>,
    pub(crate) metrics: SmoothMetrics,
    pub(crate) rows_left: RowsLeft,
    open: OnceCell<Result<Arc<Open>, Arc<DataFusionError>>>,
}

/// An execution whose files are open.
pub(crate) struct Open {
    pub(crate) running: Arc<Running>,
    pub(crate) map: Arc<PageMap>,
    /// `None` if the index cannot be used.
    probing: Option<Mutex<Probing>>,
    /// The pages of rows that are fetched one by one; `None` if each is read for its rows alone.
    pub(super) kept_pages: Option<Arc<KeptPages<DecodedPage>>>,
    _kept_pages_watch: Option<Watch>,
    pub(crate) take_over: OnceLock<TakeOver>,
    /// Position of the first row of each file.
    pub(crate) first_rows: Arc<[u64]>,
}

impl SmoothExecution {
    pub(crate) fn new(plan: Arc<SmoothPlan>, metrics: ExecutionPlanMetricsSet) -> Self {
        let rest = plan.rest.as_ref();
        Self {
            rest: rest.map(|rest| Arc::new(Execution::new(Arc::clone(rest), metrics.clone()))),
            metrics: SmoothMetrics::new(&metrics),
            rows_left: RowsLeft::new(plan.limit),
            covered: Execution::new(Arc::clone(&plan.covered), metrics),
            plan,
            open: OnceCell::new(),
        }
    }

    /// The open execution; the first caller opens it. Cancel safe: if that caller is cancelled,
    /// another caller opens it instead.
    ///
    /// # Errors
    /// A file of the table cannot be opened; all streams get the same error. An index that cannot
    /// be opened is no error.
    pub(crate) async fn open(&self, context: &Arc<TaskContext>) -> Result<Arc<Open>> {
        let opened = self.open.get_or_init(|| {
            // Boxed: the compiler cannot prove the nested futures `Send` for every lifetime at
            // once.
            let start: BoxFuture<'_, Result<Open>> = Box::pin(self.start(context));
            async { start.await.map(Arc::new).map_err(Arc::new) }
        });
        opened.await.clone().map_err(DataFusionError::Shared)
    }

    async fn start(&self, context: &Arc<TaskContext>) -> Result<Open> {
        let plan = &self.plan;
        // Another thread opens the index in the meantime. Most of the work on either side is
        // decoding a page index.
        let opening = self.open_index(context);
        let running = self.covered.running().await?;
        let columns: Vec<Option<Vec<String>>> = running
            .pipelines
            .iter()
            .map(|pipeline| {
                let columns = pipeline.as_ref()?.columns.iter();
                Some(columns.map(|column| column.name.clone()).collect())
            })
            .collect();
        let map_of = |index: &Index| {
            let first_row = |file: &TableFile| {
                let first = index.manifest.first_row(file.key());
                first.unwrap_or(0)
            };
            PageMap::new(&running.table, |chunk| columns[chunk].as_deref(), first_row)
        };
        // Positions depend on the index that is used, which is not known yet if there are several.
        let early = (plan.others.is_empty()).then(|| map_of(&plan.condition.index));
        let cursor = opening.await.map_err(|error| {
            DataFusionError::Execution(format!("opening an index failed: {error}"))
        })?;
        let index = cursor.as_ref().map(Cursor::index);
        let index = index.unwrap_or(&plan.condition.index);
        let map = Arc::new(early.unwrap_or_else(|| map_of(index)));
        let first_rows = index.manifest.first_rows(&running.files);
        let probing = cursor.map(|cursor| {
            self.metrics.index_used.set(&cursor.index().manifest.name);
            let prices = prices(&running, &map, &columns);
            let chunks = running.pipelines.iter().flatten().count();
            let metrics = self.metrics.clone();
            let probing = Probing::new(plan, cursor, &map, chunks, prices, metrics);
            Mutex::new(probing)
        });
        let kept_pages = self.kept_pages(context, &running);
        let watch = |kept: &Arc<KeptPages<DecodedPage>>| {
            let kept: Weak<dyn Lapses> = Arc::downgrade(kept) as Weak<dyn Lapses>;
            running.pool.watch(kept)
        };
        Ok(Open {
            _kept_pages_watch: kept_pages.as_ref().map(watch),
            kept_pages,
            running,
            map,
            probing,
            take_over: OnceLock::new(),
            first_rows,
        })
    }

    /// Memory for pages of rows that are fetched one by one; `None` if none may be kept.
    fn kept_pages(
        &self,
        context: &TaskContext,
        running: &Running,
    ) -> Option<Arc<KeptPages<DecodedPage>>> {
        let bytes_max = self.plan.covered.settings.index_cache_bytes();
        (bytes_max > 0).then(|| {
            let memory = MemoryConsumer::new("KeptPages").with_can_spill(true);
            let memory = memory.register(context.memory_pool());
            let lapse_after = running.pool.config().lapse_after;
            let found = self.metrics.pages_found_decoded.clone();
            KeptPages::new(bytes_max, memory, lapse_after, found)
        })
    }

    /// Begins to open the index (of several, the one with the fewest entries) and to sample a few
    /// leaves if that may be done first. The task returns `None` if no index can be used.
    fn open_index(&self, context: &Arc<TaskContext>) -> SpawnedTask<Option<Cursor>> {
        let plan = Arc::clone(&self.plan);
        let runtime = context.runtime_env();
        SpawnedTask::spawn(async move {
            let opening = plan.conditions().map(|condition| async {
                let opened = open_one(&plan, condition, &runtime);
                let opened = caught(&condition.index.manifest.name, opened).await;
                // An index whose keys have another type than this table's column is not broken.
                let at_fault = condition.index.has_keys_of(&condition.key);
                let note = |error: &DataFusionError| {
                    if at_fault {
                        condition.index.set_broken(&error.strip_backtrace());
                    }
                };
                opened.inspect_err(note).ok()
            });
            let opened = join_all(opening).await.into_iter().flatten();
            let mut cursor = opened.min_by_key(Cursor::entries_at_most)?;
            cursor.begin();
            if plan.may_look_first() {
                let name = cursor.index().manifest.name.clone();
                let looked = caught(&name, cursor.sample_ahead(SAMPLED_LEAVES)).await;
                let note = |error: &DataFusionError| {
                    cursor.index().set_broken(&error.strip_backtrace());
                };
                looked.inspect_err(note).ok()?;
            }
            Some(cursor)
        })
    }
}

/// Parquet's reader panics on some damaged files: this makes the panic an error, and the index is
/// then broken.
async fn caught<T>(index: &str, reading: impl Future<Output = Result<T>>) -> Result<T> {
    let read = AssertUnwindSafe(reading).catch_unwind().await;
    read.unwrap_or_else(|panic| Err(footers::panicked(index, &*panic)))
}

async fn open_one(
    plan: &SmoothPlan,
    condition: &IndexCondition,
    runtime: &RuntimeEnv,
) -> Result<Cursor> {
    let IndexCondition {
        index,
        predicate,
        key,
    } = condition;
    let resources = &plan.covered.resources;
    resources.ensure_device(&index.folder.store, runtime)?;
    let store = runtime.object_store(&index.folder.store)?;
    let pool = resources.pool(&plan.covered.settings);
    Cursor::open(index, &pool, &store, predicate, key, plan.key_order()).await
}

impl Open {
    /// The next work. Once a scan takes over, its description is in [`Open::take_over`], and this
    /// returns [`Work::End`].
    pub(crate) async fn next_work(&self, plan: &SmoothPlan, metrics: &SmoothMetrics) -> Work {
        let work = match &self.probing {
            Some(probing) => probing.lock().await.next_work().await,
            None => Work::TakeOver(HandOver::everything(self.map.len())),
        };
        match work {
            Work::TakeOver(left) => {
                let consumers = plan.partitions();
                self.take_over.get_or_init(|| {
                    let scan = TakeOver::new(&self.running, &self.map, left, consumers);
                    metrics.pages_scanned.add(scan.pages);
                    scan
                });
                Work::End
            }
            work => work,
        }
    }

    /// Keys that divide the index into ranges, in the order of the scan; `None` if they are
    /// unknown.
    pub(crate) async fn bounds(&self) -> Option<ArrayRef> {
        self.probing.as_ref()?.lock().await.bounds()
    }

    /// Limits the search to rows with keys before this bound; `None` is no limit.
    ///
    /// # Errors
    /// If keys cannot be compared: a bug.
    pub(crate) async fn go_on_to(&self, bound: Option<(ArrayRef, usize)>) -> Result<()> {
        match &self.probing {
            Some(probing) => probing.lock().await.go_on_to(bound),
            None => Ok(()),
        }
    }

    /// Reports to the probe what the regions of one job contained.
    pub(crate) async fn examined(&self, job: JobId, regions: &[Examined]) {
        if let Some(probing) = &self.probing {
            probing.lock().await.examined(job, regions);
        }
    }

    /// The rows that were fetched one by one.
    pub(crate) async fn fetched(&self) -> Arc<FetchedRows> {
        match &self.probing {
            Some(probing) => probing.lock().await.fetched(),
            None => Arc::default(),
        }
    }

    /// The most concurrent jobs, over all streams.
    pub(crate) async fn jobs_max(&self) -> usize {
        match &self.probing {
            Some(probing) => probing.lock().await.jobs_max(),
            None => 1,
        }
    }

    /// Reads a page and decodes all its rows, and tells their bytes. `None`: statistics ruled out
    /// its chunk.
    ///
    /// # Errors
    /// Errors of the device and of decoding.
    pub(super) async fn decoded_page(
        &self,
        number: u32,
        metrics: &SmoothMetrics,
    ) -> Result<Option<(DecodedPage, u64)>> {
        let page = self.map.page(number);
        let run = PageRun {
            chunk: page.chunk,
            pages: number..number + 1,
        };
        let read = self.read(&[run], metrics).await?;
        let Some(read) = read.first() else {
            return Ok(None);
        };
        let columns = &read.pipeline.columns;
        let arrays = read.bytes.decode(0, columns, None).await;
        let arrays = arrays.map_err(external)?;
        let page = DecodedPage::new(page.position, Arc::clone(&read.pipeline), arrays);
        let bytes = page.bytes();
        Ok(Some((page, bytes)))
    }

    /// Reads pages, except those of chunks that statistics ruled out.
    ///
    /// # Errors
    /// Errors of the device.
    pub(crate) async fn read(
        &self,
        runs: &[PageRun],
        metrics: &SmoothMetrics,
    ) -> Result<Vec<ReadPages>> {
        // The runs of one chunk make one request.
        let mut requests: Vec<(usize, Vec<PagePiece>)> = Vec::new();
        for run in runs {
            if self.running.pipelines[run.chunk].is_none() {
                metrics.pages_pruned.add(run.pages.len());
                continue;
            }
            let pieces = self.map.pieces(run, PIECE_ROWS_MAX);
            match requests.last_mut() {
                Some((chunk, all)) if *chunk == run.chunk => all.extend(pieces),
                _ => requests.push((run.chunk, pieces)),
            }
        }
        let reads = requests.into_iter().filter_map(|(chunk, pieces)| {
            let pipeline = Arc::clone(self.running.pipelines[chunk].as_ref()?);
            let request = PageRequest {
                chunk,
                pieces: pieces.iter().map(|piece| piece.piece.clone()).collect(),
                columns: pipeline
                    .columns
                    .iter()
                    .map(|column| column.name.clone())
                    .collect(),
            };
            Some(async move {
                let read = self
                    .running
                    .pool
                    .read_pages(&self.running.table, &request)
                    .await;
                Ok::<_, DataFusionError>(ReadPages {
                    bytes: read.map_err(external)?,
                    pipeline,
                    pieces,
                })
            })
        });
        let read = try_join_all(reads).await?;
        for read in &read {
            let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
            let pages: usize = read.pieces.iter().map(|piece| piece.pages.len()).sum();
            metrics.pages_read.add(pages);
            if read.bytes.from_buffer() {
                metrics.pages_from_buffer.add(pages);
            }
            metrics.bytes_read.add(count(read.bytes.bytes_read()));
            metrics.requests.add(count(read.bytes.requests()));
        }
        Ok(read)
    }
}
