//! What a query was promised, and until when.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::QueryMemory;

/// How long a query waits for what it needs: enough for queries ahead in the queue, and for ending
/// queries whose clients do not read.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// A promise to a query. Dropping this ends it: the query has its first rows.
pub(crate) struct Promise {
    memory: Arc<QueryMemory>,
    /// The query's turn among those that nodes of a cluster keep memory for.
    _turn: Option<OwnedSemaphorePermit>,
}

impl Promise {
    pub(crate) fn of(memory: &Arc<QueryMemory>) -> Self {
        Self::in_turn(memory, None)
    }

    /// The same; the turn ends with the promise.
    pub(crate) fn in_turn(memory: &Arc<QueryMemory>, turn: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            memory: Arc::clone(memory),
            _turn: turn,
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.memory.needs_less(0);
    }
}
