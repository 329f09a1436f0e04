//! Which file of a table cannot be read, or does not fit the others?
//!
//! DataFusion's Parquet format says what is wrong with a footer or with two schemas, but not which
//! files they are from. This is that format, with errors that name the file: when a table is
//! registered or declared, and when a query collects statistics. A schema that cannot be inferred
//! is inferred again file by file; nothing else costs more. Footers are read by `footers.rs`, which
//! checks them. Bounds that a NaN may lie beyond are left out of the statistics
//! (`read/prune/floats.rs`), once for a file and not in each plan.
//! Not here: pages (`cscan/plain.rs`, `coscan-storage`).

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use coscan_storage::StorageError;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory, FileMeta};
use datafusion::datasource::physical_plan::parquet::metadata::{
    DFParquetMetadata, ordering_from_parquet_metadata,
};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt;
use object_store::{ObjectMeta, ObjectStore};
use parquet::file::metadata::ParquetMetaData;

use super::footers;
use super::promised_order::over_row_groups;
use crate::error::{external, storage_error};
use crate::object_stores::joint_store::written;
use crate::read::prune::without_float_bounds;

/// Parquet files of one store, which may be a joint one.
#[derive(Debug)]
pub(crate) struct CheckedParquet {
    inner: Arc<dyn FileFormat>,
    store: ObjectStoreUrl,
}

impl CheckedParquet {
    pub(crate) fn new(inner: Arc<dyn FileFormat>, store: ObjectStoreUrl) -> Self {
        Self { inner, store }
    }

    fn name(&self, file: &ObjectMeta) -> String {
        written(&self.store, &file.location)
    }

    fn named(&self, file: &ObjectMeta, error: DataFusionError) -> DataFusionError {
        if storage_error(&error).is_some() {
            // A storage error names its file.
            return error;
        }
        match error {
            // This error names its file.
            DataFusionError::ObjectStore(_) => error,
            error => bad(self.name(file), error.strip_backtrace()),
        }
    }

    /// The schema that DataFusion infers; a panic is an error.
    async fn schema_of(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let inferred = AssertUnwindSafe(self.inner.infer_schema(state, store, files));
        inferred.catch_unwind().await.unwrap_or_else(|panic| {
            let name = files.first().map(|file| self.name(file));
            Err(footers::panicked(&name.unwrap_or_default(), &*panic))
        })
    }

    /// Why files have no common schema: the error of the first file that has no schema, or whose
    /// schema does not fit those of the files before it.
    async fn culprit(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Option<DataFusionError> {
        let mut files: Vec<&ObjectMeta> = files.iter().collect();
        files.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        let mut merged = Schema::empty();
        for file in &files {
            let one = std::slice::from_ref(*file);
            let schema = match self.schema_of(state, store, one).await {
                Ok(schema) => schema,
                Err(error) => return Some(self.named(file, error)),
            };
            merged = match Schema::try_merge([merged, Schema::clone(&schema)]) {
                Ok(merged) => merged,
                Err(error) => {
                    let others = files.first().map(|first| self.name(first));
                    let others = others.unwrap_or_default();
                    let reason =
                        format!("its columns do not fit those of {others} and others: {error}");
                    return Some(bad(self.name(file), reason));
                }
            };
        }
        None
    }
}

fn statistics_of(footer: &ParquetMetaData, schema: &SchemaRef) -> Result<Statistics> {
    let statistics = DFParquetMetadata::statistics_from_parquet_metadata(footer, schema)?;
    Ok(without_float_bounds(&statistics, schema).unwrap_or(statistics))
}

fn ordering_of(footer: &ParquetMetaData, schema: &SchemaRef) -> Result<Option<LexOrdering>> {
    let declared = ordering_from_parquet_metadata(footer, schema)?;
    Ok(declared.and_then(|declared| over_row_groups(declared, footer, schema)))
}

fn bad(file: String, reason: String) -> DataFusionError {
    external(StorageError::BadFooter { file, reason })
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
        footers::read_ahead(state, store, |file| self.name(file), files).await?;
        match self.schema_of(state, store, files).await {
            Ok(schema) => Ok(schema),
            Err(error) => Err(self.culprit(state, store, files).await.unwrap_or(error)),
        }
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
        let footer = footers::footer(state, store, &name, file).await?;
        footers::caught(&name, || statistics_of(&footer, &schema))
            .map_err(|error| self.named(file, error))
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
        let footer = footers::footer(state, store, &name, file).await?;
        footers::caught(&name, || ordering_of(&footer, &schema))
            .map_err(|error| self.named(file, error))
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
        let footer = footers::footer(state, store, &name, file).await?;
        footers::caught(&name, || {
            let ordering = ordering_of(&footer, &schema)?;
            Ok(FileMeta::new(statistics_of(&footer, &schema)?).with_ordering(ordering))
        })
        .map_err(|error| self.named(file, error))
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
        let inner = &self.inner;
        inner
            .create_writer_physical_plan(input, state, sink, order)
            .await
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(schema)
    }
}

/// Makes [`CheckedParquet`] for `CREATE EXTERNAL TABLE`, with the options of the statement.
#[derive(Debug)]
pub(crate) struct CheckedParquetFactory {
    pub(crate) inner: Arc<dyn FileFormatFactory>,
    pub(crate) store: ObjectStoreUrl,
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
        Ok(Arc::new(CheckedParquet::new(inner, self.store.clone())))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(CheckedParquet::new(
            self.inner.default(),
            self.store.clone(),
        ))
    }
}
