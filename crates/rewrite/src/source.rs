//! The source: Parquet files as one stream of rows, in the files' order or sorted.
//!
//! DataFusion's own reader is used, with one partition if the order must be kept, because a
//! cooperative scan hands out chunks in any order. Files are read in the order of their paths.
//! Types are those of the files (DataFusion would read strings as views), and so is metadata,
//! unless several files disagree about it. The values of folders named `key=value` become columns
//! after all others.

use std::sync::Arc;

use coscan::{Engine, Session};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::Column;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::{Expr, SortExpr};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use object_store::ObjectMeta;
use parquet::file::metadata::KeyValue;
use url::Url;

use crate::error::{Result, RewriteError};
use crate::place::Place;
use crate::sort_memory::SortMemory;

/// The rows to be written, and the metadata of their file.
pub(crate) struct Source {
    /// The columns.
    pub(crate) schema: SchemaRef,
    /// The key-value metadata of the source's only file, without the Arrow schema, which the
    /// writer adds.
    pub(crate) key_values: Vec<KeyValue>,
    plan: Arc<dyn ExecutionPlan>,
    context: SessionContext,
    /// Held while rows are read.
    _sorting: Option<SortMemory>,
}

/// DataFusion's name for files that it reads as Parquet, whatever their extension.
const PARQUET: &str = "parquet";

/// The key under which arrow stores its own form of the schema.
const ARROW_SCHEMA: &str = "ARROW:schema";

impl Source {
    /// Opens the files at `path`, to be read in the order of `sort_by`, or in the files' order if
    /// it is empty.
    ///
    /// # Errors
    /// [`RewriteError::Source`] if there is no file, or a file that is not Parquet;
    /// [`RewriteError::NoColumn`], [`RewriteError::Unordered`]; [`RewriteError::InsideSource`] if
    /// a target would be one of several files of the source.
    pub(crate) async fn open(
        engine: &Engine,
        path: &str,
        sort_by: &[String],
        targets: &[Place],
    ) -> Result<Self> {
        let refused = |reason: String| RewriteError::Source {
            path: path.to_owned(),
            reason,
        };
        let session = engine.session();
        session.set("coscan.cooperative", "off")?;
        session.set(
            "datafusion.execution.parquet.schema_force_view_types",
            "false",
        )?;
        let provider = table(&session, path)
            .await
            .map_err(|error| refused(error.to_string()))?;
        let listing = coscan::files_of(provider.as_ref());
        let parquet = listing
            .filter(|table| table.options().format.get_ext() == PARQUET)
            .and_then(|table| {
                Some((
                    table.table_paths().first()?,
                    &table.options().file_extension,
                ))
            });
        let (url, extension) = parquet.ok_or_else(|| refused("it is not Parquet".to_owned()))?;
        let only = only_file(&session, url, extension).await?;
        let mut inside = targets.iter();
        let inside = inside.find(|target| lies_in(target, url, extension, &session));
        if let Some(target) = inside.filter(|_| only.is_none()) {
            return Err(RewriteError::InsideSource {
                path: target.text.clone(),
                source_path: path.to_owned(),
            });
        }
        let key_values = match only {
            Some(file) => key_values(&session, url, &file).await?,
            None => Vec::new(),
        };
        let schema = provider.schema();
        let (plan, context, sorting) = if sort_by.is_empty() {
            session.set("datafusion.execution.target_partitions", "1")?;
            let context = session.context().clone();
            let frame = context.read_table(provider)?;
            (frame.create_physical_plan().await?, context, None)
        } else {
            let by = sort_by.iter().map(|name| sortable(path, &schema, name));
            let by = by.collect::<Result<Vec<_>, _>>()?;
            let memory = SortMemory::reserve(&session)?;
            let context = memory.context.clone();
            let frame = context.read_table(provider)?.sort(by)?;
            (frame.create_physical_plan().await?, context, Some(memory))
        };
        let partitions = plan.output_partitioning().partition_count();
        assert_eq!(partitions, 1, "one partition keeps the order");
        Ok(Self {
            schema,
            key_values,
            plan,
            context,
            _sorting: sorting,
        })
    }

    /// The rows.
    ///
    /// # Errors
    /// Errors of starting the plan; errors of reading come through the stream.
    pub(crate) fn rows(&self) -> Result<SendableRecordBatchStream> {
        let context = self.context.task_ctx();
        Ok(execute_stream(Arc::clone(&self.plan), context)?)
    }

