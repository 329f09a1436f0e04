//! How is a planned statement carried out, above all one that creates names?
//!
//! DataFusion's context runs it, with these differences. Rights are checked. A statement that was
//! given up creates nothing, and CREATE OR REPLACE EXTERNAL TABLE drops the old table only when the
//! new one is there. A plan that returns rows keeps the session state with which it was planned,
//! because each clone copies the names of all functions. A table that a restricted session creates
//! is its own with or without TEMPORARY. RESET restores Coscan's defaults. COPY writes PostgreSQL's
//! names of columns. The plan of a view over views has a maximal size: if each names another one
//! twice, twenty views are a million nodes.
//! Not here: how a table in memory is created (`create.rs`).

use std::path::Path;
use std::sync::Arc;

use coscan_pg::dialect::without_operators;
use coscan_pg::{Once, PgError, is_volatile};
use coscan_pg::{marked_sets, typed_frames, typed_lists, unknown_as_text};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{SchemaReference, TableReference, exec_err, not_impl_err, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    CreateExternalTable, CreateView, DdlStatement, LogicalPlan, Statement, TableType,
};
use datafusion::prelude::SessionContext;

use super::check::{check, not_undoable, replaces_shared};
use super::create::{Replaced, create_table, is_wanted, nothing, publish, register};
use super::dependents::{check_dependents, follow_renamed};
use crate::commit_point::Run;
use crate::error::Error;
use crate::memory::{LIMIT_BY_DEFAULT, SPILL_FILE_BYTES, SPILL_FILE_BYTES_DEFAULT};
use crate::notices::{Notice, Notices};
use crate::right::{Right, Rights};
use crate::session_names::catalogs::{self, OwnNames, OwnSchema, Whose};
use crate::statement::with_postgres_columns;

/// The most nodes of a view's plan, including those of the views in it.
const VIEW_NODES_MAX: usize = 4_096;

/// Runs a plan as DataFusion's context does, within the session's rights. `state` is the session's
/// state when the statement began.
///
/// # Errors
/// [`Error::Denied`](crate::Error::Denied), and the errors of planning and running.
pub async fn execute(
    context: &SessionContext,
    state: SessionState,
    plan: LogicalPlan,
) -> Result<DataFrame> {
    check(&state, &plan)?;
    check_dependents(&state, &plan)?;
    if let LogicalPlan::Copy(copy) = &plan {
        check_folder(&copy.output_url)?;
    }
    for notice in skipped(&state, &plan) {
        Notices::say(state.config(), || notice);
    }
    let mut replaced = replaces_shared(&state, &plan);
    let is_own = Rights::of(state.config()).is_some();
    let run = Run::of(state.config());
    let done = match plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
            create_table(context, state, create, is_own, replaced.take())?
        }
        LogicalPlan::Ddl(DdlStatement::CreateView(mut create)) => {
            create.temporary &= !is_own;
            let create = with_kept_query(&state, create)?;
            let plan = LogicalPlan::Ddl(DdlStatement::CreateView(create));
            run.reach()?;
            context.execute_logical_plan(plan).await?
        }
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(mut create)) => {
            create.temporary &= !is_own;
            let replaced = replaced.take();
            Box::pin(create_external_table(context, &create, &replaced, &run)).await?
        }
        LogicalPlan::Statement(Statement::ResetVariable(reset))
            if default_of(&reset.variable).is_some() =>
        {
            let default = default_of(&reset.variable).unwrap_or_default();
            let changed = context.state_ref();
            let mut changed = changed.write();
            let options = changed.config_mut().options_mut();
            options.set(&reset.variable, default)?;
            drop(changed);
            nothing(context)?
        }
        LogicalPlan::Copy(copy) => {
            let copy = with_postgres_columns(&state, copy)?;
            DataFrame::new(state, LogicalPlan::Copy(copy))
        }
        plan @ (LogicalPlan::Ddl(_) | LogicalPlan::Statement(_)) => {
            run.reach()?;
            context.execute_logical_plan(plan).await?
        }
        plan => DataFrame::new(state, plan),
    };
    publish(&replaced)?;
    Ok(done)
}

