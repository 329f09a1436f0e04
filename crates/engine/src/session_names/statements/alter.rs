//! ALTER TABLE … ADD, DROP and RENAME COLUMN, SET and DROP of DEFAULT and NOT NULL, ADD of keys and
//! checks.
//!
//! Idea: a table of other columns is made from the rows of the old one, and takes its name. What
//! was planned before reads on what it found, prepared statements see another table and are
//! planned again, and ROLLBACK gives the name back to the old table. A new column is planned as
//! CREATE TABLE plans it, and has in all rows the value that INSERT would store for its default.
//! A view of the session follows, or is dropped with CASCADE, or keeps a column from being dropped.
//! Only the session's own tables are altered: of a table that all sessions see, other sessions
//! have views, and the columns of files are those in the files.
//! Not here: what becomes of keys, defaults and values (`../columns.rs`), the plans of views
//! (`../views.rs`), the columns of a view. One value serves all rows, so a volatile default is
//! refused where there are rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema};
use coscan_pg::PgError;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::{Column, Constraint, DFSchema, TableReference, internal_err};
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::{DmlStatement, InsertOp, WriteOp};
use datafusion::logical_expr::{
    DdlStatement, EmptyRelation, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection,
    TableType,
};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{
    CheckConstraint, ColumnDef, ColumnOption, ColumnOptionDef, DataType as SqlType,
    Expr as SqlExpr, Ident, ObjectName, Statement,
};

use super::drop::shown;
use crate::notices::{Notice, Notices};
use crate::session_names::catalogs::{OwnSchema, Whose};
use crate::session_names::columns::{Columns, contains_null};
use crate::session_names::table::MemoryTable;
use crate::session_names::views::Reader;
use crate::statement::{
    Check, StatementSize, is_identity, on_large_stack, plan_checks, plan_statement, take_of_column,
    with_begun,
};

/// ALTER TABLE of a table's columns.
#[derive(Clone, Debug)]
pub struct AlterColumns {
    /// The table.
    pub table: TableReference,
    /// Whether a missing table is no error.
    pub if_exists: bool,
    /// Whether the statement says VIEW.
    pub view: bool,
    /// The changes, all or none of which happen.
    pub changes: Vec<ColumnChange>,
}

