//! How are the rows of an INSERT, or of a COPY to Parquet, written?
//!
//! DataFusion's sink writes them, with three differences. *Types*: an INSERT writes the types that
//! the table's files store, not those as which it reads them, so that every reader finds files of
//! one kind; files of a new table contain no views, which not every reader knows. *Files*: an
//! INSERT writes one file (one per partition, and for each 50 million rows), and the files appear
//! together when the statement (`object_stores/staged_store.rs`) or its transaction (`pending.rs`)
//! has ended. *Partitions*: NULL is written as Hive writes it.
//! Not here: when a file is durable (`object_stores/local_store/disk.rs`).
//! W1: a failed INSERT leaves nothing.
//! W2: a cast that would change a value is an error.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::common::exec_err;
use datafusion::datasource::physical_plan::FileSinkConfig;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use url::Url;

use super::HIVE_NULL;
use super::metadata::without_views;
use super::pending::{Insert, PendingInserts};
use crate::commit_point::Run;
use crate::object_stores::local_store::settle;
use crate::object_stores::staged_store::StagedStore;

/// Writes rows through DataFusion's sink, which `plan` holds.
pub(super) struct FilesSink {
    plan: Arc<dyn ExecutionPlan>,
    /// The columns that arrive, and those that are written.
    arriving: SchemaRef,
    writes: SchemaRef,
    /// The positions of the columns that become names of folders.
    partitions: Vec<usize>,
    store: ObjectStoreUrl,
    /// The table's folder; for a COPY, its target.
    prefix: Path,
    /// Whether rows are added to a table. Otherwise there is a file even without rows.
    appends: bool,
}