/// What DataFusion will skip without a word: a schema that exists or does not, and functions. If
/// another session creates or drops one at this moment, the notice is wrong and nothing else.
fn skipped(state: &SessionState, plan: &LogicalPlan) -> Vec<Notice> {
    let exists = |catalog: Option<&str>, schema: &str| {
        let own = &state.config_options().catalog.default_catalog;
        let catalog = state.catalog_list().catalog(catalog.unwrap_or(own));
        catalog.is_some_and(|catalog| catalog.schema(schema).is_some())
    };
    match plan {
        LogicalPlan::Ddl(DdlStatement::CreateCatalogSchema(create)) if create.if_not_exists => {
            let name = create.schema_name.as_str();
            let (catalog, schema) = match name.split_once('.') {
                Some((catalog, schema)) => (Some(catalog), schema),
                None => (None, name),
            };
            let found = exists(catalog, schema).then(|| Notice::schema_exists(schema));
            found.into_iter().collect()
        }
        LogicalPlan::Ddl(DdlStatement::DropCatalogSchema(drop)) if drop.if_exists => {
            let (catalog, schema) = match &drop.name {
                SchemaReference::Bare { schema } => (None, schema),
                SchemaReference::Full { schema, catalog } => (Some(catalog.as_ref()), schema),
            };
            let missing = (!exists(catalog, schema)).then(|| Notice::missing("schema", schema));
            missing.into_iter().collect()
        }
        // `statement/drop_functions.rs` has put the types of the arguments behind their names.
        LogicalPlan::Ddl(DdlStatement::DropFunction(drop)) if drop.if_exists => {
            let missing = drop.name.lines().filter(|name| name.ends_with(')'));
            let said = missing.map(|signature| match schema_of(signature) {
                Some(schema) if !exists(None, schema) => Notice::missing("schema", schema),
                _ => Notice::missing_function(signature),
            });
            said.collect()
        }
        _ => vec![],
    }
}

/// The schema of a function that is named with the types of its arguments.
fn schema_of(signature: &str) -> Option<&str> {
    let (name, _) = signature.split_once('(')?;
    let (schema, _) = name.rsplit_once('.')?;
    Some(schema)
}

/// Checks that the folder exists in which a COPY creates its file or its folder of files.
fn check_folder(target: &str) -> Result<()> {
    let path = target.strip_prefix("file://").unwrap_or(target);
    let folder = Path::new(path).parent();
    let is_missing = |folder: &Path| !folder.as_os_str().is_empty() && !folder.is_dir();
    if path.contains("://") || !folder.is_some_and(is_missing) {
        return Ok(());
    }
    Err(DataFusionError::External(Box::new(Error::CannotWrite {
        path: path.to_owned(),
        reason: "No such file or directory",
    })))
}

/// Drops the tables, views and schemas that a session has created. An unrestricted session has
/// none of its own, so nothing happens to it.
pub fn forget_own(context: &SessionContext) {
    if let Some(own) = context.state().config().get_extension::<OwnNames>() {
        own.forget();
    }
}

/// ALTER TABLE or VIEW … RENAME.
#[derive(Clone, Debug)]
pub struct Rename {
    /// The old name of the table or view.
    pub from: String,
    /// The new name, in the same schema.
    pub to: String,
    /// Whether the old name must be that of a view. Otherwise it may be a table or a view.
    pub view: bool,
    /// Whether a missing table or view is no error.
    pub if_exists: bool,
}

