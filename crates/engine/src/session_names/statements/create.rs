//! How is a table in memory created, from columns or from a query?
//!
//! CREATE TABLE AS runs as an INSERT into a table that is not visible yet. Its query therefore gets
//! memory of its own, waits for it, and can be run again. The table has one partition for each of
//! the query's, keeps their order, and becomes visible once it has all rows.
//! Not here: how the rows are collected (`create_exec.rs`), INSERT (`../table.rs`), other
//! statements (`execute.rs`).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use coscan_pg::{PgError, marked_sets, open_undeclared, unknown_as_text};
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::{
    Constraints, SchemaError, TableReference, exec_err, internal_err, not_impl_err, plan_err,
};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::{DmlStatement, InsertOp, WriteOp};
use datafusion::logical_expr::{
    CreateMemoryTable, Expr, LogicalPlan, LogicalPlanBuilder, SubqueryAlias, TableType,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;

use super::create_exec::{CreateTableExec, NewRows};
use crate::commit_point::Run;
use crate::notices::{Notice, Notices};
use crate::session_names::allowance::Held;
use crate::session_names::catalogs::{OwnSchema, TEMPORARY_SCHEMA};
use crate::session_names::table::MemoryTable;
use crate::statement::{Check, split_defaults, with_begun};

/// The schema and the name of a table that all sessions see and that the new one replaces.
pub(super) type Replaced = Option<(Arc<dyn SchemaProvider>, String)>;

/// CREATE TABLE. For CREATE TABLE AS it returns a plan that creates the table when it runs, and
/// whose result is the number of rows.
pub(super) fn create_table(
    context: &SessionContext,
    state: SessionState,
    create: CreateMemoryTable,
    is_own: bool,
    replaced: Replaced,
) -> Result<DataFrame> {
    let name = place_of(&state, &create.name)?;
    if create.temporary && !is_own {
        return plan_err!(
            "TEMPORARY tables are a server's: here all sessions of the engine see {name}"
        );
    }
    if !is_wanted(context, &name, create.if_not_exists, create.or_replace)? {
        return nothing(context);
    }
    let is_of_query = makes_rows(&create);
    let query = match Arc::unwrap_or_clone(create.input) {
        columns @ LogicalPlan::EmptyRelation(_) => columns,
        query => unknown_as_text(open_undeclared(marked_sets(query)?)?)?,
    };
    check_names(&query)?;
    let (checks, defaults) = split_defaults(create.column_defaults);
    let defaults = defaults.into_iter();
    let defaults = defaults.map(|(column, default)| (column, with_begun(default)));
    let new = NewTable {
        context: context.clone(),
        name: name.clone(),
        columns: columns_of(&query, is_of_query),
        constraints: create.constraints,
        checks,
        defaults: defaults.collect(),
        temporary: create.temporary,
        or_replace: create.or_replace,
        replaced,
    };
    if !is_of_query {
        let held = new.held(&state)?;
        new.appear(vec![], held, &Run::of(state.config()))?;
        return nothing(context);
    }
    // With a name of its own the query is taken as it is: nothing is assigned to known columns.
    let query = SubqueryAlias::try_new(Arc::new(query), "new rows")?;
    let rows = Arc::new(LogicalPlan::SubqueryAlias(query));
    let target = provider_as_source(Arc::new(new));
    let insert = WriteOp::Insert(InsertOp::Append);
    let insert = LogicalPlan::Dml(DmlStatement::new(name, target, insert, rows));
    Ok(DataFrame::new(state, insert))
}

/// Whether a table is to be created; false for IF NOT EXISTS if there is one.
///
/// # Errors
/// If there is one, and it is not to be replaced.
pub(super) fn is_wanted(
    context: &SessionContext,
    name: &TableReference,
    if_not_exists: bool,
    or_replace: bool,
) -> Result<bool> {
    let exists = context.table_exist(name.clone())?;
    match (exists, if_not_exists, or_replace) {
        (true, true, true) => exec_err!("'IF NOT EXISTS' cannot coexist with 'REPLACE'"),
        (true, true, false) => {
            let state = context.state_ref();
            let found = || Notice::relation_exists(name.table());
            Notices::say(state.read().config(), found);
            Ok(false)
        }
        (true, false, false) => exec_err!("Table '{name}' already exists"),
        (true, false, true) | (false, ..) => Ok(true),
    }
}

/// Moves a new table or view to the shared schema if it replaces a shared one.
pub(super) fn publish(replaced: &Replaced) -> Result<()> {
    match replaced {
        Some((schema, name)) => match schema.downcast_ref::<OwnSchema>() {
            Some(own) => own.publish(name),
            None => Ok(()),
        },
        None => Ok(()),
    }
}

/// Registers a new table in place of the old one, which stays if that fails.
pub(super) fn register(
    context: &SessionContext,
    name: &TableReference,
    table: Arc<dyn TableProvider>,
    or_replace: bool,
    replaced: &Replaced,
) -> Result<()> {
    let old = if or_replace {
        context.deregister_table(name.clone())?
    } else {
        None
    };
    let registered = context.register_table(name.clone(), table);
    if let Err(error) = registered {
        if let Some(old) = old {
            // There was room for it a moment ago.
            context.register_table(name.clone(), old)?;
            publish(replaced)?;
        }
        return Err(error);
    }
    publish(replaced)
}

/// The answer of a statement without rows.
pub(super) fn nothing(context: &SessionContext) -> Result<DataFrame> {
    let plan = LogicalPlanBuilder::empty(false).build()?;
    Ok(DataFrame::new(context.state(), plan))
}

/// The full name of a new table. A table named in [`TEMPORARY_SCHEMA`] is the session's own in any
/// schema; a table without a schema needs one from the search path.
///
/// # Errors
/// 3F000 if there is no such schema.
fn place_of(state: &SessionState, name: &TableReference) -> Result<TableReference> {
    let selected = &state.config_options().catalog.default_schema;
    let place = match name {
        TableReference::Partial { schema, table }
            if schema.as_ref() == TEMPORARY_SCHEMA && selected != TEMPORARY_SCHEMA =>
        {
            TableReference::bare(Arc::clone(table))
        }
        name => name.clone(),
    };
    let told = match (name.schema(), state.schema_for_ref(place.clone())) {
        (None, Ok(_)) if selected != TEMPORARY_SCHEMA => return Ok(place),
        (Some(_), Ok(_)) => return Ok(place),
        (Some(schema), Err(_)) => format!("schema \"{schema}\" does not exist"),
        (None, _) => "no schema has been selected to create in".to_owned(),
    };
    Err(PgError::new("3F000", told).into())
}

/// Whether CREATE TABLE stores the rows of a query, whose number it returns; otherwise the plan
/// only lists the columns.
pub(crate) fn makes_rows(create: &CreateMemoryTable) -> bool {
    !matches!(create.input.as_ref(), LogicalPlan::EmptyRelation(_))
}

/// The columns of a table. Columns of a query may hold NULL.
fn columns_of(query: &LogicalPlan, is_of_query: bool) -> SchemaRef {
    let schema = query.schema().inner();
    if !is_of_query {
        return SchemaRef::clone(schema);
    }
    let fields = schema.fields().iter();
    let fields = fields.map(|field| Field::clone(field).with_nullable(true));
    let metadata = schema.metadata().clone();
    Arc::new(Schema::new_with_metadata(
        fields.collect::<Vec<_>>(),
        metadata,
    ))
}

/// A table's columns have no qualifiers, so their names must differ without them.
fn check_names(plan: &LogicalPlan) -> Result<()> {
    let mut names: Vec<&String> = plan.schema().fields().iter().map(|f| f.name()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            let name = pair[0].clone();
            let error = SchemaError::DuplicateUnqualifiedField { name };
            Err(DataFusionError::SchemaError(
                Box::new(error),
                Box::new(None),
            ))
        }
        None => Ok(()),
    }
}

