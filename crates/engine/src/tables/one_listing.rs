//! Does a statement that names a table several times see one state of its files?
//!
//! Each scan lists the files of its table when it is planned, so a later scan sees an INSERT that
//! commits in between: `SELECT (SELECT count(*) FROM t), (SELECT sum(v) FROM t)` returned numbers
//! of two states. So if a plan scans a table more than once, its scans share one listing.
//! Rejected: sharing listings between queries. Each query lists files itself, so that it sees
//! files that were added or replaced since (`resources.rs`).
//! Rejected: sharing listings in every plan, so that `small_plans/opened.rs` would keep no scans.
//! With a cache DataFusion lists the whole table where a scan needs one folder of it, each plan
//! would copy the state of its session, and each scan would be made twice.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::execution::cache::cache_manager::{CacheManager, CacheManagerConfig};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

use super::partitioned::files_of;
use crate::inner_planner::InnerPlanner;

/// The most bytes for the listings of a plan; a table beyond that is listed for each scan.
const LISTINGS_BYTES_MAX: usize = 64 << 20;

/// Makes the scans of a plan list the files of each table once.
pub(crate) fn list_once(builder: &mut SessionStateBuilder) {
    InnerPlanner::wrap(builder, |inner| Planner { inner });
}

/// Plans with shared listings; see the file's header.
#[derive(Debug)]
struct Planner {
    inner: InnerPlanner,
}

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let state = session.as_any().downcast_ref::<SessionState>();
        let once = match state {
            Some(state) if scans_a_table_twice(plan)? => Some(with_listings(state)?),
            _ => None,
        };
        let session = once.as_ref().map_or(session, |once| once as &dyn Session);
        self.inner.plan(plan, session).await
    }
}

fn scans_a_table_twice(plan: &LogicalPlan) -> Result<bool> {
    let mut seen = HashSet::new();
    let mut twice = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(table) = source_as_provider(&scan.source)
            && files_of(table.as_ref()).is_some()
        {
            twice |= !seen.insert(Arc::as_ptr(&table).cast::<()>());
        }
        Ok(if twice {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(twice)
}

/// The session, with a cache of listings.
fn with_listings(state: &SessionState) -> Result<SessionState> {
    let runtime = state.runtime_env();
    let caches = &runtime.cache_manager;
    let config = CacheManagerConfig::default()
        .with_file_metadata_cache(Some(caches.get_file_metadata_cache()))
        .with_metadata_cache_limit(caches.get_file_metadata_cache().cache_limit())
        .with_file_statistics_cache(caches.get_file_statistic_cache())
        .with_file_statistics_cache_limit(caches.get_file_statistic_cache_limit())
        .with_list_files_cache_limit(LISTINGS_BYTES_MAX);
    let runtime = RuntimeEnv {
        memory_pool: Arc::clone(&runtime.memory_pool),
        disk_manager: Arc::clone(&runtime.disk_manager),
        cache_manager: CacheManager::try_new(&config)?,
        object_store_registry: Arc::clone(&runtime.object_store_registry),
    };
    let builder = SessionStateBuilder::new_from_existing(state.clone());
    Ok(builder.with_runtime_env(Arc::new(runtime)).build())
}
