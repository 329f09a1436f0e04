//! How consumers get chunks: a scan is announced, asked, and ended by being dropped.
//!
//! C1: `next_chunk` is cancel safe: a chunk that was handed out to a consumer that no longer waits
//! goes to the next one that asks.
//! C2: every chunk of a scan is handed out once, or withdrawn, or the scan fails.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use coscan_core::{ChunkId, ChunkSet, Event, LoadOrigin, ScanId, ScanSpec};

use super::place::{Kept, Place};
use super::spec::Spec;
use super::state::{Answer, Handed, ScanState};
use super::{BufferPool, ChunkLease, Inner, ScanMetrics, TableView};
use crate::{Result, StorageError};

/// Chunks of which a scan wants the same columns.
#[derive(Clone, Debug)]
pub struct ScanPart {
    /// Positions in [`TableView::chunks`].
    pub chunks: Vec<usize>,
    /// Root columns by name. Names that a file lacks are not read there. May be empty: such chunks
    /// are handed out without a read.
    pub columns: Vec<String>,
}

/// What a scan asks for.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// The chunks to choose from.
    pub table: TableView,
    /// Disjoint sets of chunks with the columns wanted of them.
    pub parts: Vec<ScanPart>,
    /// How many consumers will call [`Scan::next_chunk`] at once.
    pub consumers: usize,
    /// Chunks must come in ascending order of their position.
    pub ordered: bool,
    /// What traces and `coscan.scans` call it.
    pub label: Arc<str>,
}

/// A running scan. Shared by its consumers in an `Arc`; dropping the last ends it at once.
pub struct Scan {
    inner: Arc<Inner>,
    id: ScanId,
    table: TableView,
    /// Where each chunk is in the table, and in which part of the request.
    positions: BTreeMap<ChunkId, (usize, usize)>,
    /// The columns wanted, by part.
    columns: Vec<Vec<String>>,
}

impl BufferPool {
    /// Announces a scan.
    ///
    /// # Errors
    /// `ChunkTooLarge` if a chunk can never fit into memory; `Internal` for parts that overlap or
    /// name chunks that are not there.
    pub fn scan(&self, request: ScanRequest) -> Result<Scan> {
        let ScanRequest {
            table,
            parts,
            consumers,
            ordered,
            label,
        } = request;
        let max = self.inner.config.buffer_bytes_max.unwrap_or(u64::MAX);
        let budget = self.inner.shared.memory().limit().min(max);
        let Spec {
            parts: specs,
            positions,
            without_bytes,
            chunks_wanted,
            largest,
        } = Spec::new(&table, &parts, budget)?;
        let mut state = ScanState {
            label,
            without_bytes,
            largest,
            ..ScanState::default()
        };
        state.metrics.chunks_wanted = chunks_wanted;
        let scan = self.inner.with_state(|pool, effects| {
            if !pool.tables.contains_key(&table.table) {
                return Err(pool.unknown_table(table.table));
            }
            let id = ScanId(pool.next_scan);
            let consumers = u32::try_from(consumers.max(1)).unwrap_or(u32::MAX);
            let spec = ScanSpec {
                table: table.table,
                parts: specs,
                consumers,
                ordered,
            };
            // The scan must be known here before the core acts for it.
            pool.scans.insert(id, state);
            let registered = pool.handle(Event::ScanRegistered { scan: id, spec }, effects);
            if let Err(error) = registered {
                pool.scans.remove(&id);
                return Err(error);
            }
            pool.next_scan += 1;
            pool.count_needs();
            Ok(id)
        })?;
        Ok(Scan {
            inner: Arc::clone(&self.inner),
            id: scan,
            table,
            positions,
            columns: parts.into_iter().map(|part| part.columns).collect(),
        })
    }
}

impl Scan {
    /// The next chunk, in whatever order suits all scans best (or ascending, if the scan is
    /// ordered); `None` when none is left.
    ///
    /// Cancel safe: a dropped call loses nothing.
    ///
    /// # Errors
    /// A chunk could not be read: the scan is over, and every further call gives the same error.
    pub async fn next_chunk(self: &Arc<Self>) -> Result<Option<ChunkLease>> {
        Ok(self.next_place().await?.map(ChunkLease::new))
    }

    /// As [`Scan::next_chunk`], for a lease to be made or one that goes on.
    pub(crate) async fn next_place(self: &Arc<Self>) -> Result<Option<Kept>> {
        let begun = Instant::now();
        let mut claim = Claim {
            scan: self,
            active: false,
        };
        let answer = poll_fn(|cx| self.poll_answer(cx, &mut claim)).await?;
        let Answer::Chunk(handed) = answer else {
            return Ok(None);
        };
        let tries = self.with_scan(|state| state.again.map_or(0, |(_, tries)| tries));
        let place = Place::new(self, &handed, tries.unwrap_or(0));
        let mut taken = Taken {
            scan: self,
            kept: Some(Kept::new(Arc::clone(&place))),
        };
        place.enter().await;
        let waited = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.with_scan(|state| state.metrics.waited_ns += waited);
        Ok(taken.kept.take())
    }

    /// A scan of what is left of a chunk of this one that has lapsed, with more columns, for its
    /// consumer, who came too late so many times.
    ///
    /// # Errors
    /// As [`BufferPool::scan`].
    pub(crate) fn again(
        &self,
        chunk: ChunkId,
        more: &BTreeSet<String>,
        tries: u32,
    ) -> Result<Arc<Self>> {
        let pool = BufferPool {
            inner: Arc::clone(&self.inner),
        };
        let label = self.with_scan(|state| Arc::clone(&state.label));
        let part = ScanPart {
            chunks: vec![self.position(chunk)],
            columns: self.columns_of(chunk).iter().chain(more).cloned().collect(),
        };
        let scan = pool.scan(ScanRequest {
            table: self.table.clone(),
            parts: vec![part],
            consumers: 1,
            ordered: false,
            label: label.unwrap_or_default(),
        })?;
        scan.with_scan(|state| state.again = Some((self.id, tries)));
        Ok(Arc::new(scan))
    }

