//! How does a statement about indexes run inside a DataFusion plan?
//!
//! As a table function: `coscan_create_index(name, table, column, if_not_exists)`,
//! `coscan_refresh_index(name)`, `coscan_drop_index(name, if_exists)`. A fifth argument of the
//! first names a feature that tables of files do not support. On a table in memory CREATE INDEX
//! only keeps the name for DROP INDEX, when it is planned, because an index changes no answer, and
//! tools create one with every table. The function works when the plan is executed, so EXPLAIN has
//! no other effect, and dropping the stream cancels the work. The result is a row about the index:
//! name, table, column, entries, bytes.
//! Not here: how statements become calls (`statement.rs`).

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use coscan_pg::PgError;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{ScalarValue, TableReference, project_schema};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{
    SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext,
};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::future::BoxFuture;
use futures::stream;

use super::build::Order;
use super::discovery::named_folder;
use crate::commit_point::Run;
use crate::index_catalog::Index;
use crate::notices::{Notice, Notices};
use crate::resources::Resources;
use crate::right::Right;
use crate::rights;
use crate::session_names::{IndexNames, MemoryTable};

/// Registers the functions in a session.
pub(crate) fn register(builder: &mut SessionStateBuilder, resources: &Weak<Resources>) {
    let functions = builder.table_functions().get_or_insert_default();
    for verb in [Verb::Create, Verb::Refresh, Verb::Drop] {
        let function = IndexFunction {
            resources: resources.clone(),
            verb,
        };
        let name = verb.name().to_owned();
        let function = datafusion::catalog::TableFunction::new(name.clone(), Arc::new(function));
        functions.insert(name, Arc::new(function));
    }
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Create,
    Refresh,
    Drop,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "coscan_create_index",
            Self::Refresh => "coscan_refresh_index",
            Self::Drop => "coscan_drop_index",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Refresh => "REFRESH",
            Self::Drop => "DROP",
        }
    }

    fn arguments(self) -> RangeInclusive<usize> {
        match self {
            Self::Create => 4..=5,
            Self::Refresh => 1..=1,
            Self::Drop => 2..=2,
        }
    }
}

#[derive(Debug)]
struct IndexFunction {
    resources: Weak<Resources>,
    verb: Verb,
}

impl TableFunctionImpl for IndexFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let arguments: Option<Vec<String>> = args.exprs().iter().map(text).collect();
        let arguments = arguments.filter(|all| self.verb.arguments().contains(&all.len()));
        let Some(arguments) = arguments else {
            return Err(DataFusionError::Plan(format!(
                "{} takes {} texts",
                self.verb.name(),
                self.verb.arguments().start()
            )));
        };
        Ok(Arc::new(IndexTable {
            resources: self.resources.clone(),
            verb: self.verb,
            arguments,
            schema: schema(),
        }))
    }
}

fn text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => {
            Some(text.clone())
        }
        _ => None,
    }
}

fn schema() -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8, false);
    let count = |name| Field::new(name, DataType::UInt64, false);
    Arc::new(Schema::new(vec![
        text("index"),
        text("table"),
        text("column"),
        count("entries"),
        count("bytes"),
    ]))
}

/// A statement that runs when the plan is executed.
struct IndexTable {
    resources: Weak<Resources>,
    verb: Verb,
    arguments: Vec<String>,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for IndexTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let state = session
            .as_any()
            .downcast_ref::<SessionState>()
            .ok_or_else(|| {
                DataFusionError::Internal("a session without a session's state".to_owned())
            })?;
        let is_needless = self.is_needless(state).await?;
        if is_needless && let [name, ..] = self.arguments.as_slice() {
            IndexNames::keep(state.config(), name);
        }
        if is_needless || self.drops_name(state)? {
            return Ok(Arc::new(EmptyExec::new(project_schema(
                &self.schema,
                projection,
            )?)));
        }
        rights::require(state.config(), &[Right::Writes], || {
            format!("{} INDEX writes files of the server", self.verb.word())
        })?;
        let work = Work {
            resources: self.resources.clone(),
            state: state.clone(),
            verb: self.verb,
            arguments: self.arguments.clone(),
            schema: Arc::clone(&self.schema),
        };
        let plan = StreamingTableExec::try_new(
            Arc::clone(&self.schema),
            vec![Arc::new(work)],
            projection,
            [],
            false,
            None,
        )?;
        Ok(Arc::new(plan))
    }
}

