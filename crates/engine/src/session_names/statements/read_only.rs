//! What does a READ ONLY transaction refuse?
//!
//! The same as PostgreSQL (manual, SET TRANSACTION): statements that create, change or drop a
//! name, and those that change the rows of a table that is not TEMPORARY. COPY TO a file and
//! EXPLAIN without ANALYZE are allowed.

use coscan_pg::PgError;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, WriteOp};

use crate::session_names::change::RowChange;
use crate::session_names::table::MemoryTable;

/// Checks that a plan may run in a READ ONLY transaction.
///
/// # Errors
/// 25006.
pub(crate) fn check_read_only(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        let verb = match node {
            LogicalPlan::Explain(_) => return Ok(TreeNodeRecursion::Jump),
            LogicalPlan::Dml(dml) => changed(dml),
            LogicalPlan::Ddl(ddl) => Some(defined(ddl)),
            _ => None,
        };
        match verb {
            Some(verb) => Err(refused(verb).into()),
            None => Ok(TreeNodeRecursion::Continue),
        }
    })?;
    Ok(())
}

/// The error for a statement in a READ ONLY transaction.
#[must_use]
pub fn refused(verb: &str) -> PgError {
    let told = format!("cannot execute {verb} in a read-only transaction");
    PgError::new("25006", told)
}

/// The verb of a statement that changes a table that is not temporary.
fn changed(dml: &DmlStatement) -> Option<&'static str> {
    let verb = match dml.op {
        WriteOp::Insert(_) => "INSERT",
        WriteOp::Delete => "DELETE",
        WriteOp::Update => "UPDATE",
        WriteOp::Ctas => "CREATE TABLE AS",
        WriteOp::Truncate => return Some("TRUNCATE TABLE"),
        _ => "MERGE",
    };
    let table = source_as_provider(&dml.target).ok();
    let is_temporary = table.is_some_and(|table| {
        let change = table.downcast_ref::<RowChange>().map(RowChange::table);
        let rows = change.or_else(|| table.downcast_ref::<MemoryTable>());
        rows.is_some_and(MemoryTable::is_temporary)
    });
    (!is_temporary).then_some(verb)
}

fn defined(ddl: &DdlStatement) -> &'static str {
    match ddl {
        DdlStatement::CreateExternalTable(_) => "CREATE EXTERNAL TABLE",
        DdlStatement::CreateMemoryTable(create) => match create.input.as_ref() {
            LogicalPlan::EmptyRelation(_) => "CREATE TABLE",
            _ => "CREATE TABLE AS",
        },
        DdlStatement::CreateView(_) => "CREATE VIEW",
        DdlStatement::CreateCatalogSchema(_) => "CREATE SCHEMA",
        DdlStatement::CreateCatalog(_) => "CREATE DATABASE",
        DdlStatement::CreateIndex(_) => "CREATE INDEX",
        DdlStatement::DropTable(_) => "DROP TABLE",
        DdlStatement::DropView(_) => "DROP VIEW",
        DdlStatement::DropCatalogSchema(_) => "DROP SCHEMA",
        DdlStatement::CreateFunction(_) => "CREATE FUNCTION",
        DdlStatement::DropFunction(_) => "DROP FUNCTION",
    }
}
