//! DataFusion's operators ask the core for memory, each for its query.
//!
//! Idea: each query has a memory pool of its own, so that the core knows whose memory it is: what
//! one operator gives back, another operator of the same query may take (a sort and its merge).
//! Before the core grants a request, the buffer or retained results have given the bytes back, if
//! need be. A refused query knows what it would have needed, and may run once more with that as
//! its minimum.
//!
//! Not here: operators that name no query (`shared.rs`); who gets memory (`coscan_core::memory`),
//! who carries it out (`coscan-storage`).
//! I3: what operators ask for, frames, decoded columns, pages and loads in flight stay within the
//! limit together. `grow`, which DataFusion uses for memory it already has, may exceed the limit;
//! the buffer then shrinks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use coscan_core::memory::OperatorId;
use coscan_storage::pool::{Admitted, MemoryBudget, Refused};
use datafusion::common::resources_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnv;

use super::Record;
use super::tables::Tables;

/// A query's memory.
pub(crate) struct QueryMemory {
    budget: Arc<MemoryBudget>,
    query: Admitted,
    /// Of this run and those before.
    record: Arc<Record>,
    /// The minimum for which it waited, in bytes; `None` if it began at once.
    waited_for: Option<u64>,
    /// Bytes.
    held: AtomicUsize,
    /// The most bytes that the query would have needed when an operator was refused.
    needed: AtomicU64,
    /// The most bytes that other queries had, waited for and were promised at a refusal, if that
    /// was enough to matter: the operator would have got its bytes without it, or it was a large
    /// part, and uncounted memory may be freed with it. Of the host's refusals too where the query
    /// reads a shared operator; 1 where the host had to end.
    in_the_way: AtomicU64,
    /// Whether the query has to end for lack of memory.
    ends: Arc<AtomicBool>,
    /// What each node that runs a part of the query keeps for it at least, in bytes.
    on_nodes: AtomicU64,
    tables: Tables,
}

impl QueryMemory {
    /// The memory of a query that begins at once, with a small promise if that much is free.
    pub(crate) fn begin(budget: &Arc<MemoryBudget>) -> Arc<Self> {
        Self::of(budget, budget.begin_query(), Record::new(budget), None)
    }

    /// The memory of another query, which begins at once.
    pub(crate) fn sibling(&self) -> Arc<Self> {
        Self::begin(&self.budget)
    }

    /// The memory of the same query's next run, which begins at once.
    pub(crate) fn at_once(&self) -> Arc<Self> {
        let record = Arc::clone(&self.record);
        Self::of(&self.budget, self.budget.begin_query(), record, None)
    }

    /// The memory of the same query's next run, which begins once `minimum` bytes are free for
    /// those of its operators that cannot do without; `None` if too many queries wait already.
    pub(crate) async fn again(&self, minimum: u64) -> Option<Arc<Self>> {
        let waits = |query| self.record.waits_as(query);
        let admitted = self.budget.arrive(minimum, waits).await?;
        let record = Arc::clone(&self.record);
        Some(Self::of(&self.budget, admitted, record, Some(minimum)))
    }

    /// What is known of the query over all its runs.
    pub(crate) fn record(&self) -> &Arc<Record> {
        &self.record
    }

    /// Declares that the query's operators that cannot spill need no more than `minimum` bytes for
    /// the rest of its run.
    pub(crate) fn needs_less(&self, minimum: u64) {
        self.budget.needs_less(self.query.query(), minimum);
    }

    /// Declares that the query needs what it has and `batches` bytes once this many streams of its
    /// joins have returned something. It was admitted by an estimate of their tables.
    pub(crate) fn awaits_tables(&self, streams: usize, batches: u64) {
        self.tables.await_streams(streams, batches);
    }

    /// A stream of a join has returned something, so its table is complete.
    pub(super) fn a_table_is_there(&self) {
        if let Some(batches) = self.tables.one_is_there() {
            let held = self.held.load(Ordering::Relaxed) as u64;
            self.needs_less(held.saturating_add(batches));
        }
    }

