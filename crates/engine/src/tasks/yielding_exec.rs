//! The plan node whose streams give way to other tasks.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};

use super::pieces::Pieces;
use super::yielding::yielding;

/// A plan node whose streams give way.
#[derive(Debug)]
pub struct YieldingExec {
    child: Arc<dyn ExecutionPlan>,
    way: Way,
}

/// How a node's streams give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    AfterBatches,
    /// Also within batches, which the stream returns in pieces.
    InPieces {
        for_loops: bool,
    },
}

impl YieldingExec {
    /// Makes the streams of `child` give way after each batch: for operators that return many
    /// batches for each one that they read.
    #[must_use]
    pub fn new(child: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            child,
            way: Way::AfterBatches,
        }
    }

    /// Also cuts the batches of `child` into pieces that keep a join busy for a fifth of a second
    /// each: for the probe side of a join. `for_loops`: the join is one of nested loops.
    #[must_use]
    pub fn in_pieces(child: Arc<dyn ExecutionPlan>, for_loops: bool) -> Self {
        let way = Way::InPieces { for_loops };
        Self { child, way }
    }
}

impl DisplayAs for YieldingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self.way {
            Way::AfterBatches => Ok(()),
            Way::InPieces { .. } => f.write_str(": in pieces"),
        }
    }
}

impl ExecutionPlan for YieldingExec {
    fn name(&self) -> &'static str {
        "YieldingExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.child.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.child]
    }

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
            (Some(child), true) => {
                let way = self.way;
                Ok(Arc::new(Self { child, way }))
            }
            _ => internal_err!("a YieldingExec has one child"),
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
        let rows = self.child.execute(partition, context)?;
        Ok(match self.way {
            Way::AfterBatches => yielding(rows),
            Way::InPieces { for_loops } => Box::pin(Pieces::new(rows, for_loops)),
        })
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [child] => Ok(Arc::clone(child)),
            _ => internal_err!("a YieldingExec has one child"),
        }
    }

    fn fetch(&self) -> Option<usize> {
        self.child.fetch()
    }
}
