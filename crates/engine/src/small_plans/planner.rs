//! Is a plan small?
//!
//! It is if its scans together need few rows and bytes, and no operator can give many more rows
//! than it gets. Cross joins, joins by other conditions than equality, functions that return rows,
//! recursion and several sets of groups can: plans with these keep their partitions, and so do
//! plans with a table of unknown size. A join by equality counts as harmless, although keys that
//! occur often multiply rows.
//! Not here: how sizes become known (`opened.rs`).
//! Rejected: deciding by the last run's duration. Rows would depend on earlier queries (SP1).

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;

use super::configured::Configured;
use super::opened::{in_one_partition, open, size, table_of, with_opened};
use crate::inner_planner::InnerPlanner;
use crate::settings::Settings;

/// The most rows that the scans of a small plan have together. A core filters, joins and groups
/// them in some milliseconds, the time of a slice or two of the host's scheduler, for which each
/// woken thread waits beside a program that computes. The largest of TPC-DS's tables of fixed size,
/// `date_dim` with 73,049 rows, fits twice.
const ROWS_MAX: u64 = 200_000;

/// Has small plans planned for one partition, by the planner that the builder has. It must be the
/// innermost of the engine's planners: those that change the session look for its state, and have
/// to change what this one gets.
pub(crate) fn plan_small(builder: &mut SessionStateBuilder) {
    InnerPlanner::wrap(builder, |inner| Planner { inner });
}

/// Lets small plans of a session have one partition, until the session changes the number of
/// partitions that it has now.
pub(crate) fn allow(config: &mut SessionConfig) {
    let partitions = config.target_partitions();
    if let Some(settings) = config.options_mut().extensions.get_mut::<Settings>() {
        settings.partitions_by_cores = Some(partitions);
    }
}

/// See the file's header.
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
        if follows_order(plan) {
            let session = Configured::in_order(session);
            return self.inner.plan(plan, &session).await;
        }
        let measured = match measured(plan, session).await {
            // EXPLAIN shows an error of planning in its text, so that planning must meet it.
            Err(_) if matches!(plan, LogicalPlan::Explain(_)) => None,
            measured => measured?,
        };
        let Some(Measured { plan, is_small }) = measured else {
            return self.inner.plan(plan, session).await;
        };
        if is_small {
            let session = Configured::for_one_partition(session);
            return self.inner.plan(&plan, &session).await;
        }
        self.inner.plan(&plan, session).await
    }
}

/// Whether a plan writes what volatile functions compute: the numbers of a sequence follow the
/// order of the rows.
fn follows_order(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Explain(explain) => follows_order(&explain.plan),
        LogicalPlan::Analyze(analyze) => follows_order(&analyze.input),
        LogicalPlan::Dml(dml) => is_volatile_list(&dml.input),
        _ => false,
    }
}

/// Whether a volatile function is called in one of the select lists on top of a plan. The rows of
/// CREATE TABLE AS have a name on top.
fn is_volatile_list(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(list) => {
            list.expr.iter().any(Expr::is_volatile) || is_volatile_list(&list.input)
        }
        _ => false,
    }
}

/// A plan whose tables have been opened.
struct Measured {
    plan: LogicalPlan,
    is_small: bool,
}

/// Opens the tables of a plan that may be small; `None` if it cannot be.
///
/// # Errors
/// Those of opening tables.
async fn measured(plan: &LogicalPlan, session: &dyn Session) -> Result<Option<Measured>> {
    let Some(bytes_max) = bytes_max(session.config_options()) else {
        return Ok(None);
    };
    if !is_bounded(plan)? {
        return Ok(None);
    }
    let (plan, tables) = with_opened(plan)?;
    let scans = open(&tables, session).await?;
    let is_small = are_small(&scans, bytes_max);
    for (table, scan) in tables.iter().zip(scans) {
        table.keep(if is_small {
            in_one_partition(scan)?
        } else {
            scan
        });
    }
    Ok(Some(Measured { plan, is_small }))
}

/// The most bytes of a small plan; `None` if the session's plans keep their partitions.
fn bytes_max(options: &ConfigOptions) -> Option<u64> {
    let settings = options.extensions.get::<Settings>()?;
    let partitions = options.execution.target_partitions;
    let is_changed = settings.partitions_by_cores != Some(partitions);
    // For one partition DataFusion plans hash joins only.
    let merges = !options.optimizer.prefer_hash_join;
    // Cooperative scans, which begin above `small_table_bytes`, share by the forms of plans.
    let bytes = settings.small_plan_bytes.min(settings.small_table_bytes);
    (!is_changed && !merges && partitions > 1 && bytes > 0).then_some(bytes)
}