impl IndexTable {
    /// Whether this is CREATE INDEX on a table in memory.
    ///
    /// # Errors
    /// 42703 for a column that the table does not have.
    async fn is_needless(&self, state: &SessionState) -> Result<bool> {
        let (Verb::Create, [_, table, columns, ..]) = (self.verb, self.arguments.as_slice()) else {
            return Ok(false);
        };
        let reference = TableReference::parse_str(table);
        let Ok(schema) = state.schema_for_ref(reference.clone()) else {
            return Ok(false);
        };
        let found = schema.table(reference.table()).await?;
        let Some(found) = found.filter(|found| found.is::<MemoryTable>()) else {
            return Ok(false);
        };
        let schema = found.schema();
        let missing = |column: &&str| schema.column_with_name(column).is_none();
        match columns
            .split(',')
            .filter(|name| !name.is_empty())
            .find(missing)
        {
            None => Ok(true),
            Some(column) => {
                let told = format!("column \"{column}\" does not exist");
                Err(PgError::new("42703", told).into())
            }
        }
    }

    /// Whether this is DROP INDEX of an index on a table in memory, and no index of files has its
    /// name.
    fn drops_name(&self, state: &SessionState) -> Result<bool> {
        let (Verb::Drop, [name, ..]) = (self.verb, self.arguments.as_slice()) else {
            return Ok(false);
        };
        if !IndexNames::has(state.config(), name) {
            return Ok(false);
        }
        let Some(resources) = self.resources.upgrade() else {
            return Ok(false);
        };
        let folder = named_folder(state);
        let found = resources.indexes().named(name, folder.as_ref())?;
        Ok(found.is_none())
    }
}

impl fmt::Debug for IndexTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.verb.name(), self.arguments.join(", "))
    }
}

/// A statement that runs when its stream is polled.
#[derive(Clone)]
struct Work {
    resources: Weak<Resources>,
    state: SessionState,
    verb: Verb,
    arguments: Vec<String>,
    schema: SchemaRef,
}

impl PartitionStream for Work {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let work = self.clone();
        let schema = Arc::clone(&self.schema);
        let rows = stream::once(async move {
            let done: BoxFuture<'_, Result<Option<Arc<Index>>>> = Box::pin(work.run());
            row(&work.schema, done.await?.as_deref())
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, Box::pin(rows)))
    }
}

impl Work {
    async fn run(&self) -> Result<Option<Arc<Index>>> {
        let gone = || DataFusionError::Execution("the engine was shut down".to_owned());
        let resources = self.resources.upgrade().ok_or_else(gone)?;
        let folder = named_folder(&self.state);
        let known = |name| resources.indexes().named(name, folder.as_ref());
        let missing = |name| {
            let told = format!("there is no index {name}");
            DataFusionError::from(PgError::new("42704", told))
        };
        match (self.verb, self.arguments.as_slice()) {
            (Verb::Create, [_, _, _, _, unsupported]) => Err(DataFusionError::Plan(format!(
                "not supported: {unsupported}"
            ))),
            (Verb::Create, [name, table, column, if_not_exists]) => {
                let if_not_exists = if_not_exists == "true";
                if if_not_exists && !matches!(known(name), Ok(None)) {
                    let found = || Notice::relation_exists(name);
                    Notices::say(self.state.config(), found);
                    return Ok(None);
                }
                let order = Order {
                    resources: &resources,
                    state: &self.state,
                    name,
                    table,
                    column,
                    old: None,
                    if_not_exists,
                };
                order.build().await
            }
            (Verb::Refresh, [name]) => {
                let index = known(name)?.ok_or_else(|| missing(name))?;
                let order = Order {
                    resources: &resources,
                    state: &self.state,
                    name,
                    table: &index.manifest.table,
                    column: &index.manifest.column,
                    old: Some(&index),
                    if_not_exists: false,
                };
                order.build().await
            }
            (Verb::Drop, [name, if_exists]) => match known(name)? {
                Some(index) => {
                    self.drop_index(&resources, &index).await?;
                    Ok(Some(index))
                }
                None if if_exists == "true" => {
                    let missing = || Notice::missing("index", name);
                    Notices::say(self.state.config(), missing);
                    Ok(None)
                }
                None => Err(missing(name)),
            },
            _ => Err(DataFusionError::Internal(
                "arguments were counted".to_owned(),
            )),
        }
    }

    async fn drop_index(&self, resources: &Resources, index: &Index) -> Result<()> {
        let store = self.state.runtime_env().object_store(&index.folder.store)?;
        Run::of(self.state.config()).reach()?;
        resources.indexes().drop_index(&store, index).await
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.verb.name(), self.arguments.join(", "))
    }
}

/// The row about an index that was created or dropped; no row if there was nothing to do.
fn row(schema: &SchemaRef, index: Option<&Index>) -> Result<RecordBatch> {
    let manifest = || index.iter().map(|index| &index.manifest);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(manifest().map(|m| &m.name))),
        Arc::new(StringArray::from_iter_values(manifest().map(|m| &m.table))),
        Arc::new(StringArray::from_iter_values(manifest().map(|m| &m.column))),
        Arc::new(UInt64Array::from_iter_values(manifest().map(|m| m.entries))),
        Arc::new(UInt64Array::from_iter_values(manifest().map(|m| m.bytes))),
    ];
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
