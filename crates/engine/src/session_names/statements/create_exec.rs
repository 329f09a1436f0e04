//! How are the rows of a new table collected?
//!
//! Partition by partition, at the same time, in the memory of the query. When all are there the
//! table takes them over. It stops when it is dropped, or after the first error.
//! Not here: how the table appears (`create.rs`).

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::internal_err;
use datafusion::common::runtime::JoinSet;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions, execute_stream_partitioned,
};
use futures::{StreamExt, stream};

use crate::commit_point::Run;
use crate::session_names::allowance::{Growth, Held};
use crate::session_names::table::bytes_of;

/// Gives the rows of each partition to a new table.
type Appear = dyn Fn(Vec<Vec<RecordBatch>>, &Run) -> Result<()> + Send + Sync;

/// Where the rows go.
#[derive(Clone)]
pub(super) struct NewRows {
    /// The table's name.
    pub(super) name: String,
    /// The account that has their memory when they appear.
    pub(super) held: Arc<Held>,
    pub(super) appear: Arc<Appear>,
}

/// Creates a table from the rows of its child, and returns their number.
pub(super) struct CreateTableExec {
    table: NewRows,
    child: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl CreateTableExec {
    pub(super) fn new(table: NewRows, child: Arc<dyn ExecutionPlan>) -> Self {
        let count = Field::new("count", DataType::UInt64, false);
        let schema = Arc::new(Schema::new(vec![count]));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            table,
            child,
            properties: Arc::new(properties),
        }
    }
}

impl fmt::Debug for CreateTableExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateTableExec")
            .field("table", &self.table.name)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for CreateTableExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CreateTableExec: {}", self.table.name)
    }
}

impl ExecutionPlan for CreateTableExec {
    fn name(&self) -> &'static str {
        "CreateTableExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.child]
    }

    /// The table has the rows in the order of the query, which keeps its sort.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(child), true) => Ok(Arc::new(Self::new(self.table.clone(), child))),
            _ => internal_err!("a CreateTableExec has one child"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a CreateTableExec has one partition");
        }
        let (table, schema) = (self.table.clone(), self.schema());
        let counted = Arc::clone(&schema);
        let run = Run::of(context.session_config());
        let pool = Arc::clone(context.memory_pool());
        let streams = execute_stream_partitioned(Arc::clone(&self.child), context)?;
        let created = stream::once(async move {
            let rows = collect(streams, &table.held, &pool).await?;
            let count: usize = rows.iter().flatten().map(RecordBatch::num_rows).sum();
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            (table.appear)(rows, &run)?;
            let count: ArrayRef = Arc::new(UInt64Array::from(vec![count]));
            Ok(RecordBatch::try_new(counted, vec![count])?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            created.boxed(),
        )))
    }
}

/// Collects all rows, partition by partition.
async fn collect(
    streams: Vec<SendableRecordBatchStream>,
    held: &Arc<Held>,
    pool: &Arc<dyn MemoryPool>,
) -> Result<Vec<Vec<RecordBatch>>> {
    let mut partitions = vec![vec![]; streams.len()];
    let mut tasks = JoinSet::new();
    for (n, stream) in streams.into_iter().enumerate() {
        let growth = held.growth_in(pool);
        tasks.spawn(async move { (n, gather(stream, growth).await) });
    }
    let mut growths = Vec::with_capacity(partitions.len());
    while let Some(ended) = tasks.join_next().await {
        let (n, gathered) = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => return Err(DataFusionError::External(Box::new(error))),
        };
        let (batches, growth) = gathered?;
        partitions[n] = batches;
        growths.push(growth);
    }
    growths.into_iter().for_each(Growth::keep);
    Ok(partitions)
}

async fn gather(
    mut rows: SendableRecordBatchStream,
    mut growth: Growth,
) -> Result<(Vec<RecordBatch>, Growth)> {
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await.transpose()? {
        growth.add(bytes_of(&batch))?;
        batches.push(batch);
    }
    Ok((batches, growth))
}
