//! How far are the running builds of indexes?
//!
//! A build first reads and sorts all rows, then writes their entries. It only counts;
//! [`Engine::index_builds`](crate::Engine::index_builds) shows the counts.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// An index that is being built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexBuild {
    /// The index's name.
    pub name: String,
    /// The rows to read: those of the table, or, if a REFRESH keeps the entries of the other
    /// files, those of its new files. 0 until the files are open.
    pub rows: u64,
    /// Rows whose key was read.
    pub rows_read: u64,
    /// The entries of these rows (rows whose key is not NULL), and entries that are kept.
    pub entries: u64,
    /// The entries written so far. Writing begins when all rows have been read.
    pub entries_written: u64,
}

/// The counts of a build.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    rows: AtomicU64,
    rows_read: AtomicU64,
    entries: AtomicU64,
    entries_written: AtomicU64,
}

impl Progress {
    /// Sets the rows to read and the entries that are kept. A build may begin more than once.
    pub(crate) fn begin(&self, rows: u64, entries: u64) {
        self.rows_read.store(0, Relaxed);
        self.entries_written.store(0, Relaxed);
        self.entries.store(entries, Relaxed);
        self.rows.store(rows, Relaxed);
    }

    pub(crate) fn add_read(&self, rows: usize, entries: usize) {
        // Entries are added first, so that the entry of every row that counts as read is counted.
        self.entries.fetch_add(entries as u64, Relaxed);
        self.rows_read.fetch_add(rows as u64, Release);
    }

    pub(crate) fn add_written(&self, entries: usize) {
        self.entries_written.fetch_add(entries as u64, Release);
    }

    pub(crate) fn of(&self, name: &str) -> IndexBuild {
        // What is counted last is read first, so that no count is ahead of an earlier one; a build
        // that begins again meanwhile may be in between.
        let entries_written = self.entries_written.load(Acquire);
        let rows_read = self.rows_read.load(Acquire);
        let (rows, entries) = (self.rows.load(Relaxed), self.entries.load(Relaxed));
        IndexBuild {
            name: name.to_owned(),
            rows,
            rows_read: rows_read.min(rows),
            entries,
            entries_written: entries_written.min(entries),
        }
    }
}
