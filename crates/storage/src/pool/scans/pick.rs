//! How does a scan that needs few rows or batches of a leased chunk get them?
//!
//! Idea: pages without a wanted row are not decompressed, and of the other pages only the wanted
//! values are decoded. Other consumers cannot use values decoded this way. So single rows are not
//! picked from a column that another scan needs, and nothing is picked from a column that is
//! decoded already. While memory is plentiful, decoded arrays stay for the next query, and picked
//! values do not. So picking ends once the work of picking from a chunk reaches a part of the work
//! of decoding it whole. This is the rent-or-buy rule for a need of unknown length: rent first,
//! then buy, and rent again after the purchase is lost.
//! Bounds: the caller bounds the rows; a pick holds the pages of [`PICKED_ROWS`] rows and a
//! dictionary per column in memory.
//! P1: picked rows equal the rows that `batch` gives at the same places.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::concat;
use futures::FutureExt;
use futures::future::{BoxFuture, ready, try_join_all};

use super::place::Place;
use crate::pool::decode::{FewBatches, MakeDecoder};
use crate::pool::state::State;
use crate::pool::{ChunkLease, ColumnRequest};
use crate::{Result, StorageError, without_pages};

impl ChunkLease {
    /// Rows of the chunk, one array per column: the rows `wanted`, counted from the chunk's first
    /// (ascending, not empty, not touching). Columns that the file lacks are null. `None` where
    /// whole batches cost no more: another scan needs one of the columns, a column is already
    /// decoded, or so many rows of this chunk have been picked that arrays which stay would be
    /// cheaper.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// `BadPage` if a column cannot be decoded; `ShutDown`.
    pub async fn pick(
        &self,
        columns: &[ColumnRequest],
        wanted: &[Range<usize>],
    ) -> Result<Option<Vec<ArrayRef>>> {
        let is_shared = |state: &State, place: &Place| self.is_shared_in(state, place, columns);
        self.pick_unless(columns, wanted, is_shared).await
    }

    /// Promises that only these batches (ascending) will be requested. If they are few,
    /// [`ChunkLease::batch`] decodes them without the others.
    pub fn want_only(&mut self, batches: Vec<usize>) {
        self.few = FewBatches::of(batches, self.batches.len());
    }

    /// Batch `at`, if it is one of few and costs less alone: it is not decoded yet, and not so
    /// many rows of this chunk have been picked that arrays which stay would be cheaper. Here it
    /// does not matter whether another scan needs the columns. Cancel safe.
    ///
    /// # Errors
    /// Like [`ChunkLease::pick`].
    pub(super) async fn one_of_few(
        &self,
        columns: &[ColumnRequest],
        at: usize,
    ) -> Result<Option<Vec<ArrayRef>>> {
        let Some(few) = &self.few else {
            return Ok(None);
        };
        let Some(group) = few.group(at) else {
            return Ok(None);
        };
        let missing = few.missing(columns, at);
        if !missing.is_empty() {
            let is_there = |state: &State, _: &Place| {
                let known = |column: &ColumnRequest| self.known(state, &self.key(column));
                self.has_only_arrays(state, &missing)
                    || missing.iter().filter_map(known).any(|known| known.has(at))
            };
            let rows = self.rows_of(group);
            let Some(arrays) = self.pick_unless(&missing, &rows, is_there).await? else {
                return Ok(None);
            };
            for (column, array) in missing.iter().zip(arrays) {
                let mut begin = 0;
                for batch in group {
                    let rows = self.batches.rows_of(*batch);
                    few.put(column, *batch, array.slice(begin, rows));
                    begin += rows;
                }
            }
        }
        Ok(few.get(columns, at))
    }

    /// The rows of these batches: ascending, not touching.
    fn rows_of(&self, batches: &[usize]) -> Vec<Range<usize>> {
        let mut all: Vec<Range<usize>> = Vec::with_capacity(batches.len());
        for rows in batches.iter().map(|batch| self.batches.range_of(*batch)) {
            match all.last_mut() {
                Some(last) if last.end == rows.start => last.end = rows.end,
                _ => all.push(rows),
            }
        }
        all
    }

    /// These rows; `None` if `costs_no_more` says that whole batches cost no more.
    async fn pick_unless(
        &self,
        columns: &[ColumnRequest],
        wanted: &[Range<usize>],
        costs_no_more: impl Fn(&State, &Place) -> bool,
    ) -> Result<Option<Vec<ArrayRef>>> {
        let rows: usize = wanted.iter().map(ExactSizeIterator::len).sum();
        let mut tries = 0;
        let (place, begun) = loop {
            let place = self.place(tries).await?;
            self.tell_progress(&place);
            let begun = place.step(|work| {
                let decoders = self.pickers(&place, columns, wanted, &costs_no_more)?;
                Ok(decoders.map(|decoders| (decoders, Arc::clone(&work.picking))))
            });
            match begun.transpose()? {
                Some(begun) => break (place, begun),
                None => tries += 1,
            }
        };
        let Some((decoders, picking)) = begun else {
            return Ok(None);
        };
        let shared = &place.scan.inner().shared;
        let wanted: Arc<[Range<usize>]> = wanted.into();
        let mut answers: Vec<BoxFuture<'static, Result<ArrayRef>>> = Vec::new();
        for (decoder, column) in decoders.into_iter().zip(columns) {
            let Some(decoder) = decoder else {
                let absent = new_null_array(column.field.data_type(), rows);
                answers.push(ready(Ok(absent)).boxed());
                continue;
            };
            let (wanted, produced) = (Arc::clone(&wanted), Arc::clone(&shared.decoded_bytes));
            let (file, name) = (Arc::clone(&self.info().file), column.name.clone());
            let place = move || format!("{}, column {name}", file.name());
            let picking = Picking::new(&picking);
            let work = move || {
                let _picking = picking;
                decode(decoder, &wanted, &produced)
            };
            answers.push(shared.decode.run(place, work));
        }
        // All jobs are queued before the first is awaited.
        let picked = try_join_all(answers).await?;
        place.in_time();
        Ok(Some(picked))
    }