/// A change of a column.
#[derive(Clone, Debug)]
pub enum ColumnChange {
    /// ADD COLUMN.
    Add {
        /// The column as the statement declares it.
        column: Box<ColumnDef>,
        /// Whether a column of this name is no error.
        if_not_exists: bool,
    },
    /// DROP COLUMN.
    Drop {
        /// The column.
        name: String,
        /// Whether a missing column is no error.
        if_exists: bool,
        /// Whether the views that read the column are dropped, too.
        cascade: bool,
    },
    /// RENAME COLUMN.
    Rename {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// ADD CHECK.
    AddCheck {
        /// The constraint as the statement declares it.
        check: Box<CheckConstraint>,
    },
    /// ADD UNIQUE or PRIMARY KEY.
    AddKey {
        /// The columns.
        columns: Vec<String>,
        /// Whether it is the primary key.
        primary: bool,
    },
    /// ALTER COLUMN … SET or DROP NOT NULL.
    SetNullable {
        /// The column.
        name: String,
        /// Whether it may have NULL.
        nullable: bool,
    },
    /// ALTER COLUMN … SET or DROP DEFAULT.
    SetDefault {
        /// The column.
        name: String,
        /// The default as the statement declares it.
        default: Option<Box<SqlExpr>>,
    },
}

/// Changes the columns of a table of the session's own, by a statement of this size. Dropping the
/// future before it is ready changes nothing.
///
/// # Errors
/// 42P01 and 42809 if there is no such table, 42501 if the session has not made it in memory,
/// 42703 and 42701 if there is no such column or there is one, 2BP01 if a view reads a column that
/// goes, 23502 if a column with NULL becomes NOT NULL, 23505 and 23514 if rows violate a new key or
/// CHECK constraint, 42P16 for a second primary key, those of planning the constraint and of
/// computing the default, 0A000 for what is not supported, `ResourcesExhausted` without memory for
/// both tables.
pub async fn alter_own(
    context: &SessionContext,
    alter: &AlterColumns,
    size: StatementSize,
) -> Result<()> {
    let state = context.state();
    let Some((schema, table)) = target(&state, alter).await? else {
        return Ok(());
    };
    check_kind(alter, table.as_ref())?;
    let own = schema.downcast_ref::<OwnSchema>();
    let own = own.filter(|own| own.whose(alter.table.table()) == Some(Whose::Own));
    let (Some(own), Some(old)) = (own, table.downcast_ref::<MemoryTable>()) else {
        return Err(not_its_own(&alter.table).into());
    };
    let asked = Asked {
        state: &state,
        alter,
        size,
        has_rows: has_rows(old).await,
    };
    let Some((columns, dropped, checks)) = asked.columns(old).await? else {
        return Ok(());
    };
    let mut views = own.own().readers(&table);
    let gone = asked.dependents(&views, &table, &dropped)?;
    views.retain(|view| !gone.contains(&view.name));
    let held = own.own().held(format!("table {}", alter.table));
    let (new, unchanged) = old.with_columns(&columns, Arc::new(held)).await?;
    let new: Arc<dyn TableProvider> = Arc::new(new);
    on_large_stack(asked.check_rows(&new, &checks)).await?;
    let views = views
        .iter()
        .map(|view| view.over(&table, &new, columns.renamed()));
    let views: Vec<Reader> = views.collect::<Result<_>>()?;
    // Nothing waits and little can fail from here on.
    own.replace(alter.table.table(), new)?;
    old.retire(unchanged);
    for view in &gone {
        own.own().drop_view(view);
    }
    for view in views {
        own.own().exchange(view);
    }
    asked.say_dropped(&gone);
    Ok(())
}

/// The table and its schema; `None` if there is none, and that is no error.
async fn target(
    state: &SessionState,
    alter: &AlterColumns,
) -> Result<Option<(Arc<dyn SchemaProvider>, Arc<dyn TableProvider>)>> {
    let name = &alter.table;
    let schema = state.schema_for_ref(name.clone()).ok();
    let table = match &schema {
        Some(schema) => schema.table(name.table()).await?,
        None => None,
    };
    let is_known = schema.is_some();
    if let (Some(schema), Some(table)) = (schema, table) {
        return Ok(Some((schema, table)));
    }
    if alter.if_exists {
        Notices::say(state.config(), || Notice::missing("relation", name.table()));
        return Ok(None);
    }
    let error = match name.schema() {
        Some(schema) if !is_known => {
            PgError::new("3F000", format!("schema \"{schema}\" does not exist"))
        }
        _ => PgError::new("42P01", format!("relation \"{name}\" does not exist")),
    };
    Err(error.into())
}

/// Checks that the statement may be meant for a table, and not for a view.
fn check_kind(alter: &AlterColumns, table: &dyn TableProvider) -> Result<()> {
    let name = alter.table.table();
    let error = match (table.table_type(), alter.changes.first()) {
        (TableType::View, Some(ColumnChange::Rename { .. })) => {
            PgError::unsupported("the columns of a view cannot be renamed")
        }
        (TableType::View, Some(ColumnChange::SetDefault { .. })) => {
            PgError::unsupported("the columns of a view have no defaults")
        }
        (TableType::View, change) => {
            let action = match change {
                Some(ColumnChange::Drop { .. }) => "DROP COLUMN",
                Some(ColumnChange::AddCheck { .. } | ColumnChange::AddKey { .. }) => {
                    "ADD CONSTRAINT"
                }
                Some(ColumnChange::SetNullable { nullable: true, .. }) => {
                    "ALTER COLUMN ... DROP NOT NULL"
                }
                Some(ColumnChange::SetNullable { .. }) => "ALTER COLUMN ... SET NOT NULL",
                _ => "ADD COLUMN",
            };
            let told = format!("ALTER action {action} cannot be performed on relation \"{name}\"");
            PgError::new("42809", told)
        }
        (_, _) if alter.view => PgError::new("42809", format!("\"{name}\" is not a view")),
        (_, _) => return Ok(()),
    };
    Err(error.into())
}

fn not_its_own(table: &TableReference) -> PgError {
    let name = table.table();
    let told = format!(
        "must be owner of table {name}: ALTER TABLE changes the columns of tables that the session \
         has made with CREATE TABLE, not those of files or of tables that all sessions see"
    );
    PgError::new("42501", told)
}

fn two_primary_keys(table: &str) -> PgError {
    let told = format!("multiple primary keys for table \"{table}\" are not allowed");
    PgError::new("42P16", told)
}

async fn has_rows(table: &MemoryTable) -> bool {
    let (_, partitions) = table.snapshot().await;
    let mut batches = partitions.iter().flatten();
    batches.any(|batch| batch.num_rows() > 0)
}

/// A column that goes, and whether the views that read it go, too.
type Dropped<'a> = (&'a str, bool);

