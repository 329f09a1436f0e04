//! What becomes of a query that finds no memory because others have it?
//!
//! Hash tables stay in memory, so several joins that begin together may fill it before one of them
//! is done, and then one is refused that would have run alone. As long as its client has no row of
//! it, nobody can tell when it ran. So what it has done is dropped, which gives others memory, and
//! it is run again when those who were in its way have given back half of what they had.
//!
//! Such queries go on one at a time, each when the one before has its first rows or has failed:
//! otherwise all would take what one of them needs. None waits longer than [`WAIT_MAX`].
//! Not here: clients that do not read, whose queries are ended for those that wait (`stalled.rs`).
//! Refused: holding rows of a join's table back while memory is short. Those who hold back keep
//! what they have, and must not wait for each other; and aggregates and windows need the same.
//! Bounds: [`RUNS_AGAIN`] runs more. One query at a time looks, every [`LOOK_EVERY`].
//!
//! S10: what is run again only reads, and its client has no row of it.

use std::sync::Arc;
use std::time::Duration;

use coscan::tasks::QueryTasks;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, timeout_at};

use crate::failure::Failure;
use crate::parse::Cost;
use crate::stalled::{QueryMemory, Stalled};

/// How often a query is run again. A third shortage is no coincidence.
const RUNS_AGAIN: u32 = 2;
/// Enough for a query to be ended whose client does not read: 10 s and a look (`stalled.rs`).
const WAIT_MAX: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The first place in the line: the next query goes on when it is dropped.
pub(crate) type Place = OwnedMutexGuard<()>;

/// Starts a query once more, and gives its streams.
pub(crate) type Start<S> = Arc<dyn Fn() -> BoxFuture<'static, Result<S, Failure>> + Send + Sync>;

/// A query's next run: its streams, and the place in the line, if that was to be had in time. The
/// place is to be kept until the streams have given something.
pub(crate) type NextRun<S> = Result<(S, Option<Place>), Failure>;

/// A query that may be run again.
pub(crate) struct Again<S> {
    pub(crate) query: Arc<QueryTasks>,
    pub(crate) cost: Option<Arc<Cost>>,
    pub(crate) stalled: Arc<Stalled>,
    pub(crate) memory: Arc<QueryMemory>,
    start: Start<S>,
    left: u32,
}

impl<S: Send + 'static> Again<S> {
    pub(crate) fn new(
        query: Arc<QueryTasks>,
        cost: Option<Arc<Cost>>,
        stalled: Arc<Stalled>,
        memory: Arc<QueryMemory>,
        start: Start<S>,
    ) -> Self {
        Self {
            query,
            cost,
            stalled,
            memory,
            start,
            left: RUNS_AGAIN,
        }
    }

    /// What comes after this failure; `None` if the query is not to be run again. The streams that
    /// failed must have been dropped when it is polled.
    pub(crate) fn after(&mut self, failure: &Failure) -> Option<BoxFuture<'static, NextRun<S>>> {
        let in_the_way = self.memory.in_the_way();
        if !failure.is_out_of_memory() || in_the_way == 0 || self.left == 0 {
            return None;
        }
        self.left -= 1;
        log::info!("a query is run again: others have {in_the_way} bytes of memory");
        let (start, memory) = (Arc::clone(&self.start), Arc::clone(&self.memory));
        let line = Arc::clone(&self.stalled.line);
        let next = async move {
            let until = Instant::now() + WAIT_MAX;
            // Whoever is first may take long to its first rows.
            let place = timeout_at(until, line.lock_owned()).await.ok();
            while memory.of_others() > in_the_way / 2 && Instant::now() < until {
                sleep(LOOK_EVERY).await;
            }
            Ok((start().await?, place))
        };
        Some(next.boxed())
    }
}

#[cfg(test)]
mod tests {
    use coscan::tasks::TaskQueue;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryReservation};
    use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
    use futures::poll;

    use super::*;
    use crate::failure::OUT_OF_MEMORY;

    /// A query and its operator.
    fn query(stalled: &Arc<Stalled>, session: &RuntimeEnv) -> (Again<()>, MemoryReservation) {
        let (environment, memory) = stalled.environment(session);
        let operator = MemoryConsumer::new("join").register(&environment.memory_pool);
        let start: Start<()> = Arc::new(|| futures::future::ready(Ok(())).boxed());
        let tasks = TaskQueue::new(1, 1, None).begin();
        let again = Again::new(tasks, None, Arc::clone(stalled), memory, start);
        (again, operator)
    }

    fn session() -> (Arc<Stalled>, RuntimeEnv) {
        let builder =
            RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(1_000)));
        (Arc::default(), builder.build().unwrap())
    }

    fn refused(operator: &MemoryReservation, bytes: usize) -> Failure {
        Failure::from(operator.try_grow(bytes).unwrap_err())
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_were_refused_go_on_one_at_a_time_when_others_have_half() {
        let (stalled, session) = session();
        let (_, other) = query(&stalled, &session);
        other.try_grow(800).unwrap();
        let (mut first, first_join) = query(&stalled, &session);
        let (mut second, second_join) = query(&stalled, &session);
        let (mut third, third_join) = query(&stalled, &session);
        let mut first = first.after(&refused(&first_join, 300)).unwrap();
        let mut second = second.after(&refused(&second_join, 300)).unwrap();
        let mut third = third.after(&refused(&third_join, 300)).unwrap();
        for given_back in [0, 100, 299] {
            other.shrink(given_back);
            tokio::time::advance(LOOK_EVERY).await;
            for next in [&mut first, &mut second, &mut third] {
                assert!(poll!(next).is_pending());
            }
        }
        other.shrink(1);
        let ((), place) = first.await.unwrap_or_else(|why| panic!("{why}"));
        tokio::time::advance(WAIT_MAX / 2).await;
        assert!(poll!(&mut second).is_pending(), "the first has no rows yet");
        drop(place);
        let ((), place) = second.await.unwrap_or_else(|why| panic!("{why}"));
        assert!(place.is_some());
        let before = Instant::now();
        let ((), none) = third.await.unwrap_or_else(|why| panic!("{why}"));
        assert!(none.is_none() && before.elapsed() > WAIT_MAX / 3);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever_or_in_vain() {
        let (stalled, session) = session();
        let (_, other) = query(&stalled, &session);
        other.try_grow(600).unwrap();
        let (mut again, join) = query(&stalled, &session);
        let other_failure = Failure::new("22012", "division by zero");
        for _ in 0..RUNS_AGAIN {
            let failure = refused(&join, 500);
            assert!(again.after(&other_failure).is_none());
            let before = Instant::now();
            assert!(again.after(&failure).unwrap().await.is_ok());
            assert!(before.elapsed() >= WAIT_MAX);
        }
        assert!(again.after(&refused(&join, 500)).is_none(), "enough");
        let (mut again, join) = query(&stalled, &session);
        assert!(again.after(&refused(&join, 601)).is_none(), "too large");
        other.shrink(590);
        join.try_grow(900).unwrap();
        let refused = refused(&join, 100);
        assert!(again.after(&refused).is_none(), "others have little");
        other.grow(590);
        let no_room = Failure::new(OUT_OF_MEMORY, "no room for what spills");
        let (mut again, _join) = query(&stalled, &session);
        assert!(again.after(&no_room).is_none(), "memory was not refused");
    }
}
