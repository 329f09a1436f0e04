//! How do batches of any length become a file of row groups?
//!
//! Batches are cut where pages end. At the end of a page the row group ends if it is full: by
//! rows, by its expected bytes, or because memory is short. Then its columns are encoded
//! concurrently and written in order, each as soon as it and its predecessors are ready.
//! Not here: the pages (`row_group.rs`), the file (`target.rs`).
//! Bounds: memory holds the arrays of one row group, at most a quarter of the engine's memory or
//! one page over all columns, whichever is more, and one encoded column per core. When memory is
//! short the row group ends early.
//! I4: all row groups but the last have a multiple of `page_rows` rows.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use coscan::Engine;
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use futures::StreamExt;
use parking_lot::Mutex;
use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use crate::Rewritten;
use crate::error::RewriteError;
use crate::layout::PageLayout;
use crate::row_group::{Encoder, Gathered};
use crate::target::{Sealed, Target};

/// Writes one file.
pub(crate) struct PageWriter {
    /// The target's name, for errors.
    name: String,
    layout: PageLayout,
    target: Target,
    file: SerializedFileWriter<Outbox>,
    outbox: Outbox,
    encoder: Encoder,
    group: Gathered,
    /// The memory of `group`.
    memory: MemoryReservation,
    /// The most bytes that `group` may have.
    memory_max: usize,
    /// Whether `group` has more memory than the engine granted.
    short: bool,
    /// Bytes of the arrays encoded so far, and bytes of their encoded form.
    ratio: (u64, u64),
    written: Rewritten,
}

/// A row group is closed before it takes this part of the engine's memory: the sort below it, the
/// reader and the columns being encoded need memory too.
const MEMORY_SHARE: u64 = 4;

impl PageWriter {
    /// Begins a file with these columns and this metadata, whose rows are sorted by the columns of
    /// `sort_by`.
    ///
    /// # Errors
    /// [`RewriteError::Encode`] for a type that Parquet does not have.
    pub(crate) fn new(
        engine: &Engine,
        name: &str,
        schema: &SchemaRef,
        key_values: Vec<KeyValue>,
        sort_by: &[String],
        layout: PageLayout,
        target: Target,
    ) -> Result<Self, RewriteError> {
        let failed = |error| encode_error(name, "schema", error);
        let sorting = sorting_columns(schema, sort_by).map_err(failed)?;
        let outbox = Outbox::default();
        let with = layout.properties(true, key_values, sorting);
        let (file, with) = with
            .and_then(|properties| open(outbox.clone(), schema, properties))
            .map_err(failed)?;
        let without = layout.properties(false, Vec::new(), Vec::new());
        let (_, without) = without
            .and_then(|properties| open(io::sink(), schema, properties))
            .map_err(failed)?;
        let encoder = Encoder::new(
            Arc::clone(schema),
            file.schema_descr(),
            layout.page_rows,
            with,
            without,
        );
        let memory_max = engine.memory().limit() / MEMORY_SHARE;
        Ok(Self {
            name: name.to_owned(),
            layout,
            target,
            file,
            outbox,
            encoder,
            group: Gathered::default(),
            memory: MemoryConsumer::new("rewrite").register(&engine.runtime().memory_pool),
            memory_max: usize::try_from(memory_max).unwrap_or(usize::MAX),
            short: false,
            ratio: (0, 0),
            written: Rewritten::default(),
        })
    }

    /// Rows written so far, those of the current row group included.
    pub(crate) fn rows(&self) -> u64 {
        self.written.rows + self.group.rows() as u64
    }

    /// Appends rows.
    ///
    /// # Errors
    /// [`RewriteError::Encode`], [`RewriteError::Write`].
    pub(crate) async fn write(&mut self, batch: &RecordBatch) -> Result<(), RewriteError> {
        let page_rows = self.layout.page_rows;
        // Computed once per batch and divided by rows, because a slice of a list counts as all of
        // its values.
        let bytes = array_bytes(batch);
        let mut from = 0;
        while from < batch.num_rows() {
            let left = page_rows - self.group.rows() % page_rows;
            let rows = left.min(batch.num_rows() - from);
            self.hold(&batch.slice(from, rows), bytes * rows / batch.num_rows());
            from += rows;
            if self.group.rows().is_multiple_of(page_rows) && self.is_full() {
                self.close_group().await?;
            }
        }
        Ok(())
    }

    /// Finishes the file and makes it appear.
    ///
    /// # Errors
    /// As [`Target::finish`].
    pub(crate) async fn finish(mut self) -> Result<Rewritten, RewriteError> {
        self.end().await?;
        self.target.finish().await?;
        Ok(self.written)
    }

    /// Finishes the file without making it appear.
    ///
    /// # Errors
    /// As [`Target::seal`].
    pub(crate) async fn seal(mut self) -> Result<(Rewritten, Sealed), RewriteError> {
        self.end().await?;
        let sealed = self.target.seal(self.written.bytes).await?;
        Ok((self.written, sealed))
    }

    async fn end(&mut self) -> Result<(), RewriteError> {
        if self.group.rows() > 0 {
            self.close_group().await?;
        }
        self.file
            .finish()
            .map_err(|error| encode_error(&self.name, "schema", error))?;
        self.written.bytes = self.file.bytes_written() as u64;
        self.target.write(self.outbox.take()).await
    }

