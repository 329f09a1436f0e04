//! `information_schema`: the standard's views of the model that `pg_catalog` also shows.
//!
//! DataFusion has views of these names, but they show Arrow's types and count columns from 0.
//! Views about what Coscan does not have (constraints, domains, privileges) are empty. The views
//! that only DataFusion's SHOW FUNCTIONS reads (`routines`, `parameters`) are DataFusion's, and so
//! are the table definitions that SHOW CREATE TABLE reads ([`DEFINITIONS`]).

mod columns;
mod rows;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;

use super::grid::{batch, schema};
use super::model::Model;

/// One connection's `information_schema`.
#[derive(Debug)]
pub(super) struct InformationSchema {
    pub(super) model: Model,
}

impl InformationSchema {
    fn theirs(&self) -> InformationSchemaProvider {
        InformationSchemaProvider::new(Arc::clone(&self.model.below))
    }
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        let theirs = self.theirs().table_names().into_iter();
        let theirs = theirs.chain([DEFINITIONS.to_owned()]);
        let mut names: Vec<String> = columns::names().map(str::to_owned).chain(theirs).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let name = name.to_ascii_lowercase();
        let Some((view, columns)) = columns::names()
            .find(|view| *view == name)
            .and_then(|view| Some((view, columns::columns(view)?)))
        else {
            return self.theirs().table(theirs(&name)).await;
        };
        let stream = ViewStream {
            view,
            schema: schema(columns),
            model: self.model.clone(),
        };
        let schema = Arc::clone(&stream.schema);
        let table = StreamingTable::try_new(schema, vec![Arc::new(stream)])?;
        Ok(Some(Arc::new(table)))
    }

    fn table_exist(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        columns::columns(&name).is_some() || self.theirs().table_exist(theirs(&name))
    }
}

/// DataFusion's name of a view that may have another name here.
fn theirs(name: &str) -> &str {
    match name {
        DEFINITIONS => "views",
        other => other,
    }
}

/// DataFusion's `views`: the statements that made tables and views.
pub(crate) const DEFINITIONS: &str = "df_views";

/// Reads a view during execution, not during planning.
#[derive(Debug)]
struct ViewStream {
    view: &'static str,
    schema: SchemaRef,
    model: Model,
}

impl PartitionStream for ViewStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (view, model) = (self.view, self.model.clone());
        let rows = async move {
            let columns = columns::columns(view).unwrap_or_default();
            let named = rows::of(view, &model).await?;
            let rows: Vec<_> = named
                .into_iter()
                .map(|row| row.in_order_of(columns))
                .collect();
            batch(columns, &rows)
        };
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            futures::stream::once(rows),
        ))
    }
}
