//! Which entries of an index does REFRESH keep?
//!
//! If files were only added, the entries of an index are still valid for its own files, and still
//! sorted. They are read back leaf by leaf, with their checksums compared, and merged with the
//! sorted entries of the new files. The positions of new files follow the old ones, so no position
//! changes, wherever the files are in their folder: the manifest defines the positions. If a file
//! was changed or removed, or the index turns out to be damaged, the whole index is built again.
//! Not here: reading and sorting new files (`build.rs`).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use coscan_storage::pool::BufferPool;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::lit;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use object_store::ObjectStore;

use super::cursor::{ASCENDING, Cursor, Entries};
use crate::index_catalog::Index;
use crate::read::scan::ScanPlan;

/// Whether the entries can be kept: all files of the index exist unchanged, and the column has the
/// type of the keys.
pub(super) fn can_keep(index: &Index, scan: &ScanPlan) -> bool {
    let covered = scan
        .files
        .iter()
        .filter(|file| index.manifest.covers(&scan.key(file)));
    let of_its_type = index.has_keys_of(scan.schema.field(0).data_type());
    index.broken().is_none() && of_its_type && covered.count() == index.manifest.files.len()
}

/// The entries of an index, in order. Clones share their state.
#[derive(Clone)]
pub(super) struct KeptEntries {
    pub(super) index: Arc<Index>,
    pool: BufferPool,
    store: Arc<dyn ObjectStore>,
    /// Whether the entries turned out to be unreadable.
    failed: Arc<AtomicBool>,
}

impl KeptEntries {
    pub(super) fn new(index: &Arc<Index>, pool: BufferPool, store: &Arc<dyn ObjectStore>) -> Self {
        Self {
            index: Arc::clone(index),
            pool,
            store: Arc::clone(store),
            failed: Arc::default(),
        }
    }

    /// Whether the entries turned out to be unreadable.
    pub(super) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The scan of the files that are not covered; `None` if there are none.
    pub(super) fn others(&self, scan: &ScanPlan) -> Option<ScanPlan> {
        scan.only(|file| !self.index.manifest.covers(&scan.key(file)))
    }

    pub(super) fn plan(&self, schema: &SchemaRef) -> Result<Arc<dyn ExecutionPlan>> {
        let partition = KeptStream {
            kept: self.clone(),
            schema: Arc::clone(schema),
        };
        let schema = Arc::clone(schema);
        let partitions: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(partition)];
        let plan = StreamingTableExec::try_new(schema, partitions, None, [], false, None)?;
        Ok(Arc::new(plan))
    }

    async fn open(&self, key: &DataType) -> Result<Cursor> {
        let all: Arc<dyn PhysicalExpr> = lit(true);
        Cursor::open(&self.index, &self.pool, &self.store, &all, key, ASCENDING).await
    }

    fn note(&self, error: &DataFusionError) {
        let (index, error) = (self.index.display(), error.strip_backtrace());
        log::warn!("{index}: {error}; it is built from all files");
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// The only partition of the kept entries.
struct KeptStream {
    kept: KeptEntries,
    schema: SchemaRef,
}

impl PartitionStream for KeptStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let start = (self.kept.clone(), Arc::clone(&self.schema), None);
        let batches = stream::try_unfold(start, |(kept, schema, cursor)| async move {
            let key = schema.field(0).data_type();
            // Boxed: the compiler cannot prove the nested futures `Send` for every lifetime at
            // once.
            let next: BoxFuture<'_, Result<Option<(Entries, Cursor)>>> = Box::pin(async {
                let mut cursor: Cursor = match cursor {
                    Some(cursor) => cursor,
                    None => kept.open(key).await?,
                };
                Ok(cursor.next().await?.map(|entries| (entries, cursor)))
            });
            let next = next.await.inspect_err(|error| kept.note(error))?;
            let Some((entries, cursor)) = next else {
                return Ok(None);
            };
            let columns: Vec<ArrayRef> = vec![entries.keys, Arc::new(entries.positions)];
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
            Ok(Some((batch, (kept, schema, Some(cursor)))))
        });
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches.boxed(),
        ))
    }
}

impl fmt::Debug for KeptStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptStream")
            .field("index", &self.kept.index)
            .finish_non_exhaustive()
    }
}
