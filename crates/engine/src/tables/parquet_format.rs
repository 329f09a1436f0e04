//! Which file of a table cannot be read, or does not fit the others?
//!
//! DataFusion's Parquet format says what is wrong with a footer or with two schemas, but not which
//! files they are from. This format wraps it and names the file in errors: when a table is
//! registered or declared, and when a query collects statistics.
//! Not here: reading and checking footers (`metadata/footers.rs`), columns of files that differ
//! (`metadata/columns.rs`), a file's statistics (`metadata/statistics.rs`), writing rows
//! (`writing.rs`), pages (`cscan/plain.rs`, `coscan-storage`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use coscan_storage::StorageError;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::{GetExt, Statistics, exec_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory, FileMeta};
use datafusion::datasource::physical_plan::parquet::metadata::ordering_from_parquet_metadata;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use object_store::{ObjectMeta, ObjectStore};
use parquet::file::metadata::ParquetMetaData;

use super::metadata::{columns, footers, of_file as statistics_of, over_row_groups};
use super::partitioned::files_of;
use super::writing::{self, FilesSink};
use crate::error::{Error, external, storage_error};
use crate::object_stores::joint_store::written;

/// Parquet files of one store, which may be a joint one.
#[derive(Debug)]
pub(crate) struct CheckedParquet {
    inner: Arc<dyn FileFormat>,
    store: ObjectStoreUrl,
    /// Whether the table's columns were read from its files rather than declared.
    inferred: bool,
    /// Whether a scan found a file that the table's columns cannot hold, so that the table must be
    /// reopened.
    outdated: AtomicBool,
}

/// Whether a scan has found a file that the table's columns cannot hold.
pub(crate) fn is_outdated(table: &dyn TableProvider) -> bool {
    let format = files_of(table).map(|files| &files.options().format);
    let parquet = format.and_then(|format| format.downcast_ref::<CheckedParquet>());
    parquet.is_some_and(|parquet| parquet.outdated.load(Ordering::Relaxed))
}

impl CheckedParquet {
    pub(crate) fn new(inner: Arc<dyn FileFormat>, store: ObjectStoreUrl, inferred: bool) -> Self {
        Self {
            inner,
            store,
            inferred,
            outdated: AtomicBool::new(false),
        }
    }

    /// Refuses a file that was changed after the table's columns were read, if they cannot hold
    /// its values. DataFusion would cast them to the table's types.
    fn check_columns(&self, name: &str, footer: &ParquetMetaData, table: &Schema) -> Result<()> {
        let Some(options) = self.options().filter(|_| self.inferred) else {
            return Ok(());
        };
        let file = columns::of_file(name, footer, options)?;
        let Some((known, found)) = columns::misfit(table, &file) else {
            return Ok(());
        };
        self.outdated.store(true, Ordering::Relaxed);
        Err(DataFusionError::External(Box::new(Error::OtherColumns {
            file: name.to_owned(),
            column: known.name().clone(),
            found: found.data_type().clone(),
            known: known.data_type().clone(),
        })))
    }

    fn name(&self, file: &ObjectMeta) -> String {
        written(&self.store, &file.location)
    }

    /// The options of the format; `None` if it is not DataFusion's.
    fn options(&self) -> Option<&TableParquetOptions> {
        let parquet = self.inner.downcast_ref::<ParquetFormat>();
        parquet.map(ParquetFormat::options)
    }

    /// The columns of several files together, as they are stored.
    async fn stored(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
        options: &TableParquetOptions,
    ) -> Result<Schema> {
        let name = |file: &ObjectMeta| self.name(file);
        let of_file = |name: &str, footer: &ParquetMetaData| {
            let columns = columns::of_file(name, footer, options);
            columns.map_err(|error| named(name, error))
        };
        let each = footers::each(state, (&self.store, store), name, files, of_file).await?;
        columns::of_files(each)
    }
}

fn ordering_of(footer: &ParquetMetaData, schema: &SchemaRef) -> Result<Option<LexOrdering>> {
    let declared = ordering_from_parquet_metadata(footer, schema)?;
    Ok(declared.and_then(|declared| over_row_groups(declared, footer, schema)))
}

