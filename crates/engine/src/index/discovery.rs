//! When does an engine look for indexes?
//!
//! It looks beside a table when the table is registered, by
//! [`Session::register`](crate::Session::register) or by `CREATE EXTERNAL TABLE … STORED AS
//! PARQUET`. It looks in a session's index folder (`coscan.index_folder`) then, too, and before
//! the session's next query is planned. So an index that one process built serves the next
//! process. A broken index is looked up before every query, until it was replaced or removed; all
//! indexes are looked up for a query of `coscan.indexes`.
//! Not here: which index a query uses (`probe/plan.rs`).

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{CreateExternalTable, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;

use crate::index_catalog::{Folder, Index, Indexes, NamedFolder};
use crate::inner_planner::InnerPlanner;
use crate::resources::Resources;
use crate::settings::Settings;
use crate::tables::partitioned::files_of;
use crate::tables::registration;

/// Makes a session look for indexes.
pub(crate) fn look_for_indexes(builder: &mut SessionStateBuilder, resources: &Weak<Resources>) {
    let factories = builder.table_factories().get_or_insert_default();
    if let Some(inner) = factories.remove(PARQUET) {
        let resources = resources.clone();
        let factory = Tables { resources, inner };
        factories.insert(PARQUET.to_owned(), Arc::new(factory));
    }
    InnerPlanner::wrap(builder, |inner| Planner {
        resources: resources.clone(),
        inner,
    });
}

/// DataFusion's name of the format in `CREATE EXTERNAL TABLE`.
const PARQUET: &str = "PARQUET";

/// Adds the indexes of a new table to the known ones.
pub(crate) async fn find_indexes(
    indexes: &Indexes,
    session: &dyn Session,
    table: &Arc<dyn TableProvider>,
) {
    let runtime = session.runtime_env();
    if let Some(table) = files_of(table.as_ref())
        && let Ok(folder) = Folder::of_table(table, runtime).await
    {
        look_through(indexes, &folder.beside(), runtime).await;
    }
    if let Some(named) = named_folder(session) {
        look_through(indexes, &named.folder, runtime).await;
    }
}

/// The session's index folder.
pub(super) fn named_folder(session: &dyn Session) -> Option<NamedFolder> {
    let settings = session.config_options().extensions.get::<Settings>();
    settings.and_then(|settings| settings.index_folder.clone())
}

async fn look_through(indexes: &Indexes, folder: &Folder, runtime: &RuntimeEnv) {
    match runtime.object_store(&folder.store) {
        Ok(store) => indexes.discover(folder, &store).await,
        Err(error) => log::warn!("{}: its indexes cannot be read: {error}", folder.display()),
    }
}

/// Looks up indexes that another process may have refreshed or dropped. A query that has an index
/// open can still use it as long as its data exist. An index that is opened after its data were
/// removed is broken.
pub(crate) async fn look_again(
    indexes: &Indexes,
    runtime: &RuntimeEnv,
    which: impl Fn(&Index) -> bool,
) {
    let all = indexes.all().into_iter();
    for index in all.filter(|index| which(index)) {
        let Ok(store) = runtime.object_store(&index.folder.store) else {
            continue;
        };
        let name = &index.manifest.name;
        if let Ok(None) = indexes.look_up(&index.folder, name, &store).await {
            indexes.remove(&index);
        }
    }
}

/// Plans a query after the indexes in the session's folder are known.
#[derive(Debug)]
struct Planner {
    resources: Weak<Resources>,
    inner: InnerPlanner,
}

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let (Some(named), Some(resources)) = (named_folder(session), self.resources.upgrade()) {
            let indexes = resources.indexes();
            let look = || look_through(indexes, &named.folder, session.runtime_env());
            named.looked_through.get_or_init(look).await;
        }
        if let Some(resources) = self.resources.upgrade() {
            let broken = |index: &Index| index.broken().is_some();
            look_again(resources.indexes(), session.runtime_env(), broken).await;
        }
        self.inner.plan(plan, session).await
    }
}

/// Creates the tables of `CREATE EXTERNAL TABLE`.
#[derive(Debug)]
struct Tables {
    resources: Weak<Resources>,
    inner: Arc<dyn TableProviderFactory>,
}

#[async_trait]
impl TableProviderFactory for Tables {
    async fn create(
        &self,
        session: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let table = match session.as_any().downcast_ref::<SessionState>() {
            Some(state) => {
                registration::declared_table(state, command, self.inner.as_ref()).await?
            }
            None => self.inner.create(session, command).await?,
        };
        if let Some(resources) = self.resources.upgrade() {
            find_indexes(resources.indexes(), session, &table).await;
        }
        Ok(table)
    }
}
