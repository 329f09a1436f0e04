//! How long may a query hold its memory when its client does not read?
//!
//! A query keeps its hash tables until its client has taken the last row. Three joins whose clients
//! have stopped reading can hold all memory, and then every other join is refused for as long as
//! the three clients like. So when an operator has been refused memory, a query is ended: the one
//! that holds the most among those whose clients have not come back for [`STALLED_AFTER`]. While no
//! operator is refused, a client may take its time. With many such clients, ten seconds for each
//! would be minutes for those who wait: so the queries whose clients have not come back for
//! [`CROWDING_AFTER`] may hold at most half of the memory, all together.
//!
//! Idea: a query reserves through a pool of its own, which counts and passes requests on.
//! Not here: where the rows wait meanwhile (`waiting.rs`), idle sessions (`cancel.rs`), and what
//! becomes of the query that was refused (`shortage.rs`).
//! Bounds: one look a second, which goes through all running queries.
//!
//! S8: a client that does not read keeps nobody from memory for longer than [`STALLED_AFTER`] and a
//! look, and nobody from half of it for longer than [`CROWDING_AFTER`] and a look.

use std::cmp::Reverse;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnv;
use tokio::time::Instant;

use crate::failure::{Failure, OUT_OF_MEMORY};
use crate::waiting::Queue;

/// A client that has not come back for this long does not read.
const STALLED_AFTER: Duration = Duration::from_secs(10);
/// A client that pauses this long is not waited for if such clients hold most of the memory.
const CROWDING_AFTER: Duration = Duration::from_secs(2);
/// The part of memory that such clients may hold while others are refused, as a divisor.
const CROWD_PART: usize = 2;
/// Who is refused beside others that hold less than this part of what it holds, as a divisor, would
/// have been refused without them.
const LITTLE_PART: usize = 4;
/// How often the server looks for queries to end.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The running queries of a server.
#[derive(Default)]
pub(crate) struct Stalled {
    queries: Mutex<Vec<(Weak<Queue>, Arc<QueryMemory>)>>,
    /// How often an operator was refused memory that it could not do without.
    refusals: Arc<AtomicU64>,
    /// The refusals as of the last look.
    refusals_seen: AtomicU64,
    /// Where queries wait that were refused and are to be run again.
    pub(crate) line: Arc<tokio::sync::Mutex<()>>,
}

impl Stalled {
    /// The environment for one query: the session's, but with a pool of its own.
    pub(crate) fn environment(&self, session: &RuntimeEnv) -> (Arc<RuntimeEnv>, Arc<QueryMemory>) {
        let memory = Arc::new(QueryMemory {
            pool: Arc::clone(&session.memory_pool),
            held: AtomicUsize::new(0),
            refusals: Arc::clone(&self.refusals),
            in_the_way: AtomicUsize::new(0),
        });
        let environment = RuntimeEnv {
            memory_pool: Arc::clone(&memory) as _,
            disk_manager: Arc::clone(&session.disk_manager),
            cache_manager: Arc::clone(&session.cache_manager),
            object_store_registry: Arc::clone(&session.object_store_registry),
        };
        (Arc::new(environment), memory)
    }

    /// Registers a query that begins to run. Its rows wait in `queue`.
    pub(crate) fn enter(&self, queue: &Arc<Queue>, memory: Arc<QueryMemory>) {
        let mut queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        queries.push((Arc::downgrade(queue), memory));
    }

    /// Ends queries whose clients do not read, if others have been refused memory since the last
    /// look.
    pub(crate) fn look(&self) {
        let refusals = self.refusals.load(Ordering::Relaxed);
        let before = self.refusals_seen.swap(refusals, Ordering::Relaxed);
        let now = Instant::now();
        let mut queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        queries.retain(|(queue, _)| queue.strong_count() > 0);
        if refusals == before {
            return;
        }
        let limit = queries.first().map_or(0, |(_, memory)| memory.bytes_max());
        let silent = queries.iter().filter_map(|(queue, memory)| {
            let queue = queue.upgrade()?;
            let held = memory.held.load(Ordering::Relaxed);
            let idle = queue.idle(now);
            (held > 0 && idle >= CROWDING_AFTER).then_some((held, idle, queue))
        });
        let mut silent: Vec<_> = silent.collect();
        drop(queries);
        silent.sort_by_key(|(held, ..)| Reverse(*held));
        let stalled = |idle: Duration| idle >= STALLED_AFTER;
        let one = silent.iter().position(|(_, idle, _)| stalled(*idle));
        let mut gone: Vec<_> = one.map(|at| silent.remove(at)).into_iter().collect();
        let mut held: usize = silent.iter().map(|(held, ..)| held).sum();
        let crowding = silent.into_iter().take_while(|(own, ..)| {
            let crowd = held > limit / CROWD_PART;
            held -= own;
            crowd
        });
        gone.extend(crowding);
        for (held, idle, queue) in gone {
            log::warn!("a query that holds {held} bytes is ended: its client does not read");
            queue.end(|| ended(idle));
        }
    }
}

/// The error that the client of an ended query is given when it comes back.
fn ended(idle: Duration) -> Failure {
    let seconds = idle.as_secs();
    let text = format!(
        "the query was ended: its rows had not been read for {seconds} s, and others needed its memory"
    );
    Failure::new(OUT_OF_MEMORY, text)
}

/// One query's part of a pool.
#[derive(Debug)]
pub(crate) struct QueryMemory {
    pool: Arc<dyn MemoryPool>,
    /// Bytes.
    held: AtomicUsize,
    refusals: Arc<AtomicU64>,
    /// What others held, in bytes, when an operator was last refused; 0 if that was little beside
    /// what the query held and wanted.
    in_the_way: AtomicUsize,
}

