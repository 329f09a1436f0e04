//! Plans INSERT, UPDATE, DELETE and CREATE TABLE (LIKE …) in forms that need the table's columns.
//!
//! | form | how it is planned |
//! |---|---|
//! | INSERT of fewer values than columns | with the names of the first columns |
//! | DEFAULT in VALUES and SET, DEFAULT VALUES | with the column's default, or NULL; without the column, if a sequence gives its values |
//! | `CREATE TABLE u (LIKE t)` | as the empty table of its columns |
//! | INSERT of a uuid into a table of files | as the bytes that files hold |
//! | UPDATE … FROM, DELETE … USING, WITH before either, DELETE of a table with an alias | as a query of the changed rows, which DataFusion's planner does not support; the plan has the same change node as its own |
//!
//! Not here: forms that need no columns (`coscan_pg`'s `dialect/changes.rs`), how rows change
//! (`session_names/change/`).
//! More than 800 lines: each form is a few functions, and all of them plan and name tables alike.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Fields, Schema};
use coscan_pg::casts::Target;
use coscan_pg::dialect::{query_of, uuid_in_file};
use coscan_pg::{PgError, open_undeclared, unknown_as_text};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{
    Constraint, Constraints, DFSchema, ScalarValue, SchemaError, TableReference,
};
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{
    ColumnarValue, CreateMemoryTable, DdlStatement, EmptyRelation, Expr as PlannedExpr,
    ExprSchemable, LogicalPlan, Projection, TableType, Volatility, WriteOp, cast,
};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::planner::{IdentNormalizer, object_name_to_table_reference};
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, CheckConstraint, ColumnOption, CreateTable, CreateTableLike,
    CreateTableLikeDefaults, CreateTableLikeKind, Delete, Expr, FromTable, Ident, Insert,
    ObjectName, Parens, Query, Select, SelectItem, SetExpr, Statement, TableConstraint,
    TableFactor, TableObject, TableWithJoins, TruncateIdentityOption, TruncateTableTarget, Update,
    UpdateTableFromKind, Value, Values, VisitMut, VisitorMut, With,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::unparser::expr_to_sql;

use super::checks::{as_defaults, plan_checks, take_checks};
use super::drop_functions;
use super::given::{
    check_assigned, check_given, is_default, kind_of, last_of, leave_out_sequences,
    without_sequences,
};
use super::sequences::{is_identity, sequence_of, take_sequences};

/// The error for an INSERT for which no column is left.
const NOTHING_LEFT: &str = "DEFAULT VALUES for a table of sequences only is not supported";

/// Plans any statement.
pub(super) async fn plan(state: &SessionState, statement: DfStatement) -> Result<LogicalPlan> {
    let tables = if let DfStatement::Statement(inner) = &statement {
        changed_tables(state, inner)
    } else {
        vec![]
    };
    let plan = planned(state, statement).await;
    plan.map_err(|error| of_known_table(error, &tables))
}

/// The tables of an UPDATE or a DELETE that have no alias, whose columns its subqueries may name.
fn changed_tables(state: &SessionState, statement: &Statement) -> Vec<String> {
    let mut items: Vec<&TableWithJoins> = vec![];
    match statement {
        Statement::Query(query) => {
            if let SetExpr::Update(change) | SetExpr::Delete(change) = query.body.as_ref() {
                return changed_tables(state, change);
            }
        }
        Statement::Update(update) => {
            items.push(&update.table);
            if let Some(
                UpdateTableFromKind::BeforeSet(more) | UpdateTableFromKind::AfterSet(more),
            ) = &update.from
            {
                items.extend(more);
            }
        }
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            items.extend(from.iter().chain(delete.using.iter().flatten()));
        }
        _ => {}
    }
    let names = items.into_iter().filter_map(|item| match &item.relation {
        TableFactor::Table {
            name, alias: None, ..
        } => Some(last_of(state, name)),
        _ => None,
    });
    names.collect()
}

/// The error of a subquery that names an unknown column of a changed table. DataFusion only knows
/// that the subquery has no such table. (The dialect marks those of a SELECT and those with an
/// alias, by which the error is recognized.)
fn of_known_table(error: DataFusionError, tables: &[String]) -> DataFusionError {
    let DataFusionError::SchemaError(schema, _) = error.find_root() else {
        return error;
    };
    if let SchemaError::FieldNotFound { field, .. } = schema.as_ref()
        && let Some(table) = field.relation.as_ref().map(TableReference::table)
        && tables.iter().any(|known| known.eq_ignore_ascii_case(table))
    {
        let message = format!("column {table}.{} does not exist", field.name);
        return PgError::new("42703", message).into();
    }
    error
}

