//! Who gets memory, who gives it back, and who waits?
//!
//! Idea: everything that takes memory is a *holder* with a *price*: the time it costs to get a
//! byte back after it was dropped. A request that does not fit takes the bytes that are cheapest
//! to get back, whichever holder has them. An operator of a query cannot be asked to give memory
//! back. One that can spill does so when its next request is refused, so its price counts at that
//! moment. One that cannot spill, or has nothing to spill yet, fails on a refusal, and its query
//! with it. So a query is admitted only when there is room for its *minimum*, the memory of such
//! operators, and the minimum stays promised to the query while it runs. A query that failed for
//! lack of memory runs once more with what it is known to need as its minimum. A part of the memory
//! is for small queries only: they begin and end while large ones hold all the rest and wait for
//! more, or for clients that have stopped reading.
//!
//! ```text
//! holders   ─ held ─ … ─ (Reclaim → held, reclaimed)
//! queries   ─ arrive ─ Admit │ Reject ─ operators ask: Grant │ Refuse ─ end
//! scratch   ─ arrive ─ Open ─ close            the work on a chunk
//! limit, measured, tick                        End: the limit was lowered, or a client is silent
//! ```
//! *Taken* is what operators hold, the scratch of chunks being worked on, what holders keep, and
//! what the kernel counts beyond all this. *Fixed* is taken plus what queries are promised;
//! droppable bytes may occupy promised memory. Both stay below the *ceiling*, the limit less the
//! reserve.
//!
//! Not here: the allocator, the victims within a holder (`abm`), how operators spill, how long a
//! failed query waits before it runs once more (the engine).
//! Bounds: `waiting_max` queries wait. An event costs O(log operators), plus the holders where
//! memory is short (a few), plus the queries where some must end.
//!
//! MEM-I1: all counts are the sums of what they count.
//! MEM-I2: holders are asked for the cheapest bytes first, and never for their floors.
//! MEM-I3: an operator that would fail is refused nothing of its query's minimum but the rooms of
//! others, unless the limit was lowered or memory was taken without a request in between.
//! MEM-I4: the fixed bytes are below the ceiling when a query is admitted beside others, and when
//! an operator is granted more than is kept for its query, except in the part for small ones.
//! MEM-I5: queries are admitted in the order of arrival. A query may be passed by others whose
//! minima are together at most its own, and by small ones in the part that is for them.
//! MEM-I6: no query waits while no query with a minimum runs, except small ones that came later,
//! and no older one has memory. No scratch waits while none is open.
//! MEM-I7: the reserve is for what needs no memory of a query: connections, COMMIT, ROLLBACK.
//! MEM-I8: when more than the limit is taken for a second, not counting droppable bytes, queries
//! end, the youngest first, until less is taken.
//! MEM-I9: small queries get the part for small ones, whatever else is taken. No other request is
//! granted from it.
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
mod small;
mod usage;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use event::{
    Action, Class, Event, HolderId, MemoryError, OnRefusal, OperatorId, ScratchId, WHOLE,
};
pub use usage::{Standing, Usage};

use small::Room;

use crate::ids::Time;
use crate::tasks::QueryId;

const SECOND: u64 = 1_000_000_000;

/// A query may take back what it gave back during this time: a sort gives its memory to its merge
/// batch by batch, and if others took it in between, the query would fail because it sorts.
const CREDIT_NS: u64 = SECOND / 4;

/// How long the bytes taken may exceed the limit before queries end.
const LOWERED_NS: u64 = SECOND;

/// A client that has not come back for this long may lose its query when others want memory. The
/// patience shrinks with the part of the memory that such queries hold.
const SILENT_NS: u64 = 10 * SECOND;

/// When no chunk was opened or closed for this long, the next one is opened although it does not
/// fit: the readers of the open chunks may be waiting for it.
const PATIENCE_NS: u64 = SECOND;

/// More than any process has, and small enough that sums do not overflow.
const BYTES_MAX: u64 = 1 << 50;

