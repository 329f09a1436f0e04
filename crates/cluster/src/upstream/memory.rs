//! With which memory do parts run on their node, and what does it say where that is short?
//!
//! The parts of one query have one memory on a node (`coscan::parts::PartsMemory`). A header names
//! the query, and what each node keeps for it: nothing in its first run, then what it would have
//! needed where it was refused. Then the root of a part waits for that before the part runs.
//! Not here: what a refused query does (`coscan`, `running/rerun.rs`); how its error travels
//! (`errors.rs`).
//! Bounds: an entry for each query that has a part on this node.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arrow::array::RecordBatch;
use coscan::Engine;
use coscan::parts::PartsMemory;
use datafusion::common::internal_err;
use datafusion::error::Result as PlanResult;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::error::{Error, Result};

/// The header: the query, and the bytes that each node keeps for it.
const HEADER: &str = "x-coscan-memory";

/// The header of a query's parts.
///
/// # Errors
/// [`Error::UnreadableSettings`]: a bug.
pub(super) fn header(query: Uuid, minimum: u64) -> Result<(&'static str, HeaderValue)> {
    let value = HeaderValue::from_str(&format!("{query} {minimum}"));
    let value = value.map_err(|error| unreadable(&error.to_string()))?;
    Ok((HEADER, value))
}

/// The query that sends a part, and what nodes keep for it; `None` for a part of no query.
fn read(headers: &HeaderMap) -> Result<Option<(Uuid, u64)>> {
    let Some(value) = headers.get(HEADER) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default();
    let parts = text.split_once(' ');
    let parts = parts.and_then(|(query, minimum)| {
        let query = Uuid::parse_str(query).ok()?;
        Some((query, minimum.parse().ok()?))
    });
    match parts {
        Some(parts) => Ok(Some(parts)),
        None => Err(unreadable(&format!("{HEADER}: {text:?}"))),
    }
}

fn unreadable(reason: &str) -> Error {
    Error::UnreadableSettings {
        reason: reason.to_owned(),
    }
}

/// The memory of the queries that have parts on this node.
pub(super) struct Memories {
    engine: Engine,
    of: Mutex<HashMap<Uuid, Weak<PartsMemory>>>,
}

impl Memories {
    pub(super) fn new(engine: Engine) -> Self {
        Self {
            engine,
            of: Mutex::default(),
        }
    }

    /// The memory of the query that sends a part with these headers; `None` for a part of no query.
    ///
    /// # Errors
    /// [`Error::UnreadableSettings`].
    pub(super) fn of(&self, headers: &HeaderMap) -> PlanResult<Option<Arc<PartsMemory>>> {
        let Some((query, minimum)) = read(headers)? else {
            return Ok(None);
        };
        let mut of = self.of.lock();
        if let Some(known) = of.get(&query).and_then(Weak::upgrade) {
            return Ok(Some(known));
        }
        of.retain(|_, known| known.strong_count() > 0);
        let Some(new) = PartsMemory::begin(self.engine.runtime(), minimum) else {
            return internal_err!("a node's engine has no memory of its own");
        };
        of.insert(query, Arc::downgrade(&new));
        Ok(Some(new))
    }
}

/// The rows of a part's partition, which begins when its query is admitted, and fails when its
/// query has to end.
///
/// # Errors
/// The part's.
pub(super) fn rows(
    memory: &Arc<PartsMemory>,
    part: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> PlanResult<BoxStream<'static, PlanResult<RecordBatch>>> {
    let rows = if memory.waits() {
        once_admitted(memory, part, partition, context)
    } else {
        part.execute(partition, context)?.boxed()
    };
    Ok(until_ended(rows, memory))
}

fn once_admitted(
    memory: &Arc<PartsMemory>,
    part: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> BoxStream<'static, PlanResult<RecordBatch>> {
    let (memory, part) = (Arc::clone(memory), Arc::clone(part));
    let begun = async move {
        let environment = memory.admitted().await;
        part.execute(partition, in_environment(&context, environment))
    };
    begun.into_stream().try_flatten().boxed()
}

fn until_ended(
    rows: BoxStream<'static, PlanResult<RecordBatch>>,
    memory: &Arc<PartsMemory>,
) -> BoxStream<'static, PlanResult<RecordBatch>> {
    let memory = Arc::clone(memory);
    let ended = async move { memory.ended().await }.boxed();
    let state = Some((rows, ended));
    futures::stream::unfold(state, |state| async move {
        let (mut rows, mut ended) = state?;
        let next = tokio::select! {
            biased;
            short = &mut ended => return Some((Err(short.into()), None)),
            next = rows.next() => next?,
        };
        Some((next, Some((rows, ended))))
    })
    .boxed()
}

fn in_environment(context: &TaskContext, environment: Arc<RuntimeEnv>) -> Arc<TaskContext> {
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone(),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        environment,
    ))
}

#[cfg(test)]
mod tests {
    use coscan::EngineConfig;

    use super::*;

    #[test]
    fn the_parts_of_a_query_have_one_memory() {
        let memories = Memories::new(Engine::new(EngineConfig::default()).unwrap());
        let of = |query: Uuid, minimum: u64| {
            let (name, value) = header(query, minimum).unwrap();
            let mut headers = HeaderMap::new();
            headers.insert(name, value);
            memories.of(&headers).unwrap().unwrap()
        };
        let queries = [Uuid::new_v4(), Uuid::new_v4()];
        let first = of(queries[0], 0);
        let other = of(queries[1], 1 << 20);
        assert!(Arc::ptr_eq(&first, &of(queries[0], 0)));
        assert!(!Arc::ptr_eq(&first, &other));
        assert!(!first.waits() && other.waits());
        drop((first, other));
        drop(of(Uuid::new_v4(), 0));
        assert_eq!(memories.of.lock().len(), 1, "ended queries are forgotten");
    }

    #[test]
    fn only_what_names_a_query_is_read() {
        assert!(read(&HeaderMap::new()).unwrap().is_none());
        for text in ["", "7", "7 8", "67e55044-10b1-426f-9247-bb680e5fe0c8 x"] {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_static(text));
            assert!(read(&headers).is_err(), "{text}");
        }
    }
}
