//! Which few batches of a chunk does a consumer want, and which of them are picked already?
//!
//! A consumer may know that it wants few batches of a chunk, because statistics rule out the rest.
//! Batches are decoded for all from the first on, so one far behind would wait for all before it.
//! So few batches are picked, several at once: each pick decodes the dictionary of its column anew.
//! Not here: the pick (`pick.rs`).
//! Bounds: [`AT_ONCE`] batches of each column.

use std::collections::BTreeMap;

use arrow::array::ArrayRef;
use parking_lot::Mutex;

use super::column_request::{ArrayKey, ColumnRequest};

/// Batches are few if they are at most one in so many of the chunk's.
const FEW_ONE_IN: usize = 16;

/// So many batches are picked at once.
const AT_ONCE: usize = 8;

pub(super) struct FewBatches {
    /// Ascending.
    batches: Vec<usize>,
    /// What was picked, from the batch on that was asked for last.
    picked: Mutex<BTreeMap<(ArrayKey, usize), ArrayRef>>,
}

impl FewBatches {
    /// These batches (ascending) of a chunk of `all` batches; `None` if they are not few.
    pub(super) fn of(batches: Vec<usize>, all: usize) -> Option<Self> {
        (batches.len() <= all / FEW_ONE_IN).then(|| Self {
            batches,
            picked: Mutex::default(),
        })
    }

    /// The batches to pick with batch `at`, which is the first of them; `None` if it is not one of
    /// the few.
    pub(super) fn group(&self, at: usize) -> Option<&[usize]> {
        let first = self.batches.binary_search(&at).ok()?;
        let end = self.batches.len().min(first + AT_ONCE);
        self.batches.get(first..end)
    }

    /// The columns of which batch `at` is not picked. Earlier batches are forgotten.
    pub(super) fn missing(&self, columns: &[ColumnRequest], at: usize) -> Vec<ColumnRequest> {
        let mut picked = self.picked.lock();
        picked.retain(|(_, batch), _| *batch >= at);
        let is_missing = |c: &&ColumnRequest| !picked.contains_key(&(c.key(), at));
        columns.iter().filter(is_missing).cloned().collect()
    }

    pub(super) fn put(&self, column: &ColumnRequest, at: usize, array: ArrayRef) {
        self.picked.lock().insert((column.key(), at), array);
    }

    /// Batch `at` of the columns, if all of them are picked.
    pub(super) fn get(&self, columns: &[ColumnRequest], at: usize) -> Option<Vec<ArrayRef>> {
        let picked = self.picked.lock();
        let array = |column: &ColumnRequest| picked.get(&(column.key(), at)).cloned();
        columns.iter().map(array).collect()
    }
}
