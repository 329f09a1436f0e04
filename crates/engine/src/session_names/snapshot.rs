//! What does a REPEATABLE READ or SERIALIZABLE transaction see?
//!
//! All its statements see the files that the shared tables had when its first statement began.
//! Coscan keeps no old files: a statement that finds other files is refused, as PostgreSQL refuses
//! a transaction that cannot be serialized, and the client starts the transaction again. Only the
//! session changes its own tables, so they need no check. Shared tables in memory have no record
//! of their versions, so the transaction cannot read them.
//! Not here: READ COMMITTED, in which each statement sees the current files.
//! SN1: the files are compared after a statement has listed those that it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use coscan_pg::PgError;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use futures::TryStreamExt;
use object_store::ObjectMeta;

use super::catalogs::{OwnSchema, Whose};
use super::table::MemoryTable;
use crate::tables::partitioned::files_of;

/// The files that all shared tables had at some time.
#[derive(Debug)]
pub struct Snapshot {
    tables: BTreeMap<Vec<String>, BTreeSet<FileThen>>,
}

/// A file as it was then.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileThen {
    path: String,
    bytes: u64,
    modified: i64,
    tag: Option<String>,
}

impl FileThen {
    fn of(file: ObjectMeta) -> Self {
        Self {
            path: file.location.to_string(),
            bytes: file.size,
            modified: file.last_modified.timestamp_micros(),
            tag: file.e_tag,
        }
    }
}

/// The paths that a table reads.
fn places(table: &ListingTable) -> Vec<String> {
    let places = table.table_paths().iter();
    places.map(ToString::to_string).collect()
}

async fn files(state: &SessionState, table: &ListingTable) -> Result<BTreeSet<FileThen>> {
    let mut files = BTreeSet::new();
    for place in table.table_paths() {
        let store = state.runtime_env().object_store(place)?;
        let extension = &table.options().file_extension;
        let listed = place
            .list_all_files(state, store.as_ref(), extension)
            .await?;
        let listed: Vec<ObjectMeta> = listed.try_collect().await?;
        files.extend(listed.into_iter().map(FileThen::of));
    }
    Ok(files)
}

impl Snapshot {
    /// The current files. A table that cannot be opened has none.
    ///
    /// # Errors
    /// The store's.
    pub async fn now(state: &SessionState) -> Result<Self> {
        let mut tables = BTreeMap::new();
        let catalogs = state.catalog_list();
        let names = catalogs.catalog_names().into_iter();
        for catalog in names.filter_map(|name| catalogs.catalog(&name)) {
            for schema in catalog.schema_names() {
                let Some(schema) = catalog.schema(&schema) else {
                    continue;
                };
                if schema.downcast_ref::<OwnSchema>().is_none() {
                    continue;
                }
                for name in schema.table_names() {
                    if let Ok(Some(table)) = schema.table(&name).await
                        && let Some(table) = files_of(table.as_ref())
                    {
                        tables.insert(places(table), files(state, table).await?);
                    }
                }
            }
        }
        Ok(Self { tables })
    }

    /// Checks that a plan read the files of this snapshot (SN1).
    ///
    /// # Errors
    /// 40001 if a table has other files now; 0A000 for a table without known files.
    pub async fn check(&self, state: &SessionState, plan: &LogicalPlan) -> Result<()> {
        let mut scans = vec![];
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                scans.push(scan.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        for scan in scans {
            let (name, table) = (&scan.table_name, source_as_provider(&scan.source)?);
            if let Some(table) = files_of(table.as_ref()) {
                match self.tables.get(&places(table)) {
                    Some(then) if *then == files(state, table).await? => {}
                    Some(_) => return Err(changed(name).into()),
                    None => return Err(unknown(name).into()),
                }
            } else if table.is::<MemoryTable>() {
                let schema = state.schema_for_ref(name.clone()).ok();
                let own = schema.as_ref().and_then(|s| s.downcast_ref::<OwnSchema>());
                if own.is_some_and(|own| own.whose(name.table()) == Some(Whose::Shared)) {
                    return Err(unknown(name).into());
                }
            }
        }
        Ok(())
    }
}

fn changed(name: &impl fmt::Display) -> PgError {
    let told = format!(
        "could not serialize access: the files of {name} have changed since the transaction's \
         first statement"
    );
    PgError::new("40001", told)
}

fn unknown(name: &impl fmt::Display) -> PgError {
    let told = format!(
        "{name} cannot be read in a transaction that is REPEATABLE READ or SERIALIZABLE: what it \
         was at the transaction's first statement is not known"
    );
    PgError::new("0A000", told)
}
