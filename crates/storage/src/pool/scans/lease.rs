//! A lease: a chunk in a consumer's hands. Its frames are pinned, and the consumer reads its
//! arrays column by column, batch by batch.
//!
//! A consumer that is silent for long loses the memory, but not the chunk (`place.rs`). When it
//! comes back, the pool registers a new scan of only this chunk for the remaining batches. The
//! core loads and delivers the chunk for that scan as for any other; the arrays continue with the
//! requested batch. So a batch of a lease is always the same, and the lease's own scan delivers
//! the chunk to no other consumer.
//!
//! L1: the frames of the leased columns, or the arrays in their place
//! (`../segments/segment_form.rs`), stay in memory until the lease is dropped or lapses. L2: a
//! segment is decoded once for all leases that overlap in time, and for later leases while memory
//! is plentiful and the frame is resident. While memory is spare, later leases share every
//! segment. When arrays displace frames, later leases share only columns that another scan needs
//! and chunks that were not loaded for this scan alone: arrays that are read only once would
//! displace data that is read repeatedly. A consumer that comes back late decodes the rest for
//! itself, unless another reader's arrays are still in memory. L3: a chunk's batches depend only
//! on its file, its rows and their number per batch.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use bytes::Bytes;
use coscan_core::{ColumnSet, Event, LoadOrigin};
use parking_lot::Mutex;

use super::place::{Kept, Place, Step, Work};
use super::scan::Scan;
use crate::device::footprint;
use crate::pool::decode::{
    ArrayKey, ColumnRequest, DecodedSegment, FewBatches, MakeDecoder, Reader,
};
use crate::pool::state::{DecodedKey, OnPanic, State};
use crate::pool::tables::Counted;
use crate::pool::{ChunkInfo, Inner};
use crate::{Batches, Result, SegmentDecoder, StorageError};

/// A chunk handed to one consumer of a scan. Dropping it releases the chunk.
pub struct ChunkLease {
    own: Kept,
    /// After the first place has lapsed: the place for the remaining batches.
    again: Mutex<Option<Kept>>,
    /// Columns beyond the scan's that a consumer needs when it comes back.
    sure_of: Mutex<BTreeSet<String>>,
    pub(crate) batches: Batches,
    batch_rows: usize,
    pub(super) few: Option<FewBatches>,
    /// When the core was last told that the consumer makes progress.
    progress_told: Mutex<Instant>,
}

/// How often a consumer's progress is reported within the length of a turn.
const PROGRESS_PER_TURN: u32 = 4;

/// A segment of at most so many rows of a type of fixed width is decoded by its first reader. That
/// takes some 20 µs, most of them for the first row.
const TINY_ROWS: usize = 512;
/// The most bytes of such a segment: 512 values of 16 bytes.
const TINY_BYTES: usize = 8 << 10;

/// Rows per batch unless the consumer sets another number: DataFusion's default.
const BATCH_ROWS: usize = 8192;

impl Scan {
    /// The next chunk, in the order that suits all scans best (or ascending, if the scan is
    /// ordered); `None` when none is left.
    ///
    /// Cancel safe: a dropped call loses no chunk.
    ///
    /// # Errors
    /// A chunk could not be read: the scan has ended, and every further call gives the same error.
    pub async fn next_chunk(self: &Arc<Self>) -> Result<Option<ChunkLease>> {
        Ok(self.next_place().await?.map(ChunkLease::new))
    }
}

impl ChunkLease {
    fn new(own: Kept) -> Self {
        let mut lease = Self {
            own,
            again: Mutex::default(),
            sure_of: Mutex::default(),
            batches: Batches::default(),
            batch_rows: BATCH_ROWS,
            few: None,
            progress_told: Mutex::new(Instant::now()),
        };
        lease.set_batch_rows(BATCH_ROWS);
        lease
    }

    /// Gives the chunk back; the consumer of the scan that asks next gets it, as if it had not
    /// been handed out.
    pub fn hand_on(self) {
        let scan = Arc::clone(&self.own.place().scan);
        scan.hand_on(self.own);
    }

    pub(crate) fn own(&self) -> &Kept {
        &self.own
    }

    /// Sets the most rows of a batch. Call this before asking for the first batch.
    pub fn set_batch_rows(&mut self, rows: usize) {
        self.batch_rows = rows.max(1);
        let info = self.info();
        self.batches = Batches::of(&info.file.chunks().chunks[info.file_chunk], self.batch_rows);
    }

