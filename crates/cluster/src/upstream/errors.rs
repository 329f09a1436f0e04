//! How does an error travel, so that it arrives as what it was?
//!
//! The library sends the kind of an error and its text, and makes a text of everything that is not
//! DataFusion's own. So the root of a part makes texts of three kinds of errors that are read again
//! where they arrive: PostgreSQL's, with their SQLSTATE, those of a node that is lost, and those of
//! a node without memory, with what the query would need there. Where a part panics, the library
//! ends its rows as if they were all; the root makes an error of that.
//! Not here: a panic of the library's own encoder above the root; what a part's memory is
//! (`memory.rs`).

use std::error::Error;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::RecordBatch;
use coscan::parts::{self, LostNode, PartsMemory, RowsAwaited, ShortNode};
use coscan::running::panicked;
use coscan_pg::{PgError, Way};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;

use super::analyze::as_metrics;
use super::memory;

/// What an error's text begins with. No text of a user's begins so.
const PG_ERROR: &str = "\u{1}pg ";
const LOST: &str = "\u{1}lost ";
const SHORT: &str = "\u{1}short ";
const OTHER_VERSION: &str = "\u{1}version ";

/// An error as a text that [`arrived`] reads.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Sent(String);

/// The error as it is sent to another node. `memory`: that of the part that has failed.
fn sent(error: DataFusionError, memory: Option<&PartsMemory>) -> DataFusionError {
    let short = || {
        let known = ShortNode::of(&error).cloned();
        known.or_else(|| memory?.short(&error))
    };
    let text = if let Some(ours) = PgError::of(&error) {
        format!("{PG_ERROR}{}", ours.to_sent())
    } else if let Some(LostNode { node, reason }) = LostNode::of(&error) {
        format!("{LOST}{node} {reason}")
    } else if let Some(ShortNode { needed, said }) = short() {
        format!("{SHORT}{needed} {said}")
    } else {
        return error;
    };
    DataFusionError::External(Box::new(Sent(text)))
}

/// The refusal of a part that comes from a process of another version than `ours`.
pub(super) fn other_version(ours: &str) -> DataFusionError {
    DataFusionError::External(Box::new(Sent(format!("{OTHER_VERSION}{ours}"))))
}

/// An error from another node.
pub(super) enum Arrived {
    /// The node has this version, and refuses parts of ours.
    OtherVersion(String),
    /// The node has lost a third node.
    Lost(LostNode),
    /// Any other error, as it was on the node.
    Other(DataFusionError),
}

/// Reads what [`sent`] wrote.
pub(super) fn arrived(error: DataFusionError) -> Arrived {
    let root: &(dyn Error + 'static) = match error.find_root() {
        DataFusionError::External(inner) => inner.as_ref(),
        _ => return Arrived::Other(error),
    };
    let text = root.to_string();
    if let Some(theirs) = text.strip_prefix(OTHER_VERSION) {
        return Arrived::OtherVersion(theirs.to_owned());
    }
    if let Some((node, reason)) = text
        .strip_prefix(LOST)
        .and_then(|lost| lost.split_once(' '))
    {
        let (node, reason) = (node.to_owned(), reason.to_owned());
        return Arrived::Lost(LostNode { node, reason });
    }
    if let Some(short) = text.strip_prefix(SHORT).and_then(short_of) {
        return Arrived::Other(short.into());
    }
    match text.strip_prefix(PG_ERROR).and_then(PgError::sent) {
        Some(pg) => Arrived::Other(pg.into()),
        None => Arrived::Other(error),
    }
}

/// What follows [`SHORT`].
fn short_of(text: &str) -> Option<ShortNode> {
    let (needed, said) = text.split_once(' ')?;
    Some(ShortNode {
        needed: needed.parse().ok()?,
        said: said.to_owned(),
    })
}

/// The rows, and an error instead of a panic.
fn until_panic(
    rows: impl Stream<Item = Result<RecordBatch>> + Send,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    AssertUnwindSafe(rows)
        .catch_unwind()
        .map(|caught| caught.unwrap_or_else(|payload| Err(panicked(payload.as_ref()))))
}

/// Errors are on their way to another node.
#[derive(Clone, Debug)]
pub(super) struct SentErrors {
    /// Whether the rows are kept until several tasks have read them. The library counts the
    /// buffers of each batch in full, though others have them too: those of a join's texts are the
    /// build side's.
    is_kept: bool,
    /// The memory of the part; `None` for one of no query.
    memory: Option<Arc<PartsMemory>>,
    /// For each partition that has not begun.
    awaited: Arc<Mutex<Vec<Option<Arc<RowsAwaited>>>>>,
}

impl SentErrors {
    /// For the partitions of a part.
    pub(super) fn new(
        part: &Arc<dyn ExecutionPlan>,
        is_kept: bool,
        memory: Option<&Arc<PartsMemory>>,
    ) -> Self {
        let partitions = part.output_partitioning().partition_count();
        let awaited = memory.map(PartsMemory::rows_awaited);
        Self {
            is_kept,
            memory: memory.cloned(),
            awaited: Arc::new(Mutex::new(vec![awaited; partitions])),
        }
    }

