//! What a query was promised, and until when.

use std::sync::Arc;
use std::time::Duration;

use super::QueryMemory;

/// How long a query waits for what it needs: enough for queries ahead in the queue, and for ending
/// queries whose clients do not read.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// A promise to a query. Dropping this ends it: the query has its first rows.
pub(crate) struct Promise(Arc<QueryMemory>);

impl Promise {
    pub(crate) fn of(memory: &Arc<QueryMemory>) -> Self {
        Self(Arc::clone(memory))
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.0.needs_less(0);
    }
}
