//! DROP TABLE and DROP VIEW of several names, with CASCADE.
//!
//! DataFusion drops one name, and does not know which views read it. This code looks up every name
//! before it drops the first; with CASCADE it also drops the views that read a name, and the views
//! over those. It knows only views of the session (`dependents.rs`).

use coscan_pg::PgError;
use datafusion::common::{DFSchema, TableReference};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, DropTable, DropView, LogicalPlan, TableType};
use datafusion::prelude::SessionContext;

use super::check::{check, check_undoable};
use super::dependents::{depended_on, full, readers};
use crate::notices::{Notice, Notices};

/// Tables or views to drop.
#[derive(Clone, Debug)]
pub struct DropNames {
    /// Their names, all of tables or all of views.
    pub names: Vec<TableReference>,
    /// Whether they are views.
    pub views: bool,
    /// Whether a name that has no table is skipped.
    pub if_exists: bool,
    /// Whether the views that read them are dropped, too.
    pub cascade: bool,
}

impl DropNames {
    fn what(&self) -> &'static str {
        if self.views { "view" } else { "table" }
    }
}

/// Drops all of them or none. `undoable` says whether a ROLLBACK must be able to restore them.
///
/// # Errors
/// 42P01 and 42809 if there is no such table or view, 2BP01 if a view reads it, 25001 if ROLLBACK
/// cannot bring it back, [`Error::Denied`](crate::Error::Denied) without the right.
pub async fn drop_own(context: &SessionContext, drop: &DropNames, undoable: bool) -> Result<()> {
    let state = context.state();
    let mut gone: Vec<(TableReference, bool)> = vec![];
    for name in &drop.names {
        // Rights come first: their errors do not reveal which names exist.
        check(&state, &plan(name.clone(), drop.views))?;
        if is_there(&state, name, drop).await? {
            gone.push((name.clone(), drop.views));
        }
    }
    let full = |name: &TableReference| full(&state, name);
    let named = gone.len();
    let mut next = 0;
    while let Some((name, _)) = gone.get(next).cloned() {
        next += 1;
        for view in readers(&state, &name) {
            if gone.iter().any(|(other, _)| full(other) == full(&view)) {
                continue;
            }
            if !drop.cascade {
                return Err(depended_on(drop.what(), &name, &view).into());
            }
            gone.push((view, true));
        }
    }
    let cascaded = gone[named..].iter().map(|(view, _)| shown(&state, view));
    let cascaded: Vec<String> = cascaded.collect();
    let plans: Vec<_> = gone
        .into_iter()
        .map(|(name, view)| plan(name, view))
        .collect();
    if undoable {
        plans
            .iter()
            .try_for_each(|plan| check_undoable(&state, plan))?;
    }
    let cascaded: Vec<&str> = cascaded.iter().map(String::as_str).collect();
    if let Some(notice) = Notice::cascades(&cascaded) {
        Notices::say(state.config(), || notice);
    }
    for plan in plans {
        context.execute_logical_plan(plan).await?;
    }
    Ok(())
}

/// The name of a view as a client finds it: with its schema, if that is not the selected one.
pub(super) fn shown(state: &SessionState, view: &TableReference) -> String {
    let view = full(state, view);
    if *view.schema == *state.config_options().catalog.default_schema {
        view.table.to_string()
    } else {
        format!("{}.{}", view.schema, view.table)
    }
}

/// Whether the name belongs to a table or view of the right kind.
async fn is_there(state: &SessionState, name: &TableReference, drop: &DropNames) -> Result<bool> {
    let schema = state.schema_for_ref(name.clone()).ok();
    let found = match &schema {
        Some(schema) => schema.table_type(name.table()).await?,
        None => None,
    };
    let what = drop.what();
    match found {
        None if drop.if_exists => {
            Notices::say(state.config(), || match (name.schema(), schema) {
                (Some(missing), None) => Notice::missing("schema", missing),
                _ => Notice::missing(what, name.table()),
            });
            Ok(false)
        }
        None => {
            let told = format!("{what} \"{}\" does not exist", name.table());
            Err(PgError::new("42P01", told).into())
        }
        Some(found) if (found == TableType::View) == drop.views => Ok(true),
        Some(_) => {
            let told = format!("\"{}\" is not a {what}", name.table());
            Err(PgError::new("42809", told).into())
        }
    }
}

fn plan(name: TableReference, is_view: bool) -> LogicalPlan {
    let schema = DFSchema::empty().into();
    LogicalPlan::Ddl(if is_view {
        DdlStatement::DropView(DropView {
            name,
            if_exists: true,
            schema,
        })
    } else {
        DdlStatement::DropTable(DropTable {
            name,
            if_exists: true,
            schema,
        })
    })
}
