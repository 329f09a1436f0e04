//! How many jobs ran, and how were chunks served, over all members?

use std::sync::atomic::AtomicU64;

/// Counts over all members; see the file's header.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) jobs: AtomicU64,
    pub(crate) states: AtomicU64,
    pub(crate) remembered: AtomicU64,
    pub(crate) given_back: AtomicU64,
}
