//! Which of the core's columns does a root column belong to?
//!
//! A table's columns are fixed when the table is registered: all its files have the same columns
//! (`TableKey`). So a lookup does not take the pool's lock.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use coscan_core::{ChunkLayout, ColumnId, StorageModel};

use super::packed::held;
use crate::pool::TableFile;

/// The columns of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableColumns {
    /// Ascending.
    names: Arc<[String]>,
    model: StorageModel,
}

impl TableColumns {
    pub(crate) fn of(model: StorageModel, files: &[Arc<TableFile>]) -> Self {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let mut last: Option<&Arc<TableFile>> = None;
        for file in files {
            // Files of one schema share its description.
            if last.is_none_or(|last| !Arc::ptr_eq(last.described(), file.described())) {
                names.extend(file.column_names());
            }
            last = Some(file);
        }
        Self {
            names: names.into_iter().map(str::to_owned).collect(),
            model,
        }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether each root column is a column of the core of its own (`dsm`).
    pub(crate) fn are_apart(&self) -> bool {
        self.model == StorageModel::Dsm
    }

    /// How many columns the core knows.
    pub(crate) fn count(&self) -> u16 {
        match self.model {
            StorageModel::Nsm => 1,
            StorageModel::Dsm => u16::try_from(self.names.len()).unwrap_or(u16::MAX),
        }
    }

    /// The core's column that a root column belongs to.
    pub(crate) fn id(&self, name: &str) -> Option<ColumnId> {
        let at = self
            .names
            .binary_search_by(|known| known.as_str().cmp(name));
        match self.model {
            StorageModel::Nsm => at.is_ok().then_some(ColumnId(0)),
            StorageModel::Dsm => u16::try_from(at.ok()?).ok().map(ColumnId),
        }
    }

    /// The layout of a file's chunks.
    pub(crate) fn layouts(&self, file: &TableFile) -> Vec<ChunkLayout> {
        let ids: Vec<Option<ColumnId>> = file.column_names().map(|name| self.id(name)).collect();
        let chunks = file.chunks().chunks.iter().map(|chunk| {
            let mut bytes = vec![0; self.count().into()].into_boxed_slice();
            for (id, ranges) in ids.iter().zip(&chunk.columns) {
                if let Some(id) = id {
                    bytes[usize::from(id.0)] += held(ranges);
                }
            }
            ChunkLayout {
                device: file.device_id(),
                bytes,
            }
        });
        chunks.collect()
    }

    /// The byte ranges of a segment, without shared extents, ascending. Under `nsm` a segment has
    /// the ranges of all columns.
    pub(crate) fn ranges(&self, file: &TableFile, at: usize, column: ColumnId) -> Vec<Range<u64>> {
        let chunk = &file.chunks().chunks[at];
        let mut ranges: Vec<Range<u64>> = match self.model {
            StorageModel::Nsm => chunk.columns.iter().flatten().cloned().collect(),
            StorageModel::Dsm => {
                let name = self.names.get(usize::from(column.0));
                let roots = name.map_or(&[][..], |name| file.roots(name));
                let of_root = roots.iter().filter_map(|&root| chunk.columns.get(root));
                of_root.flatten().cloned().collect()
            }
        };
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }
}
