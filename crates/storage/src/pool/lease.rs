//! A chunk in a consumer's hands: its frames are pinned, its arrays are had column by column, batch by batch.
//!
//! L1: the frames of the leased columns stay in memory until the lease is dropped. L2: a segment is decoded once for all leases
//! that overlap in time, and for later ones while memory is plentiful and the frame is resident, if another scan wants it or the chunk
//! has been wanted before: what is read once and no more would only take the place of what is read again.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::{DataType, FieldRef};
use coscan_core::{ChunkId, ColumnSet, Event, LoadOrigin};
use parking_lot::Mutex;

use super::decoded::{DecodedSegment, MakeDecoder, Reader};
use super::gate::Pass;
use super::scan::Scan;
use super::state::{DecodedKey, State};
use super::{ChunkInfo, Inner};
use crate::{Batches, Result, SegmentDecoder, StorageError};

/// A column to decode.
#[derive(Clone, Debug)]
pub struct ColumnRequest {
    /// The root column's name in the file.
    pub name: String,
    /// The arrow field to decode to.
    pub field: FieldRef,
}

/// A chunk handed to one consumer of a scan. Dropping it releases the chunk.
pub struct ChunkLease {
    pub(crate) scan: Arc<Scan>,
    pub(crate) chunk: ChunkId,
    index: usize,
    origin: LoadOrigin,
    /// Its places in decoded segments, by column name and type.
    readers: Mutex<BTreeMap<(String, DataType), Arc<Reader>>>,
    pub(crate) batches: Batches,
    batch_rows: usize,
    /// False for chunks that were handed out without bytes: the core does not know of them.
    held: bool,
    /// When the core was told last that the consumer goes on.
    progress_told: Mutex<Instant>,
    /// The right to decode.
    _pass: Pass,
}

/// How often a consumer that goes on is reported within the length of a turn.
const PROGRESS_PER_TURN: u32 = 4;

/// Rows per batch unless the consumer says otherwise: DataFusion's default.
const BATCH_ROWS: usize = 8192;

impl ChunkLease {
    pub(crate) fn new(
        scan: Arc<Scan>,
        chunk: ChunkId,
        index: usize,
        origin: LoadOrigin,
        pass: Pass,
    ) -> Self {
        let held = scan.inner().state.lock().abm.holds(scan.id(), chunk);
        let mut lease = Self {
            scan,
            chunk,
            index,
            origin,
            readers: Mutex::default(),
            batches: Batches::default(),
            batch_rows: BATCH_ROWS,
            held,
            progress_told: Mutex::new(Instant::now()),
            _pass: pass,
        };
        lease.set_batch_rows(BATCH_ROWS);
        lease
    }

    /// How many rows a batch has at most. To be called before the first batch is asked for.
    pub fn set_batch_rows(&mut self, rows: usize) {
        self.batch_rows = rows.max(1);
        let info = self.info();
        self.batches = Batches::of(&info.file.chunks().chunks[info.file_chunk], self.batch_rows);
    }

    /// Its position in the scan's [`super::TableView::chunks`].
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Which chunk of which file it is.
    #[must_use]
    pub fn info(&self) -> &ChunkInfo {
        &self.scan.table().chunks()[self.index]
    }

    /// Why it was in memory; `None` if it has no bytes.
    #[must_use]
    pub fn origin(&self) -> Option<LoadOrigin> {
        self.held.then_some(self.origin)
    }

    /// Rows of each batch.
    #[must_use]
    pub fn batches(&self) -> &Batches {
        &self.batches
    }

