//! What do the partitions of one clustered join share: are the tables in sequence, and which keys
//! are complete?
//!
//! When the files are open, the bounds of the wanted chunks are examined. If the driving table's
//! chunks are not in sequence, or the bounds of the other table are unknown, the execution runs
//! the original plan. Chunks of the driving table that meet no chunk of the other table are not
//! read, unless rows without a partner are returned.
//! JOIN-I1: every wanted chunk of the driving table comes once, with or without rows; when all
//! have come, no row is kept. The last stream of an execution checks this.
//! Bounds: for each chunk the rows of two keys, which are kept until the neighbouring chunks have
//! come.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::super::sequence::{Found, sequence};
use super::super::wanted::{Wanted, out_of_order, wanted};
use super::key::Key;
use super::key_ranges::{Complete, KeyRangeError, KeyRanges};
use super::other_side::{OtherChunk, OtherSide};
use super::recognise::{JoinPlan, Side};
use crate::read::scan::{Execution, Run, Running};

/// The state that the partitions of one execution share.
pub(super) struct Together {
    pub(super) plan: Arc<JoinPlan>,
    pub(super) driver: Arc<Execution>,
    other: Arc<Execution>,
    standing: OnceCell<Result<Standing, Arc<DataFusionError>>>,
    streams: AtomicUsize,
}

/// Whether the tables are in sequence.
#[derive(Clone)]
pub(super) enum Standing {
    InSequence(Arc<InSequence>),
    InNone,
}

/// The wanted chunks of both tables.
pub(super) struct InSequence {
    plan: Arc<JoinPlan>,
    running: Arc<Running>,
    /// The run from which the streams take chunks of the driving table.
    pub(super) run: Arc<Run>,
    /// The chunk at each position of the sequence.
    chunks: Vec<DriverChunk>,
    /// The position of each chunk in the sequence.
    places: HashMap<usize, usize>,
    /// Positions of chunks that need not be read and that no stream has taken.
    unread: Mutex<Vec<usize>>,
    keys: Mutex<KeyRanges<Key, Kept>>,
    pub(super) other: OtherSide,
}

/// A chunk of the driving table.
struct DriverChunk {
    chunk: usize,
    low: Key,
    high: Key,
}

/// Rows with a border's key, with their memory.
pub(super) struct Kept {
    pub(super) rows: RecordBatch,
    pub(super) _memory: MemoryReservation,
}

impl Together {
    pub(super) fn new(plan: Arc<JoinPlan>) -> Self {
        let execution = |side: &Side| {
            let metrics = side.scan_metrics.clone();
            Arc::new(Execution::new(Arc::clone(&side.scan), metrics))
        };
        Self {
            driver: execution(&plan.driver),
            other: execution(&plan.other),
            standing: OnceCell::new(),
            streams: AtomicUsize::new(plan.driver.scan.partitions.len()),
            plan,
        }
    }

    /// Whether the tables are in sequence. The first caller opens their files. Cancel safe: if
    /// that caller is cancelled, another caller opens them.
    ///
    /// # Errors
    /// Those of [`Execution::running`], the same for all callers.
    pub(super) async fn standing(&self) -> Result<Standing> {
        self.standing
            .get_or_init(|| {
                let look: BoxFuture<'_, Result<Standing>> = Box::pin(self.look());
                async { look.await.map_err(Arc::new) }
            })
            .await
            .clone()
            .map_err(DataFusionError::Shared)
    }

    async fn look(&self) -> Result<Standing> {
        let running = self.driver.running().await?;
        let others = self.other.running().await?;
        let Some(chunks) = driver_chunks(&running, &self.plan.driver)? else {
            return Ok(Standing::InNone);
        };
        let Some(other_chunks) = other_chunks(&others, &self.plan.other)? else {
            return Ok(Standing::InNone);
        };
        let bounds = chunks.iter();
        let bounds = bounds.map(|chunk| (chunk.low.clone(), chunk.high.clone()));
        // Chunks that overlap cannot have separate intervals.
        let Ok(keys) = KeyRanges::new(bounds.collect()) else {
            return Ok(Standing::InNone);
        };
        let has_partners = |chunk: &DriverChunk| {
            let (from, to) = (&chunk.low, &chunk.high);
            let mut others = other_chunks.iter();
            others.any(|other| other.low <= *to && other.high >= *from)
        };
        let is_read = |chunk: &DriverChunk| self.plan.driver.is_preserved || has_partners(chunk);
        let (read, unread): (Vec<usize>, Vec<usize>) =
            (0..chunks.len()).partition(|place| is_read(&chunks[*place]));
        for place in &unread {
            // A dynamic filter may rule the chunk out, too. The claim keeps streams from being
            // told of it.
            running.claims.claim(chunks[*place].chunk);
        }
        let read: Vec<usize> = read.iter().map(|place| chunks[*place].chunk).collect();
        let partitions = self.plan.driver.scan.partitions.len();
        let run = Run::new(&read, &running.pipelines, partitions, false);
        let reaches = (0..chunks.len()).map(|place| keys.reach_of(place));
        let other = OtherSide::new(
            Arc::clone(&self.plan),
            Arc::clone(&self.other),
            others,
            other_chunks,
            reaches,
        );
        let places = chunks.iter().enumerate();
        Ok(Standing::InSequence(Arc::new(InSequence {
            run: Arc::new(run),
            places: places
                .map(|(place, driver)| (driver.chunk, place))
                .collect(),
            unread: Mutex::new(unread),
            keys: Mutex::new(keys),
            chunks,
            other,
            running,
            plan: Arc::clone(&self.plan),
        })))
    }

