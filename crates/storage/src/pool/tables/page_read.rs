//! How does a smooth scan read pages: from a chunk in memory, from an outstanding load of the
//! chunk, or alone?
//!
//! Every read is announced to the core as a page request [CoopScans07 §7.1]. A chunk in memory is
//! pinned while its pages are read. If the chunk is being loaded, the request waits for the load,
//! because the bytes come anyway. Otherwise the pages are read here, in one scatter-gather
//! request, and meanwhile the request raises the chunk's load relevance. Pages whose chunk is in
//! memory only as arrays (`../segments/segment_form.rs`) are read here too.
//! Not here: which pages (coscan-core's `smooth`), how their rows are used (the engine).
//! Bounds: the budget counts the bytes read here until they are dropped; the caller bounds how
//! many (`MemoryBudget::page_bytes`).
//! R1: a request is announced to the core once and taken back once, however the call ends. Cancel
//! safe.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

use arrow::array::{Array, ArrayRef, new_null_array};
use bytes::Bytes;
use coscan_core::{ChunkId, ColumnSet, Event, PageRequestId};

use super::page_map::bytes_of_rows;
use crate::device::footprint;
use crate::pool::state::{PageSlot, PageTrace};
use crate::pool::{BufferPool, ChunkInfo, ColumnRequest, Inner, TableFile, TableView};
use crate::{FileChunk, Piece, Result, SegmentDecoder, StorageError};

/// The bytes of each root column, with their file ranges.
type Buffers = BTreeMap<usize, Vec<(Range<u64>, Bytes)>>;

/// Pages to read.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// Their chunk, as a position in [`TableView::chunks`].
    pub chunk: usize,
    /// Their rows.
    pub pieces: Vec<Piece>,
    /// Root columns by name; those that the file lacks are skipped.
    pub columns: Vec<String>,
}

/// The bytes of pages.
pub struct PageBytes {
    pool: Arc<Inner>,
    file: Arc<TableFile>,
    pieces: Vec<Piece>,
    /// By root column.
    buffers: Buffers,
    bytes_read: u64,
    requests: u64,
    /// Pins the chunk if the bytes belong to it.
    ticket: Option<Ticket>,
    memory: Counted,
}

impl BufferPool {
    /// Reads pages of one chunk. Cancel safe.
    ///
    /// # Errors
    /// The device's errors, or the error of the load that the request waited for; `Internal` for a
    /// chunk that is not in the table.
    pub async fn read_pages(&self, table: &TableView, request: &PageRequest) -> Result<PageBytes> {
        let info = table.chunks.get(request.chunk).ok_or_else(|| {
            StorageError::Internal("a page request names a chunk that the table lacks".to_owned())
        })?;
        let mut roots: Vec<usize> = request
            .columns
            .iter()
            .filter_map(|name| info.file.column(name))
            .collect();
        roots.sort_unstable();
        roots.dedup();
        let mut pages = PageBytes {
            pool: Arc::clone(&self.inner),
            file: Arc::clone(&info.file),
            pieces: request.pieces.clone(),
            buffers: BTreeMap::new(),
            bytes_read: 0,
            requests: 0,
            ticket: None,
            memory: Counted::none(&self.inner),
        };
        if roots.is_empty() {
            return Ok(pages);
        }
        let ticket = Ticket::ask(&self.inner, table, info.chunk, &request.columns)?;
        if ticket.wait().await?
            && let Some(frames) = ticket.frames(table, info, &roots)?
        {
            pages.buffers = frames;
            pages.ticket = Some(ticket);
            return Ok(pages);
        }
        pages.read(&roots).await?;
        self.trace_pages(table, info, &request.pieces);
        Ok(pages)
    }

    /// Records the read of pages, if the pool keeps a trace.
    fn trace_pages(&self, table: &TableView, info: &ChunkInfo, pieces: &[Piece]) {
        if !self.inner.config.record_trace {
            return;
        }
        let mut state = self.inner.state.lock();
        let now = state.time.now();
        let Some(trace) = &mut state.trace else {
            return;
        };
        trace.pages.extend(pieces.iter().map(|piece| {
            let first = piece.first_row_of_file(info.file.metadata());
            PageTrace {
                time_ns: now.0,
                table: table.table.0,
                chunk: info.chunk.0,
                rows: first..first + (piece.rows.end - piece.rows.start),
            }
        }));
    }
}

impl BufferPool {
    /// Reads pages of a file that is not a table of this pool, such as an index. Cancel safe.
    ///
    /// # Errors
    /// The device's errors.
    pub async fn read_apart(
        &self,
        file: &Arc<TableFile>,
        pieces: Vec<Piece>,
        columns: &[&str],
    ) -> Result<PageBytes> {
        let mut roots: Vec<usize> = columns
            .iter()
            .filter_map(|name| file.column(name))
            .collect();
        roots.sort_unstable();
        let mut pages = PageBytes {
            pool: Arc::clone(&self.inner),
            file: Arc::clone(file),
            pieces,
            buffers: BTreeMap::new(),
            bytes_read: 0,
            requests: 0,
            ticket: None,
            memory: Counted::none(&self.inner),
        };
        pages.read(&roots).await?;
        Ok(pages)
    }
}