/// The error of a file, with the file's name.
fn named(file: &str, error: DataFusionError) -> DataFusionError {
    if storage_error(&error).is_some() {
        // A storage error already names its file.
        return error;
    }
    match error {
        // These errors already name their files.
        DataFusionError::ObjectStore(_) => error,
        DataFusionError::External(ours) if ours.is::<Error>() => DataFusionError::External(ours),
        error => external(StorageError::BadFooter {
            file: file.to_owned(),
            reason: error.strip_backtrace(),
        }),
    }
}

#[async_trait]
impl FileFormat for CheckedParquet {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.inner.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.inner.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let Some(options) = self.options() else {
            return self.inner.infer_schema(state, store, files).await;
        };
        let stored = self.stored(state, store, files, options).await?;
        Ok(Arc::new(columns::as_read(stored, options)))
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        file: &ObjectMeta,
    ) -> Result<Statistics> {
        if file.size == 0 {
            return self.inner.infer_stats(state, store, schema, file).await;
        }
        let name = self.name(file);
        let footer = footers::footer(state, (&self.store, store), &name, file).await?;
        footers::caught(&name, || {
            self.check_columns(&name, &footer, &schema)?;
            statistics_of(&footer, &schema)
        })
        .map_err(|error| named(&name, error))
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        file: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        if file.size == 0 {
            return self.inner.infer_ordering(state, store, schema, file).await;
        }
        let name = self.name(file);
        let footer = footers::footer(state, (&self.store, store), &name, file).await?;
        footers::caught(&name, || ordering_of(&footer, &schema))
            .map_err(|error| named(&name, error))
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        file: &ObjectMeta,
    ) -> Result<FileMeta> {
        if file.size == 0 {
            let inner = &self.inner;
            return inner
                .infer_stats_and_ordering(state, store, schema, file)
                .await;
        }
        let name = self.name(file);
        let footer = footers::footer(state, (&self.store, store), &name, file).await?;
        footers::caught(&name, || {
            self.check_columns(&name, &footer, &schema)?;
            let ordering = ordering_of(&footer, &schema)?;
            Ok(FileMeta::new(statistics_of(&footer, &schema)?).with_ordering(ordering))
        })
        .map_err(|error| named(&name, error))
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        scan: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.create_physical_plan(state, scan).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        sink: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(options) = self.options() else {
            let inner = &self.inner;
            return inner
                .create_writer_physical_plan(input, state, sink, order)
                .await;
        };
        let files = sink.file_group.iter().map(|file| file.object_meta.clone());
        let files: Vec<ObjectMeta> = files.collect();
        let stored = if files.is_empty() {
            Schema::empty()
        } else {
            let store = state
                .runtime_env()
                .object_store_registry
                .get_store(sink.object_store_url.as_ref())?;
            self.stored(state, &store, &files, options).await?
        };
        let arriving = writing::columns_that_arrive(&sink);
        let mut own = sink.clone();
        own.output_schema = writing::columns_to_write(&sink, &stored);
        // The inner plan only holds the sink: the rows come from `input`.
        let nothing = Arc::new(EmptyExec::new(Arc::clone(&own.output_schema)));
        let inner = self
            .inner
            .create_writer_physical_plan(nothing, state, own, order.clone())
            .await?;
        let Some(files) = FilesSink::new(Arc::clone(&inner), arriving, &sink) else {
            return exec_err!("a table without a place cannot be written to");
        };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(files), order)))
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(schema)
    }
}

/// Creates [`CheckedParquet`] for `CREATE EXTERNAL TABLE`, with the options of the statement.
#[derive(Debug)]
pub(crate) struct CheckedParquetFactory {
    pub(crate) inner: Arc<dyn FileFormatFactory>,
    pub(crate) store: ObjectStoreUrl,
    /// Whether the columns are read from the files.
    pub(crate) inferred: bool,
}

impl GetExt for CheckedParquetFactory {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }
}

impl FileFormatFactory for CheckedParquetFactory {
    fn create(
        &self,
        state: &dyn Session,
        options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        let inner = self.inner.create(state, options)?;
        let store = self.store.clone();
        Ok(Arc::new(CheckedParquet::new(inner, store, self.inferred)))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(CheckedParquet::new(
            self.inner.default(),
            self.store.clone(),
            self.inferred,
        ))
    }
}