    /// Ends a stream. The last one checks that all chunks have come.
    ///
    /// # Errors
    /// If rows are still kept: a bug.
    pub(super) fn stream_ended(&self, standing: &InSequence) -> Result<()> {
        let left = self.streams.fetch_sub(1, Ordering::AcqRel) - 1;
        let keys = standing.keys.lock();
        if left == 0 && !keys.is_complete() {
            let parts = keys.parts();
            return internal_err!("JOIN-I1: all chunks have come, and {parts} parts are kept");
        }
        Ok(())
    }
}

impl InSequence {
    /// Takes a chunk that need not be read, and returns its position in the sequence.
    pub(super) fn take_unread(&self) -> Option<usize> {
        self.unread.lock().pop()
    }

    /// The position of a chunk in the sequence.
    ///
    /// # Errors
    /// If the chunk is not wanted: a bug.
    pub(super) fn place_of(&self, chunk: usize) -> Result<usize> {
        match self.places.get(&chunk) {
            Some(place) => Ok(*place),
            None => internal_err!("JOIN-I1: chunk {chunk} is not wanted"),
        }
    }

    /// The least and the greatest key of the chunk at a position.
    pub(super) fn bounds_of(&self, place: usize) -> (&Key, &Key) {
        let chunk = &self.chunks[place];
        (&chunk.low, &chunk.high)
    }

    /// Whether rows with the first of these keys, and with the last, must be kept.
    pub(super) fn borders_of(&self, place: usize) -> (bool, bool) {
        self.keys.lock().borders_of(place)
    }

    /// The keys that the chunk at a position may complete.
    pub(super) fn reach_of(&self, place: usize) -> (Bound<Key>, Bound<Key>) {
        self.keys.lock().reach_of(place)
    }

    /// The chunk at a position was processed, or never will be. Returns the keys that this
    /// completes, if any.
    ///
    /// # Errors
    /// If the chunk has already come: a bug.
    pub(super) fn came(
        &self,
        place: usize,
        low: Vec<Kept>,
        high: Vec<Kept>,
    ) -> Result<Option<Complete<Key, Kept>>> {
        let came = self.keys.lock().came(place, low, high);
        came.or_else(|error: KeyRangeError| internal_err!("JOIN-I1: {error}"))
    }

    /// The error for a chunk at a position that has keys beyond its bounds.
    pub(super) fn out_of_bounds(&self, place: usize) -> DataFusionError {
        let chunk = self.chunks[place].chunk;
        out_of_order(&self.running, chunk, &self.plan.driver.column, false)
    }
}

/// The wanted chunks of the driving table, from the least key to the greatest; `None` if they are
/// not in sequence, or there are none.
fn driver_chunks(running: &Running, side: &Side) -> Result<Option<Vec<DriverChunk>>> {
    let Some(wanted) = wanted(running, &side.scan, side.at)? else {
        return Ok(None);
    };
    let Found::InOrder(sequence) = sequence(&wanted.bounds, None) else {
        return Ok(None);
    };
    let mut chunks = Vec::with_capacity(sequence.units.len());
    for (file, at) in sequence.units {
        let Some((low, high)) = bounds_of(&wanted, file, at) else {
            return Ok(None);
        };
        let chunk = wanted.chunks[file][at];
        chunks.push(DriverChunk { chunk, low, high });
    }
    if sequence.options.descending {
        chunks.reverse();
    }
    Ok((!chunks.is_empty()).then_some(chunks))
}

/// The wanted chunks of the other table; `None` if their keys are unknown.
fn other_chunks(running: &Running, side: &Side) -> Result<Option<Vec<OtherChunk>>> {
    let Some(wanted) = wanted(running, &side.scan, side.at)? else {
        return Ok(None);
    };
    let mut chunks = Vec::new();
    for (file, of_file) in wanted.chunks.iter().enumerate() {
        for (at, chunk) in of_file.iter().enumerate() {
            let Some((low, high)) = bounds_of(&wanted, file, at) else {
                return Ok(None);
            };
            let chunk = *chunk;
            chunks.push(OtherChunk { chunk, low, high });
        }
    }
    Ok(Some(chunks))
}

/// The bounds of a chunk's keys; `None` if they are unknown or a key is NULL.
fn bounds_of(wanted: &Wanted, file: usize, at: usize) -> Option<(Key, Key)> {
    let bounds = &wanted.bounds[file][at];
    let (low, high) = bounds.values.clone().filter(|_| bounds.nulls == Some(0))?;
    Some((Key(low), Key(high)))
}
