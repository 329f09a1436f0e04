//! Which execution of a plan does a stream belong to?
//!
//! The executions of a plan come one after the other. The streams of an execution share it and
//! keep it alive. The plan does not, so the last stream that is dropped ends the scan, however
//! long the plan lives.

use std::sync::Arc;

use datafusion::common::exec_datafusion_err;
use datafusion::datasource::source::OpenArgs;
use datafusion::error::Result;
use parking_lot::Mutex;

/// Creates executions and hands them to the streams that belong to them.
pub(crate) struct Executions<E> {
    make: Box<dyn Fn() -> E + Send + Sync>,
    partitions: usize,
    /// The execution that has partitions that are not open yet.
    opening: Mutex<Option<Opening<E>>>,
}

struct Opening<E> {
    execution: Arc<E>,
    opened: Vec<bool>,
}

impl<E: Send + Sync + 'static> Executions<E> {
    pub(crate) fn new(partitions: usize, make: impl Fn() -> E + Send + Sync + 'static) -> Self {
        Self {
            make: Box::new(make),
            partitions,
            opening: Mutex::new(None),
        }
    }

    /// The execution that a stream being opened belongs to.
    ///
    /// # Errors
    /// As [`Executions::open`]; if the state of the execution is missing.
    pub(crate) fn of(args: &OpenArgs) -> Result<Arc<E>> {
        let executions = args.sibling_state.as_ref();
        let executions = executions.and_then(|state| Arc::clone(state).downcast::<Self>().ok());
        let missing =
            || exec_datafusion_err!("a cooperative scan was opened without its execution's state");
        executions.ok_or_else(missing)?.open(args.partition)
    }

    /// The execution that this partition's stream belongs to.
    ///
    /// # Errors
    /// If the plan is executed while an earlier execution has not opened all its partitions: the
    /// streams of the two could not be distinguished.
    pub(crate) fn open(&self, partition: usize) -> Result<Arc<E>> {
        let mut current = self.opening.lock();
        let again = current
            .as_ref()
            .is_some_and(|c| c.opened.get(partition) != Some(&false));
        if let Some(Opening { execution, .. }) = current.as_ref()
            && again
        {
            // If the only reference is the one here, no stream of that execution is alive.
            if Arc::strong_count(execution) > 1 {
                return Err(exec_datafusion_err!(
                    "a plan with a cooperative scan was executed again while its execution was being started; \
                     reset_plan_states makes a copy that can run beside it"
                ));
            }
            *current = None;
        }
        let opening = current.get_or_insert_with(|| Opening {
            execution: Arc::new((self.make)()),
            opened: vec![false; self.partitions],
        });
        if let Some(opened) = opening.opened.get_mut(partition) {
            *opened = true;
        }
        let execution = Arc::clone(&opening.execution);
        if opening.opened.iter().all(|opened| *opened) {
            *current = None;
        }
        Ok(execution)
    }
}