async fn planned(state: &SessionState, statement: DfStatement) -> Result<LogicalPlan> {
    let inner = match statement {
        DfStatement::Statement(inner) => inner,
        mut other => {
            complete_explained(state, &mut other).await?;
            return state.statement_to_plan(other).await;
        }
    };
    let (with, mut inner) = match *inner {
        Statement::Query(query) => match *query {
            Query { with, body, .. }
                if matches!(*body, SetExpr::Update(_) | SetExpr::Delete(_)) =>
            {
                match *body {
                    SetExpr::Update(change) | SetExpr::Delete(change) => (with, change),
                    body => (with, Statement::Query(Box::new(query_of(body)))),
                }
            }
            query => (None, Statement::Query(Box::new(query))),
        },
        other => (None, other),
    };
    check_supported(&inner)?;
    let mut is_temporary = false;
    let mut declared = Declared::default();
    match &mut inner {
        // DataFusion refuses the word.
        Statement::CreateTable(create) => {
            is_temporary = std::mem::take(&mut create.temporary);
            if let Some(CreateTableLikeKind::Parenthesized(like)) = &create.like {
                return table_like(state, create, like, is_temporary).await;
            }
            declared = Declared::take(state, create)?;
        }
        Statement::Insert(insert) => complete(state, insert).await?,
        Statement::Update(update) => {
            let table = complete_assignments(state, update).await?;
            if with.is_some() || update.from.is_some() {
                return update_of(state, table, update, with).await;
            }
        }
        Statement::Delete(delete) => {
            if let FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from) = &delete.from
                && let [target] = from.as_slice()
                && (with.is_some() || delete.using.is_some() || has_alias(&target.relation))
            {
                let target = target.clone();
                let table = target_of(state, &target.relation).await?;
                return delete_of(state, table, target, delete, with).await;
            }
        }
        Statement::Truncate(truncate) => {
            let restarts = truncate.identity.take() == Some(TruncateIdentityOption::Restart);
            check_truncated(state, &truncate.table_names, restarts).await?;
        }
        Statement::DropFunction(drop) => {
            if let Some(plan) = drop_functions::plan(state, drop)? {
                return Ok(plan);
            }
        }
        _ => {}
    }
    let statement = DfStatement::Statement(Box::new(inner));
    let mut plan = state.statement_to_plan(statement).await?;
    if let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = &mut plan {
        create.temporary |= is_temporary;
        let (name, columns) = (create.name.table(), create.input.schema().inner());
        let checks = plan_checks(state, name, columns, declared.checks, &[])?;
        create.column_defaults.extend(as_defaults(checks));
        create.column_defaults.extend(declared.sequences);
    }
    Ok(plan)
}

/// What a CREATE TABLE declares and DataFusion does not plan.
#[derive(Default)]
struct Declared {
    checks: Vec<CheckConstraint>,
    /// The defaults of columns with sequences, by the columns' names.
    sequences: Vec<(String, PlannedExpr)>,
}

impl Declared {
    /// # Errors
    /// Those of sequences; 0A000 beside a query.
    fn take(state: &SessionState, create: &mut CreateTable) -> Result<Self> {
        let checks = take_checks(&mut create.columns, &mut create.constraints);
        let names = state.config_options().sql_parser.enable_ident_normalization;
        let (table, names) = (last_of(state, &create.name), IdentNormalizer::new(names));
        let sequences = take_sequences(&table, &mut create.columns, &names)?;
        if create.query.is_some() && !(checks.is_empty() && sequences.is_empty()) {
            let told = "CREATE TABLE AS has no CHECK constraints and no sequences";
            return refuse("0A000", told);
        }
        Ok(Self { checks, sequences })
    }
}

/// Refuses to empty a view, and to restart sequences.
async fn check_truncated(
    state: &SessionState,
    targets: &[TruncateTableTarget],
    restarts: bool,
) -> Result<()> {
    for TruncateTableTarget { name, .. } in targets {
        let Some((_, table)) = table_of(state, name).await? else {
            continue;
        };
        if table.table_type() == TableType::View {
            let told = format!("\"{}\" is not a table", last_of(state, name));
            return refuse("42809", &told);
        }
        let schema = table.schema();
        let mut names = schema.fields().iter().map(|field| field.name());
        if restarts && names.any(|column| kind_of(table.as_ref(), column).is_some()) {
            let told = "RESTART IDENTITY of a table with a sequence is not supported";
            return refuse("0A000", told);
        }
    }
    Ok(())
}