/// The uncounted memory of the process rises when two measurements in a row show it. It falls by
/// this part of the difference (a divisor) at each measurement, because the kernel's count lags
/// behind when memory is freed.
const FALL: u64 = 4;

/// The bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// The bytes that the process may take.
    pub limit: u64,
    /// The bytes of the limit that queries never get (MEM-I7).
    pub reserve: u64,
    /// The bytes of the limit that only small queries get (MEM-I9).
    pub for_small: u64,
    /// Up to so many bytes a part of an operator that spills would fail if it were refused: it
    /// holds one batch of rows, and its tables keep the room for one when they have spilled.
    pub batch: u64,
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
    /// The room at the last look at `waiting`: no waiting query fitted in it.
    room_seen: Room,
    /// The estimates of chunks in work.
    scratch: BTreeMap<ScratchId, u64>,
    scratch_waiting: VecDeque<(ScratchId, u64)>,
    /// When a scratch was last opened or closed, or began to wait at the head of the queue.
    scratch_moved: Time,
    /// Operators that wait until holders have answered, and the bytes they asked for.
    asking: VecDeque<Asking>,
    /// Holders that were asked for bytes and have not answered yet, and whether they gave some.
    asked: BTreeMap<HolderId, bool>,
    /// Holders that gave nothing when they were asked: not asked before the next tick.
    spent: BTreeSet<HolderId>,
    /// MEM-I1.
    sums: Sums,
    /// The bytes that the process takes beyond all counts.
    unaccounted: u64,
    /// The bytes beyond all counts at the last measurement.
    beyond_before: u64,
    /// The largest recent minimum of a query that arrived beside others: operators that spill
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
    /// Bytes that queries are promised or may take back, beyond those they hold.
    aside: u64,
    /// The part of `aside` that queries with operators that spill may take back.
    credit: u64,
    /// What small queries keep: a part of `operators`, `asking` and `aside`.
    small: u64,
    /// Bytes that operators wait for while holders answer. They count as taken.
    asking: u64,
    /// Estimates of the open scratches.
    scratch: u64,
    /// Bytes that holders never give back, and floors.
    kept: u64,
    /// The part of `kept` that holders do not use.
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
    /// For the class `Drops`: what the holder does not give back and may always have.
    floor: u64,
}

/// A request of an operator, which may wait until holders have answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asking {
    operator: OperatorId,
    bytes: u64,
    /// What the part of the operator has that asks, or [`WHOLE`].
    has: u64,
    /// Whether it would fail if refused, when it came.
    fails: bool,
    /// The part of `bytes` for which the operator had room, when it came.
    in_room: u64,
}

impl Asking {
    /// The part of `bytes` that the operator could not spill.
    fn fixed(&self) -> u64 {
        if self.fails { self.bytes } else { self.in_room }
    }
}

/// An admitted query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Query {
    /// MEM-I3: the bytes it is promised.
    minimum: u64,
    /// The minimum it arrived with, or the smaller one it declared later.
    wanted: u64,
    /// Bytes of its operators.
    held: u64,
    /// The bytes of these that operators would give back if they were refused.
    spillable: u64,
    /// How many operators it has.
    operators: u32,
    /// How many of them spill.
    spillers: u32,
    /// Bytes that its operators wait for while holders answer.
    asks: u64,
    /// The part of `asks` that operators could not spill.
    asks_fixed: u64,
    /// What is kept for operators that were refused, for each of them alone.
    rooms: u64,
    /// The part of `asks` for which the operators that wait have room.
    asks_in_room: u64,
    /// Bytes that it gave back and may take back for a while.
    credit: u64,
    /// The part of `credit` given back after `turned_at`; the rest expires at the next turn.
    fresh: u64,
    turned_at: Time,
    /// Since when its client has been silent.
    silent_since: Option<Time>,
    /// Whether it was told to end.
    ends: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operator {
    query: QueryId,
    on_refusal: OnRefusal,
    bytes: u64,
    /// The first bytes it got, and what each of its parts has up to a batch: an operator that
    /// spills needs something to spill.
    base: u64,
    /// The most that a refused part of it had and could not spill: it writes all that it has, and
    /// goes on with as much. Its query has that for it until it ends.
    room: u64,
}

