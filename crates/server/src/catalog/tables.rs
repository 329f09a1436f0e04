//! Which tables does `pg_catalog` have, and where do their rows come from?
//!
//! | rows | tables |
//! |---|---|
//! | of this server (`rows.rs`) | `pg_class`, `pg_attribute`, `pg_namespace`, `pg_roles`, … |
//! | PostgreSQL's own, shipped by datafusion-pg-catalog | `pg_type`, `pg_proc`, `pg_operator`, … |
//! | none | what Coscan does not have (`dialect/catalog/facts.rs` of coscan-pg, `EMPTY`) |
//!
//! `pg_type` leaves out the types of PostgreSQL's catalog tables and the domains: Coscan has no
//! such tables and domains.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_pg::datatypes::PG_CHAR_KEY;
use async_trait::async_trait;
use coscan::session_settings::Board;
use datafusion::arrow::array::{AsArray, BooleanArray, new_null_array};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::datasource::TableType;
use datafusion::datasource::empty::EmptyTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion_pg_catalog::pg_catalog::catalog_info::CatalogInfo;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::pg_catalog::{
    PgCatalogSchemaProvider, PgCatalogStaticTables, PgCatalogTable,
};

use super::bare::BARE;
use super::grid::schema;
use super::model::Model;
use super::rows::ServerTable;
use coscan_pg::dialect::{EMPTY, TABLES};

