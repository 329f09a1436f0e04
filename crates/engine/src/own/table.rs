//! A table in memory, of which every byte is counted.
//!
//! DataFusion's `MemTable` does the work, but it counts nothing, and it deletes and updates when
//! the statement is planned, so that EXPLAIN would change the table. Here changes wait for their
//! execution. Batches are counted with all buffers that they keep, even those that they share.
//! O4: a table's `held` is the bytes that its batches keep, even after a change that failed half
//! way.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{Constraints, SchemaExt, not_impl_err};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, execute_stream};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::Mutex;

use super::allowance::{Growth, Held};

/// What a batch costs in bytes, beside its buffers.
const BATCH_BYTES: usize = 512;

/// The bytes that a batch keeps in memory.
pub(super) fn bytes_of(batch: &RecordBatch) -> usize {
    let columns = batch.num_columns() * size_of::<arrow::array::ArrayData>();
    get_record_batch_memory_size(batch) + columns + BATCH_BYTES
}

/// A table of a session, or of an engine. Clones share the table.
#[derive(Clone)]
pub(crate) struct MemoryTable {
    inner: Arc<MemTable>,
    held: Arc<Held>,
    /// Held while the table changes.
    change: Arc<Mutex<()>>,
}

impl MemoryTable {
    /// A table of batches by which `held` has already grown.
    ///
    /// # Errors
    /// `Plan`, if a batch does not have the schema.
    pub(super) fn try_new(
        schema: SchemaRef,
        mut partitions: Vec<Vec<RecordBatch>>,
        held: Arc<Held>,
        constraints: Constraints,
        defaults: HashMap<String, Expr>,
    ) -> Result<Self> {
        if partitions.is_empty() {
            partitions.push(vec![]);
        }
        let table = MemTable::try_new(schema, partitions)?;
        let table = table.with_constraints(constraints);
        Ok(Self {
            inner: Arc::new(table.with_column_defaults(defaults)),
            held,
            change: Arc::default(),
        })
    }

    /// Appends batches, each to the next partition.
    async fn append(&self, batches: Vec<RecordBatch>, growth: Growth) {
        let _alone = self.change.lock().await;
        let partitions = self.inner.batches.len();
        let mut parts = vec![vec![]; partitions];
        for (n, batch) in batches.into_iter().enumerate() {
            parts[n % partitions].push(batch);
        }
        for (partition, mut batches) in self.inner.batches.iter().zip(parts) {
            partition.write().await.append(&mut batches);
        }
        growth.keep();
    }

    /// Lets `MemTable` change its batches. The old and the new ones exist together for a while.
    async fn change(&self, state: &SessionState, change: &Change) -> Result<RecordBatch> {
        let _alone = self.change.lock().await;
        let before = self.held.bytes();
        let mut growth = self.held.growth();
        growth.add(before)?;
        let done = match change.clone() {
            Change::Delete(filters) => self.inner.delete_from(state, filters).await,
            Change::Update(assignments, filters) => {
                self.inner.update(state, assignments, filters).await
            }
        };
        // The change may have failed half way: the batches that exist are counted in any case.
        let mut now = 0;
        for partition in &self.inner.batches {
            now += partition.read().await.iter().map(bytes_of).sum::<usize>();
        }
        drop(growth);
        self.held.resize(now);
        let counts: Vec<RecordBatch> = execute_stream(done?, state.task_ctx())?
            .try_collect()
            .await?;
        match counts.into_iter().next() {
            Some(count) => Ok(count),
            None => Ok(RecordBatch::try_new(
                count_schema(),
                vec![Arc::new(UInt64Array::from(vec![0]))],
            )?),
        }
    }

    fn later(&self, session: &dyn Session, change: Change) -> Result<Arc<dyn ExecutionPlan>> {
        let state = session.as_any().downcast_ref::<SessionState>();
        let state = state.ok_or_else(|| {
            DataFusionError::Internal("a session without a session's state".to_owned())
        })?;
        let work = Work {
            table: self.clone(),
            state: state.clone(),
            change,
            schema: count_schema(),
        };
        let plan = StreamingTableExec::try_new(
            count_schema(),
            vec![Arc::new(work)],
            None,
            [],
            false,
            None,
        )?;
        Ok(Arc::new(plan))
    }
}

#[async_trait]
impl TableProvider for MemoryTable {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.inner.constraints()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.scan(session, projection, filters, limit).await
    }

    async fn insert_into(
        &self,
        _: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.schema();
        schema.logically_equivalent_names_and_types(&input.schema())?;
        if op != InsertOp::Append {
            return not_impl_err!("{op} not implemented for tables in memory");
        }
        let table = self.clone();
        let sink = Arc::new(Sink { table, schema });
        Ok(Arc::new(DataSinkExec::new(input, sink, None)))
    }

    async fn delete_from(
        &self,
        session: &dyn Session,
        filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.later(session, Change::Delete(filters))
    }

    async fn update(
        &self,
        session: &dyn Session,
        assignments: Vec<(String, Expr)>,
        filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.later(session, Change::Update(assignments, filters))
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.inner.get_column_default(column)
    }
}

impl fmt::Debug for MemoryTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTable")
            .field("schema", &self.inner.schema())
            .field("bytes", &self.held.bytes())
            .finish_non_exhaustive()
    }
}

/// Receives inserted rows.
#[derive(Debug)]
struct Sink {
    table: MemoryTable,
    schema: SchemaRef,
}

impl DisplayAs for Sink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryTable")
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
        _: &Arc<TaskContext>,
    ) -> Result<u64> {
        let mut growth = self.table.held.growth();
        let (mut batches, mut count) = (Vec::new(), 0);
        while let Some(batch) = rows.next().await.transpose()? {
            growth.add(bytes_of(&batch))?;
            count += batch.num_rows() as u64;
            batches.push(batch);
        }
        self.table.append(batches, growth).await;
        Ok(count)
    }
}

/// A change of existing rows.
#[derive(Clone, Debug)]
enum Change {
    Delete(Vec<Expr>),
    Update(Vec<(String, Expr)>, Vec<Expr>),
}

/// A change that waits to be executed.
#[derive(Clone)]
struct Work {
    table: MemoryTable,
    state: SessionState,
    change: Change,
    schema: SchemaRef,
}

impl PartitionStream for Work {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let work = self.clone();
        let schema = Arc::clone(&self.schema);
        let count = stream::once(async move { work.table.change(&work.state, &work.change).await });
        Box::pin(RecordBatchStreamAdapter::new(schema, Box::pin(count)))
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.change, f)
    }
}

fn count_schema() -> SchemaRef {
    let count = Field::new("count", DataType::UInt64, false);
    Arc::new(Schema::new(vec![count]))
}