    /// Declares that each node that runs a part of the query should keep `minimum` bytes for it.
    pub(crate) fn needs_on_nodes(&self, minimum: u64) {
        self.on_nodes.store(minimum, Ordering::Relaxed);
    }

    /// What each node that runs a part of the query should keep for it, in bytes.
    pub(crate) fn on_nodes(&self) -> u64 {
        self.on_nodes.load(Ordering::Relaxed)
    }

    fn of(
        budget: &Arc<MemoryBudget>,
        query: Admitted,
        record: Arc<Record>,
        waited_for: Option<u64>,
    ) -> Arc<Self> {
        record.runs_as(query.query());
        let own = Arc::new(Self {
            budget: Arc::clone(budget),
            query,
            record,
            waited_for,
            held: AtomicUsize::new(0),
            needed: AtomicU64::new(0),
            in_the_way: AtomicU64::new(0),
            ends: Arc::new(AtomicBool::new(false)),
            on_nodes: AtomicU64::new(0),
            tables: Tables::default(),
        });
        own.on_end(|| ());
        own
    }

    /// A copy of the session's environment that uses this memory.
    pub(crate) fn environment(self: &Arc<Self>, session: &RuntimeEnv) -> Arc<RuntimeEnv> {
        Arc::new(RuntimeEnv {
            memory_pool: Arc::clone(self) as _,
            disk_manager: Arc::clone(&session.disk_manager),
            cache_manager: Arc::clone(&session.cache_manager),
            object_store_registry: Arc::clone(&session.object_store_registry),
        })
    }

    /// Whether the query may do better when other queries have ended: it was ended, or an operator
    /// was refused while others held enough to matter. (Operators that spill are refused too, and
    /// fail where spilling does not free enough: sorts and their merges.)
    pub(crate) fn was_short(&self) -> bool {
        self.in_the_way.load(Ordering::Relaxed) > 0 || self.ends()
    }

    /// Records that a shared operator that the query reads has failed in the memory of another
    /// query, its host. If that one was refused because of others, this one may do better too, and
    /// needs as much: it may be the host the next time.
    pub(crate) fn failed_with(&self, host: &Self) {
        if host.was_short() {
            let others = host.in_the_way.load(Ordering::Relaxed).max(1);
            self.in_the_way.fetch_max(others, Ordering::Relaxed);
            let needed = host.needed.load(Ordering::Relaxed);
            self.needed.fetch_max(needed, Ordering::Relaxed);
        }
    }

    /// The minimum, in bytes, with which the query should run once more if it fails: the most that
    /// it would have needed when an operator was refused, and at least an equal part of the
    /// memory, since a query that is refused early does not know what it will need later. One that
    /// waited as a small one may still be small, and so may one that began at once if `estimate`
    /// says so: what its plan needs at least in a memory of this limit, in bytes, `None` if that is
    /// not certain. Only a query that asked for little is estimated. No other comes back as a small
    /// one.
    pub(crate) async fn would_need<F>(&self, estimate: impl FnOnce(u64) -> F) -> u64
    where
        F: Future<Output = Option<u64>>,
    {
        let needed = self.needed.load(Ordering::Relaxed);
        let thought = match self.waited_for {
            _ if needed > self.budget.small_max() => None,
            Some(minimum) => Some(minimum),
            None => estimate(self.limit()).await,
        };
        self.next_minimum(thought)
    }

    /// Like [`Self::would_need`], for a query without an estimate; `None` if it was not short.
    pub(crate) fn would_need_unseen(&self) -> Option<u64> {
        self.was_short().then(|| self.next_minimum(self.waited_for))
    }

