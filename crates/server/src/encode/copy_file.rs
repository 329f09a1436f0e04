//! `COPY … TO 'file'` with PostgreSQL's options, or to a `.csv` file without any: the rows as text,
//! CSV or binary in a file of the server, as `COPY … TO STDOUT` sends them.
//!
//! The statement becomes DataFusion's COPY with a file format of our own, so that rights, plans
//! and the count of rows are the same as for other formats.
//! Not here: the options (`copy.rs`); COPY with DataFusion's options, which takes the format from
//! the file's name or from STORED AS.
//! F1: the file appears only when it is complete.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::BytesMut;
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Statistics, not_impl_err, plan_err};
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::object_store::buffered::BufWriter;
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tokio::io::AsyncWriteExt;

use coscan_pg::output::{CellWriter, IntervalStyle, cell_writer, in_style, in_zone};

use super::columns::{Column, columns};
use super::copy::{CopyFormat, FORMAT, OPTION};
use crate::failure::Failure;

/// Registers the format with a session.
pub(crate) fn register(session: &SessionContext) {
    let state = session.state_ref();
    // Fails only if the session has such a format already.
    let _ = state.write().register_file_format(Arc::new(Factory), true);
}

#[derive(Debug)]
struct Factory;

impl GetExt for Factory {
    fn get_ext(&self) -> String {
        FORMAT.to_owned()
    }
}

impl FileFormatFactory for Factory {
    fn create(
        &self,
        _: &dyn Session,
        options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        let format = options
            .get(OPTION)
            .and_then(|text| CopyFormat::from_text(text));
        match format {
            Some(format) => Ok(Arc::new(Copying(format))),
            None => plan_err!("{FORMAT} is not a format of files"),
        }
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(Copying(CopyFormat::default()))
    }
}

/// The format of a COPY: it can be written, not read.
#[derive(Debug)]
struct Copying(CopyFormat);

#[async_trait]
impl FileFormat for Copying {
    fn get_ext(&self) -> String {
        FORMAT.to_owned()
    }

    fn get_ext_with_compression(&self, _: &FileCompressionType) -> Result<String> {
        Ok(FORMAT.to_owned())
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        None
    }

    async fn infer_schema(
        &self,
        _: &dyn Session,
        _: &Arc<dyn ObjectStore>,
        _: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        not_impl_err!("{FORMAT} is not read")
    }

    async fn infer_stats(
        &self,
        _: &dyn Session,
        _: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        _: &ObjectMeta,
    ) -> Result<Statistics> {
        Ok(Statistics::new_unknown(&schema))
    }

    async fn create_physical_plan(
        &self,
        _: &dyn Session,
        _: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("{FORMAT} is not read")
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(target) = config.table_paths.first() else {
            return plan_err!("COPY TO needs a file");
        };
        let sink = Sink {
            format: self.0.clone(),
            store: config.object_store_url.clone(),
            target: target.prefix().clone(),
            schema: Arc::clone(config.output_schema()),
        };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)))
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        // Never used: no plan reads this format.
        CsvFormat::default().file_source(schema)
    }
}

/// Writes one file.
#[derive(Debug)]
struct Sink {
    format: CopyFormat,
    store: ObjectStoreUrl,
    target: Path,
    schema: SchemaRef,
}

impl DisplayAs for Sink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CopySink(/{})", self.target)
    }
}

#[async_trait]
impl DataSink for Sink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        mut rows: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let columns = columns(&self.schema, &[])?;
        self.format.check(&columns)?;
        let store = context.runtime_env().object_store(&self.store)?;
        let settings = context.session_config().options();
        let style = IntervalStyle::of(settings);
        let zone = settings.execution.time_zone.as_deref().unwrap_or("UTC");
        let mut file = BufWriter::new(store, self.target.clone());
        let start = self.format.file_start(&columns);
        let mut out = start.map_err(|error| DataFusionError::from(error.error(0)))?;
        let mut written = 0;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            put_batch(&self.format, &columns, &batch, (zone, style), &mut out)?;
            written += batch.num_rows() as u64;
            file.write_all(&out).await?;
            out.clear();
        }
        out.extend_from_slice(self.format.file_end());
        file.write_all(&out).await?;
        file.shutdown().await?;
        Ok(written)
    }
}

fn put_batch(
    format: &CopyFormat,
    columns: &[Column],
    batch: &RecordBatch,
    (zone, style): (&str, IntervalStyle),
    out: &mut BytesMut,
) -> Result<()> {
    let cells = batch.columns().iter().map(|array| {
        let binary = format.is_binary();
        let array = &if binary {
            Arc::clone(array)
        } else {
            in_style(&in_zone(array, zone)?, style)?
        };
        let writer = cell_writer(array, binary)?;
        Ok((writer, array.logical_nulls()))
    });
    let cells = cells.collect::<std::result::Result<Vec<_>, Failure>>()?;
    for row in 0..batch.num_rows() {
        let of_row = cells.iter().map(|(write, nulls)| -> Option<&CellWriter> {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            (!is_null).then_some(write)
        });
        let put = format.put_row(columns, of_row, row, out);
        put.map_err(|error| DataFusionError::from(error.error(row)))?;
    }
    Ok(())
}