fn are_small(scans: &[Arc<dyn ExecutionPlan>], bytes_max: u64) -> bool {
    let (mut rows, mut bytes) = (0_u64, 0_u64);
    scans.iter().all(|scan| {
        size(scan, ROWS_MAX).is_some_and(|size| {
            rows = rows.saturating_add(size.rows);
            bytes = bytes.saturating_add(size.bytes);
            rows <= ROWS_MAX && bytes <= bytes_max
        })
    })
}

/// Whether a plan reads tables, all of them of sizes that can be known, and gives about as many
/// rows as these at most.
fn is_bounded(plan: &LogicalPlan) -> Result<bool> {
    let (mut is_bounded, mut reads) = (true, false);
    plan.apply_with_subqueries(|node| {
        is_bounded &= is_bounded_node(node);
        reads |= matches!(node, LogicalPlan::TableScan(_));
        Ok(if is_bounded {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    })?;
    Ok(is_bounded && reads)
}

fn is_bounded_node(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::TableScan(scan) => table_of(scan).is_some(),
        LogicalPlan::Join(join) => {
            !join.on.is_empty() || has_one_row(&join.left) || has_one_row(&join.right)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let mut groups = aggregate.group_expr.iter();
            !groups.any(|group| matches!(group, Expr::GroupingSet(_)))
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_) => true,
        _ => false,
    }
}

/// Whether the form of a plan lets it give one row at most.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => true,
        LogicalPlan::Join(join) if join.join_type == JoinType::Full => false,
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_) => plan.inputs().into_iter().all(has_one_row),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use coscan_pg::dialect::written_parameters;
    use datafusion::physical_plan::repartition::RepartitionExec;
    use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
    use datafusion::scalar::ScalarValue;
    use futures::TryStreamExt;

    use super::*;
    use crate::statement::{StatementText, parse_postgresql, plan_statement};
    use crate::{Engine, EngineConfig, Prepared, Session as Own};

    /// A session of four partitions that nobody asked for, with a small and a large table.
    async fn session() -> Own {
        let config = EngineConfig {
            target_partitions: Some(4),
            ..EngineConfig::default()
        };
        let session = Engine::new(config).unwrap().session();
        let state = session.context().state_ref();
        allow(state.write().config_mut());
        for (name, rows) in [("small", 20_000), ("large", 250_000)] {
            let sql = format!(
                "CREATE TABLE {name} AS \
                 SELECT x AS k, x % 100 AS g FROM generate_series(1, {rows}) AS s(x)"
            );
            let made = session.sql(&sql).await.unwrap();
            made.try_collect::<Vec<_>>().await.unwrap();
        }
        session
    }

    async fn logical(session: &Own, sql: &str) -> LogicalPlan {
        let state = session.context().state();
        let text = StatementText::whole(sql).unwrap();
        let statement = parse_postgresql(text).unwrap().pop().unwrap();
        plan_statement(&state, statement, text.size).await.unwrap()
    }

    async fn is_small(session: &Own, sql: &str) -> bool {
        let state = session.context().state();
        let plan = state.optimize(&logical(session, sql).await).unwrap();
        let measured = measured(&plan, &state).await.unwrap();
        measured.is_some_and(|measured| measured.is_small)
    }

    fn exchanges(plan: &Arc<dyn ExecutionPlan>) -> usize {
        let below: usize = plan.children().into_iter().map(exchanges).sum();
        below + usize::from(plan.is::<RepartitionExec>())
    }

    async fn exchanges_of(session: &Own, sql: &str) -> usize {
        let plan = logical(session, sql).await;
        let state = session.context().state();
        exchanges(&state.create_physical_plan(&plan).await.unwrap())
    }

    const GROUPS: &str = "SELECT g, count(*) FROM small GROUP BY g";

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn small_are_plans_over_small_tables_that_multiply_no_rows() {
        let session = session().await;
        for (sql, expected) in [
            (GROUPS, true),
            ("EXPLAIN SELECT g, count(*) FROM small GROUP BY g", true),
            (
                "SELECT a.g, count(*) FROM small a JOIN small b ON a.k = b.k GROUP BY a.g",
                true,
            ),
            (
                "SELECT g, (SELECT max(k) FROM small), count(*) FROM small GROUP BY g",
                true,
            ),
            (
                "SELECT g, count(*) FROM small, (SELECT max(k) AS m FROM small) b \
                 WHERE k < m GROUP BY g",
                true,
            ),
            (
                "SELECT g FROM small UNION ALL SELECT g FROM small ORDER BY 1",
                true,
            ),
            ("SELECT 1", false),
            ("SELECT count(*) FROM small a, small b", false),
            (
                "SELECT a.g, count(*) FROM small a JOIN small b ON a.k < b.k GROUP BY a.g",
                false,
            ),
            (
                "SELECT g, count(*) FROM small, generate_series(1, 9) GROUP BY g",
                false,
            ),
            (
                "SELECT count(*) FROM small, unnest(ARRAY[1, 2]) AS u",
                false,
            ),
            (
                "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 9) \
                 SELECT g, count(*) FROM small JOIN r ON g = n GROUP BY g",
                false,
            ),
            ("SELECT g, count(*) FROM large GROUP BY g", false),
            (
                "SELECT a.g, count(*) FROM small a JOIN large b ON a.k = b.k GROUP BY a.g",
                false,
            ),
            (
                "SELECT g, (SELECT max(k) FROM large), count(*) FROM small GROUP BY g",
                false,
            ),
            ("SELECT count(*) FROM information_schema.tables", false),
        ] {
            assert_eq!(is_small(&session, sql).await, expected, "{sql}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_small_plan_has_one_partition_unless_the_session_says_otherwise() {
        let session = session().await;
        assert_eq!(exchanges_of(&session, GROUPS).await, 0);
        for (name, other, usual) in [
            ("coscan.small_plan_bytes", "0", "4MiB"),
            ("coscan.small_plan_bytes", "1KiB", "4MiB"),
            ("coscan.small_table_bytes", "0", "8MiB"),
            ("datafusion.execution.target_partitions", "3", "4"),
            ("datafusion.optimizer.prefer_hash_join", "false", "true"),
        ] {
            session.set(name, other).unwrap();
            assert!(!is_small(&session, GROUPS).await, "{name} = {other}");
            assert!(exchanges_of(&session, GROUPS).await > 0, "{name} = {other}");
            session.set(name, usual).unwrap();
            assert!(is_small(&session, GROUPS).await, "{name} = {usual}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_exchange_is_between_the_order_of_rows_and_their_numbers() {
        let session = session().await;
        for (name, column) in [("numbered", "serial"), ("plain", "int")] {
            let sql = format!("CREATE TABLE {name} (id {column}, k bigint)");
            let made = session.sql(&sql).await.unwrap();
            made.try_collect::<Vec<_>>().await.unwrap();
        }
        let insert =
            |name: &str| format!("INSERT INTO {name} (k) SELECT k FROM large ORDER BY k DESC");
        // The cast to `bigint` makes an exchange worthwhile.
        assert!(exchanges_of(&session, &insert("plain")).await > 0);
        assert_eq!(exchanges_of(&session, &insert("numbered")).await, 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn partitions_that_a_configuration_asks_for_are_kept() {
        let config = EngineConfig {
            target_partitions: Some(4),
            ..EngineConfig::default()
        };
        let session = Engine::new(config).unwrap().session();
        let made = session.sql("CREATE TABLE small AS SELECT 1 AS g").await;
        made.unwrap().try_collect::<Vec<_>>().await.unwrap();
        assert!(!is_small(&session, GROUPS).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn files_in_one_partition_keep_their_statistics() {
        let session = session().await;
        let folder = tempfile::tempdir().unwrap();
        for file in ["a", "b"] {
            let path = folder.path().join(format!("{file}.parquet"));
            let path = path.display();
            let sql = format!("COPY (SELECT k FROM small) TO '{path}' STORED AS PARQUET");
            let made = session.sql(&sql).await.unwrap();
            made.try_collect::<Vec<_>>().await.unwrap();
        }
        let path = folder.path().join("");
        session
            .register("files", path.to_str().unwrap())
            .await
            .unwrap();
        let plan = logical(&session, "SELECT k FROM files").await;
        let state = session.context().state();
        let plan = state.create_physical_plan(&plan).await.unwrap();
        assert_eq!(plan.properties().output_partitioning().partition_count(), 1);
        let first = StatisticsArgs::new().with_partition(Some(0));
        let known = StatisticsContext::new().compute(plan.as_ref(), &first);
        assert_eq!(known.unwrap().num_rows.get_value(), Some(&40_000));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_prepared_statement_has_one_partition_whenever_it_is_run() {
        let session = session().await;
        let state = session.context().state();
        let sql = "SELECT g, count(*) FROM small WHERE k > $1::bigint GROUP BY g";
        let text = StatementText::whole(sql).unwrap();
        let statement = parse_postgresql(text).unwrap().pop().unwrap();
        let written = written_parameters(sql);
        let prepared = Prepared::new(&state, statement, text.size, &[], &written);
        let prepared = prepared.await.unwrap();
        for value in [7, 19_000] {
            let values = vec![ScalarValue::Int64(Some(value))];
            let plan = prepared.bind(&state, values).await.unwrap();
            let plan = state.create_physical_plan(&plan).await.unwrap();
            assert_eq!(exchanges(&plan), 0, "{value}");
        }
    }
}