/// A statement, and what is known of its table.
struct Asked<'a> {
    state: &'a SessionState,
    alter: &'a AlterColumns,
    size: StatementSize,
    has_rows: bool,
}

impl<'a> Asked<'a> {
    /// The table's name in messages.
    fn relation(&self) -> &'a str {
        self.alter.table.table()
    }

    /// The columns after all changes, those that go, and the new checks; `None` if nothing changes.
    async fn columns(
        &self,
        table: &MemoryTable,
    ) -> Result<Option<(Columns, Vec<Dropped<'a>>, Vec<Check>)>> {
        let columns = Columns::of(table, table.all_keys().clone());
        let mut columns = columns.with_checks(table.checks());
        let (mut dropped, mut declared) = (vec![], vec![]);
        let mut changes = 0;
        // PostgreSQL drops columns before it adds others.
        for change in &self.alter.changes {
            if let ColumnChange::Drop {
                name,
                if_exists,
                cascade,
            } = change
                && self.removes(&mut columns, name, *if_exists)?
            {
                changes += 1;
                dropped.push((name.as_str(), *cascade));
            }
        }
        for change in &self.alter.changes {
            let is_changed = match change {
                ColumnChange::Drop { .. } => false,
                ColumnChange::Add {
                    column,
                    if_not_exists,
                } => {
                    let mut column = ColumnDef::clone(column);
                    let checks = take_of_column(&mut column);
                    let is_new = self.adds(&mut columns, &column, *if_not_exists).await?;
                    declared.extend(checks.into_iter().filter(|_| is_new));
                    is_new
                }
                ColumnChange::Rename { from, to } => self.renames(&mut columns, from, to)?,
                ColumnChange::AddCheck { check } => {
                    declared.push(CheckConstraint::clone(check));
                    true
                }
                ColumnChange::AddKey {
                    columns: key,
                    primary,
                } => self.adds_key(&mut columns, key, *primary)?,
                ColumnChange::SetNullable { name, nullable } => {
                    self.sets_nullable(&mut columns, name, *nullable)?
                }
                ColumnChange::SetDefault { name, default } => {
                    let default = default.as_deref();
                    self.sets_default(&mut columns, name, default).await?
                }
            };
            changes += usize::from(is_changed);
        }
        let checks = on_large_stack(async { self.checks(&columns, declared) }).await?;
        columns.add_checks(&checks);
        Ok((changes > 0).then_some((columns, dropped, checks)))
    }

    /// Plans new checks, which may read all columns that there are after the statement.
    fn checks(&self, columns: &Columns, declared: Vec<CheckConstraint>) -> Result<Vec<Check>> {
        let (schema, others) = (columns.schema(), columns.checks());
        plan_checks(self.state, self.relation(), &schema, declared, others)
    }

    /// Checks the rows of the table as it will be.
    ///
    /// # Errors
    /// 23514.
    async fn check_rows(&self, table: &Arc<dyn TableProvider>, checks: &[Check]) -> Result<()> {
        for check in checks {
            let own = |name: &str| Ok(Expr::Column(Column::new_unqualified(name)));
            let source = provider_as_source(Arc::clone(table));
            let name = TableReference::bare(self.relation());
            let rows = LogicalPlanBuilder::scan(name, source, None)?;
            let rows = rows.filter(check.violation(own)?)?.limit(0, Some(1))?;
            let plan = self.state.create_physical_plan(&rows.build()?).await?;
            let rows = collect(plan, self.state.task_ctx()).await?;
            if rows.iter().any(|batch| batch.num_rows() > 0) {
                let (name, relation) = (check.name(), self.relation());
                let told = format!(
                    "check constraint \"{name}\" of relation \"{relation}\" is violated by some row"
                );
                return Err(PgError::new("23514", told).into());
            }
        }
        Ok(())
    }

    fn removes(&self, columns: &mut Columns, name: &str, if_exists: bool) -> Result<bool> {
        if columns.remove(name) {
            return Ok(true);
        }
        let relation = self.relation();
        if if_exists {
            let missing = || Notice::column_missing(name, relation);
            Notices::say(self.state.config(), missing);
            return Ok(false);
        }
        Err(self.missing(name).into())
    }

    fn renames(&self, columns: &mut Columns, from: &str, to: &str) -> Result<bool> {
        if columns.has(from) && columns.has(to) {
            return Err(self.exists(to).into());
        }
        if columns.rename(from, to)? {
            return Ok(true);
        }
        let told = format!("column \"{from}\" does not exist");
        Err(PgError::new("42703", told).into())
    }

    fn adds_key(&self, columns: &mut Columns, key: &[String], primary: bool) -> Result<bool> {
        if let Some(missing) = key.iter().find(|column| !columns.has(column)) {
            let told = format!("column \"{missing}\" named in key does not exist");
            return Err(PgError::new("42703", told).into());
        }
        if primary && columns.primary_key().is_some() {
            return Err(two_primary_keys(self.relation()).into());
        }
        columns.add_key(key.to_vec(), primary);
        Ok(true)
    }

    fn sets_nullable(&self, columns: &mut Columns, name: &str, nullable: bool) -> Result<bool> {
        let field = columns.field(name).ok_or_else(|| self.missing(name))?;
        if nullable {
            self.check_no_identity(columns, name)?;
        }
        if nullable && columns.is_primary(name) {
            let told = format!("column \"{name}\" is in a primary key");
            return Err(PgError::new("42P16", told).into());
        }
        if field.is_nullable() == nullable {
            return Ok(false);
        }
        columns.set_nullable(name, nullable);
        Ok(true)
    }

    async fn sets_default(
        &self,
        columns: &mut Columns,
        name: &str,
        default: Option<&SqlExpr>,
    ) -> Result<bool> {
        let field = columns.field(name).ok_or_else(|| self.missing(name))?;
        self.check_no_identity(columns, name)?;
        let default = match default {
            Some(expr) => self.default_for(field, expr.clone()).await?,
            None => None,
        };
        columns.set_default(name, default);
        Ok(true)
    }

    fn check_no_identity(&self, columns: &Columns, name: &str) -> Result<()> {
        if !columns.default_of(name).is_some_and(is_identity) {
            return Ok(());
        }
        let relation = self.relation();
        let told = format!("column \"{name}\" of relation \"{relation}\" is an identity column");
        Err(PgError::new("42601", told).into())
    }

    /// A new default of a column, which has a type already.
    async fn default_for(&self, field: &Field, expr: SqlExpr) -> Result<Option<Expr>> {
        let column = ColumnDef {
            name: Ident::with_quote('"', field.name()),
            data_type: SqlType::Text,
            options: vec![ColumnOptionDef {
                name: None,
                option: ColumnOption::Default(expr),
            }],
        };
        let (_, default, _) = self.planned(&column).await?;
        if let Some(default) = default.as_ref().filter(|default| !default.is_volatile()) {
            on_large_stack(computed(self.state, field, default.clone())).await?;
        }
        Ok(default)
    }

    /// The error for a column that the table does not have.
    fn missing(&self, column: &str) -> PgError {
        let relation = self.relation();
        let told = format!("column \"{column}\" of relation \"{relation}\" does not exist");
        PgError::new("42703", told)
    }

    async fn adds(
        &self,
        columns: &mut Columns,
        column: &ColumnDef,
        if_not_exists: bool,
    ) -> Result<bool> {
        // PostgreSQL looks at the name before it looks at the type.
        let names = &self.state.config_options().sql_parser;
        let names = IdentNormalizer::new(names.enable_ident_normalization);
        let (name, relation) = (names.normalize(column.name.clone()), self.relation());
        if columns.has(&name) {
            if if_not_exists {
                let found = || Notice::column_exists(&name, relation);
                Notices::say(self.state.config(), found);
                return Ok(false);
            }
            return Err(self.exists(&name).into());
        }
        let (field, default, keys) = self.planned(column).await?;
        let is_primary = keys.contains(&true);
        if is_primary && columns.primary_key().is_some() {
            return Err(two_primary_keys(relation).into());
        }
        let value = self.value(&field, default.as_ref()).await?;
        if self.has_rows && (is_primary || !field.is_nullable()) && value.is_null(0) {
            return Err(contains_null(&name, relation).into());
        }
        columns.add(field, default, value);
        for primary in keys {
            self.adds_key(columns, std::slice::from_ref(&name), primary)?;
        }
        Ok(true)
    }

    fn exists(&self, column: &str) -> PgError {
        let relation = self.relation();
        let told = format!("column \"{column}\" of relation \"{relation}\" already exists");
        PgError::new("42701", told)
    }

    /// A new column and its default, as CREATE TABLE plans them, and for each key of it whether it
    /// is the primary one.
    async fn planned(&self, column: &ColumnDef) -> Result<(Field, Option<Expr>, Vec<bool>)> {
        let name = ObjectName::from(Ident::with_quote('"', self.relation()));
        let create = CreateTableBuilder::new(name).columns(vec![column.clone()]);
        let create = Statement::CreateTable(create.build());
        let create = DfStatement::Statement(Box::new(create));
        let plan = plan_statement(self.state, create, self.size).await?;
        let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = plan else {
            return internal_err!("a CREATE TABLE that makes no table");
        };
        let keys = create.constraints.iter();
        let keys = keys.map(|key| matches!(key, Constraint::PrimaryKey(_)));
        let keys = keys.collect();
        let field = create.input.schema().field(0).as_ref().clone();
        let default = create.column_defaults.into_iter().next();
        let default = default.map(|(_, default)| with_begun(default));
        Ok((field, default, keys))
    }

    /// The value of a new column in the rows that there are, as an array of one row. As in
    /// PostgreSQL, a default is computed without rows, too, unless it is volatile.
    async fn value(&self, field: &Field, default: Option<&Expr>) -> Result<ArrayRef> {
        match default {
            Some(default) if !default.is_volatile() => {
                on_large_stack(computed(self.state, field, default.clone())).await
            }
            Some(_) if self.has_rows => {
                let told =
                    "ADD COLUMN with a volatile default is not supported for a table with rows";
                Err(PgError::unsupported(told).into())
            }
            _ => Ok(new_null_array(field.data_type(), 1)),
        }
    }

    /// The views to drop: those that read a column that goes. The plan of a view over another one
    /// contains the other's plan, so it is among them.
    ///
    /// # Errors
    /// 2BP01 if there are any, and the column is not dropped with CASCADE.
    fn dependents(
        &self,
        views: &[Reader],
        table: &Arc<dyn TableProvider>,
        dropped: &[Dropped<'_>],
    ) -> Result<Vec<TableReference>> {
        let mut gone: Vec<TableReference> = vec![];
        for (column, cascade) in dropped {
            for view in views {
                if gone.contains(&view.name) || !view.columns(table)?.contains(*column) {
                    continue;
                }
                if !cascade {
                    let told = format!(
                        "cannot drop column {column} of table {} because other objects depend on \
                         it: view {}",
                        self.relation(),
                        view.name.table()
                    );
                    return Err(PgError::new("2BP01", told).into());
                }
                gone.push(view.name.clone());
            }
        }
        Ok(gone)
    }

    fn say_dropped(&self, views: &[TableReference]) {
        let names = views.iter().map(|view| shown(self.state, view));
        let names: Vec<String> = names.collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if let Some(notice) = Notice::cascades(&names) {
            Notices::say(self.state.config(), || notice);
        }
    }
}

