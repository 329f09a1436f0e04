//! How does a query identify a row of a table in memory?
//!
//! Two columns after the table's own hold the table's version and the row's position. Appending
//! rows leaves positions valid; every other change makes a new version.
//! Bounds: `PARTITIONS_MAX` partitions, `ROWS_MAX` rows in each.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::stream;

use super::super::table::MemoryTable;

/// The bits of a position that number the rows of a partition.
const ROW_BITS: u32 = 40;
const ROWS_MAX: u64 = 1 << ROW_BITS;
const PARTITIONS_MAX: u64 = 1 << (u64::BITS - ROW_BITS);

/// The position of a row: its partition, and the number of the partition's rows before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Position(pub(super) u64);

impl Position {
    /// The position of the first row after `rows_before` others.
    ///
    /// # Errors
    /// `Execution`, if the table is too large for the bits of a position.
    fn first_of(partition: usize, rows_before: u64) -> Result<Self> {
        let partition = u64::try_from(partition).unwrap_or(u64::MAX);
        if partition >= PARTITIONS_MAX || rows_before >= ROWS_MAX {
            return exec_err!("the table is too large for DELETE and UPDATE");
        }
        Ok(Self(partition << ROW_BITS | rows_before))
    }

    pub(super) fn partition(self) -> usize {
        usize::try_from(self.0 >> ROW_BITS).unwrap_or(usize::MAX)
    }

    pub(super) fn row(self) -> usize {
        usize::try_from(self.0 & (ROWS_MAX - 1)).unwrap_or(usize::MAX)
    }
}

/// A table with two more columns, for the version and the position of a row.
#[derive(Debug)]
pub(super) struct Positioned {
    table: MemoryTable,
    schema: SchemaRef,
}

impl Positioned {
    pub(super) fn new(table: MemoryTable) -> Self {
        let own = table.schema();
        let mut fields: Vec<_> = own.fields().iter().cloned().collect();
        for name in Self::names(&own) {
            fields.push(Arc::new(Field::new(name, DataType::UInt64, false)));
        }
        let schema = Arc::new(Schema::new(fields));
        Self { table, schema }
    }

    /// The names of the two columns, different from those of the table.
    pub(super) fn names(schema: &Schema) -> [String; 2] {
        ["row_version", "row_position"].map(|name| {
            let mut name = name.to_owned();
            while schema.column_with_name(&name).is_some() {
                name.push('_');
            }
            name
        })
    }
}

#[async_trait]
impl TableProvider for Positioned {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // An UPDATE that finds no row here might find one in the table that has the name now.
        self.table.check_current()?;
        let (version, partitions) = self.table.snapshot().await;
        let mut streams: Vec<Arc<dyn PartitionStream>> = Vec::with_capacity(partitions.len());
        for (number, batches) in partitions.into_iter().enumerate() {
            streams.push(Arc::new(Rows {
                schema: Arc::clone(&self.schema),
                version,
                number,
                batches: batches.into(),
            }));
        }
        let schema = Arc::clone(&self.schema);
        let plan = StreamingTableExec::try_new(schema, streams, projection, [], false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// The rows of one partition.
#[derive(Debug)]
struct Rows {
    schema: SchemaRef,
    version: u64,
    number: usize,
    batches: Arc<[RecordBatch]>,
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (version, number) = (self.version, self.number);
        let schema = Arc::clone(&self.schema);
        let batches = Arc::clone(&self.batches);
        let next = move |(at, before): (usize, u64)| {
            let batch = batches.get(at)?;
            let made = positioned(&schema, batch, version, number, before);
            Some((made, (at + 1, before + batch.num_rows() as u64)))
        };
        let mut state = (0, 0);
        let rows = std::iter::from_fn(move || {
            let (made, then) = next(state)?;
            state = then;
            Some(made)
        });
        let schema = Arc::clone(&self.schema);
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(rows)))
    }
}

fn positioned(
    schema: &SchemaRef,
    batch: &RecordBatch,
    version: u64,
    partition: usize,
    before: u64,
) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let end = before + rows as u64;
    let first = Position::first_of(partition, end)?.0 - rows as u64;
    let versions = UInt64Array::from_value(version, rows);
    let positions = UInt64Array::from_iter_values(first..first + rows as u64);
    let mut columns = batch.columns().to_vec();
    columns.extend([Arc::new(versions) as ArrayRef, Arc::new(positions)]);
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::clone(schema);
    Ok(RecordBatch::try_new_with_options(
        schema, columns, &options,
    )?)
}
