//! What happens to a query whose client does not read, while other queries need its memory?
//!
//! A query keeps its hash tables until its client has taken the last row. Three joins whose
//! clients have stopped reading can hold all memory; then every other join would be refused for as
//! long as the three clients like. So the server tells the core which clients have not come back.
//! When memory is short, the core ends such queries, and when a lowered limit leaves no room, the
//! youngest.
//! Not here: which query ends, and when (`coscan_core::memory`); where the rows wait meanwhile
//! (`waiting.rs`); idle sessions (`connection.rs`); what happens to a query that was refused
//! (`shortage.rs`).
//! Bounds: one pass per second over all running queries.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use coscan::QueryMemory;
use tokio::time::Instant;

use crate::failure::{Failure, OUT_OF_MEMORY};
use crate::waiting::Queue;

/// The interval between two passes, and the time after which an idle client counts as silent.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The running queries of a server.
#[derive(Default)]
pub(crate) struct Stalled {
    queries: Mutex<Vec<Entered>>,
}

struct Entered {
    queue: Weak<Queue>,
    memory: Weak<QueryMemory>,
    is_silent: bool,
}

impl Stalled {
    /// Registers a query that begins to run. Its rows wait in `queue`.
    pub(crate) fn enter(&self, queue: &Arc<Queue>, memory: &Arc<QueryMemory>) {
        let ended = Arc::downgrade(queue);
        memory.on_end(move || {
            if let Some(queue) = ended.upgrade() {
                let idle = queue.idle(Instant::now());
                log::warn!(
                    "a query ends for lack of memory; its client was last active {idle:?} ago"
                );
                queue.end(|| why(idle));
            }
        });
        let mut queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        queries.push(Entered {
            queue: Arc::downgrade(queue),
            memory: Arc::downgrade(memory),
            is_silent: false,
        });
    }

    /// Tells the core which clients have become silent or active.
    pub(crate) fn look(&self) {
        let now = Instant::now();
        let mut queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        queries.retain_mut(|query| {
            let (Some(queue), Some(memory)) = (query.queue.upgrade(), query.memory.upgrade())
            else {
                return false;
            };
            let is_silent = queue.idle(now) >= LOOK_EVERY;
            if is_silent != query.is_silent {
                query.is_silent = is_silent;
                memory.silent(is_silent);
            }
            true
        });
    }
}

/// The error for the client of an ended query.
fn why(idle: Duration) -> Failure {
    let seconds = idle.as_secs();
    let text = if idle < LOOK_EVERY {
        "the query was ended: there is less memory than queries have".to_owned()
    } else {
        format!(
            "the query was ended: its rows had not been read for {seconds} s, and others needed its memory"
        )
    };
    Failure::new(OUT_OF_MEMORY, text)
}

#[cfg(test)]
mod tests {
    use coscan::{Engine, EngineConfig};
    use datafusion::arrow::datatypes::Schema;
    use datafusion::execution::memory_pool::MemoryConsumer;

    use super::*;
    use crate::waiting::Taken;

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
        let stalled = Stalled::default();
        stalled.enter(&queue, &memory);
        stalled.look();
        assert!(!queue.has_ended());
        engine.memory().set_limit(16 << 20);
        assert!(queue.has_ended());
        let Taken::Batch(Err(failure), _) = queue.take() else {
            panic!("its client gets no error");
        };
        assert!(failure.to_string().contains("less memory"), "{failure}");
    }
}
