//! What does a driver report to a probe, and what does the probe ask of it?
//!
//! Not here: the order of jobs and events (`mod.rs`).

use std::sync::Arc;

use crate::smooth::{FetchedRows, PageRun};

/// The id of a job of regions. Ascends, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// What the driver has to do next. Jobs that read the index are repeated until they are answered;
/// every other job is issued once.
#[derive(Clone, Debug)]
pub enum Job {
    /// Read the next entries of the index. Answered by [`Event::EntriesRead`],
    /// [`Event::EntriesEnded`] or [`Event::IndexFailed`].
    ReadEntries,
    /// Read `leaves` leaves, spread over the rest of the index, without advancing in it. Answered
    /// by [`Event::EntriesSampled`] or [`Event::IndexFailed`].
    SampleEntries {
        /// The number of leaves.
        leaves: usize,
    },
    /// Fetch the rows at these positions, in ascending pages, and examine no other rows.
    Rows(Vec<(u32, Vec<u64>)>),
    /// Examine all rows of these regions, each made of runs of pages. Answered by
    /// [`Event::Examined`].
    Regions {
        /// The id to answer with.
        id: JobId,
        /// The regions, in the order in which they were chosen.
        regions: Vec<Vec<PageRun>>,
    },
    /// Examine all rows of these pages of one chunk, ascending. Needs no answer, because all the
    /// pages to read are known.
    Pages(Vec<PageRun>),
    /// No entry with a key before the bound is left; [`Event::BoundMoved`] may add some.
    Bound,
    /// Let a cooperative scan read the rest. The probe reads no more of the index.
    HandOver(HandOver),
    /// The probe has ended.
    End,
}

/// What a cooperative scan that takes over must skip.
#[derive(Clone, Debug)]
pub struct HandOver {
    /// Per page, whether the scan must skip it: it was in a job, or the index names no row of it.
    pub done: Vec<bool>,
    /// Rows that were fetched one by one.
    pub fetched: Arc<FetchedRows>,
}

impl HandOver {
    /// The whole of a table of `pages` pages is left.
    #[must_use]
    pub fn everything(pages: u32) -> Self {
        Self {
            done: vec![false; pages as usize],
            fetched: Arc::default(),
        }
    }

    /// The number of pages left.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.done.iter().filter(|done| !**done).count()
    }
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The index names rows at these positions, in the order of their keys.
    EntriesRead {
        /// The positions of rows of the table; entries of other rows are omitted.
        positions: &'a [u64],
        /// The number of positions before the bound; all if there is no bound.
        before: usize,
    },
    /// The index has no more entries.
    EntriesEnded,
    /// The entries of some leaves; `None` if too few leaves are left for a sample.
    EntriesSampled(Option<Sample<'a>>),
    /// The bound has moved. Bounds ascend.
    BoundMoved {
        /// How many of the entries read last are before the bound now; all if there is no bound.
        before: usize,
    },
    /// The regions of a job were examined; results in the order of the job's regions.
    Examined {
        /// The job.
        job: JobId,
        /// The result of each region.
        regions: &'a [Examined],
    },
    /// The index cannot be read. Its open job gets no other answer.
    IndexFailed,
}

/// The entries of some leaves of the index.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The positions of the rows.
    pub positions: &'a [u64],
    /// The number of leaves left per leaf that was read.
    pub scale: f64,
    /// The time that reading them took, in nanoseconds.
    pub took_ns: f64,
}

/// The result of examining a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// Pages that were examined.
    pub pages: u32,
    /// Those of them that held results.
    pub with_results: u32,
    /// Pages that statistics excluded.
    pub pruned: u32,
}
