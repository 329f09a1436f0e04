//! How much memory does a plan need at least?
//!
//! A rough estimate, for queries that arrive while memory is short, and for those that were refused
//! some: what the operators hold that cannot give their memory back while they run. A join holds
//! its build side, by DataFusion's statistics; one without statistics counts [`UNKNOWN_BYTES`].
//! Sorts spill, and aggregates emit or spill their groups, so they need what they begin with.
//! Not here: who waits, and for how long (`coscan_core::memory`).

use arrow::datatypes::{DataType, Schema};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use crate::operators::SharedHashJoinExec;
use crate::tasks::{GivesWay, YieldingExec};

/// A build side whose statistics say nothing.
const UNKNOWN_BYTES: u64 = 1 << 20;

/// An operator that holds a few batches: the most bytes, and the part of the memory (a divisor), of
/// which several make a query that is small for the core.
const BATCHES_MAX: u64 = 1 << 20;
const BATCHES: u64 = 512;

/// The bytes of a value without a fixed width.
const TEXT_BYTES: u64 = 32;

/// What a row takes in a hash table beside its columns: its hash, its place in the chain.
const ROW_BYTES: u64 = 16;

/// What the operators of a plan need at least; nothing for one that holds no rows.
pub(crate) struct Minimum<'a> {
    /// Bytes of the operators that hold some batches.
    batches: u64,
    /// The nodes of which an operator holds all rows.
    held: Vec<&'a dyn ExecutionPlan>,
    /// The streams of the nodes above joins, each of which is opened once at most.
    joined: usize,
    /// Whether some nodes may be executed several times.
    repeats: bool,
}

impl<'a> Minimum<'a> {
    /// Walks the plan, for a memory of `limit` bytes.
    pub(crate) fn of(plan: &'a dyn ExecutionPlan, limit: u64) -> Self {
        let mut all = Self {
            batches: 0,
            held: vec![],
            joined: 0,
            repeats: false,
        };
        all.add(plan, (limit / BATCHES).min(BATCHES_MAX));
        all
    }

    /// In bytes, by statistics. Computing these takes time.
    pub(crate) fn bytes(&self) -> u64 {
        let statistics = StatisticsContext::new();
        let rows = self.held.iter();
        rows.map(|node| rows_bytes(*node, &statistics).unwrap_or(UNKNOWN_BYTES))
            .fold(self.batches, u64::saturating_add)
    }

    /// What the operators need that hold batches, in bytes.
    pub(crate) fn batches(&self) -> u64 {
        self.batches
    }

    /// How many streams return something when all tables of joins are complete, at the latest; 0 if
    /// that is not known.
    pub(crate) fn joined(&self) -> usize {
        if self.repeats { 0 } else { self.joined }
    }

    /// In bytes; `None` if it depends on statistics, which may be far too low.
    pub(crate) fn certain(&self) -> Option<u64> {
        self.held.is_empty().then_some(self.batches)
    }

    fn add(&mut self, plan: &'a dyn ExecutionPlan, batches: u64) {
        let yielding = plan.downcast_ref::<YieldingExec>();
        if yielding.is_some_and(|node| *node.way() == GivesWay::AfterBatches) {
            self.joined += plan.properties().output_partitioning().partition_count();
        }
        self.repeats |= plan.is::<RecursiveQueryExec>();
        match holds(plan) {
            Holds::Nothing => {}
            Holds::Batches => self.batches = self.batches.saturating_add(batches),
            Holds::RowsOf(node) => self.held.push(node),
        }
        let loops = plan.is::<NestedLoopJoinExec>();
        for (at, child) in plan.children().into_iter().enumerate() {
            let joined = self.joined;
            self.add(child.as_ref(), batches);
            // It executes its left side once more if that finds no memory.
            self.repeats |= loops && at == 0 && self.joined > joined;
        }
    }
}

/// What an operator holds while it runs.
enum Holds<'a> {
    Nothing,
    /// Some batches.
    Batches,
    /// All rows that this node returns.
    RowsOf(&'a dyn ExecutionPlan),
}