fn has_alias(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Table { alias: Some(_), .. })
}

fn refuse<T>(code: &'static str, text: &str) -> Result<T> {
    Err(PgError::new(code, text.to_owned()).into())
}

/// Refuses forms that DataFusion ignores, and gives those that it refuses PostgreSQL's code.
///
/// # Errors
/// 0A000.
fn check_supported(statement: &Statement) -> Result<()> {
    let returning = match statement {
        Statement::Insert(insert) if insert.on.is_some() => {
            return refuse("0A000", "INSERT … ON CONFLICT is not supported");
        }
        Statement::Insert(insert) => &insert.returning,
        Statement::Update(update) => &update.returning,
        Statement::Delete(delete) => &delete.returning,
        Statement::Merge(_) => return refuse("0A000", "MERGE is not supported"),
        Statement::CreateTable(create) => return check_columns(create),
        _ => &None,
    };
    match returning {
        Some(_) => refuse("0A000", "RETURNING is not supported"),
        None => Ok(()),
    }
}

fn check_columns(create: &CreateTable) -> Result<()> {
    let options = create.columns.iter().flat_map(|column| &column.options);
    for option in options {
        match option.option {
            ColumnOption::ForeignKey(_) => {
                return refuse("0A000", "foreign keys are not supported");
            }
            ColumnOption::Generated {
                generation_expr: Some(_),
                ..
            }
            | ColumnOption::Identity(_) => {
                return refuse("0A000", "generated columns are not supported");
            }
            _ => {}
        }
    }
    let mut constraints = create.constraints.iter();
    if constraints.any(|constraint| matches!(constraint, TableConstraint::ForeignKey(_))) {
        return refuse("0A000", "foreign keys are not supported");
    }
    Ok(())
}

/// A table with the columns of another one. NOT NULL is always copied, keys are not.
async fn table_like(
    state: &SessionState,
    create: &CreateTable,
    like: &CreateTableLike,
    temporary: bool,
) -> Result<LogicalPlan> {
    let Some((_, table)) = table_of(state, &like.name).await? else {
        let told = format!("relation \"{}\" does not exist", last_of(state, &like.name));
        return refuse("42P01", &told);
    };
    let (fields, is_view) = match table.get_logical_plan() {
        Some(view) => (
            unknown_as_text(open_undeclared(view.into_owned())?)?
                .schema()
                .fields()
                .clone(),
            true,
        ),
        None => (table.schema().fields().clone(), false),
    };
    let keys = table.constraints().into_iter().flat_map(|all| all.iter());
    let primary = keys.filter_map(|key| match key {
        Constraint::PrimaryKey(columns) => Some(columns.as_slice()),
        Constraint::Unique(_) => None,
    });
    let primary = primary.flatten().copied().collect::<Vec<_>>();
    let fields: Fields = fields
        .iter()
        .enumerate()
        .map(|(at, field)| {
            let is_nullable = is_view || (field.is_nullable() && !primary.contains(&at));
            field.as_ref().clone().with_nullable(is_nullable)
        })
        .collect();
    let mut column_defaults = vec![];
    if matches!(like.defaults, Some(CreateTableLikeDefaults::Including)) {
        for field in &fields {
            let default = table.get_column_default(field.name());
            // PostgreSQL copies an identity with INCLUDING IDENTITY only.
            let default = default.filter(|default| !is_identity(default));
            column_defaults.extend(default.map(|default| (field.name().clone(), default.clone())));
        }
    }
    let normalize = state.config_options().sql_parser.enable_ident_normalization;
    let columns = EmptyRelation {
        produce_one_row: false,
        schema: Arc::new(DFSchema::try_from(Schema::new(fields))?),
    };
    let create = CreateMemoryTable {
        name: object_name_to_table_reference(create.name.clone(), normalize)?,
        constraints: Constraints::default(),
        input: Arc::new(LogicalPlan::EmptyRelation(columns)),
        if_not_exists: create.if_not_exists,
        or_replace: create.or_replace,
        column_defaults,
        temporary,
    };
    Ok(LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)))
}