/// PostgreSQL's own rows, and the columns of the empty tables, shared by all connections.
#[derive(Debug)]
pub(super) struct Shipped {
    tables: Vec<(&'static str, Arc<dyn TableProvider>)>,
    pub(super) types: RecordBatch,
    pub(super) procedures: RecordBatch,
    pub(super) aggregates: RecordBatch,
    pub(super) descriptions: RecordBatch,
}

impl Shipped {
    pub(super) fn load(statics: &Arc<PgCatalogStaticTables>) -> Result<Self> {
        let theirs =
            PgCatalogSchemaProvider::try_new(Nothing, Arc::clone(statics), EmptyContextProvider)?;
        let mut tables: Vec<(&'static str, Arc<dyn TableProvider>)> = vec![];
        let mut types = RecordBatch::new_empty(Arc::new(Schema::empty()));
        let [mut procedures, mut aggregates, mut descriptions] = [(); 3].map(|()| types.clone());
        for name in TABLES.iter().chain(EMPTY).copied() {
            if ServerTable::of(name).is_some() {
                continue;
            }
            if let Some((_, columns)) = BARE.iter().find(|(bare, _)| *bare == name) {
                tables.push((name, Arc::new(EmptyTable::new(schema(columns)))));
                continue;
            }
            let Some(found) = theirs.build_table_by_name(name)? else {
                continue;
            };
            if EMPTY.contains(&name) {
                let schema = found.try_into_table_provider()?.schema();
                tables.push((name, Arc::new(EmptyTable::new(with_vectors(&schema)))));
                continue;
            }
            let PgCatalogTable::Static(table) = found else {
                tables.push((name, found.try_into_table_provider()?));
                continue;
            };
            let schema = marked(name, &table.schema());
            let batches = table
                .data()
                .iter()
                .map(|batch| {
                    let batch = without_grants(&schema, batch)?;
                    match name {
                        "pg_type" => kept_types(&batch),
                        "pg_language" | "pg_proc" => of_genesis(&batch, "oid"),
                        "pg_description" => of_genesis(&batch, "objoid"),
                        _ => Ok(batch),
                    }
                })
                .collect::<Result<Vec<_>>>()?;
            let whole = || datafusion::arrow::compute::concat_batches(&schema, &batches);
            match name {
                "pg_type" => types = whole()?,
                "pg_proc" => procedures = whole()?,
                "pg_aggregate" => aggregates = whole()?,
                "pg_description" => descriptions = whole()?,
                _ => {}
            }
            tables.push((name, Arc::new(MemTable::try_new(schema, vec![batches])?)));
        }
        Ok(Self {
            tables,
            types,
            procedures,
            aggregates,
            descriptions,
        })
    }
}

/// Makes lists of the columns that are arrays or vectors in PostgreSQL and were shipped as text.
fn with_vectors(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let element = match field.name().as_str() {
            "conkey" | "confkey" | "confdelsetcols" | "indkey" | "indoption" | "prattrs"
            | "stxkeys" | "tgattr" => DataType::Int16,
            "indcollation" | "indclass" | "polroles" | "conpfeqop" | "conppeqop" | "conffeqop"
            | "conexclop" | "extconfig" => DataType::Int32,
            "stxkind" | "setconfig" => DataType::Utf8,
            name if is_grants(name) => DataType::Utf8,
            _ => return field.as_ref().clone(),
        };
        Field::new(field.name(), DataType::new_list(element, true), true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Marks the columns that are `"char"` in PostgreSQL, and makes lists of the columns of grants and
/// options.
fn marked(table: &str, schema: &SchemaRef) -> SchemaRef {
    let letters: &[&str] = match table {
        "pg_type" => &[
            "typtype",
            "typcategory",
            "typdelim",
            "typalign",
            "typstorage",
        ],
        _ => &[],
    };
    let fields = schema.fields().iter().map(|field| {
        let mut field = field.as_ref().clone();
        if is_grants(field.name()) {
            field.set_data_type(DataType::new_list(DataType::Utf8, true));
        }
        if letters.contains(&field.name().as_str()) {
            let mut marks = field.metadata().clone();
            marks.insert(PG_CHAR_KEY.to_owned(), "char".to_owned());
            field.set_metadata(marks);
        }
        field
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Whether a column holds grants to roles, or options. Coscan has neither.
fn is_grants(column: &str) -> bool {
    column.ends_with("acl") || matches!(column, "proconfig" | "spcoptions")
}

/// Replaces the columns of grants by NULL: they were shipped as text and name PostgreSQL's roles.
fn without_grants(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns.map(|(field, column)| {
        if is_grants(field.name()) {
            new_null_array(field.data_type(), batch.num_rows())
        } else {
            Arc::clone(column)
        }
    });
    let columns = columns.collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// Removes the objects that scripts create when a PostgreSQL database is set up: its information
/// schema, its system views, `PL/pgSQL`. They have no fixed oids, and Coscan does not have them.
fn of_genesis(batch: &RecordBatch, oid: &str) -> Result<RecordBatch> {
    let oids = batch
        .column_by_name(oid)
        .ok_or_else(|| DataFusionError::Internal(format!("a catalog table has no column {oid}")))?;
    let oids = oids.as_primitive::<Int32Type>();
    let kept: BooleanArray = oids
        .iter()
        .map(|oid| Some(oid.is_some_and(|oid| oid < FIRST_UNPINNED)))
        .collect();
    Ok(filter_record_batch(batch, &kept)?)
}

/// PostgreSQL's `FirstUnpinnedObjectId`.
const FIRST_UNPINNED: i32 = 12_000;

/// Removes row types, domains and arrays of these.
fn kept_types(batch: &RecordBatch) -> Result<RecordBatch> {
    let column = |name: &str| {
        batch
            .column_by_name(name)
            .ok_or_else(|| DataFusionError::Internal(format!("pg_type has no column {name}")))
    };
    let (oids, kinds, elements) = (column("oid")?, column("typtype")?, column("typelem")?);
    let (oids, kinds, elements) = (
        oids.as_primitive::<Int32Type>(),
        kinds.as_string::<i32>(),
        elements.as_primitive::<Int32Type>(),
    );
    let gone: HashSet<i32> = (0..batch.num_rows())
        .filter(|row| matches!(kinds.value(*row), "c" | "d"))
        .map(|row| oids.value(row))
        .collect();
    let kept: BooleanArray = (0..batch.num_rows())
        .map(|row| Some(!gone.contains(&oids.value(row)) && !gone.contains(&elements.value(row))))
        .collect();
    Ok(filter_record_batch(batch, &kept)?)
}

/// One connection's `pg_catalog`.
#[derive(Debug)]
pub(super) struct PgSchema {
    pub(super) model: Model,
    pub(super) shipped: Arc<Shipped>,
    pub(super) board: Arc<Board>,
}

#[async_trait]
impl SchemaProvider for PgSchema {
    fn table_names(&self) -> Vec<String> {
        let all = TABLES.iter().chain(EMPTY);
        let mut names: Vec<_> = all.map(|name| (*name).to_owned()).collect();
        names.sort_unstable();
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let name = name.to_ascii_lowercase();
        if let Some(table) = ServerTable::of(&name) {
            let stream = ServerTableStream {
                table,
                schema: schema(table.columns()),
                model: self.model.clone(),
                board: Arc::clone(&self.board),
            };
            let schema = Arc::clone(&stream.schema);
            let table = StreamingTable::try_new(schema, vec![Arc::new(stream)])?;
            return Ok(Some(Arc::new(table)));
        }
        let shipped = &self.shipped.tables;
        let found = shipped.iter().find(|(table, _)| *table == name);
        Ok(found.map(|(_, table)| Arc::clone(table)))
    }

    fn table_exist(&self, name: &str) -> bool {
        coscan_pg::dialect::is_catalog_table(name)
    }
}

/// Reads a table during execution, not during planning.
#[derive(Debug)]
struct ServerTableStream {
    table: ServerTable,
    schema: SchemaRef,
    model: Model,
    board: Arc<Board>,
}

impl PartitionStream for ServerTableStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = self.table.read(self.model.clone(), Arc::clone(&self.board));
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            futures::stream::once(rows),
        ))
    }
}

/// The catalogs that datafusion-pg-catalog lists: none.
#[derive(Debug, Clone)]
struct Nothing;

#[async_trait]
impl CatalogInfo for Nothing {
    async fn catalog_names(&self) -> Result<Vec<String>, DataFusionError> {
        Ok(vec![])
    }

    async fn schema_names(&self, _: &str) -> Result<Option<Vec<String>>, DataFusionError> {
        Ok(None)
    }

    async fn table_names(&self, _: &str, _: &str) -> Result<Option<Vec<String>>, DataFusionError> {
        Ok(None)
    }

    async fn table_schema(
        &self,
        _: &str,
        _: &str,
        _: &str,
    ) -> Result<Option<SchemaRef>, DataFusionError> {
        Ok(None)
    }

    async fn table_type(
        &self,
        _: &str,
        _: &str,
        _: &str,
    ) -> Result<Option<TableType>, DataFusionError> {
        Ok(None)
    }
}
