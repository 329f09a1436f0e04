//! Which ways are there to find rows by an indexed column?
//!
//! Not here: what each way reads next (`probe/`), their names (`names.rs`), their costs
//! (`cost.rs`).

/// How a scan finds the rows of a predicate on an indexed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessPath {
    /// Reads the whole table without the index.
    Full,
    /// Fetches each row that the index names in the order of the index, one page per row.
    Index,
    /// Collects all rows that the index names, then reads their pages in the table's order (a
    /// bitmap scan).
    Sort,
    /// Like `Index` until it has found more rows than the optimizer estimated, then like `Full`.
    /// [SmoothScan18 §7.7]
    Switch,
    /// Morphs between `Index` and `Full` while it runs. [SmoothScan18 §3]
    Smooth,
}

/// When a smooth scan begins to morph. [SmoothScan18 §3.3]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SmoothTrigger {
    /// At once.
    Eager,
    /// When it has found more rows than the optimizer estimated.
    Optimizer,
    /// When fetching more rows one by one could exceed a promised time.
    Sla,
}
