//! What do the partitions of one execution share: is the table in sequence, and which groups at the
//! borders of its chunks are complete?
//!
//! When the files are open, the bounds of the wanted chunks are examined, because a predicate may
//! leave only some chunks. If they are not in sequence, the execution runs the original plan, by
//! hash.
//! ORD-I4: every wanted chunk comes once, with or without rows; when all have come, no group is
//! kept.
//! Bounds: two parts for each chunk.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::compute::SortOptions;
use arrow::row::OwnedRow;
use coscan_core::group_borders::{BorderError, Borders, Edges};
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::chunk_groups::Part;
use super::recognise::OrderedPlan;
use super::sequence::{Found, Sequence, sequence};
use super::wanted::{out_of_order, wanted};
use crate::read::scan::{Execution, Running};

/// The state that the partitions of one execution share.
pub(super) struct Together {
    pub(super) plan: Arc<OrderedPlan>,
    pub(super) scan: Arc<Execution>,
    standing: OnceCell<Result<Standing, Arc<DataFusionError>>>,
    streams: AtomicUsize,
}

/// Whether the wanted chunks of the table are in sequence.
#[derive(Clone)]
pub(super) enum Standing {
    InSequence(Arc<InSequence>),
    InNone,
}

/// The wanted chunks, in sequence.
pub(super) struct InSequence {
    pub(super) running: Arc<Running>,
    pub(super) options: SortOptions,
    plan: Arc<OrderedPlan>,
    /// The chunk at each position of the sequence.
    chunks: Vec<usize>,
    /// The position of each chunk in the sequence.
    places: HashMap<usize, usize>,
    borders: Mutex<Borders<OwnedRow, Kept>>,
    /// Whether a chunk was found whose rows are not in order.
    is_mixed: AtomicBool,
}

/// A kept part, with its memory.
pub(super) struct Kept {
    part: Part,
    _memory: MemoryReservation,
}

impl Together {
    pub(super) fn new(plan: Arc<OrderedPlan>) -> Self {
        let scan = Execution::new(Arc::clone(&plan.scan), plan.scan_metrics.clone());
        Self {
            scan: Arc::new(scan),
            standing: OnceCell::new(),
            streams: AtomicUsize::new(plan.scan.partitions.len()),
            plan,
        }
    }

    /// Whether the table is in sequence. The first caller opens its files. Cancel safe: if that
    /// caller is cancelled, another caller opens them.
    ///
    /// # Errors
    /// Those of [`Execution::running`], and that a file is not in the declared order; the same for
    /// all callers.
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
        let running = self.scan.running().await?;
        let Some((chunks, options)) = self.in_sequence(&running)? else {
            return Ok(Standing::InNone);
        };
        let places = chunks.iter().enumerate();
        Ok(Standing::InSequence(Arc::new(InSequence {
            options,
            places: places.map(|(place, chunk)| (*chunk, place)).collect(),
            borders: Mutex::new(Borders::new(chunks.len())),
            chunks,
            is_mixed: AtomicBool::new(false),
            plan: Arc::clone(&self.plan),
            running,
        })))
    }

    /// The wanted chunks in sequence; `None` if they are not in sequence.
    fn in_sequence(&self, running: &Running) -> Result<Option<(Vec<usize>, SortOptions)>> {
        let Some(wanted) = wanted(running, &self.plan.scan, self.plan.at)? else {
            return Ok(None);
        };
        match sequence(&wanted.bounds, self.plan.declared) {
            Found::InOrder(Sequence {
                units: order,
                options,
            }) => {
                let chunks = order.into_iter().map(|(file, at)| wanted.chunks[file][at]);
                Ok(Some((chunks.collect(), options)))
            }
            Found::No => Ok(None),
            Found::False { file, unit } => {
                Err(self.plan.out_of_order(running, wanted.chunks[file][unit]))
            }
        }
    }

    /// Ends a stream. The last one checks that all chunks have come.
    ///
    /// # Errors
    /// If a group is still kept: a bug.
    pub(super) fn stream_ended(&self, standing: &InSequence) -> Result<()> {
        let left = self.streams.fetch_sub(1, Ordering::AcqRel) - 1;
        let borders = standing.borders.lock();
        if left == 0 && !borders.is_complete() {
            let parts = borders.parts();
            return internal_err!("ORD-I4: all chunks have come, and {parts} parts are kept");
        }
        Ok(())
    }
}

impl InSequence {
    /// Whether the rows within chunks are assumed to be in order.
    pub(super) fn chunks_are_in_order(&self) -> bool {
        !self.is_mixed.load(Ordering::Relaxed)
    }

    /// Records that the rows within a chunk are not in order.
    ///
    /// # Errors
    /// If their order is declared.
    pub(super) fn found_out_of_order(&self, chunk: usize) -> Result<()> {
        if self.plan.declared.is_some() {
            return Err(self.plan.out_of_order(&self.running, chunk));
        }
        self.is_mixed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// A chunk was processed, or never will be. Returns the parts of all groups that this
    /// completes.
    ///
    /// # Errors
    /// If there is no memory for the kept parts; if the chunk is not in order relative to other
    /// chunks.
    pub(super) fn came(
        &self,
        chunk: usize,
        edges: Edges<OwnedRow, Part>,
        memory: &MemoryReservation,
    ) -> Result<Vec<Part>> {
        let keep = |part: Part| {
            let memory = memory.new_empty();
            memory.try_grow(part.bytes())?;
            Ok::<_, DataFusionError>(Kept {
                part,
                _memory: memory,
            })
        };
        let edges = match edges {
            Edges::Empty => Edges::Empty,
            Edges::One(key, part) => Edges::One(key, keep(part)?),
            Edges::Two { first, last } => Edges::Two {
                first: (first.0, keep(first.1)?),
                last: (last.0, keep(last.1)?),
            },
        };
        let Some(place) = self.places.get(&chunk) else {
            return internal_err!("ORD-I4: chunk {chunk} is not wanted");
        };
        let came = self.borders.lock().came(*place, edges);
        match came {
            Ok(groups) => Ok(groups.into_iter().flatten().map(|kept| kept.part).collect()),
            Err(BorderError::Descends { after, .. }) => {
                Err(self.plan.out_of_order(&self.running, self.chunks[after]))
            }
            Err(error) => internal_err!("ORD-I4: {error}"),
        }
    }
}

impl OrderedPlan {
    fn out_of_order(&self, running: &Running, chunk: usize) -> DataFusionError {
        out_of_order(running, chunk, &self.column, self.declared.is_some())
    }
}
