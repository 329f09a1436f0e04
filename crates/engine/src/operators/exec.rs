//! The plan node: an operator whose output queries share.
//!
//! The node shows the operator as its child, and the child's properties as its own. A rewrite of
//! the plan below the node removes the node: its key would not describe the new plan.
//! Not here: which operators are wrapped (`plan/share_operators/`), what its streams do
//! (`reader.rs`).

use std::fmt;
use std::sync::Arc;

use coscan_pg::{OverExec, Way};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::first::FirstExecution;
use super::operator::{SharedOperator, Shown};
use super::reader::{Execution, Reader};
use crate::tasks::yielding;

/// The plan node of an operator.
pub(crate) fn share(operator: SharedOperator) -> OverExec<Shares> {
    let child = Arc::clone(&operator.child);
    let shares = Shares {
        operator: Arc::new(operator),
        first: FirstExecution::new(),
        shown: Arc::default(),
    };
    OverExec::new(child, shares)
}

/// Rows that queries share, in the first execution of the node.
pub(crate) struct Shares {
    operator: Arc<SharedOperator>,
    first: FirstExecution<Execution>,
    shown: Arc<Shown>,
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares")
            .field("kind", &self.operator.kind.name())
            .finish_non_exhaustive()
    }
}

impl Way for Shares {
    const NAME: &'static str = "SharedExec";

    fn over(&self, _: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        None
    }

    fn execute(
        &self,
        child: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = child.output_partitioning().partition_count();
        let execution = self.first.open(partition, partitions, || {
            let (operator, context) = (Arc::clone(&self.operator), Arc::clone(&context));
            Execution::new(operator, context, Arc::clone(&self.shown))
        });
        match execution {
            Some(execution) => Ok(yielding(Box::pin(Reader::new(execution, partition)))),
            None => child.execute(partition, context),
        }
    }

    fn show(&self, _: &Arc<dyn ExecutionPlan>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ": {}", self.operator.kind.name())?;
        self.shown.fmt_part(self.operator.query, f)
    }

    fn metrics(&self, _: &dyn ExecutionPlan) -> Option<MetricsSet> {
        Some(self.shown.metrics.clone_inner())
    }
}
