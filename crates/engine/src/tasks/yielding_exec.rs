//! The plan node whose streams give way to other tasks.

use std::fmt;
use std::sync::Arc;

use coscan_pg::{OverExec, Way};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;

use super::pieces::Pieces;
use super::yielding::yielding;
use crate::memory::telling;

/// A plan node whose streams give way.
pub(crate) type YieldingExec = OverExec<GivesWay>;

/// How a node's streams give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivesWay {
    /// After each batch: for operators that return many batches for each one that they read. The
    /// first one tells the query's memory that a join's table is complete.
    AfterBatches,
    /// Also within batches, which the stream returns in pieces that keep a join busy for a fifth
    /// of a second each: for the probe side of a join.
    InPieces {
        /// The join is one of nested loops.
        for_loops: bool,
    },
}

impl Way for GivesWay {
    const NAME: &'static str = "YieldingExec";

    fn over(&self, _: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        Some(*self)
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = input.execute(partition, Arc::clone(&context))?;
        Ok(match *self {
            Self::AfterBatches => telling(yielding(rows), context),
            Self::InPieces { for_loops } => Box::pin(Pieces::new(rows, for_loops)),
        })
    }

    fn show(&self, _: &Arc<dyn ExecutionPlan>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AfterBatches => Ok(()),
            Self::InPieces { .. } => f.write_str(": in pieces"),
        }
    }
}