impl PageBytes {
    /// CRC-32 of the bytes of a piece, column after column. Two reads of the same pages have the
    /// same checksum.
    #[must_use]
    pub fn checksum(&self, piece: usize) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        for (root, buffers) in &self.buffers {
            for wanted in bytes_of_rows(self.file.metadata(), *root, &self.pieces[piece]) {
                let at = buffers.partition_point(|(range, _)| range.end <= wanted.start);
                for (range, bytes) in &buffers[at..] {
                    if range.start >= wanted.end {
                        break;
                    }
                    let from = wanted.start.max(range.start) - range.start;
                    let to = wanted.end.min(range.end) - range.start;
                    // A buffer in memory has a length that fits `usize`.
                    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
                    crc.update(&bytes[at(from)..at(to)]);
                }
            }
        }
        crc.finalize()
    }

    /// The requested pieces.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether the bytes belong to a chunk that was in memory or loading.
    #[must_use]
    pub fn from_buffer(&self) -> bool {
        self.ticket.is_some()
    }

    /// Bytes read for this request alone, not as part of a load.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Planned device requests for this request alone.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    async fn read(&mut self, roots: &[usize]) -> Result<()> {
        let metadata = self.file.metadata();
        let mut wanted: Vec<(Range<u64>, usize)> = Vec::new();
        for &root in roots {
            for piece in &self.pieces {
                let ranges = bytes_of_rows(metadata, root, piece);
                wanted.extend(ranges.into_iter().map(|range| (range, root)));
            }
        }
        wanted.sort_by_key(|(range, root)| (range.start, range.end, *root));
        // Pieces of one row group share the dictionary and the pages that straddle two pieces.
        wanted.dedup();
        let mut apart: Vec<(Range<u64>, usize)> = Vec::with_capacity(wanted.len());
        for (mut range, root) in wanted {
            range.start = range
                .start
                .max(apart.last().map_or(0, |(last, _)| last.end));
            if !range.is_empty() {
                apart.push((range, root));
            }
        }
        let ranges: Vec<Range<u64>> = apart.iter().map(|(range, _)| range.clone()).collect();
        self.memory.grow(ranges.iter().map(footprint).sum());
        let gap = self.file.device().request_cost_bytes();
        self.requests = crate::device::merge::plan(&ranges, gap, u64::MAX).len() as u64;
        let reserve = &self.pool.shared.reserve;
        let reserved = self.pool.config.page_reserve;
        let under_way = reserved.then(|| reserve.pages(self.file.device_id()));
        let answers = self.file.read(&ranges).await?;
        drop(under_way);
        for ((range, root), bytes) in apart.into_iter().zip(answers) {
            self.bytes_read += range.end - range.start;
            self.buffers.entry(root).or_default().push((range, bytes));
        }
        Ok(())
    }

    /// Rows of piece number `piece`, one array per column: the rows `wanted`, counted from the
    /// piece's first (ascending, not empty, not touching), or all rows. Columns that the file
    /// lacks are null.
    ///
    /// # Errors
    /// `BadPage` if a column cannot be decoded; `ShutDown`.
    pub async fn decode(
        &self,
        piece: usize,
        columns: &[ColumnRequest],
        wanted: Option<Vec<Range<usize>>>,
    ) -> Result<Vec<ArrayRef>> {
        let piece = self.pieces[piece].clone();
        let rows = match &wanted {
            Some(wanted) => wanted.iter().map(ExactSizeIterator::len).sum(),
            None => usize::try_from(piece.rows.end - piece.rows.start).unwrap_or(usize::MAX),
        };
        let chunk = FileChunk {
            rows: rows as u64,
            pieces: vec![piece],
            columns: Vec::new(),
        };
        let jobs: Vec<_> = columns
            .iter()
            .map(|column| {
                let root = self.file.column(&column.name);
                let buffers = root.and_then(|root| self.buffers.get(&root));
                (root.zip(buffers.cloned()), Arc::clone(&column.field))
            })
            .collect();
        let file = Arc::clone(&self.file);
        let shared = &self.pool.shared;
        let produced = Arc::clone(&shared.decoded_bytes);
        let name = file.name().to_owned();
        let page_rules = shared.memory.page_rules();
        let decoding = shared.decode.run(
            move || name,
            move || {
                let decoded = jobs.into_iter().map(|(source, field)| {
                    let Some((root, buffers)) = source else {
                        return Ok(new_null_array(field.data_type(), rows));
                    };
                    let (name, metadata) = (file.name(), file.metadata());
                    let mut decoder =
                        SegmentDecoder::new(name, metadata, root, &field, &chunk, buffers, rows)?
                            .with_page_rules(page_rules);
                    if let Some(wanted) = &wanted {
                        decoder = decoder.with_rows(wanted);
                    }
                    let array = decoder.next_batch()?.ok_or_else(|| {
                        StorageError::Internal("a piece without rows was decoded".to_owned())
                    })?;
                    let bytes = array.get_array_memory_size() as u64;
                    produced.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
                    Ok(array)
                });
                decoded.collect::<Result<Vec<_>>>()
            },
        );
        decoding.await
    }
}