    /// Abandons the file.
    pub(crate) async fn abandon(self) {
        self.target.abandon().await;
    }

    /// Adds rows of one page to the row group. Memory is taken even if it is not granted, because
    /// the page has to be completed; the row group then ends with the page.
    fn hold(&mut self, rows: &RecordBatch, bytes: usize) {
        if self.memory.try_grow(bytes).is_err() {
            self.memory.grow(bytes);
            self.short = true;
        }
        self.group.push(rows);
    }

    /// Whether the row group ends here, at the end of a page (I4).
    fn is_full(&self) -> bool {
        self.short
            || self.memory.size() >= self.memory_max
            || self.group.rows() >= self.layout.row_group_rows
            || self.expected_bytes() >= u128::from(self.layout.row_group_bytes)
    }

    /// The expected bytes of the row group on disk, if it is encoded like its predecessors; the
    /// first one is expected to be as large as its arrays.
    fn expected_bytes(&self) -> u128 {
        let held = self.memory.size() as u128;
        match self.ratio {
            (0, _) => held,
            (arrays, encoded) => held * u128::from(encoded) / u128::from(arrays),
        }
    }

    async fn close_group(&mut self) -> Result<(), RewriteError> {
        let group = std::mem::take(&mut self.group);
        let rows = group.rows();
        let before = self.file.bytes_written();
        let failed = |column: &str, error| encode_error(&self.name, column, error);
        let tasks = self
            .encoder
            .tasks(self.file.flushed_row_groups().len(), group)
            .map_err(|error| failed("schema", error))?;
        let mut encoded = futures::stream::iter(tasks)
            .map(|task| {
                let name = task.name().to_owned();
                let task = SpawnedTask::spawn_blocking(move || task.encode());
                async move { (name, task.join_unwind().await) }
            })
            .buffered(threads());
        let mut out = self
            .file
            .next_row_group()
            .map_err(|error| failed("schema", error))?;
        while let Some((column, leaves)) = encoded.next().await {
            let leaves = leaves
                .map_err(|error| ParquetError::External(Box::new(error)))
                .flatten()
                .map_err(|error| failed(&column, error))?;
            for leaf in leaves {
                if !leaf.aligned {
                    return Err(RewriteError::Misaligned {
                        path: self.name.clone(),
                        column,
                        page_rows: self.layout.page_rows,
                    });
                }
                self.encoder.learn(&leaf);
                leaf.chunk
                    .append_to_row_group(&mut out)
                    .map_err(|error| failed(&column, error))?;
                self.target.write(self.outbox.take()).await?;
            }
        }
        out.close().map_err(|error| failed("schema", error))?;
        let bytes = (self.file.bytes_written() - before) as u64;
        self.ratio = (
            self.ratio.0 + self.memory.size() as u64,
            self.ratio.1 + bytes,
        );
        self.memory.free();
        self.short = false;
        self.written.rows += rows as u64;
        self.written.row_groups += 1;
        self.written.pages += rows.div_ceil(self.layout.page_rows) as u64;
        Ok(())
    }
}

/// A file writer with Arrow's form of the schema in its metadata, and the factory of its column
/// writers.
fn open<W: Write + Send>(
    out: W,
    schema: &SchemaRef,
    properties: WriterProperties,
) -> Result<(SerializedFileWriter<W>, ArrowRowGroupWriterFactory), ParquetError> {
    ArrowWriter::try_new(out, Arc::clone(schema), Some(properties))?.into_serialized_writer()
}

/// The footer's declaration that rows are sorted by these columns, which are flat.
fn sorting_columns(
    schema: &SchemaRef,
    sort_by: &[String],
) -> Result<Vec<SortingColumn>, ParquetError> {
    let leaves = ArrowSchemaConverter::new().convert(schema)?;
    let leaf_of = |name: &String| {
        let root = schema.index_of(name).ok()?;
        (0..leaves.num_columns()).find(|leaf| leaves.get_column_root_idx(*leaf) == root)
    };
    let leaves = sort_by.iter().filter_map(leaf_of);
    Ok(leaves
        .filter_map(|leaf| i32::try_from(leaf).ok())
        .map(|column_idx| SortingColumn {
            column_idx,
            descending: false,
            nulls_first: false,
        })
        .collect())
}

/// Bytes that parquet's writer has written and the target has not.
#[derive(Clone, Default)]
struct Outbox(Arc<Mutex<Vec<u8>>>);

impl Outbox {
    fn take(&self) -> Bytes {
        std::mem::take(&mut *self.0.lock()).into()
    }
}

impl Write for Outbox {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes of the batch's rows in memory. An array without its own count counts as all that it
/// refers to.
fn array_bytes(batch: &RecordBatch) -> usize {
    let of = |column: &Arc<dyn Array>| {
        let slice = column.to_data().get_slice_memory_size();
        slice.unwrap_or_else(|_| column.get_array_memory_size())
    };
    batch.columns().iter().map(of).sum()
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn encode_error(path: &str, column: &str, source: ParquetError) -> RewriteError {
    RewriteError::Encode {
        path: path.to_owned(),
        column: column.to_owned(),
        source,
    }
}
