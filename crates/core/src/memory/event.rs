//! Events and actions of the memory component.

use crate::tasks::QueryId;

/// What a part of an operator has that is all of the operator.
pub const WHOLE: u64 = u64::MAX;

/// A holder of memory that belongs to no query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub u32);

/// An operator of a query. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorId(pub u64);

/// The work on a chunk: decompressed pages, dictionaries, a window of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScratchId(pub u64);

/// Whether and at what price a holder's bytes can be reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It drops them when asked, down to its floor. Nanoseconds to get a KiB back afterwards.
    Drops(u64),
    /// It keeps them: arrays that are being read, metadata in use.
    Keeps,
    /// Like `Keeps`; the reserve is for it.
    Connections,
}

/// How an operator reacts to a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRefusal {
    /// It writes what it holds to disk. Nanoseconds to get a KiB back afterwards.
    Spills(u64),
    /// It fails, and its query with it.
    Fails,
}

/// An event. Bytes are totals for holders, and differences for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is a new holder, without bytes.
    HolderAdded {
        /// The holder.
        holder: HolderId,
        /// Its class.
        class: Class,
    },
    /// A holder is gone; its bytes are free.
    HolderRemoved {
        /// The holder.
        holder: HolderId,
    },
    /// The price of a holder's bytes has changed.
    Priced {
        /// A holder of the class `Drops`.
        holder: HolderId,
        /// Nanoseconds to get a KiB back.
        price: u64,
    },
    /// The current bytes of a holder.
    Held {
        /// The holder.
        holder: HolderId,
        /// All its bytes.
        bytes: u64,
        /// For the class `Drops`: what the holder does not give back and may always have, that is,
        /// pinned frames and the largest load of its running scans. May exceed `bytes`.
        floor: u64,
    },
    /// A holder gave back what it could, reported by `Held` just before. One that gave nothing is
    /// not asked before the next tick.
    Reclaimed {
        /// A holder that was asked.
        holder: HolderId,
    },
    /// A query wants to begin.
    QueryArrived {
        /// The query. Ids ascend.
        query: QueryId,
        /// The bytes that its operators cannot do without.
        minimum: u64,
    },
    /// An admitted query needs no more than this for the rest of its run: its tables are built,
    /// and it only returns rows.
    QueryNeedsLess {
        /// The query.
        query: QueryId,
        /// Bytes. Ignored if it was promised less.
        minimum: u64,
    },
    /// A query, admitted or waiting, has ended. `OperatorEnded` came first for each of its
    /// operators.
    QueryEnded {
        /// The query.
        query: QueryId,
    },
    /// The client of an admitted query does not come back for rows.
    QuerySilent {
        /// The query.
        query: QueryId,
    },
    /// The client of an admitted query has come back.
    QueryHeard {
        /// The query.
        query: QueryId,
    },
    /// An operator of an admitted query begins, without bytes.
    OperatorBegan {
        /// The operator.
        operator: OperatorId,
        /// Its query.
        query: QueryId,
        /// How it reacts to a refusal.
        on_refusal: OnRefusal,
    },
    /// An operator asks for more. `Grant` or `Refuse` follows, perhaps after `Reclaimed` from
    /// holders; until then the operator asks for nothing else.
    Asked {
        /// The operator.
        operator: OperatorId,
        /// Bytes.
        bytes: u64,
        /// What the part of the operator has that asks, in bytes, or [`WHOLE`]: an operator may
        /// hold several things, and spills none of them for the sake of another.
        has: u64,
    },
    /// An operator has taken more without asking.
    Took {
        /// The operator.
        operator: OperatorId,
        /// Bytes.
        bytes: u64,
    },
    /// An operator has freed some of its bytes.
    Gave {
        /// The operator.
        operator: OperatorId,
        /// Bytes, at most what it has.
        bytes: u64,
        /// What the part of the operator has left that freed them, in bytes, or [`WHOLE`].
        left: u64,
    },
    /// An operator has ended and freed all its bytes.
    OperatorEnded {
        /// The operator.
        operator: OperatorId,
    },
    /// A reader wants to work on a chunk. `Open` follows.
    ScratchArrived {
        /// The work. Never used twice.
        scratch: ScratchId,
        /// An estimate.
        bytes: u64,
    },
    /// The work on a chunk has ended, or its reader has stopped waiting for it.
    ScratchClosed {
        /// The work.
        scratch: ScratchId,
    },
    /// The bounds of all memory have changed.
    LimitChanged {
        /// The bytes that the process may take.
        limit: u64,
        /// The part of it that queries never get.
        reserve: u64,
        /// The part of it that only small queries get.
        for_small: u64,
        /// Up to what a part of an operator that spills would fail.
        batch: u64,
    },
    /// The memory of the process as the kernel counts it.
    Measured {
        /// Bytes.
        bytes: u64,
    },
    /// Time has passed. Comes several times a second.
    Ticked,
}

/// An action for the driver to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The query may begin.
    Admit {
        /// The query.
        query: QueryId,
    },
    /// The query may not begin: too many queries wait.
    Reject {
        /// The query; it is forgotten.
        query: QueryId,
    },
    /// The operator gets the bytes it asked for.
    Grant {
        /// The operator.
        operator: OperatorId,
    },
    /// The operator does not get the bytes it asked for.
    Refuse {
        /// The operator.
        operator: OperatorId,
        /// The bytes that its query's operators have and cannot spill, or have room for, plus the
        /// refused request.
        needed: u64,
        /// The bytes that other queries have, wait for and are promised or may take back.
        others: u64,
        /// Whether an operator that fails would have got its bytes without the other queries.
        fits_alone: bool,
    },
    /// The reader may work on the chunk.
    Open {
        /// The work.
        scratch: ScratchId,
    },
    /// The holder must give back this much at once, or as much as it can.
    Reclaim {
        /// The holder.
        holder: HolderId,
        /// Bytes.
        bytes: u64,
    },
    /// The query must end with an error, for lack of memory.
    End {
        /// The query.
        query: QueryId,
    },
}

/// Why an event was refused. The state is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// There is no such holder, or it is there already.
    #[error("holder {} is unknown, or known already", .0.0)]
    Holder(HolderId),
    /// There is no such query, it waits, or it is there already.
    #[error("query {} is unknown, waits, or is known already", .0.0)]
    Query(QueryId),
    /// There is no such operator, it is there already, or it asks already.
    #[error("operator {} is unknown, known already, or asks already", .0.0)]
    Operator(OperatorId),
    /// There is no such work on a chunk, or it is there already.
    #[error("scratch {} is unknown, or known already", .0.0)]
    Scratch(ScratchId),
    /// An operator frees more than it has.
    #[error("operator {} frees {bytes} bytes and has {has}", .operator.0)]
    TooMuch {
        /// The operator.
        operator: OperatorId,
        /// The bytes it frees.
        bytes: u64,
        /// The bytes it has.
        has: u64,
    },
    /// A query ends before its operators.
    #[error("query {} ends before its operators", .0.0)]
    OperatorsLeft(QueryId),
}