    /// `thought`: what the query was thought to need, in bytes, if anything was.
    fn next_minimum(&self, thought: Option<u64>) -> u64 {
        let needed = self.needed.load(Ordering::Relaxed);
        let small = self.budget.small_max();
        if thought.is_some_and(|bytes| bytes.max(needed) <= small) {
            small
        } else {
            needed.max(self.budget.equal_part()).max(small + 1)
        }
    }

    /// Records whether the query's client has stopped fetching its rows.
    pub(crate) fn silent(&self, is_silent: bool) {
        self.budget.silent(self.query.query(), is_silent);
    }

    /// Whether queries have so much memory that one more should wait for what it needs.
    pub(crate) fn is_short(&self) -> bool {
        !self.budget.is_free()
    }

    /// The bytes that the process may take.
    pub(crate) fn limit(&self) -> u64 {
        self.budget.limit()
    }

    /// Registers `on_end`, which is called when the query has to end for lack of memory.
    pub(crate) fn on_end(&self, on_end: impl Fn() + Send + Sync + 'static) {
        let ends = Arc::clone(&self.ends);
        let notify = move || {
            ends.store(true, Ordering::Relaxed);
            on_end();
        };
        self.budget.on_end(self.query.query(), Arc::new(notify));
    }

    /// Whether the query has to end for lack of memory. Its operators get nothing more.
    pub(crate) fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    fn refused(
        &self,
        reservation: &MemoryReservation,
        bytes: usize,
        refused: Refused,
    ) -> DataFusionError {
        let Refused { needed, others, .. } = refused;
        let held = self.held.load(Ordering::Relaxed) as u64;
        if refused.fits_alone || others >= (bytes as u64).max(held / LITTLE_PART) {
            self.in_the_way.fetch_max(others, Ordering::Relaxed);
        }
        self.needed.fetch_max(needed, Ordering::Relaxed);
        let budget = &self.budget;
        resources_datafusion_err!(
            "{} needs {bytes} more bytes, and has {}; of the {} bytes of coscan.memory, operators have {}, decoded columns {}, chunks {}, and pages read by themselves {}; the process takes {} more than it may",
            reservation.consumer().name(),
            reservation.size(),
            budget.limit(),
            budget.operator_bytes(),
            budget.decoded_bytes(),
            budget.frame_bytes(),
            budget.page_bytes(),
            budget.excess_bytes()
        )
    }
}

/// A refused query that holds more than this many times what other queries have, wait for and are
/// promised would have been refused without them.
const LITTLE_PART: u64 = 4;

fn id(consumer: &MemoryConsumer) -> OperatorId {
    OperatorId(consumer.id() as u64)
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &'static str {
        "coscan"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        let query = self.query.query();
        self.budget
            .begin_operator(id(consumer), query, consumer.can_spill());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.budget.end_operator(id(consumer));
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.budget
            .took(id(reservation.consumer()), additional as u64);
        self.held.fetch_add(additional, Ordering::Relaxed);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        // The reservation is smaller already.
        let left = reservation.size() as u64;
        self.budget
            .gave(id(reservation.consumer()), shrink as u64, left);
        self.held.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        // An operator may have several reservations: a merge of what it spilled, and a table.
        let (operator, has) = (id(reservation.consumer()), reservation.size() as u64);
        match self.budget.ask(operator, additional as u64, has) {
            Ok(()) => {
                self.held.fetch_add(additional, Ordering::Relaxed);
                Ok(())
            }
            Err(refused) => Err(self.refused(reservation, additional, refused)),
        }
    }

    fn reserved(&self) -> usize {
        usize::try_from(self.budget.reserved_bytes()).unwrap_or(usize::MAX)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(usize::try_from(self.budget.limit()).unwrap_or(usize::MAX))
    }
}

