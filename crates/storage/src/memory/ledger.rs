//! How do the decisions of the core reach those who hold, ask for and wait for memory?
//!
//! Idea: every change is an event for `coscan_core::memory`, under one lock. An operator that asks
//! waits on its own thread, and meanwhile carries out what holders must give back, without the
//! lock. A query that waits for admission waits in a future.
//! Not here: what the holders have and how they give it back (`budget.rs`).
//! Bounds: an event takes less than a microsecond unless memory is short.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use coscan_core::Time;
use coscan_core::memory::{
    Action, Event, HolderId, Memory, MemoryConfig, MemoryError, OperatorId, Standing, Usage,
};
use coscan_core::tasks::QueryId;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

/// The reserve that queries never get: a part of the limit (a divisor), and the most bytes.
const RESERVE: u64 = 64;
const RESERVE_MAX: u64 = 8 << 20;

/// While less than this part of the limit (a divisor) is free, no query begins at once.
const ROOM: u64 = 16;

/// The part of the limit that only small queries get (a divisor).
const FOR_SMALL: u64 = 32;
/// What an operator that spills has for a batch of rows: a part of the limit (a divisor), and the
/// most bytes. Tables of 8192 groups take some 0.3 MB.
const BATCH: u64 = 512;
const BATCH_MAX: u64 = 1 << 20;

/// The most queries that wait for memory.
const WAITING_MAX: usize = 1024;

/// Called when a query has to end for lack of memory.
pub(super) type OnEnd = Arc<dyn Fn() + Send + Sync>;

/// An operator does not get the bytes that it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The bytes that its query's operators have and cannot spill, or have room for, plus the
    /// refused request.
    pub needed: u64,
    /// The bytes that other queries had, waited for and were promised or might take back then.
    pub others: u64,
    /// Whether an operator that fails would have got its bytes without the other queries.
    pub fits_alone: bool,
}

/// The core, and the operators and queries that wait for its answers.
pub(super) struct Ledger {
    origin: Instant,
    state: Mutex<State>,
    /// Signalled when an operator's answer is there, or an operator may make its next request.
    answered: Condvar,
}

struct State {
    core: Memory,
    next_query: u64,
    next_holder: u32,
    /// The bytes and the floor of each holder, as the core knows them.
    held: BTreeMap<HolderId, (u64, u64)>,
    /// Operators whose request is not answered yet: one request at a time.
    asking: HashSet<OperatorId>,
    answers: HashMap<OperatorId, Result<(), Refused>>,
    /// Holders that have to give bytes back, and how many.
    reclaims: VecDeque<(HolderId, u64)>,
    arrivals: HashMap<QueryId, oneshot::Sender<()>>,
    /// Queries that were rejected and have not ended yet.
    rejected: HashSet<QueryId>,
    on_end: HashMap<QueryId, OnEnd>,
    ending: Vec<OnEnd>,
}

impl State {
    fn handle(&mut self, now: Time, event: Event) {
        if let Err(error) = self.core.handle(now, event) {
            refused(&error);
            return;
        }
        while let Some(action) = self.core.poll_action() {
            match action {
                Action::Grant { operator } => {
                    self.answers.insert(operator, Ok(()));
                }
                Action::Refuse {
                    operator,
                    needed,
                    others,
                    fits_alone,
                } => {
                    let refused = Refused {
                        needed,
                        others,
                        fits_alone,
                    };
                    self.answers.insert(operator, Err(refused));
                }
                Action::Reclaim { holder, bytes } => self.reclaims.push_back((holder, bytes)),
                Action::Admit { query } => {
                    if let Some(arrival) = self.arrivals.remove(&query) {
                        let _ = arrival.send(());
                    }
                }
                Action::Reject { query } => {
                    self.arrivals.remove(&query);
                    self.rejected.insert(query);
                }
                Action::End { query } => self.ending.extend(self.on_end.get(&query).cloned()),
                // No caller asks for scratch.
                Action::Open { .. } => {}
            }
        }
    }
}

/// An event that the core refuses is a bug of this crate or of an operator. The state stays as it
/// was.
fn refused(error: &MemoryError) {
    log::error!("memory: {error}");
    debug_assert!(false, "memory: {error}");
}

pub(super) fn config(limit: u64) -> MemoryConfig {
    MemoryConfig {
        limit,
        reserve: (limit / RESERVE).min(RESERVE_MAX),
        for_small: limit / FOR_SMALL,
        batch: (limit / BATCH).min(BATCH_MAX),
        waiting_max: WAITING_MAX,
    }
}