/// A table that does not exist yet: what is inserted into it makes it.
#[derive(Clone)]
pub(super) struct NewTable {
    context: SessionContext,
    name: TableReference,
    columns: SchemaRef,
    constraints: Constraints,
    checks: Vec<Check>,
    defaults: HashMap<String, Expr>,
    temporary: bool,
    or_replace: bool,
    replaced: Replaced,
}

impl NewTable {
    /// Whether it replaces a table that has its name.
    pub(super) fn replaces(&self) -> bool {
        self.or_replace
    }

    /// An account for its rows.
    fn held(&self, state: &SessionState) -> Result<Arc<Held>> {
        let what = format!("table {}", self.name);
        let schema = state.schema_for_ref(self.name.clone())?;
        let held = match schema.downcast_ref::<OwnSchema>() {
            Some(own) => own.own().held(what),
            None => Held::new(what, &state.runtime_env().memory_pool, None),
        };
        Ok(Arc::new(held))
    }

    /// Gives the rows, whose memory `held` has, to a table of this name.
    ///
    /// # Errors
    /// Those of constraints; 57014 if the statement was given up.
    fn appear(&self, mut rows: Vec<Vec<RecordBatch>>, held: Arc<Held>, run: &Run) -> Result<()> {
        for batch in rows.iter_mut().flatten() {
            let count = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let (fields, columns) = (Arc::clone(&self.columns), batch.columns().to_vec());
            *batch = RecordBatch::try_new_with_options(fields, columns, &count)?;
        }
        let table = MemoryTable::try_new(
            self.name.table(),
            Arc::clone(&self.columns),
            rows,
            held,
            self.constraints.clone(),
            self.defaults.clone(),
        )?;
        let table = table.with_checks(self.checks.clone());
        let table = table.with_temporary(self.temporary);
        run.reach()?;
        let (context, name) = (&self.context, &self.name);
        register(
            context,
            name,
            Arc::new(table),
            self.or_replace,
            &self.replaced,
        )
    }
}

#[async_trait]
impl TableProvider for NewTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.columns)
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
        not_impl_err!("a table that does not exist yet is not read")
    }

    async fn insert_into(
        &self,
        session: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        _: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("a session without a session's state");
        };
        let (held, new) = (self.held(state)?, self.clone());
        let table = NewRows {
            name: self.name.to_string(),
            held: Arc::clone(&held),
            appear: Arc::new(move |rows, run| new.appear(rows, Arc::clone(&held), run)),
        };
        Ok(Arc::new(CreateTableExec::new(table, input)))
    }
}

impl fmt::Debug for NewTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewTable({})", self.name)
    }
}