impl fmt::Debug for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryMemory")
            .field("held", &self.held)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "coscan(used: {}, limit: {})",
            self.reserved(),
            self.budget.limit()
        )
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::ready;

    use futures::FutureExt;

    use super::super::{Cause, Wait};
    use super::*;

    /// What a query comes back with whose plan is not known to need little.
    fn would_need(query: &QueryMemory) -> Option<u64> {
        let needed = query.would_need(|_| ready(None)).now_or_never();
        query.was_short().then(|| needed.unwrap())
    }

    fn pool(budget: &Arc<MemoryBudget>) -> Arc<dyn MemoryPool> {
        QueryMemory::begin(budget)
    }

    /// Takes `step` bytes at a time until a request is refused; returns how much it then has.
    fn fill(reservation: &MemoryReservation, step: usize) -> usize {
        while reservation.try_grow(step).is_ok() {}
        reservation.size()
    }

    fn sort(pool: &Arc<dyn MemoryPool>) -> MemoryReservation {
        MemoryConsumer::new("sort")
            .with_can_spill(true)
            .register(pool)
    }

    #[test]
    fn memory_that_a_sort_gives_back_is_for_its_merge_only() {
        let budget = MemoryBudget::new(80_000);
        let (own, other) = (pool(&budget), pool(&budget));
        let (first, merge) = (sort(&own), MemoryConsumer::new("merge").register(&own));
        let second = MemoryConsumer::new("other").register(&other);
        let had = fill(&first, 100);
        fill(&second, 10);
        assert!(had > 50_000, "{had}");
        // More than its minimum covers.
        first.shrink(6_000);
        fill(&second, 10);
        for _ in 0..had / 200 {
            first.shrink(100);
            assert!(second.try_grow(100).is_err(), "it is the first one's");
            merge.try_grow(100).expect("its own");
        }
        drop((first, merge, own));
        second.try_grow(40_000).expect("the first one has ended");
        drop((second, other));
        assert_eq!(budget.operator_bytes(), 0);
    }

    #[test]
    fn a_query_that_fits_alone_waits_for_others_that_have_little() {
        let budget = MemoryBudget::new(80_000);
        let first = pool(&budget);
        let little = MemoryConsumer::new("join").register(&first);
        little.try_grow(10_000).expect("free");
        let second = QueryMemory::begin(&budget);
        let late: Arc<dyn MemoryPool> = Arc::clone(&second) as _;
        let table = MemoryConsumer::new("join").register(&late);
        table.try_grow(30_000).expect("free");
        table.try_grow(28_000).expect_err("the first has too much");
        assert_eq!(would_need(&second), Some(58_000));
        let third = QueryMemory::begin(&budget);
        let later: Arc<dyn MemoryPool> = Arc::clone(&third) as _;
        drop((table, late, second));
        let table = MemoryConsumer::new("join").register(&later);
        table.try_grow(79_000).expect_err("more than all");
        assert_eq!(would_need(&third), None, "the first has little");
    }

    #[test]
    fn only_who_asked_for_little_and_is_known_to_need_little_comes_back_as_small() {
        let budget = MemoryBudget::new(80_000);
        let small = budget.small_max();
        let first = pool(&budget);
        let join = MemoryConsumer::new("join").register(&first);
        fill(&join, 100);
        // The part for small queries is full too.
        let little = usize::try_from(small).unwrap();
        let small_ones = [(); 4].map(|()| {
            let operator = MemoryConsumer::new("join").register(&pool(&budget));
            operator.try_grow(little).expect("it is small");
            operator
        });
        let part = budget.limit() / (small_ones.len() as u64 + 2);
        for (asked, estimate, expected, estimates) in [
            (little, Some(100), small, 1),
            (little, Some(small + 1), part, 1),
            (little, None, part, 1),
            (30_000, Some(100), 30_000, 0),
        ] {
            let query = QueryMemory::begin(&budget);
            let own: Arc<dyn MemoryPool> = Arc::clone(&query) as _;
            let table = MemoryConsumer::new("join").register(&own);
            table.try_grow(asked).expect_err("all is taken");
            assert!(query.was_short());
            let asked_for = Cell::new(0);
            let needed = query.would_need(|limit| {
                assert_eq!(limit, 80_000);
                asked_for.set(asked_for.get() + 1);
                ready(estimate)
            });
            let needed = needed.now_or_never().unwrap();
            assert_eq!(needed, expected, "{asked} {estimate:?}");
            assert_eq!(asked_for.get(), estimates, "{asked} {estimate:?}");
        }
    }

    /// An aggregate that has spilled merges what it wrote into a new table, and can spill neither.
    #[tokio::test]
    async fn a_table_beside_a_merge_has_its_batch_of_the_minimum() {
        let budget = MemoryBudget::new(512_000);
        let batch = 1_000;
        let first = QueryMemory::begin(&budget);
        first.needs_less(0);
        let own: Arc<dyn MemoryPool> = first.again(100_000).await.expect("it is free");
        let merge = sort(&own);
        merge.try_grow(batch).expect("promised");
        merge.try_grow(2 * batch).expect("free");
        let others = pool(&budget);
        let join = MemoryConsumer::new("join").register(&others);
        fill(&join, 100);
        merge
            .try_grow(batch)
            .expect_err("the promise is not for it");
        for _ in 0..3 {
            let table = merge.new_empty();
            table.try_grow(batch).expect("it could not spill");
            table.try_grow(batch).expect_err("beyond a batch");
        }
    }

    #[tokio::test]
    async fn a_refused_query_is_admitted_once_its_need_fits() {
        let budget = MemoryBudget::new(80_000);
        let first = pool(&budget);
        let join = MemoryConsumer::new("join").register(&first);
        fill(&join, 100);
        let second = QueryMemory::begin(&budget);
        let late: Arc<dyn MemoryPool> = Arc::clone(&second) as _;
        let table = MemoryConsumer::new("join").register(&late);
        assert_eq!(would_need(&second), None);
        table.try_grow(30_000).expect_err("the first has it all");
        assert_eq!(would_need(&second), Some(40_000), "half of all");
        drop((table, late));
        let record = Arc::clone(second.record());
        assert_eq!(record.look().wait, None);
        let mut again = Box::pin(second.again(40_000));
        assert!(futures::poll!(again.as_mut()).is_pending());
        let look = record.look();
        assert_eq!(look.wait, Some(Wait::MemoryAdmission));
        assert_eq!((look.held, look.awaited), (0, 40_000));
        assert!(look.waited.is_some());
        drop((join, first));
        let again = again.await.expect("it is admitted");
        let look = record.look();
        assert_eq!((look.wait, look.promised), (None, 40_000));
        let late: Arc<dyn MemoryPool> = again;
        let table = MemoryConsumer::new("join").register(&late);
        let third = pool(&budget);
        let other = MemoryConsumer::new("join").register(&third);
        fill(&other, 100);
        table.try_grow(40_000).expect("promised");
        assert_eq!(record.look().held, 40_000);
    }

    #[tokio::test]
    async fn a_query_that_gave_up_waiting_is_seen_as_the_one_that_it_was() {
        let budget = MemoryBudget::new(80_000);
        let first = pool(&budget);
        let join = MemoryConsumer::new("join").register(&first);
        fill(&join, 100);
        let second = QueryMemory::begin(&budget);
        let own: Arc<dyn MemoryPool> = Arc::clone(&second) as _;
        let little = MemoryConsumer::new("join").register(&own);
        little.try_grow(100).expect("it is small");
        let mut again = Box::pin(second.again(40_000));
        assert!(futures::poll!(again.as_mut()).is_pending());
        assert_eq!(second.record().look().awaited, 40_000);
        drop(again);
        let look = second.record().look();
        assert_eq!((look.wait, look.held, look.awaited), (None, 100, 0));
        let third = second.at_once();
        second.record().runs_again(Cause::Refused);
        let look = third.record().look();
        assert_eq!((look.held, look.reruns), (0, 1), "the next run has nothing");
        assert_eq!(look.cause, Some(Cause::Refused));
    }
}