async fn table_of(
    state: &SessionState,
    name: &ObjectName,
) -> Result<Option<(TableReference, Arc<dyn TableProvider>)>> {
    let normalize = state.config_options().sql_parser.enable_ident_normalization;
    let reference = object_name_to_table_reference(name.clone(), normalize)?;
    let Ok(schema) = state.schema_for_ref(reference.clone()) else {
        return Ok(None);
    };
    let table = schema.table(reference.table()).await?;
    Ok(table.map(|table| (reference, table)))
}

/// The table that an UPDATE or DELETE changes.
///
/// # Errors
/// 42P01 if there is none.
async fn target_of(state: &SessionState, factor: &TableFactor) -> Result<Arc<dyn TableProvider>> {
    let TableFactor::Table { name, .. } = factor else {
        return refuse("0A000", "only tables can be changed");
    };
    match table_of(state, name).await? {
        Some((_, table)) => Ok(table),
        None => refuse("42P01", &format!("relation \"{name}\" does not exist")),
    }
}

/// Refuses assignments whose column is qualified by its table.
///
/// # Errors
/// 42703.
fn check_assignments(state: &SessionState, update: &Update) -> Result<()> {
    for assignment in &update.assignments {
        let columns = match &assignment.target {
            AssignmentTarget::ColumnName(column) => std::slice::from_ref(column),
            AssignmentTarget::Tuple(columns) => columns.as_slice(),
        };
        for column in columns {
            if let [first, _, ..] = column.0.as_slice() {
                let table = named(&update.table).map(|(name, _)| last_of(state, &name))?;
                let told = format!("column \"{first}\" of relation \"{table}\" does not exist");
                return refuse("42703", &told);
            }
        }
    }
    Ok(())
}

/// Completes the INSERT or the UPDATE that an EXPLAIN shows, and with ANALYZE carries out.
async fn complete_explained(state: &SessionState, statement: &mut DfStatement) -> Result<()> {
    let DfStatement::Explain(explain) = statement else {
        return Ok(());
    };
    let DfStatement::Statement(inner) = explain.statement.as_mut() else {
        return Ok(());
    };
    match inner.as_mut() {
        Statement::Insert(insert) => complete(state, insert).await,
        Statement::Update(update) => complete_assignments(state, update).await.map(drop),
        _ => Ok(()),
    }
}

/// Names the columns that an UPDATE changes as its table has them, and replaces DEFAULT by its
/// value. Returns the table.
async fn complete_assignments(
    state: &SessionState,
    update: &mut Update,
) -> Result<Arc<dyn TableProvider>> {
    check_assignments(state, update)?;
    let table = target_of(state, &update.table.relation).await?;
    for assignment in &mut update.assignments {
        fold_target(state, assignment);
        check_assigned(state, assignment, table.as_ref())?;
        with_default(state, assignment, table.as_ref())?;
    }
    Ok(table)
}

/// Names an INSERT's columns, and replaces DEFAULT by its value.
async fn complete(state: &SessionState, insert: &mut Insert) -> Result<()> {
    let TableObject::TableName(name) = &insert.table else {
        return Ok(());
    };
    // No clause can use the alias: neither ON CONFLICT nor RETURNING is supported.
    insert.table_alias = None;
    let Some((_, table)) = table_of(state, name).await? else {
        return Ok(());
    };
    let schema = table.schema();
    let names = schema
        .fields()
        .iter()
        .map(|field| Ident::with_quote('"', field.name()));
    let names: Vec<ObjectName> = names.map(ObjectName::from).collect();
    let Some(source) = &mut insert.source else {
        // DEFAULT VALUES.
        if insert.assignments.is_empty() && !names.is_empty() {
            let given = without_sequences(state, table.as_ref(), &names);
            if given.is_empty() {
                return refuse("0A000", NOTHING_LEFT);
            }
            insert.source = Some(Box::new(default_row(state, table.as_ref(), &given)?));
            insert.columns = given;
        }
        return Ok(());
    };
    leave_out_sequences(state, table.as_ref(), &names, &mut insert.columns, source);
    let columns = match insert.columns.as_slice() {
        [] => names.as_slice(),
        given => given,
    };
    give_defaults(state, table.as_ref(), columns, source)?;
    let given = match source.body.as_ref() {
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ if insert.columns.is_empty() => {
            let query = Statement::Query(source.clone());
            let plan = state.statement_to_plan(DfStatement::Statement(Box::new(query)));
            Some(plan.await?.schema().fields().len())
        }
        _ => None,
    };
    if let Some(given) = given {
        fit_columns(&mut insert.columns, &names, given)?;
    }
    let columns = if insert.columns.is_empty() {
        &names
    } else {
        &insert.columns
    };
    check_given(state, table.as_ref(), columns)?;
    let uuids: Vec<bool> = columns
        .iter()
        .map(|column| is_file_uuid(&schema, &last_of(state, column)))
        .collect();
    if uuids.contains(&true) {
        as_bytes(source, &uuids)?;
    }
    Ok(())
}