    fn rows(
        &self,
        part: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let Some(memory) = &self.memory else {
            return Ok(part.execute(partition, context)?.boxed());
        };
        let rows = memory::rows(memory, part, partition, context)?;
        let awaited = self.awaited.lock().get_mut(partition).map(Option::take);
        let mut awaited = awaited.flatten();
        let begun = move |_: &Result<RecordBatch>| drop(awaited.take());
        Ok(rows.inspect(begun).boxed())
    }
}

impl Way for SentErrors {
    const NAME: &'static str = "SentErrorsExec";

    fn over(&self, _: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        Some(self.clone())
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = self.memory.clone();
        let as_sent = move |error| sent(error, memory.as_deref());
        let rows = self.rows(input, partition, context).map_err(&as_sent)?;
        let (schema, is_kept) = (input.schema(), self.is_kept);
        let as_kept = move |batch| {
            if is_kept {
                parts::compacted(&batch)
            } else {
                Ok(batch)
            }
        };
        let rows = until_panic(rows).map(move |batch| batch.and_then(as_kept).map_err(&as_sent));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// What EXPLAIN ANALYZE shows of the task; asked for once it has ended.
    fn metrics(&self, input: &dyn ExecutionPlan) -> Option<MetricsSet> {
        Some(as_metrics(input))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;
    use coscan_pg::OverExec;
    use datafusion::datasource::memory::MemorySourceConfig;

    use super::*;

    /// What the library makes of an error that is not DataFusion's.
    fn carried(error: &DataFusionError) -> DataFusionError {
        let DataFusionError::External(inner) = error else {
            panic!("{error} is not external");
        };
        DataFusionError::Shared(Arc::new(DataFusionError::External(
            inner.to_string().into(),
        )))
    }

    #[test]
    fn errors_arrive_as_they_were() {
        let division = PgError::division_by_zero();
        let shared = DataFusionError::Shared(Arc::new(division.clone().into()));
        let Arrived::Other(there) = arrived(carried(&sent(shared, None))) else {
            panic!("not an error of a row");
        };
        assert_eq!(PgError::of(&there), Some(&division));

        let lost = LostNode {
            node: "[::1]:50051".to_owned(),
            reason: "no answer within 5 s".to_owned(),
        };
        let there = arrived(carried(&sent(lost.clone().into(), None)));
        assert!(matches!(there, Arrived::Lost(there) if there == lost));
        let there = arrived(carried(&other_version("0.9")));
        assert!(matches!(there, Arrived::OtherVersion(theirs) if theirs == "0.9"));

        let short = ShortNode {
            needed: 5 << 20,
            said: "join needs 7 more bytes".to_owned(),
        };
        let Arrived::Other(there) = arrived(carried(&sent(short.clone().into(), None))) else {
            panic!("not an error of a part");
        };
        assert_eq!(ShortNode::of(&there), Some(&short));

        let other = arrived(sent(DataFusionError::External("a b c".into()), None));
        assert!(matches!(other, Arrived::Other(other) if PgError::of(&other).is_none()));
    }

    #[tokio::test]
    async fn a_panic_is_no_end_of_rows() {
        let empty = RecordBatch::new_empty(Arc::new(arrow::datatypes::Schema::empty()));
        let rows = futures::stream::iter([false, true]).map(move |panics| {
            assert!(!panics, "in an operator");
            Ok(empty.clone())
        });
        let rows: Vec<_> = until_panic(rows).collect().await;
        assert!(rows[0].is_ok());
        let error = rows[1].as_ref().unwrap_err().to_string();
        assert!(error.contains("in an operator"), "{error}");
        assert_eq!(rows.len(), 2);
    }

    #[tokio::test]
    async fn kept_rows_hold_no_more_than_they_refer_to() {
        let text = |at: usize| format!("{at:020}");
        let texts: StringViewArray = (0..10_000).map(|at| Some(text(at))).collect();
        let all = RecordBatch::try_from_iter([("t", Arc::new(texts) as _)]).unwrap();
        let few = all.slice(5_000, 10);
        let held = few.get_array_memory_size();
        let input = MemorySourceConfig::try_new_exec(&[vec![few.clone()]], few.schema(), None);
        let input = input.unwrap();
        for (is_kept, most) in [(true, held / 100), (false, held)] {
            let part: Arc<dyn ExecutionPlan> = Arc::clone(&input) as _;
            let way = SentErrors::new(&part, is_kept, None);
            let plan = OverExec::new(part, way);
            let rows: Vec<_> = plan.execute(0, Arc::default()).unwrap().collect().await;
            let [Ok(batch)] = rows.as_slice() else {
                panic!("{rows:?}");
            };
            assert_eq!(*batch, few);
            assert!(batch.get_array_memory_size() <= most);
        }
    }
}
