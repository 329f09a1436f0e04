//! What do the tasks of a plan find in their context?
//!
//! The session's settings, the query's memory, and the session's functions if the plan may look
//! for them. DataFusion copies its lists of functions by name, some hundreds of entries, for each
//! plan, and frees them with it: 3 % of a short statement. Plans have the functions that they call
//! in their expressions; only tables of `information_schema`, and nodes that send plans elsewhere,
//! look for others while they run.
//!
//! A plan gets no list only if each of its nodes is on the list below. A node that is not may be a
//! program's own.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;

use super::on_nodes::OnNodes;
use crate::cscan::CScanSource;
use crate::tasks::YieldingExec;

/// The context of the tasks that compute a plan in this environment.
pub(super) fn task_context(
    state: &SessionState,
    plan: &Arc<dyn ExecutionPlan>,
    environment: Arc<RuntimeEnv>,
) -> TaskContext {
    let is_sent = state.config().get_extension::<OnNodes>().is_some();
    if is_sent || !has_its_functions(plan) {
        return TaskContext::from(state).with_runtime(environment);
    }
    TaskContext::new(
        None,
        state.session_id().to_owned(),
        state.config().clone(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        environment,
    )
}

/// Whether no node of the plan looks for a function by its name.
fn has_its_functions(node: &Arc<dyn ExecutionPlan>) -> bool {
    let is_known = match node.downcast_ref::<DataSourceExec>() {
        Some(source) => is_known_source(source),
        None => is_known_operator(node),
    };
    is_known && node.children().into_iter().all(has_its_functions)
}

fn is_known_source(node: &DataSourceExec) -> bool {
    let source = node.data_source().as_ref();
    source.downcast_ref::<MemorySourceConfig>().is_some()
        || source.downcast_ref::<FileScanConfig>().is_some()
        || source.downcast_ref::<CScanSource>().is_some()
}

fn is_known_operator(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<FilterExec>()
        || node.is::<ProjectionExec>()
        || node.is::<AggregateExec>()
        || node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<RepartitionExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<HashJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<UnionExec>()
        || node.is::<EmptyExec>()
        || node.is::<PlaceholderRowExec>()
        || node.is::<CooperativeExec>()
        || node.is::<YieldingExec>()
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    async fn functions_of(sql: &str) -> usize {
        let config = SessionConfig::new().with_information_schema(true);
        let session = SessionContext::new_with_config(config);
        let table = "CREATE TABLE t AS VALUES (1, 2), (3, 4)";
        let made = session.sql(table).await.unwrap();
        made.collect().await.unwrap();
        let frame = session.sql(sql).await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        let context = task_context(&session.state(), &plan, session.runtime_env());
        context.scalar_functions().len()
    }

    #[tokio::test]
    async fn only_plans_that_may_look_for_functions_get_them() {
        for sql in [
            "SELECT upper('a')",
            "SELECT abs(column1) FROM t WHERE column2 > 2 ORDER BY 1 LIMIT 3",
            "SELECT a.column1, count(*) FROM t a JOIN t b ON a.column1 = b.column1 GROUP BY 1",
        ] {
            assert_eq!(functions_of(sql).await, 0, "{sql}");
        }
        for sql in [
            "SELECT count(*) FROM information_schema.routines",
            "SELECT 1 FROM t, information_schema.parameters",
        ] {
            assert!(functions_of(sql).await > 0, "{sql}");
        }
    }
}
