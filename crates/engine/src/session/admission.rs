//! When does a query begin?
//!
//! At once while queries have less than half of the memory, and some is free. Otherwise a query
//! whose operators hold rows waits until the [minimum](super::minimum) of its plan is free: if it
//! began with nothing, it would be refused, and all that it had read would be read once more. The
//! minimum stays promised to it until each of its partitions has rows; what is promised for hash
//! tables, until they are complete (`memory/tables.rs`). Small queries seldom wait: a part of the
//! memory is theirs (MEM-I9).
//!
//! A query must not wait if it keeps others waiting: if its session has another query open, the
//! client does not come back to that one; in a transaction it may hold locks. Neither does a query
//! wait that cannot run once more, because nothing is known of how long it would take.
//! Not here: which waiting query is next (`coscan_core::memory`); queries that are refused in spite
//! of all (`running/rerun.rs`).
//! Bounds: a query waits for at most [`WAIT_MAX`], and then begins with what there is.

use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use tokio::time::timeout;

use super::minimum::Minimum;
use super::open_queries::OpenQuery;
use crate::memory::{Promise, QueryMemory, WAIT_MAX};

/// No plan waits for more than this part of the limit (a divisor): estimates may be far too high,
/// and a query that waits for most of the memory waits until all others have ended.
const MOST: u64 = 16;

/// The memory with which a query begins.
pub(crate) struct Admission {
    pub(crate) memory: Arc<QueryMemory>,
    /// Kept until each partition has rows; `None` if the query was not admitted with a minimum.
    pub(crate) promise: Option<Promise>,
}

impl Admission {
    /// Admits a query of a session; `None` if the session does not use an engine's memory.
    /// Dropping the future ends the wait. `open` is the query, if the session counts its own.
    pub(crate) async fn of(
        session: &RuntimeEnv,
        plan: &dyn ExecutionPlan,
        open: Option<&OpenQuery>,
        may_wait: bool,
    ) -> Option<Self> {
        let memory = QueryMemory::of_session(session)?;
        if let Some(open) = open {
            open.has(memory.record());
        }
        if may_wait && memory.is_short() {
            let minimum = Minimum::of(plan, memory.limit());
            let (joined, batches) = (minimum.joined(), minimum.batches());
            if let Some(admitted) = wait(&memory, minimum.bytes()).await {
                admitted.awaits_tables(joined, batches);
                let promise = Some(Promise::of(&admitted));
                return Some(Self {
                    memory: admitted,
                    promise,
                });
            }
        }
        Some(Self {
            memory,
            promise: None,
        })
    }
}

