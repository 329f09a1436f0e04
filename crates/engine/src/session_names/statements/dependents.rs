//! Which of a session's views read a table or view that a statement drops or replaces?
//!
//! A view holds the plan that it was created with, so it would keep showing the rows of a dropped
//! table. PostgreSQL refuses to drop a table that a view reads (2BP01), and so does Coscan, also
//! for CREATE OR REPLACE. The names in a view's text decide, so a name that a view uses for
//! something else, such as a common table expression, also blocks the drop. A view follows the
//! renaming of its tables.
//! Not here: tables that other sessions drop (`../views.rs`).

use std::sync::Arc;

use coscan_pg::PgError;
use datafusion::common::{ResolvedTableReference, TableReference};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};

use crate::session_names::catalogs::{DEFAULT_SCHEMA, OwnNames, TEMPORARY_SCHEMA};

/// Refuses a statement that drops or replaces what a view of the session reads.
///
/// # Errors
/// 2BP01, if such a view exists.
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

/// The views of the session that read a table or view, except that view itself.
pub(super) fn readers(state: &SessionState, name: &TableReference) -> Vec<TableReference> {
    let Some(own) = state.config().get_extension::<OwnNames>() else {
        return vec![];
    };
    let gone = full(state, name);
    let mut views = own.views();
    views.retain(|(view, named)| {
        let reads_it = || named.iter().any(|name| full(state, name) == gone);
        full(state, view) != gone && reads_it()
    });
    views.into_iter().map(|(view, _)| view).collect()
}

/// Makes the views of the session that read `old` read `new` from now on.
pub(super) fn follow_renamed(state: &SessionState, old: &TableReference, new: &TableReference) {
    if let Some(own) = state.config().get_extension::<OwnNames>() {
        let old = full(state, old);
        let new = TableReference::full(
            Arc::clone(&old.catalog),
            Arc::clone(&old.schema),
            new.table(),
        );
        own.follow(&new, |name| full(state, name) == old);
    }
}

/// Another name of a session's database: the one that its client connected to. It is an extension
/// of the session's configuration; the session's catalogs must know it, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseName(pub String);

/// A name with its catalog and schema, as the session resolves it.
pub(in crate::session_names) fn full(
    state: &SessionState,
    name: &TableReference,
) -> ResolvedTableReference {
    let catalog = &state.config_options().catalog;
    let name = name.clone();
    let mut full = name.resolve(&catalog.default_catalog, &catalog.default_schema);
    if full.schema.as_ref() == TEMPORARY_SCHEMA {
        full.schema = DEFAULT_SCHEMA.into();
    }
    if let Some(other) = state.config().get_extension::<DatabaseName>()
        && *full.catalog == *other.0
    {
        full.catalog = catalog.default_catalog.as_str().into();
    }
    full
}

pub(super) fn depended_on(what: &str, name: &TableReference, view: &TableReference) -> PgError {
    let (name, view) = (name.table(), view.table());
    let told = format!("cannot drop {what} {name} because other objects depend on it: view {view}");
    PgError::new("2BP01", told)
}
