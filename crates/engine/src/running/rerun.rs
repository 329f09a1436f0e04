//! What happens to a query that finds no memory because other queries have it?
//!
//! Hash tables stay in memory, so several joins that begin together may fill it before one of them
//! is done. Then a query is refused that would have run alone. Likewise the youngest queries end
//! when `coscan.memory` is lowered below what queries have. As long as its client has no row of
//! it, the client cannot tell when it ran. So the engine drops what the query has done, which
//! frees memory for others, and runs it once more with what it is known to need as its minimum:
//! the core admits it when that much is free, and keeps it for the query until its first rows.
//!
//! A query that a node of its cluster refuses memory, or ends for its limit, comes back in the same
//! way: the error says what it would need there, and in the next run every node keeps that for it
//! (`parts/memory.rs`). Such queries of one coordinator take turns, up to their first rows: of two
//! at once, each could begin on one node and wait on another for what the other one has there.
//!
//! On fewer nodes a query needs more on each. So one that the nodes' load had made narrow, and that
//! finds no memory on a node, first runs again on as many as its size asks for, at once; and a
//! query that was refused on a node is not made narrow any more (`query_width.rs`).
//!
//! A query that loses a node of its cluster runs again without that node, on the same condition. If
//! no node is left, that run's planning fails, and the query with it.
//!
//! Rejected: holding back the rows of a join's table while memory is short. Such queries keep what
//! they have, and must not wait for each other; and aggregates and windows would need the same. A
//! query that is refused for the second time knows little of what it needs. Its minimum grows with
//! each run, so that fewer and fewer queries run at once while memory is short.
//! Not here: which query is admitted, and when (`coscan_core::memory`).
//! Bounds: [`RUNS_AGAIN`] more runs, each after at most [`WAIT_MAX`], [`RUNS_ELSEWHERE`], and a
//! wider one. A run for which nodes keep memory waits for at most [`WAIT_MAX`] for its turn, and on
//! each node.
//!
//! S10: a query that runs once more has changed nothing, none of its functions has acted
//! (`effects.rs`), and its client has no row of it.

use std::sync::Arc;

