//! Processors, disks and their caches: what they cost and when they are free.
//!
//! Not here: which pages are on which disk (`data`), the order of a query's requests (`steps`).

pub(crate) mod lru;
pub(crate) mod machine;
pub(crate) mod servers;
