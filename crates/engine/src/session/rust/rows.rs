//! How do rows become a stream of PostgreSQL's columns?

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use coscan_pg::dialect::on_the_wire;
use datafusion::error::Result as PlanResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use crate::running::Running;

/// The rows of a query as its consumer polls them. What it `defines` is there when this returns.
///
/// # Errors
/// Those of running a query that defines something.
pub(super) async fn stream_of(
    mut running: Running,
    defines: bool,
) -> PlanResult<SendableRecordBatchStream> {
    let schema = named(running.schema());
    let columns = SchemaRef::clone(&schema);
    if defines {
        let mut counts = vec![];
        while let Some(count) = running.next().await? {
            counts.push(renamed(count, &columns));
        }
        let counts = stream::iter(counts);
        return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counts)));
    }
    let rows = running.into_stream();
    let rows = rows.map(move |batch| renamed(batch?, &columns));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

/// The columns under PostgreSQL's names, without the marks by which the dialect makes them unique.
pub(super) fn named(schema: &SchemaRef) -> SchemaRef {
    let is_named = |name: &str| on_the_wire(name) == name;
    if schema.fields().iter().all(|field| is_named(field.name())) {
        return SchemaRef::clone(schema);
    }
    let fields = schema.fields().iter().map(|field| {
        let name = on_the_wire(field.name());
        field.as_ref().clone().with_name(name)
    });
    let fields: Vec<_> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn renamed(batch: RecordBatch, schema: &SchemaRef) -> PlanResult<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    let batch = RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns, &options);
    Ok(batch?)
}

/// Rows that are there, as a stream.
pub(super) fn in_memory(schema: &SchemaRef, rows: Vec<RecordBatch>) -> SendableRecordBatchStream {
    let rows: Vec<PlanResult<RecordBatch>> = rows.into_iter().map(Ok).collect();
    let schema = SchemaRef::clone(schema);
    Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(rows)))
}