use coscan_pg::{PgError, translate};
use datafusion::error::{DataFusionError, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::silent::ended;
use crate::commit_point::{CommitPoint, Run};
use crate::effects::EffectsSince;
use crate::error::Error;
use crate::lost_node::LostNode;
use crate::memory::{Cause, Promise, QueryMemory, WAIT_MAX};
use crate::query_width::QueryWidth;
use crate::short_node::ShortNode;

/// The SQLSTATE of a failure for want of memory.
const OUT_OF_MEMORY: &str = "53200";
/// How often a query is run again. A fourth shortage is no coincidence.
const RUNS_AGAIN: u32 = 3;
/// How often a query is run again because a node was lost. A long one may see several nodes go.
const RUNS_ELSEWHERE: u32 = 8;
/// What a run comes back with, as a multiple of what the one before did.
const MORE: u64 = 4;

/// Starts a query once more with the given memory, and returns its streams.
pub(crate) type Start<S> =
    Arc<dyn Fn(&Arc<QueryMemory>, Run) -> BoxFuture<'static, Result<S>> + Send + Sync>;

/// Plans a query once more, and returns what that plan needs at least in a memory of this limit, in
/// bytes; `None` if that is not certain.
pub(crate) type Estimate = Arc<dyn Fn(u64) -> BoxFuture<'static, Option<u64>> + Send + Sync>;

/// A query's next run.
pub(super) struct NextRun<S> {
    pub(super) streams: S,
    pub(super) memory: Arc<QueryMemory>,
    pub(super) promise: Promise,
    /// The minimum that it came back with, in bytes; a [`MORE`]th of what it waited for in vain.
    pub(super) minimum: u64,
}

/// A query that may be run again.
pub(crate) struct Again<S> {
    memory: Arc<QueryMemory>,
    /// What it changes has not appeared as long as no run has reached this.
    point: Arc<CommitPoint>,
    start: Start<S>,
    estimate: Estimate,
    left: u32,
    /// That of the last run as in [`NextRun`], in bytes; 0 for the first. The next run comes back
    /// with [`MORE`] times as much at least.
    minimum: u64,
    /// How often it may be run again because a node was lost.
    left_elsewhere: u32,
    /// What each node kept for the last run, in bytes.
    on_nodes: u64,
    /// The turn of queries that nodes keep memory for, if nodes run the query.
    turn: Option<Arc<Semaphore>>,
    /// What is known of its width, if nodes run the query.
    width: Option<Arc<QueryWidth>>,
    /// What functions of the session have done since the query began, if they say so.
    effects: Option<EffectsSince>,
}

impl<S: Send + 'static> Again<S> {
    pub(crate) fn new(
        memory: Arc<QueryMemory>,
        point: Arc<CommitPoint>,
        start: Start<S>,
        estimate: Estimate,
    ) -> Self {
        Self {
            memory,
            point,
            start,
            estimate,
            left: RUNS_AGAIN,
            minimum: 0,
            left_elsewhere: RUNS_ELSEWHERE,
            on_nodes: 0,
            turn: None,
            width: None,
            effects: None,
        }
    }

    /// The same query, which waits for this turn before nodes keep memory for it.
    pub(crate) fn with_turn(mut self, turn: Option<Arc<Semaphore>>) -> Self {
        self.turn = turn;
        self
    }

    /// The same query, of this width.
    pub(crate) fn with_width(mut self, width: Option<Arc<QueryWidth>>) -> Self {
        self.width = width;
        self
    }

    /// The same query, which does not run again once there are such effects.
    pub(crate) fn unless(mut self, effects: Option<EffectsSince>) -> Self {
        self.effects = effects;
        self
    }

    /// The next run after this failure; `None` if the query must not run once more. The failed
    /// streams must have been dropped when the future is polled.
    pub(super) fn after(
        &mut self,
        failure: &DataFusionError,
    ) -> Option<BoxFuture<'static, Result<NextRun<S>>>> {
        if self.effects.as_ref().is_some_and(EffectsSince::are_some) {
            return None;
        }
        if let Some(lost) = LostNode::of(failure) {
            return self.elsewhere(lost);
        }
        if self.was_narrow(failure) {
            return self.wider();
        }
        if let Some(short) = ShortNode::of(failure) {
            return self.once_nodes_have(short.needed);
        }
        if !self.memory.was_short() || !wanted_memory(failure) || self.left == 0 {
            return None;
        }
        // The last run may still be at work, if the query was ended from outside.
        let run = self.point.next_run()?;
        self.left -= 1;
        let cause = match ended(failure) {
            Some(_) => Cause::Ended,
            None => Cause::Refused,
        };
        self.memory.record().runs_again(cause);
        let (start, memory) = (Arc::clone(&self.start), Arc::clone(&self.memory));
        let (estimate, before) = (Arc::clone(&self.estimate), self.minimum);
        let (on_nodes, turn) = (self.on_nodes, self.turn.clone());
        let next = async move {
            // The next run must not wait for what the last one was promised. The queries in the
            // way may take long.
            memory.needs_less(0);
            // First, because the query whose turn it is may wait for memory here.
            let turn = in_turn(turn, on_nodes).await;
            let needed = memory.would_need(&*estimate).await;
            let minimum = needed.max(before.saturating_mul(MORE));
            log::info!("a query is run again when {minimum} bytes are there for it");
            let (memory, minimum) = match timeout(WAIT_MAX, memory.again(minimum)).await {
                Ok(Some(admitted)) => (admitted, minimum),
                // This run cannot show that it would not have been enough, so the next one asks for
                // no more; nor for less, if this one is refused earlier.
                Ok(None) | Err(_) => (memory.at_once(), minimum / MORE),
            };
            memory.needs_on_nodes(on_nodes);
            let promise = Promise::in_turn(&memory, turn);
            Ok(NextRun {
                streams: start(&memory, run).await?,
                memory,
                promise,
                minimum,
            })
        };
        Some(next.boxed())
    }

    /// The next run begins.
    pub(super) fn begins(&mut self, memory: Arc<QueryMemory>, minimum: u64) {
        (self.memory, self.minimum) = (memory, minimum);
    }
}

