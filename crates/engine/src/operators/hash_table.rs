//! The plan of a run that makes a hash table, which joins of several queries probe.
//!
//! Idea: DataFusion keeps the table of a join in the join itself, and a join that is made from
//! another one has the same table. So the run has a join over nothing to probe. It is over when the
//! table is there; one row without columns says so. Each query probes the table with a join of its
//! own, made from that one.
//! Not here: when the table is made, and for whom (`hash_join.rs`).
//! Source: [QPipe05 §3.2]: the build of a hash join can be joined as long as the table is there.

use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{internal_datafusion_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, HashJoinExecBuilder, PartitionMode};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};

/// What the plan gives.
static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| Arc::new(Schema::empty()));

/// Whether a join's table can be probed by other queries' joins: there is one for all partitions,
/// and probing leaves no trace in it. A shared table may be asked for the bounds of its keys, which
/// nested types do not have.
pub(crate) fn has_shareable_table(join: &HashJoinExec) -> bool {
    let only_reads = matches!(
        join.join_type(),
        JoinType::Inner
            | JoinType::Right
            | JoinType::RightSemi
            | JoinType::RightAnti
            | JoinType::RightMark
    );
    let left = join.left().schema();
    let mut keys = join.on().iter().map(|(key, _)| key.data_type(&left));
    let nested = keys.any(|key| key.is_ok_and(|key| key.is_nested()));
    only_reads
        && !nested
        && !join.null_aware
        && *join.partition_mode() == PartitionMode::CollectLeft
}

/// The plan: makes the table of `of`, and gives one row without columns when it is there.
pub(super) struct HashTableExec {
    of: Arc<dyn ExecutionPlan>,
    /// A join that has the table and nothing to probe it with.
    table: OnceLock<Arc<HashJoinExec>>,
    properties: Arc<PlanProperties>,
}

impl HashTableExec {
    /// `of` is a [`HashJoinExec`] that [`has_shareable_table`].
    pub(super) fn new(of: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&SCHEMA)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            of,
            table: OnceLock::new(),
            properties: Arc::new(properties),
        }
    }

    /// What the run that made the table counted: rows and bytes of the table, time to make it.
    pub(super) fn metrics_of_table(&self) -> Option<MetricsSet> {
        self.table.get()?.metrics()
    }

    /// The join of a query, over the table that this plan has made.
    ///
    /// # Errors
    /// If the plan was not executed; if the join cannot be made.
    pub(super) fn probed_by(&self, query: &HashJoinExec) -> Result<HashJoinExec> {
        let Some(table) = self.table.get() else {
            return internal_err!("a hash table is probed that was not made");
        };
        let children = vec![Arc::clone(table.left()), Arc::clone(query.right())];
        let join = table.builder().with_new_children(children)?;
        let join = join
            .with_on(query.on().to_vec())
            .with_type(*query.join_type())
            .with_filter(query.filter().cloned())
            .with_projection_ref(query.projection.clone())
            .with_fetch(query.fetch())
            .build()?;
        match dynamic_filter(query) {
            Some(filter) => join.with_dynamic_filter_expr(filter),
            None => Ok(join),
        }
    }

    fn table(&self) -> Result<&Arc<HashJoinExec>> {
        if self.table.get().is_none() {
            let table = Arc::new(over_nothing(join(&self.of)?)?);
            let _set_by_another_thread = self.table.set(table);
        }
        let table = self.table.get();
        table.ok_or_else(|| internal_datafusion_err!("a value that was set is missing"))
    }
}

/// The node as a hash join.
///
/// # Errors
/// If it is none.
pub(super) fn join(node: &Arc<dyn ExecutionPlan>) -> Result<&HashJoinExec> {
    let join = node.downcast_ref::<HashJoinExec>();
    join.ok_or_else(|| internal_datafusion_err!("{} is no hash join", node.name()))
}

/// The filter that the join makes for what it probes with.
pub(crate) fn dynamic_filter(join: &HashJoinExec) -> Option<Arc<DynamicFilterPhysicalExpr>> {
    let made = join.dynamic_expressions_produced().into_iter().next()?;
    (made as Arc<dyn std::any::Any + Send + Sync>)
        .downcast()
        .ok()
}

/// A join with the table of `join`, which probes it with nothing. If `join` makes a filter from the
/// table's keys, this one makes one too, because the table's bounds are found only then.
fn over_nothing(join: &HashJoinExec) -> Result<HashJoinExec> {
    let nothing: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(join.right().schema()));
    let keys = join.on().iter().map(|(_, key)| Arc::clone(key)).collect();
    let filter =
        dynamic_filter(join).map(|_| Arc::new(DynamicFilterPhysicalExpr::new(keys, lit(true))));
    let right = match &filter {
        Some(filter) => Arc::new(FilterExec::try_new(Arc::clone(filter) as _, nothing)?) as _,
        None => nothing,
    };
    let left = Arc::clone(join.left());
    let table = HashJoinExecBuilder::new(left, right, join.on().to_vec(), JoinType::Inner)
        .with_partition_mode(PartitionMode::CollectLeft)
        .with_null_equality(join.null_equality())
        .build()?;
    match filter {
        Some(filter) => table.with_dynamic_filter_expr(filter),
        None => Ok(table),
    }
}

impl DisplayAs for HashTableExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for HashTableExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("HashTableExec");
        shown.field("of", &self.of).finish_non_exhaustive()
    }
}

impl ExecutionPlan for HashTableExec {
    fn name(&self) -> &'static str {
        "HashTableExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let made = self.table()?.execute(partition, context)?;
        let made = made.try_collect::<Vec<_>>();
        let rows = stream::once(made).map(|made| {
            made?;
            let one = RecordBatchOptions::new().with_row_count(Some(1));
            Ok(RecordBatch::try_new_with_options(
                Arc::clone(&SCHEMA),
                vec![],
                &one,
            )?)
        });
        let schema = Arc::clone(&SCHEMA);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