    /// A decoder for each column that the file has; `None` if the rows should not be picked.
    fn pickers(
        &self,
        place: &Place,
        columns: &[ColumnRequest],
        wanted: &[Range<usize>],
        costs_no_more: impl Fn(&State, &Place) -> bool,
    ) -> Result<Option<Vec<Option<MakeDecoder>>>> {
        place.scan.inner().with_state(|state, _| {
            if costs_no_more(state, place) || !self.may_pick(state, place, wanted) {
                return Ok(None);
            }
            let decoders = columns.iter().map(|column| {
                let Some(root) = self.info().file.column(&column.name) else {
                    return Ok(None);
                };
                let buffers = self.buffers(state, root, &column.name)?;
                Ok(Some(self.decoder(root, column, PICKED_ROWS, buffers)))
            });
            let decoders = decoders.collect::<Result<Vec<_>>>()?;
            if let Some(scan) = state.scans.get_mut(place.scan.id()) {
                let rows: usize = wanted.iter().map(ExactSizeIterator::len).sum();
                scan.metrics.rows_picked += rows as u64;
            }
            Ok(Some(decoders))
        })
    }

    /// Whether picking is still cheaper than arrays that stay for the next query. If so, counts
    /// the batches that this pick touches.
    fn may_pick(&self, state: &mut State, place: &Place, wanted: &[Range<usize>]) -> bool {
        if !place.scan.inner().shared.memory.keeps_arrays() {
            return true;
        }
        let (mut first, mut touched) = (0, 0);
        for rows in self.batches.iter() {
            let end = first + rows;
            let next = wanted.partition_point(|range| range.end <= first);
            if wanted.get(next).is_some_and(|range| range.start < end) {
                touched += rows;
            }
            first = end;
        }
        let Some(table) = state.tables.get_mut(&place.scan.table().table) else {
            return false;
        };
        let picked = table.picked.entry(place.chunk).or_default();
        let may = *picked + touched <= first / PICKED_PART;
        if may {
            *picked += touched;
        }
        may
    }

    /// Whether another scan needs one of these columns of the chunk, or one of them is decoded
    /// already: then [`ChunkLease::pick`] returns `None`.
    #[must_use]
    pub fn is_shared(&self, columns: &[ColumnRequest]) -> bool {
        let place = self.latest();
        let inner = place.scan.inner();
        inner.with_state(|state, _| self.is_shared_in(state, &place, columns))
    }

    fn is_shared_in(&self, state: &State, place: &Place, columns: &[ColumnRequest]) -> bool {
        let known = || {
            columns
                .iter()
                .filter_map(|column| self.known(state, &self.key(column)))
                .any(|segment| segment.has_first())
        };
        self.others_want(state, place, columns) || self.has_only_arrays(state, columns) || known()
    }
}

/// While memory is plentiful, the batches that rows are picked from may add up to this part of the
/// chunk, as a divisor. Processor time of queries over wide columns of TPC-H lineitem, SF 1, whole
/// columns against picked rows: 300 and 100 ms with rows in one of thirty batches, 560 and 310 ms
/// in about half of them, 310 and 260 ms in all. The next such query takes 10 ms if the columns
/// are decoded, so rows in most batches are not picked.
const PICKED_PART: usize = 2;

/// Rows that are picked together: their decompressed pages are in memory at the same time.
const PICKED_ROWS: usize = 1024;

/// Counts a column as being picked while it lives.
struct Picking(Arc<AtomicUsize>);

impl Picking {
    fn new(all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(all))
    }
}

impl Drop for Picking {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn decode(make: MakeDecoder, wanted: &[Range<usize>], produced: &AtomicU64) -> Result<ArrayRef> {
    let mut decoder = make()?.with_rows(wanted);
    let mut arrays = Vec::new();
    while let Some(array) = decoder.next_batch()? {
        let array = without_pages(array);
        let bytes = array.get_array_memory_size() as u64;
        produced.fetch_add(bytes, Ordering::Relaxed);
        arrays.push(array);
    }
    match arrays.as_slice() {
        [array] => Ok(Arc::clone(array)),
        arrays => {
            let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &**array).collect();
            concat(&arrays).map_err(|error| StorageError::Internal(error.to_string()))
        }
    }
}