impl<S: Send + 'static> Again<S> {
    /// The next run, without the node that was lost.
    fn elsewhere(&mut self, lost: &LostNode) -> Option<BoxFuture<'static, Result<NextRun<S>>>> {
        self.left_elsewhere = self.left_elsewhere.checked_sub(1)?;
        let run = self.point.next_run()?;
        log::warn!("{lost}; a query is run again without it");
        self.memory.record().runs_again(Cause::NodeLost);
        Some(self.at_once(run))
    }

    /// Whether the query found no memory on a node, and had fewer of them than its size asks for.
    fn was_narrow(&self, failure: &DataFusionError) -> bool {
        let is_short =
            ShortNode::of(failure).is_some() || !self.memory.was_short() && wanted_memory(failure);
        let width = self.width.as_ref().filter(|_| is_short);
        width.is_some_and(|width| width.widen())
    }

    /// The next run, on as many nodes as its size asks for.
    fn wider(&self) -> Option<BoxFuture<'static, Result<NextRun<S>>>> {
        let run = self.point.next_run()?;
        log::info!("a query that found no memory on a node is run again on more of them");
        self.memory.record().runs_again(Cause::Refused);
        Some(self.at_once(run))
    }

    /// The next run, for which each node keeps what the query was refused on one of them.
    fn once_nodes_have(&mut self, needed: u64) -> Option<BoxFuture<'static, Result<NextRun<S>>>> {
        let left = self.left.checked_sub(1)?;
        let run = self.point.next_run()?;
        self.left = left;
        self.on_nodes = needed.max(self.on_nodes.saturating_mul(MORE));
        let needed = self.on_nodes;
        log::info!("a query is run again when nodes have {needed} bytes for it");
        self.memory.record().runs_again(Cause::Refused);
        Some(self.at_once(run))
    }

    /// The next run, which waits for no memory here.
    fn at_once(&self, run: Run) -> BoxFuture<'static, Result<NextRun<S>>> {
        let (start, last) = (Arc::clone(&self.start), Arc::clone(&self.memory));
        let (on_nodes, turn) = (self.on_nodes, self.turn.clone());
        let minimum = self.minimum;
        let next = async move {
            // Nothing is promised to a query that waits for its turn.
            last.needs_less(0);
            let turn = in_turn(turn, on_nodes).await;
            let memory = last.at_once();
            memory.needs_on_nodes(on_nodes);
            let promise = Promise::in_turn(&memory, turn);
            Ok(NextRun {
                streams: start(&memory, run).await?,
                memory,
                promise,
                minimum,
            })
        };
        next.boxed()
    }
}

/// The turn of a query for which each node is to keep this much, in bytes; `None` if that is
/// nothing, or the turn has not come in time: the query whose turn it is may take long.
async fn in_turn(turn: Option<Arc<Semaphore>>, on_nodes: u64) -> Option<OwnedSemaphorePermit> {
    let turn = turn.filter(|_| on_nodes > 0)?;
    let acquired = timeout(WAIT_MAX, turn.acquire_owned()).await.ok()?;
    acquired.ok()
}

