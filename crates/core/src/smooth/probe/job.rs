//! What a driver tells a probe, and what the probe asks it for.

use std::sync::Arc;

use crate::smooth::{FetchedRows, PageRun};

/// A job of regions, as the probe numbers them. Ascends, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// What to do next. Those that ask the index are repeated until they are answered; all others are
/// given out once.
#[derive(Clone, Debug)]
pub enum Job {
    /// Read the next entries of the index: [`Event::EntriesRead`], [`Event::EntriesEnded`] or
    /// [`Event::IndexFailed`].
    ReadEntries,
    /// Read so many leaves, spread over what is left of the index, without going on in it:
    /// [`Event::EntriesSampled`] or [`Event::IndexFailed`].
    SampleEntries {
        /// How many.
        leaves: usize,
    },
    /// Fetch the rows at these positions, of these pages ascending, and look at no others.
    Rows(Vec<(u32, Vec<u64>)>),
    /// Look at all rows of these regions, each of runs of pages, then tell [`Event::Examined`].
    Regions {
        /// Of the answer.
        id: JobId,
        /// In the order in which the index named them.
        regions: Vec<Vec<PageRun>>,
    },
    /// Look at all rows of these pages of one chunk, ascending. They are all known: no answer.
    Pages(Vec<PageRun>),
    /// Nothing more with keys before the bound; after [`Event::BoundMoved`] there may be.
    Bound,
    /// Let a cooperative scan read what is not done. Nothing more by the index.
    HandOver(HandOver),
    /// Nothing more at all.
    End,
}

/// What a cooperative scan that takes over must not read again.
#[derive(Clone, Debug)]
pub struct HandOver {
    /// Per page: it was in a job, or the index names no row of it.
    pub done: Vec<bool>,
    /// Rows that were fetched one by one.
    pub fetched: Arc<FetchedRows>,
}

impl HandOver {
    /// Of a table of so many pages everything is left.
    #[must_use]
    pub fn everything(pages: u32) -> Self {
        Self {
            done: vec![false; pages as usize],
            fetched: Arc::default(),
        }
    }

    /// How many pages are left.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.done.iter().filter(|done| !**done).count()
    }
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The index names rows at these positions, in the order of their keys. The first `before` of
    /// them are before the bound.
    EntriesRead {
        /// Of rows of the table; others are left out.
        positions: &'a [u64],
        /// All, without a bound.
        before: usize,
    },
    /// The index names no more rows.
    EntriesEnded,
    /// What some leaves name; `None` where too few are left for a sample.
    EntriesSampled(Option<Sample<'a>>),
    /// Of the entries that were read last, so many are before the bound now. Bounds ascend.
    BoundMoved {
        /// All, without a bound.
        before: usize,
    },
    /// The regions of a job were looked at, in the order in which they were given.
    Examined {
        /// The job.
        job: JobId,
        /// Each region.
        regions: &'a [Examined],
    },
    /// The index cannot be read. What it was asked for is not answered any more.
    IndexFailed,
}

/// What some leaves of the index name.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Of the rows.
    pub positions: &'a [u64],
    /// How many leaves are left for each that was read.
    pub scale: f64,
    /// How long it took to read them.
    pub took_ns: f64,
}

/// What a region brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// Pages that were looked at.
    pub pages: u32,
    /// Those of them that held results.
    pub with_results: u32,
    /// Pages that statistics ruled out.
    pub pruned: u32,
}