/// Waits until a query that needs `minimum` bytes is admitted; `None` if it needs none, waited too
/// long, or too many wait.
async fn wait(first: &Arc<QueryMemory>, minimum: u64) -> Option<Arc<QueryMemory>> {
    let minimum = minimum.min(first.limit() / MOST);
    if minimum == 0 {
        return None;
    }
    // It must not wait for its own promise.
    first.needs_less(0);
    timeout(WAIT_MAX, first.again(minimum)).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use datafusion::common::internal_err;
    use datafusion::common::tree_node::TreeNodeRecursion;
    use datafusion::error::Result;
    use datafusion::execution::memory_pool::MemoryConsumer;
    use datafusion::execution::{SendableRecordBatchStream, TaskContext};
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_plan::{DisplayAs, DisplayFormatType, PlanProperties};
    use datafusion::prelude::{SessionConfig, SessionContext};
    use futures::{StreamExt, poll};

    use super::*;
    use crate::tasks::{GivesWay, YieldingExec};
    use crate::{Engine, EngineConfig};

    /// A plan that counts how often its children are asked for.
    #[derive(Debug)]
    struct Counted {
        below: Arc<dyn ExecutionPlan>,
        looks: AtomicUsize,
    }

    impl DisplayAs for Counted {
        fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.name())
        }
    }

    impl ExecutionPlan for Counted {
        fn name(&self) -> &'static str {
            "Counted"
        }

        fn properties(&self) -> &Arc<PlanProperties> {
            self.below.properties()
        }

        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            self.looks.fetch_add(1, Ordering::Relaxed);
            vec![&self.below]
        }

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
        ) -> Result<TreeNodeRecursion> {
            Ok(TreeNodeRecursion::Continue)
        }

        fn with_new_children(
            self: Arc<Self>,
            _: Vec<Arc<dyn ExecutionPlan>>,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            internal_err!("it is only counted")
        }

        fn execute(
            &self,
            partition: usize,
            context: Arc<TaskContext>,
        ) -> Result<SendableRecordBatchStream> {
            self.below.execute(partition, context)
        }
    }

    async fn plan(sql: &str) -> Arc<dyn ExecutionPlan> {
        plan_in(SessionContext::new(), sql).await
    }

    async fn plan_in(context: SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
        let large = "CREATE TABLE large AS SELECT value AS k FROM generate_series(1, 200000)";
        context.sql(large).await.unwrap();
        let frame = context.sql(sql).await.unwrap();
        frame.create_physical_plan().await.unwrap()
    }

    #[tokio::test]
    async fn a_plan_is_looked_at_only_while_memory_is_short() {
        let config = EngineConfig {
            memory_bytes: Some(64 << 20),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).unwrap();
        let session = engine.session().context().runtime_env();
        let sorts = Counted {
            below: plan("SELECT value FROM generate_series(1, 9) ORDER BY value DESC").await,
            looks: AtomicUsize::new(0),
        };
        let looks = || sorts.looks.load(Ordering::Relaxed);
        let first = Admission::of(&session, &sorts, None, true).await.unwrap();
        assert_eq!(looks(), 0, "memory is free");
        let pool = &first.memory.environment(&session).memory_pool;
        let table = MemoryConsumer::new("join").register(pool);
        while table.try_grow(64 << 10).is_ok() {}
        let second = Admission::of(&session, &sorts, None, true).await.unwrap();
        assert!(second.promise.is_some() && looks() > 0, "memory is short");
        drop(table);
    }

    /// By its statistics the join needs a MB. Its table has 200 rows.
    #[tokio::test]
    async fn what_is_promised_for_a_table_is_free_when_the_table_is_there() {
        let config = EngineConfig {
            memory_bytes: Some(256 << 20),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).unwrap();
        let session = engine.session().context().runtime_env();
        let one = SessionConfig::new().with_target_partitions(1);
        let few = "SELECT b.k FROM (SELECT k FROM large WHERE k % 1000 = 0) a \
             JOIN large b ON a.k = b.k";
        let join = plan_in(SessionContext::new_with_config(one), few).await;
        let join = YieldingExec::new(join, GivesWay::AfterBatches);
        let first = Admission::of(&session, &join, None, true).await.unwrap();
        assert!(first.promise.is_none(), "memory is free");
        let pool = &first.memory.environment(&session).memory_pool;
        let table = MemoryConsumer::new("join").register(pool);
        while table.try_grow(64 << 10).is_ok() {}
        let second = Admission::of(&session, &join, None, true).await.unwrap();
        assert!(second.promise.is_some(), "it is small");
        let promised = || second.memory.record().look().promised;
        let before = promised();
        assert!(before > 500_000, "{before} bytes");
        let environment = second.memory.environment(&session);
        let context = Arc::new(TaskContext::default().with_runtime(environment));
        let mut rows = join.execute(0, context).unwrap();
        assert_eq!(promised(), before, "the table is not there yet");
        rows.next().await.unwrap().unwrap();
        assert!(promised() < before / 4, "{} of {before} bytes", promised());
        drop((rows, table));
    }

    #[tokio::test]
    async fn where_memory_is_short_only_large_plans_that_hold_rows_wait() {
        let config = EngineConfig {
            memory_bytes: Some(64 << 20),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).unwrap();
        let session = engine.session().context().runtime_env();
        let joins = plan("SELECT a.k FROM large a JOIN large b ON a.k = b.k").await;
        let sorts = plan("SELECT value FROM generate_series(1, 9) ORDER BY value DESC").await;
        let passes = plan("SELECT value FROM generate_series(1, 9)").await;
        let first = Admission::of(&session, joins.as_ref(), None, true)
            .await
            .unwrap();
        assert!(first.promise.is_none(), "memory is free");
        let pool = &first.memory.environment(&session).memory_pool;
        let table = MemoryConsumer::new("join").register(pool);
        while table.try_grow(64 << 10).is_ok() {}
        for (plan, may_wait) in [(&passes, true), (&joins, false)] {
            let begun = Admission::of(&session, plan.as_ref(), None, may_wait).await;
            assert!(begun.unwrap().promise.is_none());
        }
        let small = Admission::of(&session, sorts.as_ref(), None, true)
            .await
            .unwrap();
        assert!(small.promise.is_some(), "it is small");
        let pool = &small.memory.environment(&session).memory_pool;
        let sort = MemoryConsumer::new("sort").register(pool);
        sort.try_grow(64 << 10).expect("it was promised");
        let mut waits = Box::pin(Admission::of(&session, joins.as_ref(), None, true));
        assert!(poll!(&mut waits).is_pending());
        drop((table, first));
        assert!(waits.await.unwrap().promise.is_some());
    }
}