/// The row of an INSERT of DEFAULT VALUES.
fn default_row(
    state: &SessionState,
    table: &dyn TableProvider,
    columns: &[ObjectName],
) -> Result<Query> {
    let row = columns
        .iter()
        .map(|column| default_of(state, table, column));
    let row = row.collect::<Result<Vec<_>>>()?;
    Ok(query_of(SetExpr::Values(Values {
        explicit_row: false,
        value_keyword: false,
        rows: vec![Parens::with_empty_span(row)],
    })))
}

/// Checks that an INSERT has as many columns as values are given; if it names no columns, names
/// the first of them.
fn fit_columns(columns: &mut Vec<ObjectName>, names: &[ObjectName], given: usize) -> Result<()> {
    let known = if columns.is_empty() {
        names.len()
    } else {
        columns.len()
    };
    if given > known {
        return refuse("42601", "INSERT has more expressions than target columns");
    }
    if columns.is_empty() && given < known {
        *columns = names[..given].to_vec();
    } else if given < known {
        return refuse("42601", "INSERT has more target columns than expressions");
    }
    Ok(())
}

/// Whether a column holds a uuid as Parquet files do, in sixteen bytes.
fn is_file_uuid(schema: &Schema, column: &str) -> bool {
    let field = schema.field_with_name(column);
    field.is_ok_and(|field| {
        *field.data_type() == DataType::FixedSizeBinary(16)
            && Target::of_field(field) == Some(Target::Uuid)
    })
}

/// Converts text of the columns marked in `uuids` to the bytes of a uuid.
fn as_bytes(source: &mut Box<Query>, uuids: &[bool]) -> Result<()> {
    if let SetExpr::Values(values) = source.body.as_mut() {
        for row in &mut values.rows {
            for (value, _) in row
                .content
                .iter_mut()
                .zip(uuids)
                .filter(|(_, is_uuid)| **is_uuid)
            {
                *value = uuid_in_file(value.clone());
            }
        }
        return Ok(());
    }
    let names = (0..uuids.len()).map(|at| format!("c{at}"));
    let names: Vec<String> = names.collect();
    let text = format!("SELECT * FROM (SELECT 1) AS source ({})", names.join(", "));
    let mut query = template(&text)?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        let items = names.iter().zip(uuids).map(|(name, is_uuid)| {
            let column = Expr::Identifier(Ident::new(name));
            SelectItem::UnnamedExpr(if *is_uuid {
                uuid_in_file(column)
            } else {
                column
            })
        });
        select.projection = items.collect();
        if let Some(TableWithJoins {
            relation: TableFactor::Derived { subquery, .. },
            ..
        }) = select.from.first_mut()
        {
            std::mem::swap(subquery, source);
        }
    }
    **source = query;
    Ok(())
}

/// Replaces DEFAULT in VALUES by its value.
fn give_defaults(
    state: &SessionState,
    table: &dyn TableProvider,
    columns: &[ObjectName],
    source: &mut Query,
) -> Result<()> {
    if let SetExpr::Values(values) = source.body.as_mut() {
        for row in &mut values.rows {
            for (value, column) in row.content.iter_mut().zip(columns) {
                if is_default(value) {
                    *value = default_of(state, table, column)?;
                }
            }
        }
    }
    let mut defaults = Defaults {
        state,
        table,
        columns,
    };
    match source.visit(&mut defaults) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Replaces DEFAULT in VALUES that contain a subquery: `dialect/queries/values.rs` has made their
/// rows SELECTs.
struct Defaults<'a> {
    state: &'a SessionState,
    table: &'a dyn TableProvider,
    columns: &'a [ObjectName],
}

