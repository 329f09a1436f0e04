//! What happens to a query whose client does not read, while other queries need its memory?
//!
//! A query keeps its hash tables until its client has taken the last row. Three joins whose
//! clients have stopped reading can hold all memory; then every other join would be refused for as
//! long as the three clients like. So the engine tells the core which clients have not come back.
//! When memory is short, the core ends such queries, and when a lowered limit leaves no room, the
//! youngest.
//! The keeper of a waiting batch notices the silence; the client's side notices its end.
//! Not here: which query ends, and when (`coscan_core::memory`); where the rows wait meanwhile
//! (`queue.rs`); what becomes of a query that was refused (`rerun.rs`).
//! Bounds: a query without a batch that waits is not silent: its operators are at work.

use std::time::Duration;

use datafusion::error::DataFusionError;
use parking_lot::Mutex;

use crate::error::{Error, engine_error};
use crate::memory::QueryMemory;

/// After what time a client does not come back.
pub(super) const SILENT_AFTER: Duration = Duration::from_secs(1);

/// What the core was told of a query's client.
#[derive(Default)]
pub(super) struct Silence(Mutex<bool>);

impl Silence {
    /// Reports to the core whether the client is silent, if that has changed. `is_silent` is called
    /// under the lock, so that two callers cannot report in the wrong order.
    pub(super) fn tell(&self, memory: &QueryMemory, is_silent: impl FnOnce() -> bool) {
        let mut told = self.0.lock();
        let is_silent = is_silent();
        if is_silent != *told {
            *told = is_silent;
            memory.silent(is_silent);
        }
    }
}

#[cfg(test)]
impl Silence {
    pub(super) fn was_told(&self) -> bool {
        *self.0.lock()
    }
}

/// The [`Error::Ended`] that a failure is, if any.
pub(super) fn ended(failure: &DataFusionError) -> Option<&Error> {
    let DataFusionError::External(error) = failure else {
        return None;
    };
    let error = error.downcast_ref();
    error.filter(|error| matches!(error, Error::Ended { .. }))
}

/// The error for the client of an ended query.
pub(super) fn why(idle: Duration) -> DataFusionError {
    engine_error(Error::Ended {
        unread: (idle >= SILENT_AFTER).then_some(idle),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{RecordBatch, RecordBatchOptions};
    use arrow::datatypes::Schema;
    use datafusion::execution::memory_pool::MemoryConsumer;

    use super::super::queue::{Queue, Taken};
    use super::*;
    use crate::{Engine, EngineConfig};

    #[tokio::test(start_paused = true)]
    async fn a_client_with_a_waiting_batch_is_silent_until_it_takes_it() {
        let engine = Engine::new(EngineConfig::default()).unwrap();
        let session = engine.session().context().runtime_env();
        let memory = QueryMemory::of_session(&session).unwrap();
        let schema = Arc::new(Schema::empty());
        let environment = memory.environment(&session);
        let queue = Arc::new(Queue::new(Arc::clone(&schema), environment, 1));
        let batch = || {
            let rows = RecordBatchOptions::new().with_row_count(Some(1));
            RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &rows).unwrap()
        };
        for asks_first in [false, true] {
            if asks_first {
                assert!(matches!(queue.take(), Taken::NotYet));
            }
            let number = queue.put(Ok(batch())).unwrap();
            let kept = tokio::spawn({
                let queue = Arc::clone(&queue);
                async move { queue.keep(number).await }
            });
            tokio::time::sleep(SILENT_AFTER / 2).await;
            assert!(!queue.is_silent());
            tokio::time::sleep(SILENT_AFTER).await;
            assert!(queue.is_silent());
            // It may be on disk.
            while matches!(queue.take(), Taken::NotYet) {
                assert!(!queue.is_silent(), "it waits");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert!(!queue.is_silent());
            kept.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_query_ends_where_a_lower_limit_leaves_no_room() {
        let config = EngineConfig {
            memory_bytes: Some(64 << 20),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).unwrap();
        let session = engine.session().context().runtime_env();
        let memory = QueryMemory::of_session(&session).unwrap();
        let environment = memory.environment(&session);
        let join = MemoryConsumer::new("join").register(&environment.memory_pool);
        join.try_grow(32 << 20).unwrap();
        let queue = Arc::new(Queue::new(Arc::new(Schema::empty()), environment, 1));
        queue.may_be_ended();
        assert!(!queue.has_ended());
        engine.memory().set_limit(16 << 20);
        assert!(queue.has_ended());
        let Taken::Batch(Err(told), _) = queue.take() else {
            panic!("its client is not told");
        };
        assert!(told.to_string().contains("coscan.memory"), "{told}");
    }
}
