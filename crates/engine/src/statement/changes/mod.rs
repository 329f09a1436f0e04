//! Plans INSERT, UPDATE, DELETE and CREATE TABLE (LIKE …) in forms that need the table's columns.
//!
//! | form | how it is planned | file |
//! |---|---|---|
//! | INSERT of fewer values than columns | with the names of the first columns | `insert.rs` |
//! | INSERT of a uuid into a table of files | as the bytes that files hold | `insert.rs` |
//! | DEFAULT in VALUES and SET, DEFAULT VALUES | with the column's default, or NULL | `defaults.rs` |
//! | DEFAULT for a column with a sequence | without the column | `given.rs` |
//! | `CREATE TABLE u (LIKE t)` | as the empty table of its columns | `like.rs` |
//! | UPDATE … FROM, DELETE … USING, WITH before either, DELETE of a table with an alias | as a query of the changed rows, which DataFusion's planner does not support; the plan has the same change node as its own | `by_query.rs` |
//!
//! | file | question |
//! |---|---|
//! | `supported.rs` | which forms are refused before they are planned? |
//! | `tables.rs` | which table does a statement name, how does the catalog write its names, and what does an error say of it? |
//!
//! Not here: forms that need no columns (`coscan_pg`'s `dialect/changes.rs`), how rows change
//! (`session_names/change/`).

mod by_query;
mod defaults;
mod given;
mod insert;
mod like;
mod supported;
mod tables;

use std::sync::Arc;

use coscan_pg::PgError;
use coscan_pg::dialect::query_of;
use datafusion::catalog::TableProvider;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, Expr as PlannedExpr, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    CheckConstraint, CreateTable, CreateTableLikeKind, FromTable, Query, SetExpr, Statement,
    TruncateIdentityOption, Update, With,
};

use self::by_query::{delete_of, update_of};
use self::defaults::with_default;
use self::given::check_assigned;
use self::insert::complete;
use self::like::table_like;
use self::supported::{check_assignments, check_supported, check_truncated};
use self::tables::{changed_tables, fold_target, has_alias, last_of, of_known_table, target_of};
use super::checks::{as_defaults, plan_checks, take_checks};
use super::drop_functions;
use super::sequences::take_sequences;

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

async fn planned(state: &SessionState, statement: DfStatement) -> Result<LogicalPlan> {
    let inner = match statement {
        DfStatement::Statement(inner) => inner,
        mut other => {
            if let DfStatement::Explain(explain) = &mut other
                && let DfStatement::Statement(inner) = explain.statement.as_mut()
            {
                complete_explained(state, inner).await?;
            }
            return state.statement_to_plan(other).await;
        }
    };
    let (with, mut inner) = without_with(*inner);
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
        Statement::Explain { statement, .. } => complete_explained(state, statement).await?,
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

/// Completes the INSERT or the UPDATE that an EXPLAIN shows, and with ANALYZE carries out.
async fn complete_explained(state: &SessionState, statement: &mut Statement) -> Result<()> {
    match statement {
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

/// An UPDATE or a DELETE without the WITH before it, and that.
fn without_with(statement: Statement) -> (Option<With>, Statement) {
    match statement {
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
    }
}

fn refuse<T>(code: &'static str, text: &str) -> Result<T> {
    Err(PgError::new(code, text.to_owned()).into())
}
