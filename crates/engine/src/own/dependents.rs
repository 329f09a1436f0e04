//! Which of a session's views read a table or view that is to go?
//!
//! A view holds the plan that it was made with, so it would go on showing the rows of a table that
//! was dropped or replaced. PostgreSQL refuses to drop what a view reads (2BP01); so is it here,
//! also for CREATE OR REPLACE. Views are found by the names in their text: one that only looks like
//! it is refused too.
//! Not here: what other sessions drop (`views.rs`).

use std::ops::ControlFlow;

use coscan_pg::PgError;
use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::sqlparser::ast::{ObjectName, visit_relations};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::catalogs::OwnNames;

/// # Errors
/// 2BP01, if a view of the session reads what the statement drops or replaces.
pub(super) fn check_dependents(state: &SessionState, plan: &LogicalPlan) -> Result<()> {
    let (what, name) = match plan {
        LogicalPlan::Ddl(DdlStatement::DropTable(drop)) => ("table", &drop.name),
        LogicalPlan::Ddl(DdlStatement::DropView(drop)) => ("view", &drop.name),
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) if create.or_replace => {
            ("table", &create.name)
        }
        LogicalPlan::Ddl(DdlStatement::CreateView(create)) if create.or_replace => {
            ("view", &create.name)
        }
        _ => return Ok(()),
    };
    match readers(state, name).into_iter().next() {
        None => Ok(()),
        Some(view) => Err(depended_on(what, name, &view).into()),
    }
}

/// The views of the session, other than itself, that read a table or view.
pub(super) fn readers(state: &SessionState, name: &TableReference) -> Vec<TableReference> {
    let Some(own) = state.config().get_extension::<OwnNames>() else {
        return vec![];
    };
    let catalog = &state.config_options().catalog;
    let full =
        |name: TableReference| name.resolve(&catalog.default_catalog, &catalog.default_schema);
    let gone = full(name.clone());
    let mut views = own.views();
    views.retain(|(view, text)| {
        let reads_it = || names_in(text).into_iter().any(|name| full(name) == gone);
        full(view.clone()) != gone && reads_it()
    });
    views.into_iter().map(|(view, _)| view).collect()
}

pub(super) fn depended_on(what: &str, name: &TableReference, view: &TableReference) -> PgError {
    let (name, view) = (name.table(), view.table());
    let told = format!("cannot drop {what} {name} because other objects depend on it: view {view}");
    PgError::new("2BP01", told)
}

/// The names of relations in the text of CREATE VIEW.
fn names_in(text: &str) -> Vec<TableReference> {
    let mut names = vec![];
    let statements = Parser::parse_sql(&GenericDialect {}, text).unwrap_or_default();
    let _ = visit_relations(&statements, |name: &ObjectName| {
        names.push(TableReference::parse_str(&name.to_string()));
        ControlFlow::<()>::Continue(())
    });
    names
}
