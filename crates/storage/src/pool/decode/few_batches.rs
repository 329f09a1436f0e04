//! Which few batches of a chunk does a consumer want, and which of them have been picked?
//!
//! A consumer may want only few batches of a chunk, because statistics exclude the others. Shared
//! decode starts at the first batch, so a batch near the end would wait for all batches before it.
//! Instead, the few batches are picked: only their rows are decoded. Several are picked at once,
//! because each pick decodes its column's dictionary.
//! Not here: the pick (`../scans/pick.rs`).
//! Bounds: [`AT_ONCE`] batches of each column.

use std::collections::BTreeMap;

use arrow::array::ArrayRef;
use parking_lot::Mutex;

use super::column_request::{ArrayKey, ColumnRequest};

/// Batches are few if they are at most this part of the chunk's, as a divisor.
const FEW_ONE_IN: usize = 16;

/// How many batches are picked at once.
const AT_ONCE: usize = 8;

pub(in crate::pool) struct FewBatches {
    /// Ascending.
    batches: Vec<usize>,
    /// Picked batches, from the batch that was requested last onward.
    picked: Mutex<BTreeMap<(ArrayKey, usize), ArrayRef>>,
}

impl FewBatches {
    /// `None` if these batches (ascending) of a chunk of `all` batches are not few.
    pub(in crate::pool) fn of(batches: Vec<usize>, all: usize) -> Option<Self> {
        (batches.len() <= all / FEW_ONE_IN).then(|| Self {
            batches,
            picked: Mutex::default(),
        })
    }

    /// Batch `at` and those to pick along with it; `None` if it is not one of the few.
    pub(in crate::pool) fn group(&self, at: usize) -> Option<&[usize]> {
        let first = self.batches.binary_search(&at).ok()?;
        let end = self.batches.len().min(first + AT_ONCE);
        self.batches.get(first..end)
    }

    /// The columns whose batch `at` has not been picked. Forgets earlier batches.
    pub(in crate::pool) fn missing(
        &self,
        columns: &[ColumnRequest],
        at: usize,
    ) -> Vec<ColumnRequest> {
        let mut picked = self.picked.lock();
        picked.retain(|(_, batch), _| *batch >= at);
        let is_missing = |c: &&ColumnRequest| !picked.contains_key(&(c.key(), at));
        columns.iter().filter(is_missing).cloned().collect()
    }

    pub(in crate::pool) fn put(&self, column: &ColumnRequest, at: usize, array: ArrayRef) {
        self.picked.lock().insert((column.key(), at), array);
    }

    /// Batch `at` of the columns, if all of them have been picked.
    pub(in crate::pool) fn get(
        &self,
        columns: &[ColumnRequest],
        at: usize,
    ) -> Option<Vec<ArrayRef>> {
        let picked = self.picked.lock();
        let array = |column: &ColumnRequest| picked.get(&(column.key(), at)).cloned();
        columns.iter().map(array).collect()
    }
}