/// The value that INSERT stores in a column for this default, as an array of one row.
async fn computed(state: &SessionState, field: &Field, default: Expr) -> Result<ArrayRef> {
    let none = DFSchema::empty();
    let value = default.cast_to(field.data_type(), &none)?;
    let row = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: true,
        schema: Arc::new(none),
    });
    let row = Projection::try_new(vec![value.alias(field.name())], Arc::new(row))?;
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    // The rules for INSERT convert its input to the types of its target's columns. Only the input
    // is run.
    let insert = LogicalPlan::Dml(DmlStatement::new(
        TableReference::bare("new column"),
        provider_as_source(Arc::new(EmptyTable::new(schema))),
        WriteOp::Insert(InsertOp::Append),
        Arc::new(LogicalPlan::Projection(row)),
    ));
    let LogicalPlan::Dml(insert) = state.optimize(&insert)? else {
        return internal_err!("an INSERT that is none once it is optimized");
    };
    let planner = state.query_planner();
    let plan = planner.create_physical_plan(&insert.input, state).await?;
    let schema = plan.schema();
    let rows = collect(plan, state.task_ctx()).await?;
    let rows = concat_batches(&schema, &rows)?;
    match rows.columns() {
        [value] if value.len() == 1 => Ok(Arc::clone(value)),
        _ => internal_err!("a default of {} values", rows.num_rows()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use std::time::Duration;

    use arrow::array::RecordBatch;
    use futures::TryStreamExt;

    use super::*;
    use crate::session_names::allowance::Held;
    use crate::{Confinement, Engine, EngineConfig, Rights, Session};

    /// Runs a statement; the text of its error.
    async fn run(session: Session, sql: &str) -> Result<(), String> {
        let rows = session.sql(sql).await.map_err(|error| error.to_string())?;
        let rows = rows.try_collect::<Vec<RecordBatch>>().await;
        rows.map(drop).map_err(|error| error.to_string())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_row_is_inserted_after_the_rows_were_copied() {
        let engine = Engine::new(EngineConfig::default()).unwrap();
        let session = engine.session().confined(&Confinement::new(Rights::NONE));
        let made = "CREATE TABLE t AS SELECT 1::bigint AS n";
        run(session.clone(), made).await.unwrap();
        let table = session.context().table_provider("t").await.unwrap();
        let table = table.downcast_ref::<MemoryTable>().unwrap();
        let pool = Arc::clone(&session.context().runtime_env().memory_pool);
        let held = Arc::new(Held::new("t".to_owned(), &pool, None));
        let columns = Columns::of(table, table.all_keys().clone());
        let (new, unchanged) = table.with_columns(&columns, held).await.unwrap();
        let insert = run(session.clone(), "INSERT INTO t SELECT 2::bigint");
        let insert = tokio::spawn(insert);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!insert.is_finished(), "it waits for the lock");
        table.retire(unchanged);
        let error = insert.await.unwrap().unwrap_err();
        assert!(error.contains("concurrent update"), "{error}");
        for table in [table, &new] {
            let (_, partitions) = table.snapshot().await;
            let rows = partitions.iter().flatten().map(RecordBatch::num_rows);
            assert_eq!(rows.sum::<usize>(), 1);
        }
    }
}
