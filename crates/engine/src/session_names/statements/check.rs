//! Which statement needs which right?
//!
//! The check reads the plan, not the text: a plan contains every statement that would run,
//! whatever wraps it.
//! Not here: settings (`../../rights/settings.rs`).

use coscan_pg::PgError;
use datafusion::catalog::SchemaProvider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{SchemaReference, TableReference, plan_err};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{
    CreateMemoryTable, CreateView, DdlStatement, LogicalPlan, Statement,
};
use std::fmt::Display;
use std::sync::Arc;

use super::create::NewTable;
use crate::right::{Right, Rights};
use crate::rights::denied;
use crate::session_names::catalogs::{OwnSchema, Whose};
use crate::session_names::change::RowChange;
use crate::session_names::table::MemoryTable;
use crate::tables::pending::PendingInserts;

/// The most nodes of a plan. A common table expression that names the previous one twice doubles
/// their number, so forty make more nodes than can be walked.
const PLAN_NODES_MAX: usize = 1_000_000;

/// Checks whether the session may run the plan.
///
/// # Errors
/// [`Error::Denied`](crate::Error::Denied) if not; `Plan` if the plan is too large to check.
pub(crate) fn check(state: &SessionState, plan: &LogicalPlan) -> Result<()> {
    let Some(rights) = Rights::of(state.config()) else {
        return Ok(());
    };
    let asked = Asked { state, rights };
    let pending = state.config().get_extension::<PendingInserts>();
    let mut nodes = 0;
    plan.apply_with_subqueries(|node| {
        nodes += 1;
        if nodes > PLAN_NODES_MAX {
            return plan_err!(
                "a statement may have {PLAN_NODES_MAX} steps at most, and a common table expression counts as often as it is named"
            );
        }
        match node {
            LogicalPlan::TableScan(scan) => {
                if let (Some(pending), Ok(table)) = (&pending, source_as_provider(&scan.source)) {
                    pending.check(table.as_ref(), scan.table_name.table())?;
                }
            }
            LogicalPlan::Copy(_) => rights.require(&[Right::Files, Right::Writes], || {
                "COPY TO writes a file of the server".to_owned()
            })?,
            LogicalPlan::Dml(dml) => asked.check_change(dml)?,
            LogicalPlan::Ddl(ddl) => asked.check_definition(ddl)?,
            LogicalPlan::Statement(Statement::SetVariable(set)) => {
                rights.check_setting(&set.variable, Some(&set.value))?;
            }
            LogicalPlan::Statement(Statement::ResetVariable(reset)) => {
                rights.check_setting(&reset.variable, None)?;
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The schema and the name that a CREATE OR REPLACE replaces, if all sessions see that name.
pub(crate) fn replaces_shared(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Option<(Arc<dyn SchemaProvider>, String)> {
    let name = match plan {
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)) if create.or_replace => {
            &create.name
        }
        LogicalPlan::Ddl(
            DdlStatement::CreateMemoryTable(CreateMemoryTable {
                name,
                or_replace: true,
                ..
            })
            | DdlStatement::CreateView(CreateView {
                name,
                or_replace: true,
                ..
            }),
        ) => name,
        _ => return None,
    };
    let schema = state.schema_for_ref(name.clone()).ok()?;
    let own = schema.downcast_ref::<OwnSchema>()?;
    let is_shared = own.whose(name.table()) == Some(Whose::Shared);
    is_shared.then(|| (schema, name.table().to_owned()))
}

/// The verb of a statement that creates or drops a table or view, the name, and whether the
/// statement removes the table or view that has the name.
fn named(ddl: &DdlStatement) -> Option<(&'static str, &TableReference, bool)> {
    Some(match ddl {
        DdlStatement::CreateExternalTable(create) => {
            ("CREATE EXTERNAL TABLE", &create.name, create.or_replace)
        }
        DdlStatement::CreateMemoryTable(create) => {
            ("CREATE TABLE", &create.name, create.or_replace)
        }
        DdlStatement::CreateView(create) => ("CREATE VIEW", &create.name, create.or_replace),
        DdlStatement::DropTable(drop) => ("DROP TABLE", &drop.name, true),
        DdlStatement::DropView(drop) => ("DROP VIEW", &drop.name, true),
        _ => return None,
    })
}

/// Checks that ROLLBACK would undo the plan: it restores the session's own names and rows
/// (`../saved.rs`), but neither shared names nor the rows of shared tables in memory. An
/// unrestricted session has nothing of its own.
///
/// # Errors
/// 25001.
pub(crate) fn check_undoable(state: &SessionState, plan: &LogicalPlan) -> Result<()> {
    let Some(rights) = Rights::of(state.config()) else {
        return check_unchanged(plan);
    };
    let asked = Asked { state, rights };
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Ddl(DdlStatement::DropCatalogSchema(drop)) = node
            && let Some(false) = asked.is_own(&drop.name)
        {
            return Err(not_undoable("DROP SCHEMA", &drop.name).into());
        }
        let changed = match node {
            LogicalPlan::Dml(dml) if is_in_memory(dml) => Some((dml.op.name(), &dml.table_name)),
            LogicalPlan::Ddl(ddl) => match named(ddl) {
                Some((verb, name, true)) => Some((verb, name)),
                _ => None,
            },
            _ => None,
        };
        if let Some((verb, name)) = changed
            && asked.whose(name) == Some(Whose::Shared)
        {
            return Err(not_undoable(verb, name).into());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Checks that a plan changes no table and no name.
fn check_unchanged(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        let changed = match node {
            LogicalPlan::Dml(dml) => Some((dml.op.name(), &dml.table_name)),
            LogicalPlan::Ddl(ddl) => named(ddl).map(|(verb, name, _)| (verb, name)),
            _ => None,
        };
        match changed {
            Some((verb, name)) => Err(not_undoable(verb, name).into()),
            None => Ok(TreeNodeRecursion::Continue),
        }
    })?;
    Ok(())
}

/// The error for a statement in a transaction block that ROLLBACK would not undo.
pub(super) fn not_undoable(verb: &str, name: &impl Display) -> PgError {
    let told = format!(
        "{verb} on {name} cannot run inside a transaction block: all sessions see it at once, and \
         ROLLBACK does not undo it"
    );
    PgError::new("25001", told)
}

/// Whether a plan changes the rows of a table in memory, or makes one of them: all at once, when it
/// has them all.
pub(crate) fn changes_memory(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Dml(dml) if is_in_memory(dml))
}

fn is_in_memory(dml: &DmlStatement) -> bool {
    let provider = source_as_provider(&dml.target);
    provider.is_ok_and(|table| {
        table.is::<MemoryTable>() || table.is::<RowChange>() || table.is::<NewTable>()
    })
}

/// A session that is about to run a plan.
struct Asked<'a> {
    state: &'a SessionState,
    rights: Rights,
}

impl Asked<'_> {
    fn whose(&self, name: &TableReference) -> Option<Whose> {
        let schema = self.state.schema_for_ref(name.clone()).ok()?;
        match schema.downcast_ref::<OwnSchema>() {
            Some(own) => own.whose(name.table()),
            None => Some(Whose::System),
        }
    }

    /// Checks INSERT, UPDATE, DELETE and other changes of rows.
    fn check_change(&self, dml: &DmlStatement) -> Result<()> {
        if let Ok(table) = source_as_provider(&dml.target)
            && let Some(new) = table.downcast_ref::<NewTable>()
        {
            return self.check_name("CREATE TABLE", &dml.table_name, new.replaces());
        }
        if is_in_memory(dml) && self.whose(&dml.table_name) == Some(Whose::Own) {
            return Ok(());
        }
        self.rights.require(&[Right::Writes], || {
            let verb = dml.op.name();
            format!("{verb} on {} changes what all sessions see", dml.table_name)
        })
    }

    fn check_definition(&self, ddl: &DdlStatement) -> Result<()> {
        if matches!(ddl, DdlStatement::CreateExternalTable(_)) {
            self.rights.require(&[Right::Files], || {
                "CREATE EXTERNAL TABLE reaches files of the server".to_owned()
            })?;
        }
        match ddl {
            DdlStatement::DropCatalogSchema(drop) => self.check_schema(&drop.name),
            DdlStatement::CreateIndex(_) => self.rights.require(&[Right::Writes], || {
                "CREATE INDEX writes files of the server".to_owned()
            }),
            // Schemas and catalogs are created for the session alone; each session has its own
            // functions.
            other => match named(other) {
                Some((verb, name, replaces)) => self.check_name(verb, name, replaces),
                None => Ok(()),
            },
        }
    }

    /// Checks a statement that creates, drops or replaces a name.
    fn check_name(&self, verb: &str, name: &TableReference, replaces: bool) -> Result<()> {
        match self.whose(name) {
            Some(Whose::System) => Err(denied(
                format!("{verb} {name}: this schema is the server's own"),
                vec![],
            )),
            Some(Whose::Shared) if replaces => self.rights.require(&[Right::Writes], || {
                format!("{verb} {name} changes what all sessions see")
            }),
            _ => Ok(()),
        }
    }

    fn check_schema(&self, schema: &SchemaReference) -> Result<()> {
        match self.is_own(schema) {
            Some(true) => Ok(()),
            Some(false) => self.rights.require(&[Right::Writes], || {
                format!("DROP SCHEMA {schema} changes what all sessions see")
            }),
            None if self.schema(schema).is_none() => Ok(()),
            None => Err(denied(
                format!("DROP SCHEMA {schema}: this schema is the server's own"),
                vec![],
            )),
        }
    }

    fn schema(&self, schema: &SchemaReference) -> Option<Arc<dyn SchemaProvider>> {
        let name = match schema {
            SchemaReference::Bare { schema } => TableReference::partial(schema.as_ref(), ""),
            SchemaReference::Full { schema, catalog } => {
                TableReference::full(catalog.as_ref(), schema.as_ref(), "")
            }
        };
        self.state.schema_for_ref(name).ok()
    }

    /// Whether the session created a schema; `None` if it is the server's, or there is none.
    fn is_own(&self, schema: &SchemaReference) -> Option<bool> {
        let found = self.schema(schema)?;
        Some(!found.downcast_ref::<OwnSchema>()?.is_shared())
    }
}
