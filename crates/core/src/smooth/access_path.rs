//! The ways to find rows by an indexed column.

/// How the rows of a predicate on an indexed column are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessPath {
    /// The whole table is read without the index.
    Full,
    /// Each row that the index names is fetched in the order of the index, one page per row.
    Index,
    /// All rows that the index names are collected, then their pages are read in the table's order
    /// (a bitmap scan).
    Sort,
    /// As `Index` until more rows came than the optimizer estimated, then as `Full`. [SmoothScan18
    /// §7.7]
    Switch,
    /// Morphs between `Index` and `Full` while it runs. [SmoothScan18 §3]
    Smooth,
}

/// When a smooth scan begins to morph. [SmoothScan18 §3.3]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SmoothTrigger {
    /// At once.
    Eager,
    /// When more rows came than the optimizer estimated.
    Optimizer,
    /// When fetching further rows one by one could exceed a promised time.
    Sla,
}