    /// Batch `at` of the given columns, all arrays of the same length; `None` past the last batch. Columns that the file lacks
    /// are null.
    ///
    /// Decode of the following batches goes on in the background. Cancel safe.
    ///
    /// # Errors
    /// `BadPage` if a column cannot be decoded.
    pub async fn batch(
        &self,
        columns: &[ColumnRequest],
        at: usize,
    ) -> Result<Option<Vec<ArrayRef>>> {
        if at >= self.batches.len() {
            return Ok(None);
        }
        let rows = self.batches.rows_of(at);
        self.tell_progress();
        let readers: Vec<Option<Arc<Reader>>> = columns
            .iter()
            .map(|column| self.reader(column))
            .collect::<Result<_>>()?;
        let mut arrays: Vec<Option<ArrayRef>> = vec![None; columns.len()];
        poll_fn(|cx| {
            let mut pending = false;
            for (array, reader) in arrays.iter_mut().zip(&readers) {
                let Some(reader) = reader.as_ref().filter(|_| array.is_none()) else {
                    continue;
                };
                match reader.poll_batch(at, cx.waker()) {
                    Poll::Pending => pending = true,
                    Poll::Ready(Ok(Some(batch))) => *array = Some(batch),
                    Poll::Ready(Ok(None)) => {
                        let message = "a segment has fewer batches than its chunk".to_owned();
                        return Poll::Ready(Err(StorageError::Internal(message)));
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                }
            }
            if pending {
                Poll::Pending
            } else {
                Poll::Ready(Ok(()))
            }
        })
        .await?;
        let arrays = arrays.into_iter().zip(columns).map(|(array, column)| {
            array.unwrap_or_else(|| new_null_array(column.field.data_type(), rows))
        });
        Ok(Some(arrays.collect()))
    }

    /// Makes sure of these columns, which need not be those of the scan: false if one of them is not in memory. What is made
    /// sure of can be had by [`ChunkLease::batch`] as long as the lease lives.
    pub fn make_sure_of(&self, columns: &[ColumnRequest]) -> bool {
        let missing: Vec<&ColumnRequest> = {
            let readers = self.readers.lock();
            let own = |c: &&ColumnRequest| {
                !readers.contains_key(&(c.name.clone(), c.field.data_type().clone()))
            };
            columns.iter().filter(own).collect()
        };
        // All or none: a reader that never reads would keep what others have passed.
        let there = self.scan.inner().with_state(|state, _| {
            let root = |name: &str| self.info().file.column(name);
            missing.iter().all(|column| {
                let known = self.known(state, &self.key(column));
                root(&column.name).is_none_or(|root| {
                    known.is_some_and(|segment| segment.has_first())
                        || self.decoder(state, root, column, self.batch_rows).is_ok()
                })
            })
        });
        there && missing.iter().all(|column| self.reader(column).is_ok())
    }

    /// The core counts the chunk as in work only while the consumer goes on.
    pub(crate) fn tell_progress(&self) {
        let told = *self.progress_told.lock();
        let often = self.scan.inner().config.turn_length_max / PROGRESS_PER_TURN;
        if !self.held || told.elapsed() < often {
            return;
        }
        *self.progress_told.lock() = Instant::now();
        let (scan, chunk) = (self.scan.id(), self.chunk);
        self.scan.inner().with_state(|state, effects| {
            if state.scans.contains_key(&scan) {
                Inner::log(state.handle(Event::ChunkProgressed { scan, chunk }, effects));
            }
        });
    }

    /// A reader of the column's decoded segment, which is shared with whoever has it; `None` if the file lacks the column.
    fn reader(&self, column: &ColumnRequest) -> Result<Option<Arc<Reader>>> {
        let own = (column.name.clone(), column.field.data_type().clone());
        if let Some(reader) = self.readers.lock().get(&own) {
            return Ok(Some(Arc::clone(reader)));
        }
        let Some(root) = self.info().file.column(&column.name) else {
            return Ok(None);
        };
        let key = self.key(column);
        let reader = self.scan.inner().with_state(|state, effects| {
            let known = self.known(state, &key);
            let shared = known.as_ref().and_then(DecodedSegment::join);
            if let Some(scan) = state.scans.get_mut(&self.scan.id()) {
                let metrics = &mut scan.metrics;
                metrics.decode_shared += u64::from(shared.is_some());
                metrics.decode_begun += u64::from(shared.is_none());
            }
            if let Some(reader) = shared {
                return Ok(reader);
            }
            let segment = self.begin(state, root, column)?;
            let late = || StorageError::Internal("a new segment has its first batch".to_owned());
            let reader = segment.join().ok_or_else(late)?;
            if let Some(table) = state.tables.get_mut(&self.scan.table().table) {
                // One that has lost its first batches is of no use to newcomers; its readers hold it themselves.
                let list = table.decoded.entry(self.chunk).or_default();
                let old = list.iter().position(|(known, _)| *known == key);
                effects.dropped.extend(old.map(|at| list.swap_remove(at).1));
                list.push((key, segment));
            }
            Ok(reader)
        })?;
        let reader = Arc::new(reader);
        self.readers.lock().insert(own, Arc::clone(&reader));
        Ok(Some(reader))
    }

    pub(crate) fn key(&self, column: &ColumnRequest) -> DecodedKey {
        let (name, data_type) = (column.name.clone(), column.field.data_type().clone());
        (self.chunk, name, data_type, self.batch_rows)
    }

    pub(crate) fn known(&self, state: &State, key: &DecodedKey) -> Option<Arc<DecodedSegment>> {
        let table = state.tables.get(&self.scan.table().table)?;
        let list = table.decoded.get(&self.chunk)?;
        list.iter()
            .find(|(known, _)| known == key)
            .map(|(_, segment)| Arc::clone(segment))
    }

    /// Whether another scan wants one of these columns of the chunk.
    pub(crate) fn others_want(&self, state: &State, columns: &[ColumnRequest]) -> bool {
        let id = self.scan.table().table;
        state.tables.get(&id).is_some_and(|table| {
            let known = |column: &ColumnRequest| table.core.column(&column.name);
            let wanted: ColumnSet = columns.iter().filter_map(known).collect();
            state
                .abm
                .others_want(self.scan.id(), id, self.chunk, &wanted)
        })
    }

    fn begin(
        &self,
        state: &State,
        root: usize,
        column: &ColumnRequest,
    ) -> Result<Arc<DecodedSegment>> {
        let make = self.decoder(state, root, column, self.batch_rows)?;
        let lasting = self.origin != LoadOrigin::LoadedForMe
            || self.others_want(state, std::slice::from_ref(column));
        let shared = &self.scan.inner().shared;
        let (decode, memory) = (Arc::clone(&shared.decode), Arc::clone(&shared.memory));
        let place = format!("{}, column {}", self.info().file.name(), column.name);
        Ok(DecodedSegment::new(
            place,
            make,
            lasting,
            decode,
            memory,
            Arc::clone(&shared.decoded_bytes),
        ))
    }

    /// What makes a decoder of the column, with the bytes it needs, in batches of so many rows.
    pub(crate) fn decoder(
        &self,
        state: &State,
        root: usize,
        column: &ColumnRequest,
        batch_rows: usize,
    ) -> Result<MakeDecoder> {
        let missing = || {
            let message = format!(
                "column {} of chunk {} is not in memory",
                column.name, self.chunk
            );
            StorageError::Internal(message)
        };
        let table = state
            .tables
            .get(&self.scan.table().table)
            .ok_or_else(missing)?;
        let id = table.core.column(&column.name).ok_or_else(missing)?;
        let info = self.info().clone();
        let wanted = info.file.chunks().ranges_of(info.file_chunk, root);
        let buffers = table.buffers(self.chunk, id, &wanted);
        if !wanted.is_empty() && buffers.is_empty() {
            return Err(missing());
        }
        let field = Arc::clone(&column.field);
        let page_bytes_max = self.scan.inner().shared.memory.unpacked_page_bytes_max();
        Ok(Box::new(move || {
            let chunk = &info.file.chunks().chunks[info.file_chunk];
            let (name, metadata) = (info.file.name(), info.file.metadata());
            SegmentDecoder::new(name, metadata, root, &field, chunk, buffers, batch_rows)
                .map(|decoder| decoder.with_page_bytes_max(page_bytes_max))
        }))
    }
}

impl Drop for ChunkLease {
    fn drop(&mut self) {
        self.readers.get_mut().clear();
        let (scan, chunk) = (self.scan.id(), self.chunk);
        self.scan.inner().with_state(|state, effects| {
            if self.held && state.scans.contains_key(&scan) {
                Inner::log(state.handle(Event::ChunkReleased { scan, chunk }, effects));
            }
            // Keep what others use; keep the rest only while there is room for it.
            let room = self.scan.inner().shared.memory.decoded_is_small();
            if let Some(table) = state.tables.get_mut(&self.scan.table().table)
                && let Some(list) = table.decoded.get_mut(&self.chunk)
            {
                let (kept, dropped): (Vec<_>, Vec<_>) = std::mem::take(list)
                    .into_iter()
                    .partition(|(_, segment)| segment.stays(room));
                *list = kept;
                if list.is_empty() {
                    table.decoded.remove(&self.chunk);
                }
                effects
                    .dropped
                    .extend(dropped.into_iter().map(|(_, segment)| segment));
            }
        });
    }
}

impl std::fmt::Debug for ChunkLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkLease")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