    /// The chunk's position in the scan's [`crate::pool::TableView::chunks`].
    #[must_use]
    pub fn index(&self) -> usize {
        self.own.place().index
    }

    /// The chunk's file, and its position there.
    #[must_use]
    pub fn info(&self) -> &ChunkInfo {
        &self.own.place().scan.table().chunks()[self.index()]
    }

    /// Which load brought the chunk; `None` if it has no bytes.
    #[must_use]
    pub fn origin(&self) -> Option<LoadOrigin> {
        let place = self.own.place();
        place.known.then_some(place.origin)
    }

    /// The numbers of rows of the batches.
    #[must_use]
    pub fn batches(&self) -> &Batches {
        &self.batches
    }

    /// Batch `at` of the given columns, all arrays of the same length; `None` past the last batch.
    /// Columns that the file lacks are null.
    ///
    /// The following batches are decoded in the background. Cancel safe.
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
        if let Some(arrays) = self.one_of_few(columns, at).await? {
            return Ok(Some(arrays));
        }
        let rows = self.batches.rows_of(at);
        let mut arrays: Vec<Option<ArrayRef>> = vec![None; columns.len()];
        let mut tries = 0;
        let mut fetched = Fetched::new();
        loop {
            let place = self.place(tries).await?;
            self.tell_progress(&place);
            let readers = place.step(|work| self.readers(&place, work, columns, at, &fetched));
            let step = match readers {
                Some(Ok(readers)) => {
                    poll_fn(|cx| place.poll_arrays(cx, &readers, at, &mut arrays)).await?
                }
                Some(Err(NoReader::OnlyOtherArrays { root, key })) => {
                    fetched.insert(key, self.fetch(root).await?);
                    continue;
                }
                Some(Err(NoReader::Failed(error))) => return Err(error),
                None => Step::Lapsed,
            };
            match step {
                Step::Done => {
                    place.in_time();
                    break;
                }
                Step::Lapsed => tries += 1,
            }
        }
        let arrays = arrays.into_iter().zip(columns).map(|(array, column)| {
            array.unwrap_or_else(|| new_null_array(column.field.data_type(), rows))
        });
        Ok(Some(arrays.collect()))
    }

    /// Secures these columns, which may be columns beyond the scan's; false if one of them is not
    /// in memory. After `true`, [`ChunkLease::batch`] can read them as long as the lease lives.
    pub fn make_sure_of(&self, columns: &[ColumnRequest]) -> bool {
        let place = self.latest();
        let sure = place.step(|work| {
            let own = |c: &&ColumnRequest| !work.by_column.contains_key(&c.key());
            let missing: Vec<&ColumnRequest> = columns.iter().filter(own).collect();
            // All or none: a reader that never reads would keep the batches that all others have
            // passed.
            let there = place.scan.inner().with_state(|state, _| {
                let root = |name: &str| self.info().file.column(name);
                missing.iter().all(|column| {
                    let known = self.known(state, &self.key(column));
                    root(&column.name).is_none_or(|root| {
                        known.is_some_and(|segment| segment.has_first())
                            || self.buffers(state, root, &column.name).is_ok()
                    })
                })
            });
            let mut missing = missing.into_iter().map(std::slice::from_ref);
            let none = Fetched::new();
            there && missing.all(|column| self.readers(&place, work, column, 0, &none).is_ok())
        });
        let sure = sure.unwrap_or(false);
        if sure {
            let names = columns.iter().map(|column| column.name.clone());
            self.sure_of.lock().extend(names);
        }
        sure
    }

    /// A place that has not lapsed at the time of the call. `tries` says how often in a row the
    /// consumer came back too late. Cancel safe.
    pub(crate) async fn place(&self, mut tries: u32) -> Result<Arc<Place>> {
        loop {
            let place = self.latest();
            if place.is_here() {
                return Ok(place);
            }
            drop(self.again.lock().take());
            let own = self.own.place();
            let more = self.sure_of.lock().clone();
            let scan = own.scan.again(own.chunk, &more, tries)?;
            let gone = || StorageError::Internal("a scan of one chunk got no chunk".to_owned());
            let kept = scan.next_place().await?.ok_or_else(gone)?;
            // A concurrent call may have stored a place already; either will do.
            let before = self.again.lock().replace(kept);
            drop(before);
            tries += 1;
        }
    }

    /// The current place, lapsed or not.
    pub(crate) fn latest(&self) -> Arc<Place> {
        let again = self.again.lock();
        Arc::clone(again.as_ref().unwrap_or(&self.own).place())
    }

    /// Reports progress to the core, which counts the chunk as in work only while the consumer
    /// makes progress.
    pub(crate) fn tell_progress(&self, place: &Place) {
        let told = *self.progress_told.lock();
        let inner = place.scan.inner();
        let often = inner.config.turn_length_max / PROGRESS_PER_TURN;
        if !place.known || told.elapsed() < often {
            return;
        }
        *self.progress_told.lock() = Instant::now();
        let (scan, chunk) = (place.scan.id(), place.chunk);
        inner.with_state(|state, effects| {
            if state.abm.holds(scan, chunk) {
                Inner::log(state.handle(Event::ChunkProgressed { scan, chunk }, effects));
            }
        });
    }

    /// The positions of the columns' readers in `work`; new readers begin at batch `at` or
    /// earlier. `None` for columns that the file lacks.
    fn readers(
        &self,
        place: &Place,
        work: &mut Work,
        columns: &[ColumnRequest],
        at: usize,
        fetched: &Fetched,
    ) -> Result<Vec<Option<usize>>, NoReader> {
        let readers = columns.iter().map(|column| {
            let own = column.key();
            let known = work.by_column.get(&own).copied();
            if let Some(reader) = known
                && work.readers[reader].go_to(at)
            {
                return Ok(Some(reader));
            }
            // A consumer that resumes after a lapse does not need the batches that it has read.
            // For a consumer that goes back to dropped batches the reader begins at `at`, because
            // nothing earlier is left.
            let resumed = !std::ptr::eq(place, Arc::as_ptr(self.own.place()));
            let first = if resumed || known.is_some() { at } else { 0 };
            let Some(reader) = self.reader(place, column, first, fetched.get(&own))? else {
                return Ok(None);
            };
            if let Some(known) = known {
                work.readers[known] = reader;
                return Ok(Some(known));
            }
            work.readers.push(reader);
            let reader = work.readers.len() - 1;
            work.by_column.insert(own, reader);
            Ok(Some(reader))
        });
        readers.collect()
    }

    /// A reader of the column's decoded segment from batch `first` on; it shares the segment with
    /// other readers if it can. `None` if the file lacks the column. `fetched`: the column's
    /// bytes, if the lease has read them for itself.
    fn reader(
        &self,
        place: &Place,
        column: &ColumnRequest,
        first: usize,
        fetched: Option<&Buffers>,
    ) -> Result<Option<Reader>, NoReader> {
        let Some(root) = self.info().file.column(&column.name) else {
            return Ok(None);
        };
        let key = self.key(column);
        place.scan.inner().with_state(|state, effects| {
            let known = self.known(state, &key);
            let shared = known.as_ref().and_then(|segment| segment.join(first));
            if shared.is_none()
                && fetched.is_none()
                && self.has_only_arrays(state, std::slice::from_ref(column))
            {
                let key = column.key();
                return Err(NoReader::OnlyOtherArrays { root, key });
            }
            if let Some(scan) = state.scans.get_mut(place.scan.id()) {
                let metrics = &mut scan.metrics;
                metrics.decode_shared += u64::from(shared.is_some());
                metrics.decode_begun += u64::from(shared.is_none());
            }
            if let Some(reader) = shared {
                return Ok(Some(reader));
            }
            let buffers = match fetched {
                Some(fetched) => fetched.clone(),
                None => self.buffers(state, root, &column.name)?,
            };
            let segment = self.begin(state, place, root, column, first, buffers);
            let late = || StorageError::Internal("a new segment has its first batch".to_owned());
            let reader = segment.join(first).ok_or_else(late)?;
            // A segment without its first batches is useless to new readers, so only its own
            // readers hold it.
            if first == 0
                && let Some(table) = state.tables.get_mut(&place.scan.table().table)
            {
                let list = table.decoded.entry(place.chunk).or_default();
                let old = list.iter().position(|(known, _)| *known == key);
                effects.dropped.extend(old.map(|at| list.swap_remove(at).1));
                list.push((key, segment));
            }
            Ok(Some(reader))
        })
    }

    pub(crate) fn key(&self, column: &ColumnRequest) -> DecodedKey {
        (self.own.place().chunk, column.key(), self.batch_rows)
    }

    pub(crate) fn known(&self, state: &State, key: &DecodedKey) -> Option<Arc<DecodedSegment>> {
        let place = self.own.place();
        let table = state.tables.get(&place.scan.table().table)?;
        let list = table.decoded.get(&place.chunk)?;
        list.iter()
            .find(|(known, _)| known == key)
            .map(|(_, segment)| Arc::clone(segment))
    }

    /// Whether a scan other than the place's needs one of these columns of the chunk, or holds the
    /// chunk.
    #[allow(clippy::unused_self)] // It is about the lease's chunk.
    pub(crate) fn others_want(
        &self,
        state: &State,
        place: &Place,
        columns: &[ColumnRequest],
    ) -> bool {
        let id = place.scan.table().table;
        state.tables.get(&id).is_some_and(|table| {
            let known = |column: &ColumnRequest| table.core.column(&column.name);
            let wanted: ColumnSet = columns.iter().filter_map(known).collect();
            state
                .abm
                .others_want(place.scan.id(), id, place.chunk, &wanted)
        })
    }

    fn begin(
        &self,
        state: &State,
        place: &Place,
        root: usize,
        column: &ColumnRequest,
        first: usize,
        buffers: Buffers,
    ) -> Arc<DecodedSegment> {
        let all = self.batches.rows();
        let is_tiny = is_tiny(all, column.field.data_type(), &buffers);
        let make = self.decoder(root, column, self.batch_rows, buffers);
        let shared = &place.scan.inner().shared;
        let lasting = first == 0
            && (place.origin != LoadOrigin::LoadedForMe
                || shared.memory.keeps_spare_arrays()
                || self.others_want(state, place, std::slice::from_ref(column)));
        let rows = self.batches.iter().take(first).sum();
        let narrow = column.narrow;
        let make: MakeDecoder = Box::new(move || {
            let mut decoder = make()?;
            if first > 0 {
                decoder = decoder.with_rows(std::slice::from_ref(&(rows..all)));
            }
            Ok(if narrow {
                decoder.in_few_bytes()
            } else {
                decoder
            })
        });
        let decode = (!is_tiny).then(|| Arc::clone(&shared.decode));
        let memory = Arc::clone(&shared.memory);
        let produced = Arc::clone(&shared.decoded_bytes);
        let name = format!("{}, column {}", self.info().file.name(), column.name);
        DecodedSegment::new(name, make, first, lasting, decode, memory, produced)
    }

    /// Whether of one of these columns only arrays are in memory, not bytes.
    pub(crate) fn has_only_arrays(&self, state: &State, columns: &[ColumnRequest]) -> bool {
        let place = self.own.place();
        let table = state.tables.get(&place.scan.table().table);
        let names = columns.iter().map(|column| column.name.as_str());
        table.is_some_and(|table| table.has_only_arrays(place.chunk, names))
    }

    /// The bytes of a column that are in memory.
    pub(crate) fn buffers(&self, state: &State, root: usize, name: &str) -> Result<Buffers> {
        let place = self.own.place();
        let missing = || {
            let message = format!("column {name} of chunk {} is not in memory", place.chunk);
            StorageError::Internal(message)
        };
        let table = state.tables.get(&place.scan.table().table);
        let table = table.ok_or_else(missing)?;
        let id = table.core.column(name).ok_or_else(missing)?;
        let info = self.info();
        let wanted = info.file.chunks().ranges_of(info.file_chunk, root);
        let buffers = table.buffers(place.chunk, id, &wanted);
        buffers.ok_or_else(missing)
    }

    /// Reads the bytes of a column for this lease alone. Cancel safe.
    async fn fetch(&self, root: usize) -> Result<Buffers> {
        let info = self.info();
        let ranges = info.file.chunks().ranges_of(info.file_chunk, root);
        let mut counted = Counted::none(self.own.place().scan.inner());
        counted.grow(ranges.iter().map(footprint).sum());
        let bytes = info.file.read(&ranges).await?;
        Ok(ranges.into_iter().zip(bytes).collect())
    }

    /// The closure that makes a decoder of the column from its bytes, in batches of `batch_rows`
    /// rows.
    pub(crate) fn decoder(
        &self,
        root: usize,
        column: &ColumnRequest,
        batch_rows: usize,
        buffers: Buffers,
    ) -> MakeDecoder {
        let info = self.info().clone();
        let field = Arc::clone(&column.field);
        let page_rules = self.own.place().scan.inner().shared.memory.page_rules();
        Box::new(move || {
            let chunk = &info.file.chunks().chunks[info.file_chunk];
            let (name, metadata) = (info.file.name(), info.file.metadata());
            SegmentDecoder::new(name, metadata, root, &field, chunk, buffers, batch_rows)
                .map(|decoder| decoder.with_page_rules(page_rules))
        })
    }
}