impl Ledger {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            origin: Instant::now(),
            state: Mutex::new(State {
                core: Memory::new(config(limit)),
                next_query: 0,
                next_holder: 0,
                held: BTreeMap::new(),
                asking: HashSet::new(),
                answers: HashMap::new(),
                reclaims: VecDeque::new(),
                arrivals: HashMap::new(),
                rejected: HashSet::new(),
                on_end: HashMap::new(),
                ending: Vec::new(),
            }),
            answered: Condvar::new(),
        }
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Passes events to the core. What holders must give back waits for [`Self::carry_out`].
    pub(super) fn tell(&self, events: impl IntoIterator<Item = Event>) {
        let mut state = self.state.lock();
        for event in events {
            state.handle(self.now(), event);
        }
        self.unlock(state);
    }

    /// Tells the core what holders have: bytes and floor.
    pub(super) fn tell_held(&self, all: impl IntoIterator<Item = (HolderId, u64, u64)>) {
        let mut state = self.state.lock();
        for (holder, bytes, floor) in all {
            let before = state.held.insert(holder, (bytes, floor));
            if before.unwrap_or_default() != (bytes, floor) {
                let held = Event::Held {
                    holder,
                    bytes,
                    floor,
                };
                state.handle(self.now(), held);
            }
        }
        self.unlock(state);
    }

    /// Releases the lock, wakes operators with answers, and notifies queries that have to end.
    fn unlock(&self, mut state: MutexGuard<'_, State>) {
        let ending = std::mem::take(&mut state.ending);
        let answered = !state.answers.is_empty();
        drop(state);
        if answered {
            self.answered.notify_all();
        }
        for on_end in ending {
            on_end();
        }
    }

    pub(super) fn usage(&self) -> Usage {
        self.state.lock().core.usage()
    }

    pub(super) fn standing(&self, query: QueryId) -> Option<Standing> {
        self.state.lock().core.standing(query)
    }

    /// The time that has passed since the core was told that it is `then`.
    pub(super) fn since(&self, then: Time) -> Duration {
        Duration::from_nanos(self.now().0.saturating_sub(then.0))
    }

    /// The bytes that a holder may have in all.
    pub(super) fn room(&self, holder: HolderId) -> u64 {
        self.state.lock().core.room(holder)
    }

    pub(super) fn add_holder(&self, class: coscan_core::memory::Class) -> HolderId {
        let mut state = self.state.lock();
        let holder = HolderId(state.next_holder);
        state.next_holder += 1;
        state.handle(self.now(), Event::HolderAdded { holder, class });
        self.unlock(state);
        holder
    }

    /// A query arrives. The receiver resolves when the query is admitted; it fails if the query is
    /// rejected.
    pub(super) fn arrive(&self, minimum: u64) -> (QueryId, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        let query = QueryId(state.next_query);
        state.next_query += 1;
        state.arrivals.insert(query, sender);
        state.handle(self.now(), Event::QueryArrived { query, minimum });
        self.unlock(state);
        (query, receiver)
    }

    /// Whether queries have less than half of the memory, and some of it is free.
    pub(super) fn is_free(&self) -> bool {
        let core = &self.state.lock().core;
        core.of_queries() < core.limit() / 2 && core.has_room(core.limit() / ROOM)
    }

    /// The bytes that are free for a query that is not small.
    pub(super) fn free(&self) -> u64 {
        self.state.lock().core.free()
    }

    pub(super) fn small_max(&self) -> u64 {
        self.state.lock().core.small_max()
    }

    /// Admits a query at once: with `minimum` if that is free and queries have less than half of
    /// the memory, otherwise without. When many queries begin, promises to some would leave others
    /// nothing.
    pub(super) fn begin(&self, minimum: u64) -> QueryId {
        let minimum = if self.is_free() { minimum } else { 0 };
        let (query, mut admitted) = self.arrive(minimum);
        if admitted.try_recv().is_ok() {
            return query;
        }
        self.end_query(query);
        self.arrive(0).0
    }

    /// Registers `on_end`, which is called when the query has to end.
    pub(super) fn on_end(&self, query: QueryId, on_end: OnEnd) {
        self.state.lock().on_end.insert(query, on_end);
    }

    pub(super) fn end_query(&self, query: QueryId) {
        let mut state = self.state.lock();
        state.on_end.remove(&query);
        state.arrivals.remove(&query);
        if !state.rejected.remove(&query) {
            state.handle(self.now(), Event::QueryEnded { query });
        }
        self.unlock(state);
    }

    /// Asks for bytes of an operator, for a part of it that has `has` bytes; `give_back` makes a
    /// holder give bytes back and tells the core.
    pub(super) fn ask(
        &self,
        operator: OperatorId,
        bytes: u64,
        has: u64,
        give_back: impl Fn(HolderId, u64),
    ) -> Result<(), Refused> {
        let mut state = self.state.lock();
        while !state.asking.insert(operator) {
            self.answered.wait(&mut state);
        }
        let asked = Event::Asked {
            operator,
            bytes,
            has,
        };
        state.handle(self.now(), asked);
        loop {
            if let Some(answer) = state.answers.remove(&operator) {
                state.asking.remove(&operator);
                self.unlock(state);
                self.answered.notify_all();
                return answer;
            }
            match state.reclaims.pop_front() {
                Some((holder, bytes)) => {
                    self.unlock(state);
                    give_back(holder, bytes);
                    state = self.state.lock();
                }
                None => self.answered.wait(&mut state),
            }
        }
    }

    /// Makes holders give back what the core reclaims.
    pub(super) fn carry_out(&self, give_back: impl Fn(HolderId, u64)) {
        loop {
            let Some((holder, bytes)) = self.state.lock().reclaims.pop_front() else {
                return;
            };
            give_back(holder, bytes);
        }
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        self.state.lock().core.check();
    }
}