impl std::fmt::Debug for PageBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageBytes")
            .field("file", &self.file.name())
            .field("pieces", &self.pieces)
            .field("from_buffer", &self.from_buffer())
            .finish_non_exhaustive()
    }
}

/// A page request in the core. Dropping it takes the request back.
struct Ticket {
    pool: Arc<Inner>,
    id: PageRequestId,
    columns: ColumnSet,
}

impl Ticket {
    fn ask(
        pool: &Arc<Inner>,
        table: &TableView,
        chunk: ChunkId,
        columns: &[String],
    ) -> Result<Self> {
        pool.with_state(|state, effects| {
            let known = state.tables.get(&table.table);
            let core = &known.ok_or_else(|| state.unknown_table(table.table))?.core;
            let columns: ColumnSet = columns
                .iter()
                .filter_map(|name| core.column(name))
                .collect();
            let id = PageRequestId(state.pages.next);
            // The request must be in `slots` before the core acts on it.
            state.pages.slots.insert(id, PageSlot::Queued);
            let asked = state.handle(
                Event::PageRequested {
                    request: id,
                    table: table.table,
                    chunk,
                    columns: columns.clone(),
                },
                effects,
            );
            if let Err(error) = asked {
                state.pages.slots.remove(&id);
                return Err(error);
            }
            state.pages.next += 1;
            Ok(Self {
                pool: Arc::clone(pool),
                id,
                columns,
            })
        })
    }

    /// True once the chunk serves the pages; false if they must be read alone.
    async fn wait(&self) -> Result<bool> {
        poll_fn(|cx| {
            let mut state = self.pool.state.lock();
            match state.pages.slots.get_mut(&self.id) {
                Some(PageSlot::Served) => Poll::Ready(Ok(true)),
                Some(PageSlot::Failed(error)) => Poll::Ready(Err(error.clone())),
                Some(PageSlot::Awaited(waker)) => {
                    *waker = Some(cx.waker().clone());
                    Poll::Pending
                }
                Some(PageSlot::Queued | PageSlot::Abandoned) | None => Poll::Ready(Ok(false)),
            }
        })
        .await
    }

    /// The chunk's bytes of these root columns; `None` if some columns are in memory only as
    /// arrays.
    fn frames(
        &self,
        table: &TableView,
        info: &ChunkInfo,
        roots: &[usize],
    ) -> Result<Option<Buffers>> {
        let (chunk, file) = (info.chunk, &info.file);
        let state = self.pool.state.lock();
        let missing = || StorageError::Internal("a served page is not in memory".to_owned());
        let table = state.tables.get(&table.table).ok_or_else(missing)?;
        let mut names = roots
            .iter()
            .filter_map(|&root| file.column_names().nth(root));
        if table.has_only_arrays(chunk, &mut names) {
            return Ok(None);
        }
        let mut buffers = BTreeMap::new();
        for &root in roots {
            let name = file.column_names().nth(root).ok_or_else(missing)?;
            let column = table.core.column(name).ok_or_else(missing)?;
            debug_assert!(
                self.columns.contains(column),
                "R1: a column that was asked for"
            );
            let wanted = file.chunks().ranges_of(info.file_chunk, root);
            let bytes = table.buffers(chunk, column, &wanted).ok_or_else(missing)?;
            buffers.insert(root, bytes);
        }
        Ok(Some(buffers))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let id = self.id;
        self.pool.with_state(|state, effects| {
            let event = match state.pages.slots.remove(&id) {
                Some(PageSlot::Queued) => Event::PageCompleted { request: id },
                Some(PageSlot::Served) => Event::PageReleased { request: id },
                Some(PageSlot::Awaited(_)) => {
                    state.pages.slots.insert(id, PageSlot::Abandoned);
                    return;
                }
                Some(PageSlot::Failed(_) | PageSlot::Abandoned) | None => return,
            };
            Inner::log(state.handle(event, effects));
        });
    }
}

/// Bytes that the budget counts until this value is dropped.
pub(in crate::pool) struct Counted {
    pool: Arc<Inner>,
    bytes: u64,
}

impl Counted {
    pub(in crate::pool) fn none(pool: &Arc<Inner>) -> Self {
        Self {
            pool: Arc::clone(pool),
            bytes: 0,
        }
    }

    pub(in crate::pool) fn grow(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.pool.shared.memory.add_pages(bytes);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.pool.shared.memory.remove_pages(self.bytes);
    }
}
