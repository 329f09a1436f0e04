//! Who gets memory, who gives it back, and who waits?
//!
//! Idea: everything that takes memory is a *holder* with a *price*: the time that it costs to get
//! a byte back once it is dropped. A request that does not fit takes the bytes that are cheapest to
//! get back, whoever holds them. Operators of queries cannot be asked for memory; one that can
//! spill gives its own back when its next request is refused, so its price counts when it asks. One
//! that cannot spill, or has nothing to spill yet, would fail, and its query with it. So a query
//! begins only when its *minimum* for these is there, and the minimum stays promised to it while it
//! runs. A query that failed for want of memory comes back with what it was known to need as its
//! minimum.
//!
//! ```text
//! holders   ─ held ─ … ─ (Reclaim → held, reclaimed)
//! queries   ─ arrive ─ Admit │ Reject ─ operators ask: Grant │ Refuse ─ end
//! scratch   ─ arrive ─ Open ─ close            the work on a chunk
//! limit, measured, tick                        End: the limit was lowered, or a client does not read
//! ```
//! *Fixed* is what operators hold and are promised, chunks in work, what holders keep, and what the
//! kernel counts beyond all this. *Taken* is the same without promises; droppable bytes may lie
//! where promises are. Both stay below the *ceiling*, the limit less the reserve.
//! Not here: the allocator, the victims within a holder (`abm`), how operators spill, how long a
//! query that failed waits before it comes back (the engine).
//! Bounds: `waiting_max` queries wait. An event costs O(log operators), plus the holders where
//! memory is short (a few), plus the queries where some must end.
//!
//! MEM-I1: all counts are the sums of what they count.
//! MEM-I2: holders are asked for the cheapest bytes first, and never for their floors.
//! MEM-I3: an operator that would fail is refused nothing of its query's minimum, unless the limit
//! was lowered, or what nobody asked for came between.
//! MEM-I4: the fixed bytes are below the ceiling when a query is admitted beside others, and when
//! an operator is granted more than is kept for its query.
//! MEM-I5: queries are admitted in the order of arrival. A query may be passed by others whose
//! minima are together at most its own.
//! MEM-I6: no query waits while no query with a minimum runs and no older one has memory. No
//! scratch waits while none is open.
//! MEM-I7: the reserve is kept for what needs no memory of a query: connections, COMMIT, ROLLBACK.
//! MEM-I8: where more than the limit is taken for a second, without droppable bytes, queries end,
//! the youngest first, until it is not.
//! Source: none of the papers. [QPipe05 §4.3] and [CoopScans07 §4] choose victims among pages by
//! what running queries want; here a price makes pages, arrays, results and operators comparable,
//! as [CaoIrani97 §4] does for documents of different sizes.

mod admit;
mod ask;
mod check;
mod end;
mod event;
mod handle;
mod reclaim;
mod usage;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use event::{Action, Class, Event, HolderId, MemoryError, OnRefusal, OperatorId, ScratchId};
pub use usage::Usage;

use crate::ids::Time;
use crate::tasks::QueryId;

const SECOND: u64 = 1_000_000_000;

/// What a query gives back stays its own for this long: a sort gives its memory to its merge batch
/// by batch, and in between others must not take it, or the query fails because it sorts.
const CREDIT_NS: u64 = SECOND / 4;

/// How long fixed bytes may exceed a limit that was lowered before queries end for it.
const LOWERED_NS: u64 = SECOND;

/// A client that has not come back for this long may lose its query to others that want memory.
/// The more of the memory such queries hold, the less time they have.
const SILENT_NS: u64 = 10 * SECOND;

/// A chunk is opened although it does not fit where none was opened or closed for this long: the
/// readers of the open ones may wait for it.
const PATIENCE_NS: u64 = SECOND;

/// More than any process has, and few enough that sums of them do not overflow.
const BYTES_MAX: u64 = 1 << 50;

/// What the process takes beyond what is counted is believed when it was measured twice, and when
/// it falls, by this part of the difference at each measurement: freed memory is seen late.
const FALL: u64 = 4;

/// The bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// The bytes that the process may take.
    pub limit: u64,
    /// The bytes of the limit that queries never get (MEM-I7).
    pub reserve: u64,
    /// The most queries that wait for admission.
    pub waiting_max: usize,
}

/// All memory of a process.
#[derive(Clone, Debug)]
pub struct Memory {
    config: MemoryConfig,
    now: Time,
    holders: BTreeMap<HolderId, Holder>,
    /// Admitted queries.
    queries: BTreeMap<QueryId, Query>,
    operators: BTreeMap<OperatorId, Operator>,
    /// MEM-I5: in the order of arrival.
    waiting: VecDeque<Waiting>,
    /// The room in which none of these fitted.
    room_seen: u64,
    /// The estimates of chunks in work.
    scratch: BTreeMap<ScratchId, u64>,
    scratch_waiting: VecDeque<(ScratchId, u64)>,
    /// When one was opened or closed, or began to wait as the first.
    scratch_moved: Time,
    /// Operators that wait until holders have given way, and the bytes that they asked for.
    asking: VecDeque<Asking>,
    /// Holders that were asked for bytes and have not answered yet, and whether they gave some.
    asked: BTreeMap<HolderId, bool>,
    /// Holders that gave nothing when they were asked: they are not asked before the next tick.
    spent: BTreeSet<HolderId>,
    /// MEM-I1.
    sums: Sums,
    /// What the process takes beyond what is counted.
    unaccounted: u64,
    /// The same at the last measurement.
    beyond_before: u64,
    /// The largest minimum among the queries that came lately beside others: operators that spill
    /// leave it free.
    headroom: Headroom,
    /// Since when more than the limit has been taken by what cannot be dropped.
    over_since: Option<Time>,
    /// Whether a query has waited, or an operator that fails was refused, since the last tick.
    short: bool,
    actions: VecDeque<Action>,
}