/// The columns of the rows that a sink receives. Partition columns may be NULL.
pub(super) fn columns_that_arrive(sink: &FileSinkConfig) -> SchemaRef {
    let partitions = &sink.table_partition_cols;
    let fields = sink.output_schema().fields().iter().map(|field| {
        if partitions.iter().any(|(name, _)| name == field.name()) {
            Arc::new(Field::clone(field).with_nullable(true))
        } else {
            Arc::clone(field)
        }
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The columns that a sink writes. `stored` are those of the table's files, if it has any.
pub(super) fn columns_to_write(sink: &FileSinkConfig, stored: &Schema) -> SchemaRef {
    let plain = without_views(&columns_that_arrive(sink));
    let partitions = &sink.table_partition_cols;
    let fields = plain.fields().iter().map(|field| {
        let name = field.name();
        let own = stored.field_with_name(name).ok().map(Field::data_type);
        let is_partition = partitions.iter().any(|(partition, _)| partition == name);
        // The names of folders are text.
        let partition = is_partition.then_some(&DataType::Utf8);
        match partition.or(own) {
            Some(known) => Arc::new(Field::clone(field).with_data_type(known.clone())),
            None => Arc::clone(field),
        }
    });
    let fields: Vec<_> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, plain.metadata().clone()))
}

impl FilesSink {
    /// A sink that converts rows and passes them to `inner`. `arriving` is the schema of the rows
    /// before that.
    pub(super) fn new(
        inner: Arc<dyn ExecutionPlan>,
        arriving: SchemaRef,
        sink: &FileSinkConfig,
    ) -> Option<Self> {
        let url = sink.table_paths.first()?;
        let writes = Arc::clone(inner.downcast_ref::<DataSinkExec>()?.sink().schema());
        let partitions = sink.table_partition_cols.iter();
        let partitions = partitions.map(|(name, _)| writes.index_of(name).ok());
        let partitions = partitions.collect::<Option<Vec<usize>>>()?;
        Some(Self {
            plan: inner,
            arriving,
            writes,
            partitions,
            store: sink.object_store_url.clone(),
            prefix: url.prefix().clone(),
            appends: sink.original_url.is_empty(),
        })
    }

    fn sink(&self) -> Result<&dyn DataSink> {
        match self.plan.downcast_ref::<DataSinkExec>() {
            Some(plan) => Ok(plan.sink()),
            None => exec_err!("a sink has lost its plan"),
        }
    }

    /// The rows as they are written.
    fn converted(&self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let (writes, appends) = (Arc::clone(&self.writes), self.appends);
        let partitions = self.partitions.clone();
        let schema = Arc::clone(&writes);
        let rows = rows.filter_map(move |batch| {
            let converted = match batch {
                // A table gets no file without rows.
                Ok(batch) if appends && batch.num_rows() == 0 => None,
                Ok(batch) => Some(convert(&batch, &writes, &partitions)),
                Err(error) => Some(Err(error)),
            };
            std::future::ready(converted)
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

fn convert(batch: &RecordBatch, writes: &SchemaRef, partitions: &[usize]) -> Result<RecordBatch> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let columns = batch.columns().iter().zip(writes.fields());
    let columns = columns.map(|(column, field)| {
        if column.data_type() == field.data_type() {
            return Ok(Arc::clone(column));
        }
        cast_with_options(column, field.data_type(), &strict).map_err(DataFusionError::from)
    });
    let mut columns = columns.collect::<Result<Vec<_>>>()?;
    for at in partitions {
        columns[*at] = named_for_hive(&columns[*at]);
    }
    Ok(RecordBatch::try_new(Arc::clone(writes), columns)?)
}

/// The values of a partition column as names of folders.
fn named_for_hive(column: &ArrayRef) -> ArrayRef {
    match column.as_any().downcast_ref::<StringArray>() {
        Some(names) if names.null_count() > 0 => {
            let names = names.iter().map(|name| Some(name.unwrap_or(HIVE_NULL)));
            Arc::new(names.collect::<StringArray>())
        }
        _ => Arc::clone(column),
    }
}

#[async_trait]
impl DataSink for FilesSink {
    fn metrics(&self) -> Option<MetricsSet> {
        self.sink().ok()?.metrics()
    }

    fn schema(&self) -> &SchemaRef {
        &self.arriving
    }

    async fn write_all(
        &self,
        rows: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let runtime = context.runtime_env();
        let url: &Url = self.store.as_ref();
        let inner = runtime.object_store_registry.get_store(url)?;
        let folder = std::path::PathBuf::from(format!("/{}", self.prefix));
        if self.appends && url.scheme() == "file" {
            let folder = folder.clone();
            let settled = tokio::task::spawn_blocking(move || settle(&folder)).await;
            settled.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
        }
        let store = Arc::new(StagedStore::new(inner, folder));
        let registry = OneStore {
            inner: Arc::clone(&runtime.object_store_registry),
            url: url.clone(),
            store: Arc::clone(&store) as _,
        };
        let runtime = RuntimeEnv {
            object_store_registry: Arc::new(registry),
            ..RuntimeEnv::clone(&runtime)
        };
        let mut config = context.session_config().clone();
        if self.appends {
            let files = "datafusion.execution.minimum_parallel_output_files";
            config.options_mut().set(files, "1")?;
        }
        let own = TaskContext::default()
            .with_session_config(config)
            .with_runtime(Arc::new(runtime));
        let written = self
            .sink()?
            .write_all(self.converted(rows), &Arc::new(own))
            .await?;
        // Not between the files of one statement: they appear together.
        Run::of(context.session_config()).reach()?;
        let insert = Insert {
            store: self.store.clone(),
            prefix: self.prefix.clone(),
            files: store,
        };
        let pending = context.session_config().get_extension::<PendingInserts>();
        match pending.filter(|_| self.appends) {
            Some(pending) => pending.add(insert).await?,
            None => insert.files.publish().await?,
        }
        Ok(written)
    }
}

impl fmt::Debug for FilesSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilesSink")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for FilesSink {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sink() {
            Ok(sink) => sink.fmt_as(t, f),
            Err(_) => write!(f, "FilesSink"),
        }
    }
}

/// The registry of object stores, with one store replaced.
#[derive(Debug)]
struct OneStore {
    inner: Arc<dyn ObjectStoreRegistry>,
    url: Url,
    store: Arc<dyn ObjectStore>,
}

impl ObjectStoreRegistry for OneStore {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.inner.register_store(url, store)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if *url == self.url {
            return Ok(Arc::clone(&self.store));
        }
        self.inner.get_store(url)
    }
}
