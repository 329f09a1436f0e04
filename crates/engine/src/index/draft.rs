//! How are the data of an index written, so that none of them remain if the build fails?
//!
//! A draft has a unique name. A request to the store runs in its own task to its end, because a
//! dropped request may still take effect: another thread creates a local file, perhaps after its
//! removal. So a caller that abandons a build need not wait, and the draft is removed when its
//! last request has ended. If a store never answers, the draft stays; it holds no memory of the
//! sort.
//! Not here: what makes a draft an index (`commit.rs`), what is written (`build.rs`).

use std::panic::resume_unwind;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::AsyncArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use tokio::runtime::Handle;

use crate::index_catalog::{Claim, KEY, POSITION, is_text, is_whole_number};

/// Entries in a leaf: 4096 of at most eight bytes are 16 to 32 KiB, which takes little time beside
/// a request's latency, and the page index of a hundred million entries stays at a megabyte.
const LEAF_ROWS: usize = 4096;
/// Entries in a row group: the writer holds this many in memory, some megabytes.
const GROUP_ROWS: usize = 1 << 20;

/// The data of an index before its commit. Dropping the draft removes them.
pub(super) struct Draft {
    store: Arc<dyn ObjectStore>,
    path: Path,
    /// `None` once everything is written.
    writer: Option<AsyncArrowWriter<BufWriter>>,
    keep: bool,
    /// Held until the draft has become an index or is removed.
    claim: Option<Claim>,
}

impl Draft {
    /// A draft without entries.
    ///
    /// # Errors
    /// If Parquet does not support the type of the keys.
    pub(super) fn begin(
        store: &Arc<dyn ObjectStore>,
        path: &Path,
        schema: &SchemaRef,
        claim: Option<Claim>,
    ) -> Result<Self> {
        let target = BufWriter::new(Arc::clone(store), path.clone());
        let properties = properties(schema);
        let writer = AsyncArrowWriter::try_new(target, Arc::clone(schema), Some(properties))?;
        Ok(Self {
            store: Arc::clone(store),
            path: path.clone(),
            writer: Some(writer),
            keep: false,
            claim,
        })
    }

    /// Appends entries.
    ///
    /// # Errors
    /// Errors of the store; the draft is then removed.
    pub(super) async fn write(self, entries: RecordBatch) -> Result<Self> {
        self.carry(Some(entries)).await
    }

    /// Writes the rest and closes the draft.
    ///
    /// # Errors
    /// Errors of the store; the draft is then removed.
    pub(super) async fn close(self) -> Result<Self> {
        self.carry(None).await
    }

    async fn carry(mut self, entries: Option<RecordBatch>) -> Result<Self> {
        carried_through(async move {
            match self.put(entries).await {
                Ok(()) => Ok(self),
                Err(error) => {
                    self.remove().await;
                    Err(error.into())
                }
            }
        })
        .await
    }

    /// Writes entries, or closes the writer.
    async fn put(&mut self, entries: Option<RecordBatch>) -> Result<(), ParquetError> {
        match (entries, &mut self.writer) {
            (Some(entries), Some(writer)) => writer.write(&entries).await,
            (Some(_), None) => Err(ParquetError::General("the draft is closed".to_owned())),
            (None, writer) => match writer.take() {
                Some(writer) => writer.close().await.map(drop),
                None => Ok(()),
            },
        }
    }

    pub(super) fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Keeps the data from now on, because an index may refer to them.
    pub(super) fn keep(&mut self) {
        self.keep = true;
    }

    pub(super) async fn remove(mut self) {
        self.keep = true;
        remove(
            Arc::clone(&self.store),
            self.path.clone(),
            self.writer.take(),
        )
        .await;
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let (false, Ok(runtime)) = (self.keep, Handle::try_current()) {
            let (store, path) = (Arc::clone(&self.store), self.path.clone());
            let (writer, claim) = (self.writer.take(), self.claim.take());
            runtime.spawn(async move {
                remove(store, path, writer).await;
                drop(claim);
            });
        }
    }
}

/// Removes the data. Data that cannot be removed cost only space: no manifest names them.
async fn remove(
    store: Arc<dyn ObjectStore>,
    path: Path,
    writer: Option<AsyncArrowWriter<BufWriter>>,
) {
    if let Some(writer) = writer {
        let _ = writer.into_inner().abort().await;
    }
    let _ = store.delete(&path).await;
}

/// Runs `work` to its end, even if the caller is dropped.
pub(super) async fn carried_through<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        // The task is never aborted, so it panicked.
        Err(panicked) => resume_unwind(panicked.into_panic()),
    }
}

fn properties(schema: &SchemaRef) -> WriterProperties {
    let key = schema.field(0).data_type();
    let mut properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_compression(if is_text(key) {
            Compression::SNAPPY
        } else {
            Compression::UNCOMPRESSED
        })
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_column_statistics_enabled(ColumnPath::from(KEY), EnabledStatistics::Page)
        .set_write_batch_size(LEAF_ROWS)
        .set_data_page_row_count_limit(LEAF_ROWS)
        .set_data_page_size_limit(usize::MAX)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_column_encoding(ColumnPath::from(POSITION), Encoding::DELTA_BINARY_PACKED);
    if is_whole_number(key) {
        // Sorted keys differ by little: a bit or two each.
        properties =
            properties.set_column_encoding(ColumnPath::from(KEY), Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}