/// Renames a table or view that the session may drop. `undoable` says whether a ROLLBACK must be
/// able to restore the name.
///
/// # Errors
/// 42P01 and 42809 if there is no such table or view, 42P07 if the new name is taken, 25001 if
/// ROLLBACK cannot restore the name, [`Error::Denied`](crate::Error::Denied) without the right
/// to change what all sessions see.
pub async fn rename_own(context: &SessionContext, rename: &Rename, undoable: bool) -> Result<()> {
    let Rename { from, to, .. } = rename;
    let (old, new) = (TableReference::from(from), TableReference::from(to));
    let state = context.state();
    let schema = state.schema_for_ref(old.clone());
    let found = match &schema {
        Ok(schema) => schema.table_type(old.table()).await?,
        Err(_) => None,
    };
    let (Some(found), Ok(schema)) = (found, schema) else {
        if rename.if_exists {
            let missing = || Notice::missing("relation", old.table());
            Notices::say(state.config(), missing);
            return Ok(());
        }
        return Err(PgError::new("42P01", format!("relation \"{from}\" does not exist")).into());
    };
    if rename.view && found != TableType::View {
        let name = old.table();
        return Err(PgError::new("42809", format!("\"{name}\" is not a view")).into());
    }
    if schema.table_exist(new.table()) {
        let name = new.table();
        return Err(PgError::new("42P07", format!("relation \"{name}\" already exists")).into());
    }
    let own = schema.downcast_ref::<OwnSchema>();
    if let (Some(rights), Some(own)) = (Rights::of(state.config()), own)
        && own.whose(old.table()) != Some(Whose::Own)
    {
        rights.require(&[Right::Writes], || {
            format!("ALTER TABLE {from} changes what all sessions see")
        })?;
        if undoable {
            return Err(not_undoable("ALTER TABLE", &old).into());
        }
    }
    match own {
        Some(own) => own.rename(old.table(), new.table()).await?,
        None => catalogs::rename(schema.as_ref(), old.table(), new.table()).await?,
    }
    follow_renamed(&state, &old, &new);
    Ok(())
}

/// The value that RESET restores, for settings whose default DataFusion does not know.
fn default_of(setting: &str) -> Option<&'static str> {
    match setting {
        "coscan.memory" | "coscan.checksums" => Some(LIMIT_BY_DEFAULT),
        SPILL_FILE_BYTES => Some(SPILL_FILE_BYTES_DEFAULT),
        _ => None,
    }
}

/// CREATE EXTERNAL TABLE. It can be given up while its files are looked for, which may take long.
async fn create_external_table(
    context: &SessionContext,
    create: &CreateExternalTable,
    replaced: &Replaced,
    run: &Run,
) -> Result<DataFrame> {
    let (state, name) = (context.state(), create.name.clone());
    if create.temporary {
        return not_impl_err!("Temporary tables not supported");
    }
    if !is_wanted(context, &name, create.if_not_exists, create.or_replace)? {
        return nothing(context);
    }
    let factory = state
        .table_factories()
        .get(&create.file_type.to_uppercase());
    let Some(factory) = factory else {
        return exec_err!("Unable to find factory for {}", create.file_type);
    };
    let table = factory.create(&state, create).await?;
    run.reach()?;
    register(context, &name, table, create.or_replace, replaced)?;
    nothing(context)
}

/// CREATE VIEW with its query in the form in which the view keeps it.
fn with_kept_query(state: &SessionState, mut create: CreateView) -> Result<CreateView> {
    check_size(&create.input)?;
    check_mentions(&create.input)?;
    let query = marked_sets(Arc::unwrap_or_clone(create.input))?;
    let query = typed_lists(typed_frames(query)?, state.config_options())?;
    create.input = Arc::new(unknown_as_text(query)?);
    create.definition = create.definition.as_deref().map(without_operators);
    Ok(create)
}

/// Each time that a view is named its volatile queries are computed, but a plan of the view has one
/// key for them all (`docs/design/with.md`).
fn check_mentions(view: &LogicalPlan) -> Result<()> {
    view.apply_with_subqueries(|node| {
        if let Some(once) = Once::of(node)
            && is_volatile(once.input())?
        {
            let told = format!(
                "WITH query \"{}\" of a view calls volatile functions and is named more than once",
                once.name()
            );
            return Err(PgError::new("0A000", told).into());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn check_size(view: &LogicalPlan) -> Result<()> {
    let mut nodes = 0;
    view.apply(|_| {
        nodes += 1;
        Ok(if nodes > VIEW_NODES_MAX {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    if nodes > VIEW_NODES_MAX {
        return plan_err!(
            "a view may have {VIEW_NODES_MAX} steps at most, those of the views in it included"
        );
    }
    Ok(())
}