/// Sums over everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    /// Bytes of operators.
    operators: u64,
    /// The bytes of these that operators would give back if they were refused.
    spillable: u64,
    /// How many queries have operators that spill.
    spilling: u64,
    /// What queries are promised, and may have again, beyond what they hold.
    aside: u64,
    /// The part of it that queries with operators that spill may have again.
    credit: u64,
    /// What operators wait for while holders give way. It counts as taken.
    asking: u64,
    /// Estimates of the chunks in work.
    scratch: u64,
    /// Bytes that holders do not give back, or may always have.
    kept: u64,
    /// The part of these that they do not have.
    unused: u64,
    /// Bytes of connections.
    connections: u64,
    /// Bytes that holders give back when asked.
    droppable: u64,
}

/// Memory that belongs to no query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    class: Class,
    bytes: u64,
    /// What it does not give back and may always have, if its class is `Drops`.
    floor: u64,
}

/// An operator that waits for holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asking {
    operator: OperatorId,
    bytes: u64,
    /// Whether it would fail if it was refused.
    fails: bool,
}

/// An admitted query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Query {
    /// MEM-I3: what it is promised.
    minimum: u64,
    /// The minimum that it came with.
    wanted: u64,
    /// Bytes of its operators.
    held: u64,
    /// The bytes of these that operators would give back if they were refused.
    spillable: u64,
    /// How many operators it has.
    operators: u32,
    /// How many of them spill.
    spillers: u32,
    /// What its operators wait for while holders give way.
    asks: u64,
    /// The part of `asks` of operators that would fail.
    asks_fixed: u64,
    /// What it gave back and may have again for a moment.
    credit: u64,
    /// The part of `credit` that it gave after `turned_at`; the rest goes at the next turn.
    fresh: u64,
    turned_at: Time,
    /// Since when its client has not come back.
    silent_since: Option<Time>,
    /// Whether it was told to end.
    ends: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operator {
    query: QueryId,
    on_refusal: OnRefusal,
    bytes: u64,
    /// The part of `bytes` that it got first. One that spills needs something to spill.
    base: u64,
}

impl Operator {
    /// What it would give back if it was refused.
    fn spillable(&self) -> u64 {
        match self.on_refusal {
            OnRefusal::Spills(_) => self.bytes - self.base,
            OnRefusal::Fails => 0,
        }
    }

    /// Whether its query fails if it is refused.
    fn would_fail(&self) -> bool {
        self.bytes == 0 || self.on_refusal == OnRefusal::Fails
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    query: QueryId,
    minimum: u64,
    /// MEM-I5: the minima of the queries that passed it.
    passed: u64,
}

/// The largest of the last minima.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Headroom(VecDeque<u64>);

/// How many minima are looked at: those of a burst of clients.
const MINIMA: usize = 32;

impl Headroom {
    fn came(&mut self, minimum: u64) {
        self.0.push_back(minimum);
        if self.0.len() > MINIMA {
            self.0.pop_front();
        }
    }

    fn bytes(&self) -> u64 {
        self.0.iter().copied().max().unwrap_or(0)
    }
}

impl Query {
    /// What is kept for it beyond what it holds.
    fn aside(&self) -> u64 {
        let fixed = self.held - self.spillable;
        let promised = self.minimum.saturating_sub(fixed + self.asks_fixed);
        promised.max(self.credit_left())
    }

    /// The part of `aside` that it may have again and spill again.
    fn spillable_credit(&self) -> u64 {
        let fixed = self.held - self.spillable;
        let promised = self.minimum.saturating_sub(fixed + self.asks_fixed);
        match self.spillers {
            0 => 0,
            _ => self.credit_left().saturating_sub(promised),
        }
    }

    /// What it may have again, without what it asks for already.
    fn credit_left(&self) -> u64 {
        self.credit.saturating_sub(self.asks)
    }

    /// What others cannot have because of it.
    fn keeps(&self) -> u64 {
        self.held + self.asks + self.aside()
    }

    /// Whether others may wait for its end.
    fn is_in_the_way(&self) -> bool {
        self.wanted > 0 || self.keeps() > 0
    }
}

impl Memory {
    /// A memory that holds nothing.
    #[must_use]
    pub fn new(config: MemoryConfig) -> Self {
        Self {
            config,
            now: Time(0),
            holders: BTreeMap::new(),
            queries: BTreeMap::new(),
            operators: BTreeMap::new(),
            waiting: VecDeque::new(),
            room_seen: 0,
            scratch: BTreeMap::new(),
            scratch_waiting: VecDeque::new(),
            scratch_moved: Time(0),
            asking: VecDeque::new(),
            asked: BTreeMap::new(),
            spent: BTreeSet::new(),
            sums: Sums::default(),
            unaccounted: 0,
            beyond_before: 0,
            headroom: Headroom::default(),
            over_since: None,
            short: false,
            actions: VecDeque::new(),
        }
    }
}
