//! How consumers get chunks: a scan is announced, asked, and ended by being dropped.
//!
//! C1: `next_chunk` is cancel safe: a chunk that was handed out to a consumer that no longer waits goes to the next one that asks.
//! C2: every chunk of a scan is handed out once, or withdrawn, or the scan fails.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use coscan_core::{ChunkId, ChunkSet, Event, LoadOrigin, ScanId, ScanSpec};

use super::gate::COLUMN_BYTES;
use super::spec::Spec;
use super::state::{Answer, ScanState};
use super::{BufferPool, ChunkLease, Inner, ScanMetrics, TableView};
use crate::{Result, StorageError};

/// Chunks of which a scan wants the same columns.
#[derive(Clone, Debug)]
pub struct ScanPart {
    /// Positions in [`TableView::chunks`].
    pub chunks: Vec<usize>,
    /// Root columns by name. Names that a file lacks are not read there. May be empty: such chunks are handed out without a read.
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
    /// Where each chunk is in the table, and how many columns of it are wanted.
    positions: BTreeMap<ChunkId, (usize, usize)>,
}

impl BufferPool {
    /// Announces a scan.
    ///
    /// # Errors
    /// `ChunkTooLarge` if a chunk can never fit into memory; `Internal` for parts that overlap or name chunks that are not there.
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
            parts,
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
                parts,
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
        })
    }
}

impl Scan {
    /// The next chunk, in whatever order suits all scans best (or ascending, if the scan is ordered); `None` when none is left.
    ///
    /// Cancel safe: a dropped call loses nothing.
    ///
    /// # Errors
    /// A chunk could not be read: the scan is over, and every further call gives the same error.
    pub async fn next_chunk(self: &Arc<Self>) -> Result<Option<ChunkLease>> {
        let begun = Instant::now();
        let mut claim = Claim {
            scan: self,
            active: false,
        };
        let answer = poll_fn(|cx| self.poll_answer(cx, &mut claim)).await?;
        let Answer::Chunk(chunk, origin) = answer else {
            return Ok(None);
        };
        let mut handed = Handed {
            scan: self,
            chunk,
            origin,
            kept: false,
        };
        let (index, columns) = self.positions.get(&chunk).copied().unwrap_or_default();
        let key = (self.inner.number, self.table.table, chunk);
        let pass = self
            .inner
            .shared
            .gate
            .enter(key, columns as u64 * COLUMN_BYTES)
            .await;
        handed.kept = true;
        let waited = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.with_scan(|state| state.metrics.waited_ns += waited);
        Ok(Some(ChunkLease::new(
            Arc::clone(self),
            chunk,
            index,
            origin,
            pass,
        )))
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
                    return Poll::Ready(Ok(Answer::Chunk(chunk, LoadOrigin::FromBuffer)));
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
            pool.scans.remove(&self.id);
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
struct Handed<'a> {
    scan: &'a Scan,
    chunk: ChunkId,
    origin: LoadOrigin,
    kept: bool,
}

impl Drop for Handed<'_> {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        self.scan.inner.with_state(|pool, effects| {
            if let Some(scan) = pool.scans.get_mut(&self.scan.id) {
                scan.answers
                    .push_front(Answer::Chunk(self.chunk, self.origin));
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