impl QueryMemory {
    /// The bytes that all queries may hold together.
    fn bytes_max(&self) -> usize {
        match self.pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes,
            _ => usize::MAX,
        }
    }

    /// The bytes that other queries hold.
    pub(crate) fn of_others(&self) -> usize {
        let held = self.held.load(Ordering::Relaxed);
        self.pool.reserved().saturating_sub(held)
    }

    /// The bytes that other queries held when an operator of this one was last refused; 0 if none
    /// was, or if they held so little that it would hardly have helped.
    pub(crate) fn in_the_way(&self) -> usize {
        self.in_the_way.load(Ordering::Relaxed)
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &str {
        self.pool.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
        self.held.fetch_add(additional, Ordering::Relaxed);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
        self.held.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let granted = self.pool.try_grow(reservation, additional);
        if granted.is_ok() {
            self.held.fetch_add(additional, Ordering::Relaxed);
        } else if !reservation.consumer().can_spill() {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            let (held, others) = (self.held.load(Ordering::Relaxed), self.of_others());
            let matters = others >= additional.max(held / LITTLE_PART);
            let in_the_way = if matters { others } else { 0 };
            self.in_the_way.store(in_the_way, Ordering::Relaxed);
        }
        granted
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.pool, f)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, RecordBatch};
    use datafusion::arrow::datatypes::Schema;
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;

    use super::*;
    use crate::waiting::Taken;

    /// A query whose operator holds so many bytes.
    fn query(
        stalled: &Stalled,
        session: &RuntimeEnv,
        bytes: usize,
    ) -> (Arc<Queue>, MemoryReservation) {
        let (environment, memory) = stalled.environment(session);
        let operator = MemoryConsumer::new("join").register(&environment.memory_pool);
        operator.try_grow(bytes).unwrap();
        let queue = Arc::new(Queue::new(Arc::new(Schema::empty()), environment, 1));
        stalled.enter(&queue, memory);
        (queue, operator)
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_holds_the_most_is_ended_once_somebody_is_refused() {
        let builder =
            RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(1_000)));
        let session = builder.build().unwrap();
        let stalled = Stalled::default();
        let (small, _small) = query(&stalled, &session, 100);
        let (large, large_join) = query(&stalled, &session, 500);
        let (nothing, _nothing) = query(&stalled, &session, 0);
        let (active, active_join) = query(&stalled, &session, 300);
        let ended = || [&small, &large, &nothing, &active].map(|queue| queue.has_ended());
        let refuse = || assert!(active_join.try_grow(600).is_err());
        refuse();
        stalled.look();
        assert_eq!(ended(), [false; 4], "all have come back a moment ago");
        tokio::time::advance(STALLED_AFTER).await;
        assert!(matches!(active.take(), Taken::NotYet));
        tokio::time::advance(STALLED_AFTER).await;
        stalled.look();
        assert_eq!(ended(), [false; 4], "nobody was refused");
        refuse();
        stalled.look();
        assert_eq!(ended(), [false, true, false, false]);
        drop(large_join);
        stalled.look();
        active_join.try_grow(200).unwrap();
        assert_eq!(ended(), [false, true, false, false]);
        refuse();
        refuse();
        stalled.look();
        assert_eq!(ended(), [true, true, false, false]);
        assert_eq!(session.memory_pool.reserved(), 600);
        let Taken::Batch(Err(why), _) = large.take() else {
            panic!("its client is not told");
        };
        assert!(why.to_string().contains("not been read"), "{why}");
        let empty: [(&str, Arc<dyn datafusion::arrow::array::Array>); 1] =
            [("n", Arc::new(Int64Array::from(vec![1])))];
        let batch = RecordBatch::try_from_iter(empty).unwrap();
        assert_eq!(large.put(Ok(batch)), None, "what is computed still");
        assert!(matches!(large.take(), Taken::NotYet));
        large.end_pump();
        assert!(matches!(large.take(), Taken::End));
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_pause_have_half_of_the_memory_at_most() {
        let builder =
            RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(1_000)));
        let session = builder.build().unwrap();
        let stalled = Stalled::default();
        let paused: Vec<_> = [300, 150, 200, 250]
            .map(|bytes| query(&stalled, &session, bytes))
            .into();
        let (active, active_join) = query(&stalled, &session, 0);
        let ended = || {
            let ended = paused.iter().map(|(queue, _)| queue.has_ended());
            ended.collect::<Vec<_>>()
        };
        let refuse_after = |pause| {
            let session = &session;
            let (stalled, active, active_join) = (&stalled, &active, &active_join);
            async move {
                tokio::time::advance(pause).await;
                assert!(matches!(active.take(), Taken::NotYet));
                assert!(active_join.try_grow(101).is_err());
                stalled.look();
                session.memory_pool.reserved()
            }
        };
        assert_eq!(refuse_after(CROWDING_AFTER / 2).await, 900);
        assert_eq!(ended(), [false; 4], "they may come back any moment");
        assert_eq!(refuse_after(CROWDING_AFTER).await, 900);
        // They hold 900 of 1,000, then 600; 350 are less than half.
        assert_eq!(ended(), [true, false, false, true]);
        assert!(!active.has_ended());
        assert_eq!(refuse_after(CROWDING_AFTER).await, 900);
        assert_eq!(
            ended(),
            [true, false, false, true],
            "their memory is still to come"
        );
    }
}
