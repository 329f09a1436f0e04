//! Which statement needs which right?
//!
//! The plan decides, not the text: a plan contains every statement that would run, whatever it is
//! wrapped in.
//! Not here: settings (`../rights/settings.rs`).

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
use std::sync::Arc;

use super::catalogs::{OwnSchema, Whose};
use super::change::RowChange;
use super::table::MemoryTable;
use crate::right::{Right, Rights};
use crate::rights::denied;
use crate::tables::pending::PendingInserts;

/// The most nodes of a plan. A common table expression that names the one before it twice doubles
/// them, so forty make more than can be walked.
const PLAN_NODES_MAX: usize = 1_000_000;

/// Checks whether the session may run the plan.
///
/// # Errors
/// [`Error::Denied`](crate::Error::Denied) if not; `Plan` if it is too large to tell.
pub fn check(state: &SessionState, plan: &LogicalPlan) -> Result<()> {
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

/// A session that asks to run a plan.
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

    /// INSERT, UPDATE, DELETE and their like.
    fn check_change(&self, dml: &DmlStatement) -> Result<()> {
        let provider = source_as_provider(&dml.target);
        let in_memory =
            provider.is_ok_and(|table| table.is::<MemoryTable>() || table.is::<RowChange>());
        if in_memory && self.whose(&dml.table_name) == Some(Whose::Own) {
            return Ok(());
        }
        self.rights.require(&[Right::Writes], || {
            let verb = dml.op.name();
            format!("{verb} on {} changes what all sessions see", dml.table_name)
        })
    }

    fn check_definition(&self, ddl: &DdlStatement) -> Result<()> {
        match ddl {
            DdlStatement::CreateExternalTable(create) => {
                self.rights.require(&[Right::Files], || {
                    "CREATE EXTERNAL TABLE reaches files of the server".to_owned()
                })?;
                self.check_name("CREATE EXTERNAL TABLE", &create.name, create.or_replace)
            }
            DdlStatement::CreateMemoryTable(create) => {
                self.check_name("CREATE TABLE", &create.name, create.or_replace)
            }
            DdlStatement::CreateView(create) => {
                self.check_name("CREATE VIEW", &create.name, create.or_replace)
            }
            DdlStatement::DropTable(drop) => self.check_name("DROP TABLE", &drop.name, true),
            DdlStatement::DropView(drop) => self.check_name("DROP VIEW", &drop.name, true),
            DdlStatement::DropCatalogSchema(drop) => self.check_schema(&drop.name),
            // Schemas and catalogs are made for the session alone; functions are each session's.
            DdlStatement::CreateCatalogSchema(_)
            | DdlStatement::CreateCatalog(_)
            | DdlStatement::CreateFunction(_)
            | DdlStatement::DropFunction(_) => Ok(()),
            DdlStatement::CreateIndex(_) => self.rights.require(&[Right::Writes], || {
                "CREATE INDEX writes files of the server".to_owned()
            }),
        }
    }

    /// A statement that makes a name, takes it away, or replaces what has it.
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
        let name = match schema {
            SchemaReference::Bare { schema } => TableReference::partial(schema.as_ref(), ""),
            SchemaReference::Full { schema, catalog } => {
                TableReference::full(catalog.as_ref(), schema.as_ref(), "")
            }
        };
        let Ok(found) = self.state.schema_for_ref(name) else {
            return Ok(());
        };
        match found.downcast_ref::<OwnSchema>() {
            Some(own) if !own.is_shared() => Ok(()),
            Some(_) => self.rights.require(&[Right::Writes], || {
                format!("DROP SCHEMA {schema} changes what all sessions see")
            }),
            None => Err(denied(
                format!("DROP SCHEMA {schema}: this schema is the server's own"),
                vec![],
            )),
        }
    }
}