/// Whether these rows of a column take no more time to decode than two changes of threads.
fn is_tiny(rows: usize, data_type: &DataType, buffers: &[(Range<u64>, Bytes)]) -> bool {
    let bytes: usize = buffers.iter().map(|(_, bytes)| bytes.len()).sum();
    let fixed = data_type.is_primitive() || matches!(data_type, DataType::Boolean);
    rows <= TINY_ROWS && bytes <= TINY_BYTES && fixed
}

/// The bytes of a column, with their places in the file.
type Buffers = Vec<(Range<u64>, Bytes)>;

/// Columns that a lease has read for itself.
type Fetched = BTreeMap<ArrayKey, Buffers>;

/// Why a column has no reader.
enum NoReader {
    Failed(StorageError),
    /// Of the column only arrays are in memory (`../segments/segment_form.rs`), and they have
    /// other batches or another type.
    OnlyOtherArrays {
        root: usize,
        key: ArrayKey,
    },
}

impl From<StorageError> for NoReader {
    fn from(error: StorageError) -> Self {
        Self::Failed(error)
    }
}

impl<T> OnPanic for Result<T, NoReader> {
    fn panicked(error: StorageError) -> Self {
        Err(NoReader::Failed(error))
    }
}

impl std::fmt::Debug for ChunkLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkLease")
            .field("index", &self.index())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use std::sync::mpsc;

    use arrow::array::AsArray;
    use arrow::datatypes::{Field, Int64Type};
    use futures::FutureExt;

    use super::*;
    use crate::device::Devices;
    use crate::memory::MemoryBudget;
    use crate::pool::small_world::{open, start, write_in_groups};
    use crate::pool::{BufferPool, FileCache, PoolConfig, PoolShared};

    #[tokio::test]
    async fn few_rows_are_decoded_by_their_reader() {
        let folder = tempfile::tempdir().unwrap();
        for (rows, is_tiny) in [(TINY_ROWS, true), (TINY_ROWS + 1, false)] {
            let path = folder.path().join(format!("{rows}.parquet"));
            write_in_groups(&path, rows);
            let files = FileCache::new(Arc::new(Devices::default()));
            let shared = PoolShared::new(files, MemoryBudget::new(64 << 20), 1).unwrap();
            let pool = BufferPool::new(PoolConfig::default(), Arc::clone(&shared));
            let file = open(&shared, &path).await;
            // The only decode thread hangs until `release` is dropped.
            let (release, hang) = mpsc::channel::<()>();
            shared.decode.submit(move || {
                let _released = hang.recv();
            });
            let scan = start(&pool, &file, vec![1]);
            let lease = scan.next_chunk().await.unwrap().unwrap();
            let column = ColumnRequest::exact(Arc::new(Field::new("v", DataType::Int64, false)));
            let arrays = lease.batch(&[column], 0).now_or_never();
            assert_eq!(arrays.is_some(), is_tiny, "{rows} rows");
            if let Some(arrays) = arrays {
                let arrays = arrays.unwrap().unwrap();
                let values = arrays[0].as_primitive::<Int64Type>().values();
                assert!(values.iter().copied().eq(512..1024));
            }
            drop(release);
        }
    }

    #[test]
    fn text_and_large_pages_are_not_tiny() {
        let of = |bytes| vec![(0..1, Bytes::from(vec![0_u8; bytes]))];
        assert!(is_tiny(1, &DataType::Boolean, &of(TINY_BYTES)));
        assert!(!is_tiny(1, &DataType::Boolean, &of(TINY_BYTES + 1)));
        for unbounded in [DataType::Utf8View, DataType::Binary] {
            assert!(!is_tiny(1, &unbounded, &of(1)), "{unbounded}");
        }
    }
}