impl Operator {
    /// The bytes it would give back if refused.
    fn spillable(&self) -> u64 {
        match self.on_refusal {
            OnRefusal::Spills(_) => self.bytes - self.base,
            OnRefusal::Fails => 0,
        }
    }

    /// The bytes that are kept for it alone.
    fn keeps_room(&self) -> u64 {
        self.room.saturating_sub(self.bytes)
    }

    /// Whether its query fails if it is refused these bytes. `batch`: see [`MemoryConfig::batch`].
    fn would_fail(&self, asking: &Asking, batch: u64) -> bool {
        let has = asking.has.min(self.bytes);
        self.bytes == 0
            || self.on_refusal == OnRefusal::Fails
            || has.saturating_add(asking.bytes) <= batch
            || asking.bytes <= self.keeps_room()
    }

    /// A part of it that has `has` bytes is refused. If the operator spills, it keeps room for what
    /// the part cannot spill.
    fn keep_room(&mut self, has: u64) {
        if matches!(self.on_refusal, OnRefusal::Spills(_)) {
            self.room = self.room.max(has.min(self.base));
        }
    }

    /// A part that had `has` bytes has `bytes` more.
    fn grow(&mut self, bytes: u64, has: u64, batch: u64) {
        let has = has.min(self.bytes);
        let more = match self.bytes {
            0 => bytes,
            _ => (has + bytes).min(batch) - has.min(batch),
        };
        self.bytes += bytes;
        self.keep_base(self.base + more, batch);
    }

    /// A part has `bytes` less, and `left` left.
    fn shrink(&mut self, bytes: u64, left: u64, batch: u64) {
        self.bytes -= bytes;
        let left = left.min(self.bytes);
        let less = (left + bytes).min(batch) - left.min(batch);
        self.keep_base(self.base.saturating_sub(less), batch);
    }

    /// Parts may exchange bytes unseen, and the batch may change. What fills the room cannot be
    /// spilled.
    fn keep_base(&mut self, base: u64, batch: u64) {
        let least = self.bytes.min(batch.max(self.room));
        self.base = base.clamp(least, self.bytes);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    query: QueryId,
    minimum: u64,
    since: Time,
    /// MEM-I5: the minima of the queries that passed it.
    passed: u64,
}

/// The largest of the latest minima.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Headroom(VecDeque<u64>);

/// How many minima count: those of a burst of clients.
const MINIMA: usize = 32;

impl Headroom {
    fn record(&mut self, minimum: u64) {
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
    /// The bytes kept for it beyond those it holds.
    fn aside(&self) -> u64 {
        self.promised_left().max(self.credit_left())
    }

    /// The part of `aside` that operators which fail may have, or have room for.
    fn promised_left(&self) -> u64 {
        let fixed = self.held - self.spillable;
        let promised = self.minimum.saturating_sub(fixed + self.asks_fixed);
        promised.max(self.rooms.saturating_sub(self.asks_in_room))
    }

    /// The part of `aside` that it may take back and spill once more.
    fn spillable_credit(&self) -> u64 {
        match self.spillers {
            0 => 0,
            _ => self.credit_left().saturating_sub(self.promised_left()),
        }
    }

    /// The part of `aside` that is for others than the operator that keeps this much room.
    fn rooms_beside(&self, own: u64) -> u64 {
        (self.rooms - own).saturating_sub(self.asks_in_room)
    }

    /// The bytes it may take back, beyond those its operators already wait for.
    fn credit_left(&self) -> u64 {
        self.credit.saturating_sub(self.asks)
    }

    /// The bytes that other queries cannot have because of this one.
    fn keeps(&self) -> u64 {
        self.held + self.asks + self.aside()
    }

    /// Whether another query may be waiting for its end.
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
            room_seen: Room::default(),
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
