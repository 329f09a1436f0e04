//! How do the rows of a table in memory change, all or none?
//!
//! The positions and new values are collected first. Then, with the table locked, every batch with
//! a changed row is written as a new batch, and all batches are exchanged at once. An error leaves
//! the table as it was.
//! O6: a change applies only to the version in which its rows were found; if the table has changed
//! since, the statement is refused.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat_batches, filter_record_batch, interleave};
use arrow::datatypes::{SchemaRef, UInt64Type};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{TableReference, internal_datafusion_err, not_impl_err};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;

use super::super::table::{Change, MemoryTable, bytes_of};
use super::positions::Position;

/// The target of a change: "inserting" a version, a position and new values changes a row.
#[derive(Clone, Debug)]
pub(crate) struct RowChange {
    table: MemoryTable,
    name: TableReference,
    /// The columns that get new values; `None` for a DELETE.
    columns: Option<Vec<usize>>,
}

impl RowChange {
    pub(super) fn new(
        table: MemoryTable,
        name: TableReference,
        columns: Option<Vec<usize>>,
    ) -> Self {
        Self {
            table,
            name,
            columns,
        }
    }

    pub(in crate::session_names) fn table(&self) -> &MemoryTable {
        &self.table
    }
}

#[async_trait]
impl TableProvider for RowChange {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("a change is not read")
    }

    async fn insert_into(
        &self,
        _: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        _: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let sink = Sink {
            change: self.clone(),
            schema: input.schema(),
        };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}

/// Receives positions and new values.
#[derive(Debug)]
struct Sink {
    change: RowChange,
    schema: SchemaRef,
}

impl DisplayAs for Sink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.change.columns {
            Some(_) => "Update",
            None => "Delete",
        };
        write!(f, "{verb} {}", self.change.name)
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
        let table = &self.change.table;
        let statement = Change::of(context);
        let mut growth = statement.growth(table);
        let mut batches = Vec::new();
        while let Some(batch) = rows.next().await.transpose()? {
            growth.add(bytes_of(&batch))?;
            batches.push(batch);
        }
        let found = concat_batches(&self.schema, &batches)?;
        let found = Found::of(&found, &self.change)?;
        let count = found.rows.len() as u64;
        if count > 0 {
            let schema = table.schema();
            let new = |number, batches: &[RecordBatch]| found.changed(&schema, number, batches);
            let columns = self.change.columns.as_deref();
            let exchanged = table.exchange(found.version, columns, &new, &statement);
            exchanged.await?;
        }
        Ok(count)
    }
}

/// The rows to change.
struct Found {
    version: Option<u64>,
    /// The position of each row, and the index of its new values in `values`. Positions are
    /// unique.
    rows: HashMap<Position, usize>,
    /// The changed columns with their new values; `None` for a DELETE.
    values: Option<Vec<(usize, ArrayRef)>>,
}

impl Found {
    /// If a row is named several times, as by an UPDATE over a join, the first one counts.
    fn of(found: &RecordBatch, change: &RowChange) -> Result<Self> {
        let numbers = |at: usize| -> Result<UInt64Array> {
            let column = found.columns().get(at);
            let numbers = column.and_then(|column| column.as_primitive_opt::<UInt64Type>());
            let numbers = numbers.filter(|numbers| numbers.null_count() == 0);
            let missing = || internal_datafusion_err!("a change without positions");
            numbers.cloned().ok_or_else(missing)
        };
        let (versions, positions) = (numbers(0)?, numbers(1)?);
        let version = versions.values().first().copied();
        let mut rows = HashMap::with_capacity(positions.len());
        for (at, position) in positions.values().iter().enumerate() {
            rows.entry(Position(*position)).or_insert(at);
        }
        let values = match &change.columns {
            None => None,
            Some(columns) => {
                let mut values = Vec::with_capacity(columns.len());
                for (at, column) in columns.iter().enumerate() {
                    let array = found.column(at + 2);
                    change.table.check_not_null(*column, array)?;
                    values.push((*column, Arc::clone(array)));
                }
                let violations = found.columns().get(columns.len() + 2..).unwrap_or_default();
                if !violations.is_empty() {
                    let counted: HashSet<usize> = rows.values().copied().collect();
                    let counts = |at: usize| counted.contains(&at);
                    change.table.check_rows(violations, counts)?;
                }
                Some(values)
            }
        };
        Ok(Self {
            version,
            rows,
            values,
        })
    }

    /// The new batches of a partition, in the order of the old ones; `None` for an unchanged
    /// batch.
    fn changed(
        &self,
        schema: &SchemaRef,
        partition: usize,
        batches: &[RecordBatch],
    ) -> Result<Vec<Option<RecordBatch>>> {
        let ends: Vec<usize> = batches
            .iter()
            .scan(0, |end, batch| {
                *end += batch.num_rows();
                Some(*end)
            })
            .collect();
        let mut of_batch: Vec<Vec<(usize, usize)>> = vec![vec![]; batches.len()];
        for (position, value) in &self.rows {
            if position.partition() != partition {
                continue;
            }
            let at = ends.partition_point(|end| *end <= position.row());
            let batch = batches.get(at);
            let batch = batch.ok_or_else(|| internal_datafusion_err!("no row at {position:?}"))?;
            let row = position.row() + batch.num_rows() - ends[at];
            of_batch[at].push((row, *value));
        }
        let each = batches.iter().zip(&of_batch);
        each.map(|(batch, rows)| match (rows.as_slice(), &self.values) {
            ([], _) => Ok(None),
            (rows, None) => without(batch, rows).map(Some),
            (rows, Some(values)) => with(schema, batch, rows, values).map(Some),
        })
        .collect()
    }
}

/// A batch without these rows.
fn without(batch: &RecordBatch, rows: &[(usize, usize)]) -> Result<RecordBatch> {
    let mut kept = vec![true; batch.num_rows()];
    for (row, _) in rows {
        kept[*row] = false;
    }
    let kept = BooleanArray::new(BooleanBuffer::from(kept), None);
    Ok(filter_record_batch(batch, &kept)?)
}

/// A batch with new values in these rows. It has the table's schema, because the old batch may
/// come from a query whose columns are never NULL.
fn with(
    schema: &SchemaRef,
    batch: &RecordBatch,
    rows: &[(usize, usize)],
    values: &[(usize, ArrayRef)],
) -> Result<RecordBatch> {
    let mut from: Vec<(usize, usize)> = (0..batch.num_rows()).map(|row| (0, row)).collect();
    for (row, value) in rows {
        from[*row] = (1, *value);
    }
    let mut columns = batch.columns().to_vec();
    for (column, new) in values {
        columns[*column] = interleave(&[columns[*column].as_ref(), new.as_ref()], &from)?;
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::clone(schema);
    Ok(RecordBatch::try_new_with_options(
        schema, columns, &options,
    )?)
}