    /// The rows of the source, if its footers contain the number.
    pub(crate) fn rows_total(&self) -> Option<u64> {
        let statistics = StatisticsContext::new()
            .compute(self.plan.as_ref(), &StatisticsArgs::new())
            .ok()?;
        statistics.num_rows.get_value().map(|rows| *rows as u64)
    }

    /// A function that returns the number of rows read so far. If rows are sorted, all are read
    /// before the first is written.
    pub(crate) fn rows_read(&self) -> impl Fn() -> u64 + Send + 'static {
        let plan = Arc::clone(&self.plan);
        move || rows_read(plan.as_ref())
    }
}

/// The table with the metadata of its files' schemas, or without if they disagree.
async fn table(session: &Session, path: &str) -> Result<Arc<dyn TableProvider>> {
    const SKIP_METADATA: &str = "datafusion.execution.parquet.skip_metadata";
    session.set(SKIP_METADATA, "false")?;
    if let Ok(table) = session.table_at(path).await {
        return Ok(table);
    }
    session.set(SKIP_METADATA, "true")?;
    Ok(session.table_at(path).await?)
}

/// The source's file if there is exactly one; empty files are not read and do not count.
async fn only_file(
    session: &Session,
    url: &ListingTableUrl,
    extension: &str,
) -> Result<Option<ObjectMeta>> {
    let state = session.context().state();
    let store = state.runtime_env().object_store(url)?;
    let mut files = url
        .list_all_files(&state, store.as_ref(), extension)
        .await?;
    let mut only = None;
    while let Some(file) = files.try_next().await? {
        if file.size > 0 && only.replace(file).is_some() {
            return Ok(None);
        }
    }
    Ok(only)
}

async fn key_values(
    session: &Session,
    url: &ListingTableUrl,
    file: &ObjectMeta,
) -> Result<Vec<KeyValue>> {
    let store = session.context().runtime_env().object_store(url)?;
    let footer = DFParquetMetadata::new(store.as_ref(), file)
        .fetch_metadata()
        .await?;
    let pairs = footer.file_metadata().key_value_metadata();
    let pairs = pairs.into_iter().flatten();
    Ok(pairs
        .filter(|pair| pair.key != ARROW_SCHEMA)
        .cloned()
        .collect())
}

/// Whether a file at `target` would be one of the files that `url` denotes.
fn lies_in(target: &Place, url: &ListingTableUrl, extension: &str, session: &Session) -> bool {
    let config = session.context().copied_config();
    let flat = config.options().execution.listing_table_ignore_subdirectory;
    let same_store = url.object_store().as_str().trim_end_matches('/')
        == target.store.as_str().trim_end_matches('/');
    same_store
        && target.path.as_ref().ends_with(extension)
        && resolved(url).contains(&target.path, flat)
}

/// A local folder's URL with its links resolved, as the target's are.
fn resolved(url: &ListingTableUrl) -> ListingTableUrl {
    let again = || {
        let parsed: &Url = url.as_ref();
        let folder = std::fs::canonicalize(parsed.to_file_path().ok()?).ok()?;
        let resolved = if url.is_collection() {
            Url::from_directory_path(folder).ok()?
        } else {
            Url::from_file_path(folder).ok()?
        };
        ListingTableUrl::try_new(resolved, url.get_glob().clone()).ok()
    };
    again().unwrap_or_else(|| url.clone())
}

/// The order by the column with exactly this name, if the column can be sorted: ascending, NULL
/// last, as in ORDER BY.
fn sortable(path: &str, schema: &SchemaRef, name: &str) -> Result<SortExpr, RewriteError> {
    let Ok(field) = schema.field_with_name(name) else {
        let known: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        return Err(RewriteError::NoColumn {
            path: path.to_owned(),
            column: name.to_owned(),
            known: known.join(", "),
        });
    };
    if field.data_type().is_nested() {
        return Err(RewriteError::Unordered {
            path: path.to_owned(),
            column: name.to_owned(),
            kind: field.data_type().clone(),
        });
    }
    Ok(Expr::Column(Column::from_name(name)).sort(true, false))
}

/// The rows that the plan's scans have produced so far.
fn rows_read(plan: &dyn ExecutionPlan) -> u64 {
    let children = plan.children();
    if children.is_empty() {
        let rows = plan.metrics().and_then(|metrics| metrics.output_rows());
        return rows.unwrap_or(0) as u64;
    }
    children
        .into_iter()
        .map(|child| rows_read(child.as_ref()))
        .sum()
}