/// Whether there was no memory that may come back. A query that was ended because its client did
/// not read only kept others from it; what sessions make in memory stays
/// (`session_names/allowance.rs`).
pub(crate) fn wanted_memory(failure: &DataFusionError) -> bool {
    match ended(failure) {
        Some(Error::Ended { unread }) => unread.is_none(),
        _ => {
            let stays =
                matches!(failure.find_root(), DataFusionError::External(of) if of.is::<PgError>());
            translate(failure, &|_| None).code() == OUT_OF_MEMORY && !stays
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
    use datafusion::execution::runtime_env::RuntimeEnv;
    use futures::poll;

    use super::super::silent::why;
    use super::*;
    use crate::effects::Effects;
    use crate::{Engine, EngineConfig};

    /// A query and its operator.
    fn query(session: &RuntimeEnv) -> (Again<()>, MemoryReservation) {
        let memory = QueryMemory::of_session(session).unwrap();
        let environment = memory.environment(session);
        let operator = MemoryConsumer::new("join").register(&environment.memory_pool);
        let start: Start<()> = Arc::new(|_, _| futures::future::ready(Ok(())).boxed());
        let unknown: Estimate = Arc::new(|_| futures::future::ready(None).boxed());
        let again = Again::new(memory, Arc::default(), start, unknown);
        (again, operator)
    }

    #[tokio::test]
    async fn who_was_refused_goes_on_when_there_is_what_it_needs() {
        let config = EngineConfig {
            memory_bytes: Some(64 << 20),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).unwrap();
        let session = engine.session().context().runtime_env();
        let (other, table) = query(&session);
        table.try_grow(40 << 20).unwrap();
        let (mut again, operator) = query(&session);
        let division = DataFusionError::from(PgError::new("22012", "division by zero"));
        assert!(again.after(&division).is_none());
        let refused = operator.try_grow(30 << 20).unwrap_err();
        drop(operator);
        assert!(
            again.after(&division).is_none(),
            "it fails for another reason"
        );
        let mut next = again.after(&refused).unwrap();
        assert!(poll!(&mut next).is_pending());
        drop((other, table));
        let NextRun {
            memory, promise, ..
        } = next.await.unwrap();
        let (_, late) = query(&session);
        while late.try_grow(1 << 20).is_ok() {}
        let pool = &memory.environment(&session).memory_pool;
        let table = MemoryConsumer::new("join").register(pool);
        table.try_grow(30 << 20).expect("it is promised");
        drop((promise, table));
        // The query may take back for a moment what the table freed.
        let begun = Instant::now();
        while late.try_grow(20 << 20).is_err() {
            assert!(begun.elapsed() < WAIT_MAX, "the promise has not ended");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waited_in_vain_asks_for_no_more_the_next_time() {
        let config = EngineConfig {
            memory_bytes: Some(64 << 20),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).unwrap();
        let session = engine.session().context().runtime_env();
        let (other, table) = query(&session);
        table.try_grow(40 << 20).unwrap();
        let (mut again, operator) = query(&session);
        let refused = operator.try_grow(30 << 20).unwrap_err();
        drop(operator);
        let next = again.after(&refused).unwrap().await.unwrap();
        let pool = Arc::clone(&next.memory.environment(&session).memory_pool);
        again.begins(next.memory, next.minimum);
        let least = again.minimum * MORE;
        assert!(least >= (30 << 20) - MORE, "it knows of {least} bytes");
        let operator = MemoryConsumer::new("join").register(&pool);
        let refused = operator.try_grow(25 << 20).unwrap_err();
        drop((operator, pool, table, other));
        let next = again.after(&refused).unwrap().await.unwrap();
        assert!(next.minimum <= 32 << 20, "{} bytes", next.minimum);
        again.begins(next.memory, next.minimum);
        assert!(again.minimum >= 30 << 20, "it has begun with that");
    }

    #[tokio::test]
    async fn nobody_waits_in_vain() {
        let config = EngineConfig {
            memory_bytes: Some(64 << 20),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).unwrap();
        let session = engine.session().context().runtime_env();
        let (mut again, operator) = query(&session);
        let refused = operator.try_grow(80 << 20).unwrap_err();
        assert!(again.after(&refused).is_none(), "others have nothing");
    }

    #[tokio::test]
    async fn what_functions_have_done_is_not_done_twice() {
        let engine = Engine::new(EngineConfig::default()).unwrap();
        let session = engine.session().context().runtime_env();
        let effects = Arc::<Effects>::default();
        let since = Some(Arc::clone(&effects).since_now());
        let mut again = query(&session).0.unless(since);
        let (node, reason) = ("10.0.0.1:50051".to_owned(), "reset".to_owned());
        let lost = DataFusionError::from(LostNode { node, reason });
        assert!(again.after(&lost).is_some());
        effects.note();
        assert!(again.after(&lost).is_none());
    }

    #[tokio::test]
    async fn nodes_keep_what_one_of_them_refused() {
        let engine = Engine::new(EngineConfig::default()).unwrap();
        let session = engine.session().context().runtime_env();
        let turn = Arc::new(Semaphore::new(1));
        let query = || query(&session).0.with_turn(Some(Arc::clone(&turn)));
        let short = |needed: u64| {
            let said = "refused".to_owned();
            DataFusionError::from(ShortNode { needed, said })
        };
        let mut again = query();
        let next = again.after(&short(5 << 20)).unwrap();
        let NextRun {
            memory, promise, ..
        } = next.await.unwrap();
        assert_eq!(memory.on_nodes(), 5 << 20);
        let mut waits = query().after(&short(1)).unwrap();
        assert!(poll!(&mut waits).is_pending(), "it is not its turn");
        drop(promise);
        waits.await.unwrap();

        let next = again.after(&short(6 << 20)).unwrap();
        let NextRun { memory, .. } = next.await.unwrap();
        assert_eq!(memory.on_nodes(), 20 << 20, "it grows");
        let (node, reason) = ("10.0.0.1:50051".to_owned(), "reset".to_owned());
        let taken = Arc::clone(&turn).acquire_owned().await.unwrap();
        let mut lost = again.after(&LostNode { node, reason }.into()).unwrap();
        assert!(poll!(&mut lost).is_pending(), "it is not its turn");
        drop(taken);
        let NextRun { memory, .. } = lost.await.unwrap();
        assert_eq!(memory.on_nodes(), 20 << 20, "without the lost node too");
        assert!(again.after(&short(1)).is_some());
        assert!(again.after(&short(1)).is_none(), "RUNS_AGAIN");
    }

    #[tokio::test]
    async fn a_narrow_query_that_a_node_refuses_runs_again_by_its_size() {
        let engine = Engine::new(EngineConfig::default()).unwrap();
        let session = engine.session().context().runtime_env();
        let refused = || DataFusionError::ResourcesExhausted("refused".to_owned());
        let short = || {
            let (needed, said) = (5 << 20, "refused".to_owned());
            DataFusionError::from(ShortNode { needed, said })
        };
        let of_width = |is_narrow: bool| {
            let width = Arc::<QueryWidth>::default();
            width.planned(is_narrow);
            let again = query(&session).0.with_width(Some(Arc::clone(&width)));
            (again, width)
        };
        for failure in [refused(), short()] {
            let (mut again, width) = of_width(true);
            let division = DataFusionError::from(PgError::new("22012", "division by zero"));
            assert!(again.after(&division).is_none());
            assert!(!width.is_by_size(), "it fails for another reason");
            let next = again.after(&failure).unwrap().await.unwrap();
            assert!(width.is_by_size());
            assert_eq!(next.memory.on_nodes(), 0, "wider it may need less there");
            again.begins(next.memory, next.minimum);
            assert!(again.after(&refused()).is_none(), "no node has enough");
            let next = again.after(&short()).unwrap().await.unwrap();
            assert_eq!(next.memory.on_nodes(), 5 << 20);
        }
        let (mut again, width) = of_width(false);
        assert!(again.after(&refused()).is_none(), "it was as wide");
        assert!(again.after(&short()).is_some());
        assert!(width.is_by_size(), "it is not made narrow now");
        assert!(
            query(&session).0.after(&refused()).is_none(),
            "of no cluster"
        );
    }

    #[tokio::test]
    async fn a_query_that_a_lower_limit_ends_runs_again() {
        let config = EngineConfig {
            memory_bytes: Some(64 << 20),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).unwrap();
        let session = engine.session().context().runtime_env();
        let (mut again, operator) = query(&session);
        operator.try_grow(32 << 20).unwrap();
        let (ended, silent) = (why(Duration::ZERO), why(WAIT_MAX));
        assert!(again.after(&ended).is_none(), "it was not ended");
        engine.memory().set_limit(16 << 20);
        assert!(again.after(&silent).is_none(), "its client does not read");
        let first = again.point.first_run();
        let next = again.after(&ended).unwrap();
        first
            .reach()
            .expect_err("the run that was ended changes nothing");
        drop(operator);
        let next = next.await.unwrap();
        assert!(!next.memory.ends());
    }
}