fn holds(plan: &dyn ExecutionPlan) -> Holds<'_> {
    let joins = plan.is::<HashJoinExec>()
        || plan.is::<SharedHashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>();
    if joins {
        let build = plan.children().into_iter().next();
        return build.map_or(Holds::Batches, |build| Holds::RowsOf(build.as_ref()));
    }
    let has_groups = plan
        .downcast_ref::<AggregateExec>()
        .is_some_and(|aggregate| !aggregate.group_expr().is_empty());
    let holds_batches = has_groups
        || plan.is::<SortExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<WindowAggExec>()
        || plan.is::<BoundedWindowAggExec>();
    if holds_batches {
        Holds::Batches
    } else {
        Holds::Nothing
    }
}

/// The bytes of a node's rows; `None` if the statistics do not say how many.
fn rows_bytes(node: &dyn ExecutionPlan, statistics: &StatisticsContext) -> Option<u64> {
    // Statistics that fail say nothing, and are no reason to fail.
    let known = statistics.compute(node, &StatisticsArgs::new()).ok()?;
    let rows = *known.num_rows.get_value()? as u64;
    Some(rows.saturating_mul(row_bytes(&node.schema())))
}

fn row_bytes(schema: &Schema) -> u64 {
    let width = |kind: &DataType| {
        kind.primitive_width()
            .map_or(TEXT_BYTES, |bytes| bytes as u64)
    };
    let columns = schema.fields().iter();
    columns.map(|field| width(field.data_type())).sum::<u64>() + ROW_BYTES
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
    use datafusion::prelude::SessionContext;

    use super::*;

    async fn minimum(sql: &str) -> (u64, Option<u64>) {
        let context = SessionContext::new();
        let small = "CREATE TABLE small AS SELECT value AS k FROM generate_series(1, 1000)";
        context.sql(small).await.unwrap();
        let plan = context.sql(sql).await.unwrap();
        let plan = plan.create_physical_plan().await.unwrap();
        let minimum = Minimum::of(plan.as_ref(), 1 << 30);
        (minimum.bytes(), minimum.certain())
    }

    #[tokio::test]
    async fn only_plans_that_hold_rows_need_memory() {
        for sql in [
            "SELECT 1",
            "SELECT k + 1 FROM small WHERE k > 5 LIMIT 3",
            "SELECT count(*), sum(k) FROM small",
        ] {
            assert_eq!(minimum(sql).await, (0, Some(0)), "{sql}");
        }
        for sql in [
            "SELECT k % 10, count(*) FROM small GROUP BY 1",
            "SELECT * FROM small ORDER BY k",
            "SELECT k, rank() OVER (ORDER BY k) FROM small",
        ] {
            let (bytes, certain) = minimum(sql).await;
            assert!(bytes > 0, "{sql}");
            assert_eq!(certain, Some(bytes), "{sql}: it asked for no statistics");
        }
    }

    #[tokio::test]
    async fn streams_are_not_counted_where_they_may_be_opened_twice() {
        let context = SessionContext::new();
        let small = "CREATE TABLE small AS SELECT value AS k FROM generate_series(1, 1000)";
        context.sql(small).await.unwrap();
        let plan = async |sql: &str| {
            let frame = context.sql(sql).await.unwrap();
            frame.create_physical_plan().await.unwrap()
        };
        let scan = plan("SELECT k FROM small").await;
        let mut join = plan("SELECT * FROM small a JOIN small b ON a.k < b.k").await;
        while !join.is::<NestedLoopJoinExec>() {
            let below = join.children().into_iter().next().map(Arc::clone);
            join = below.expect("there is one");
        }
        let told = YieldingExec::new(scan, GivesWay::AfterBatches);
        let told: Arc<dyn ExecutionPlan> = Arc::new(told);
        let streams = told.properties().output_partitioning().partition_count();
        assert_eq!(Minimum::of(told.as_ref(), 1 << 30).joined(), streams);
        for (at, expected) in [(0, 0), (1, streams)] {
            let mut sides: Vec<_> = join.children().into_iter().map(Arc::clone).collect();
            sides[at] = Arc::clone(&told);
            let join = replace_children_if_necessary(Arc::clone(&join), sides).unwrap();
            assert_eq!(
                Minimum::of(join.as_ref(), 1 << 30).joined(),
                expected,
                "{at}"
            );
        }
    }

    #[tokio::test]
    async fn a_join_needs_its_build_side() {
        let join = "SELECT * FROM small a JOIN small b ON a.k = b.k + 1";
        let rows = 1000 * (8 + ROW_BYTES);
        let (bytes, certain) = minimum(join).await;
        assert!((rows..2 * rows).contains(&bytes), "{bytes}");
        assert_eq!(certain, None, "statistics may be wrong");
    }
}