impl VisitorMut for Defaults<'_> {
    type Break = DataFusionError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<DataFusionError> {
        for item in &mut select.projection {
            let SelectItem::ExprWithAlias { expr, alias } = item else {
                continue;
            };
            let place = alias.value.strip_prefix("column");
            let place: Option<usize> = place.and_then(|place| place.parse().ok());
            let column = place.and_then(|place| self.columns.get(place.checked_sub(1)?));
            if let Some(column) = column.filter(|_| is_default(expr)) {
                match default_of(self.state, self.table, column) {
                    Ok(default) => *expr = default,
                    Err(error) => return ControlFlow::Break(error),
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// A column's default, in SQL: its value, or the expression if the value is not always the same.
fn default_of(
    state: &SessionState,
    table: &dyn TableProvider,
    column: &ObjectName,
) -> Result<Expr> {
    let Some(default) = table.get_column_default(&last_of(state, column)) else {
        return Ok(Expr::value(Value::Null));
    };
    if sequence_of(default).is_some() {
        let told = "DEFAULT of a column with a sequence is supported if all rows of VALUES have it";
        return refuse("0A000", told);
    }
    if !is_immutable(default)? {
        return expr_to_sql(&with_typed_constants(default.clone())?);
    }
    let evaluated = state.create_physical_expr(default.clone(), &DFSchema::empty())?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let one = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
    let value = match evaluated.evaluate(&one)? {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0)?,
    };
    expr_to_sql(&PlannedExpr::Literal(value, None))
}

fn is_immutable(expr: &PlannedExpr) -> Result<bool> {
    let changes = expr.exists(|expr| {
        Ok(match expr {
            PlannedExpr::ScalarFunction(call) => {
                call.func.signature().volatility != Volatility::Immutable
            }
            _ => false,
        })
    })?;
    Ok(!changes)
}

/// The same expression with casts that keep the types of constants visible in SQL.
fn with_typed_constants(expr: PlannedExpr) -> Result<PlannedExpr> {
    let typed = expr.transform_up(|expr| match &expr {
        PlannedExpr::Literal(value, _)
            if !matches!(value, ScalarValue::Utf8(_) | ScalarValue::Null) =>
        {
            let held = value.data_type();
            Ok(Transformed::yes(cast(expr, held)))
        }
        _ => Ok(Transformed::no(expr)),
    })?;
    Ok(typed.data)
}

/// Writes the column of an assignment as its table has it. DataFusion takes it as written.
fn fold_target(state: &SessionState, assignment: &mut Assignment) {
    if let AssignmentTarget::ColumnName(column) = &mut assignment.target {
        let name = last_of(state, column);
        *column = ObjectName::from(Ident::with_quote('"', name));
    }
}

fn with_default(
    state: &SessionState,
    assignment: &mut Assignment,
    table: &dyn TableProvider,
) -> Result<()> {
    if let AssignmentTarget::ColumnName(column) = &assignment.target
        && is_default(&assignment.value)
    {
        assignment.value = default_of(state, table, column)?;
    }
    Ok(())
}

/// UPDATE by a query: `SELECT` of one expression for each of the table's columns.
async fn update_of(
    state: &SessionState,
    table: Arc<dyn TableProvider>,
    update: &mut Update,
    with: Option<With>,
) -> Result<LogicalPlan> {
    let target = update.table.clone();
    let (name, alias) = named(&target)?;
    let schema = table.schema();
    let assignments = std::mem::take(&mut update.assignments);
    let table_name = last_of(state, &name);
    let values = assigned(schema.fields(), &table_name, &alias, assignments)?;
    let mut from = vec![target];
    match update.from.take() {
        Some(UpdateTableFromKind::BeforeSet(more) | UpdateTableFromKind::AfterSet(more)) => {
            from.extend(more);
        }
        None => {}
    }
    let items = values
        .into_iter()
        .map(|(alias, expr)| SelectItem::ExprWithAlias { expr, alias });
    let plan = rows_of(state, items.collect(), from, update.selection.take(), with).await?;
    let Some(projection) = as_projection(plan) else {
        return refuse("0A000", "UPDATE in this form is not supported");
    };
    let input = projection.input;
    let typed = projection.expr.into_iter().zip(schema.fields());
    let typed = typed.map(|(expr, field)| {
        let value = match expr {
            PlannedExpr::Alias(alias) => *alias.expr,
            other => other,
        };
        let value = value.cast_to(field.data_type(), input.schema())?;
        Ok(value.alias(field.name()))
    });
    let typed = typed.collect::<Result<Vec<_>>>()?;
    let rows = LogicalPlan::Projection(Projection::try_new(typed, input)?);
    Ok(changed(state, name, table, WriteOp::Update, rows))
}

/// DELETE by a query of the rows.
async fn delete_of(
    state: &SessionState,
    table: Arc<dyn TableProvider>,
    target: TableWithJoins,
    delete: &mut Delete,
    with: Option<With>,
) -> Result<LogicalPlan> {
    let (name, _) = named(&target)?;
    let mut from = vec![target];
    from.extend(delete.using.take().into_iter().flatten());
    let one = SelectItem::UnnamedExpr(Expr::value(Value::Boolean(true)));
    let plan = rows_of(state, vec![one], from, delete.selection.take(), with).await?;
    let Some(projection) = as_projection(plan) else {
        return refuse("0A000", "DELETE in this form is not supported");
    };
    let rows = LogicalPlan::clone(&projection.input);
    Ok(changed(state, name, table, WriteOp::Delete, rows))
}

/// The new value of each column, by the column's name: what is assigned to it, or its own value,
/// which the alias qualifies.
///
/// # Errors
/// 42703 for a column that the table does not have, 0A000 for several at once.
fn assigned(
    columns: &Fields,
    table: &str,
    alias: &Ident,
    assignments: Vec<Assignment>,
) -> Result<Vec<(Ident, Expr)>> {
    let values = columns.iter().map(|field| {
        let own = Ident::with_quote('"', field.name());
        let names = vec![alias.clone(), own.clone()];
        (own, Expr::CompoundIdentifier(names))
    });
    let mut values: Vec<(Ident, Expr)> = values.collect();
    for Assignment { target, value } in assignments {
        let AssignmentTarget::ColumnName(column) = target else {
            return refuse(
                "0A000",
                "UPDATE of several columns by a subquery is not supported",
            );
        };
        let last = column.0.last().and_then(|part| part.as_ident());
        let column = last.map(|last| last.value.as_str()).unwrap_or_default();
        let slot = values.iter_mut().find(|(own, _)| own.value == column);
        let Some((_, slot)) = slot else {
            let told = format!("column \"{column}\" of relation \"{table}\" does not exist");
            return refuse("42703", &told);
        };
        *slot = value;
    }
    Ok(values)
}

fn as_projection(plan: LogicalPlan) -> Option<Projection> {
    match plan {
        LogicalPlan::Projection(projection) => Some(projection),
        _ => None,
    }
}

fn changed(
    state: &SessionState,
    name: ObjectName,
    table: Arc<dyn TableProvider>,
    op: WriteOp,
    rows: LogicalPlan,
) -> LogicalPlan {
    let normalize = state.config_options().sql_parser.enable_ident_normalization;
    let text = name.to_string();
    let name = object_name_to_table_reference(name, normalize)
        .unwrap_or_else(|_| TableReference::bare(text));
    let target = provider_as_source(table);
    LogicalPlan::Dml(DmlStatement::new(name, target, op, Arc::new(rows)))
}

/// The plan of `WITH … SELECT items FROM from WHERE selection`.
async fn rows_of(
    state: &SessionState,
    items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
    with: Option<With>,
) -> Result<LogicalPlan> {
    let mut query = template("SELECT 1")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
        select.from = from;
        select.selection = selection;
    }
    query.with = with;
    let query = Statement::Query(Box::new(query));
    state
        .statement_to_plan(DfStatement::Statement(Box::new(query)))
        .await
}

fn template(sql: &str) -> Result<Query> {
    let parsed = Parser::parse_sql(&GenericDialect {}, sql)?;
    match parsed.into_iter().next() {
        Some(Statement::Query(query)) => Ok(*query),
        _ => refuse("XX000", "a template is no query"),
    }
}

/// The name of the changed table, and the name that qualifies its columns.
fn named(target: &TableWithJoins) -> Result<(ObjectName, Ident)> {
    let TableFactor::Table { name, alias, .. } = &target.relation else {
        return refuse("0A000", "only tables can be changed");
    };
    let own = match alias {
        Some(alias) => alias.name.clone(),
        // Not folded: like the name, it is still to be read.
        None => match name.0.last().and_then(|part| part.as_ident()) {
            Some(last) => last.clone(),
            None => return refuse("0A000", "only tables can be changed"),
        },
    };
    Ok((name.clone(), own))
}