    fn poll_answer(&self, cx: &Context<'_>, claim: &mut Claim<'_>) -> Poll<Result<Answer>> {
        self.inner.with_state(|pool, effects| {
            let gone = || StorageError::Internal("the scan is gone".into());
            let Some(scan) = pool.scans.get_mut(&self.id) else {
                return Poll::Ready(Err(gone()));
            };
            if let Some(failure) = &scan.failure {
                return Poll::Ready(Err(failure.clone()));
            }
            if pool.shut_down {
                return Poll::Ready(Err(StorageError::ShutDown));
            }
            if !claim.active {
                // Answers beyond the claims were meant for calls that were cancelled (C1).
                if scan.answers.len() > scan.claims
                    && let Some(answer) = scan.answers.pop_front()
                {
                    return Poll::Ready(Ok(answer));
                }
                if let Some(chunk) = scan.without_bytes.pop_front() {
                    scan.metrics.chunks_without_bytes += 1;
                    let handed = Handed::new(chunk, LoadOrigin::FromBuffer, false);
                    return Poll::Ready(Ok(Answer::Chunk(handed)));
                }
                scan.claims += 1;
                claim.active = true;
                if let Err(error) = pool.handle(Event::ChunkRequested { scan: self.id }, effects) {
                    return Poll::Ready(Err(error));
                }
            }
            let Some(scan) = pool.scans.get_mut(&self.id) else {
                return Poll::Ready(Err(gone()));
            };
            if let Some(answer) = scan.answers.pop_front() {
                scan.claims -= 1;
                claim.active = false;
                return Poll::Ready(Ok(answer));
            }
            if !scan.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                scan.wakers.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }

    /// Gives chunks back that are not needed any more. Those already handed out are not affected.
    pub fn withdraw(&self, positions: &[usize]) {
        let chunks: ChunkSet = positions
            .iter()
            .filter_map(|&at| self.table.chunks.get(at))
            .map(|c| c.chunk)
            .collect();
        self.inner.with_state(|pool, effects| {
            let Some(scan) = pool.scans.get_mut(&self.id) else {
                return;
            };
            scan.without_bytes.retain(|chunk| !chunks.contains(*chunk));
            scan.metrics.chunks_withdrawn += chunks.len() as u64;
            Inner::log(pool.handle(
                Event::ChunksWithdrawn {
                    scan: self.id,
                    chunks,
                },
                effects,
            ));
        });
    }

    /// The chunks that the scan chose from.
    #[must_use]
    pub fn table(&self) -> &TableView {
        &self.table
    }

    /// What it has done so far.
    #[must_use]
    pub fn metrics(&self) -> ScanMetrics {
        self.with_scan(|state| state.metrics).unwrap_or_default()
    }

    /// The chunk's position in the table.
    pub(crate) fn position(&self, chunk: ChunkId) -> usize {
        self.positions.get(&chunk).map_or(0, |&(at, _)| at)
    }

    /// The columns wanted of a chunk.
    pub(crate) fn columns_of(&self, chunk: ChunkId) -> &[String] {
        let part = self.positions.get(&chunk).map(|&(_, part)| part);
        part.and_then(|part| self.columns.get(part))
            .map_or(&[], Vec::as_slice)
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(crate) fn id(&self) -> ScanId {
        self.id
    }

    pub(crate) fn with_scan<T>(&self, work: impl FnOnce(&mut ScanState) -> T) -> Option<T> {
        self.inner.state.lock().scans.get_mut(&self.id).map(work)
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.inner.with_state(|pool, effects| {
            let gone = pool.scans.remove(&self.id);
            if let Some(ScanState {
                metrics: more,
                again: Some((whole, _)),
                ..
            }) = gone
                && let Some(whole) = pool.scans.get_mut(&whole)
            {
                let metrics = &mut whole.metrics;
                metrics.loads += more.loads;
                metrics.load_bytes += more.load_bytes;
                metrics.decode_shared += more.decode_shared;
                metrics.decode_begun += more.decode_begun;
                metrics.chunks_lapsed += more.chunks_lapsed;
                metrics.rows_picked += more.rows_picked;
            }
            pool.count_needs();
            Inner::log(pool.handle(Event::ScanEnded { scan: self.id }, effects));
        });
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A chunk on its way to a consumer; goes to another if the call is cancelled.
struct Taken<'a> {
    scan: &'a Scan,
    kept: Option<Kept>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let Some(kept) = self.kept.take() else {
            return;
        };
        let handed = kept.hand_on();
        self.scan.inner.with_state(|pool, effects| {
            if let Some(scan) = pool.scans.get_mut(&self.scan.id) {
                scan.answers.push_front(Answer::Chunk(handed));
                effects.wakers.append(&mut scan.wakers);
            }
        });
    }
}

/// A consumer's place in the queue; given up when the call is cancelled.
struct Claim<'a> {
    scan: &'a Scan,
    active: bool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.active {
            return;
        }
        let id = self.scan.id;
        self.scan.inner.with_state(|pool, effects| {
            let Some(scan) = pool.scans.get_mut(&id) else {
                return;
            };
            scan.claims -= 1;
            if scan.failure.is_some() {
                return;
            }
            if scan.answers.len() > scan.claims {
                // Its answer is here already: somebody else may have it (C1).
                effects.wakers.append(&mut scan.wakers);
            } else {
                Inner::log(pool.handle(Event::RequestWithdrawn { scan: id }, effects));
            }
        });
    }
}
