//! A table as the core knows it: which part of which file is each of its chunks?
//!
//! Not here: which parts of the table are in memory (`resident.rs`), when it is dropped
//! (`../tables/versions.rs`).
//! T1: a file version's chunks are in a core table once, as a run of ids in file order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use coscan_core::{ChunkId, ChunkLayout, ColumnId, ExtentId, SharedExtent, TableLayout};
use object_store::path::Path;

use super::super::files::{FileKey, TableColumns, TableFile, held};
use crate::StorageError;
use crate::device::FileVersion;

/// Files with equal keys belong to one table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TableKey {
    /// (store, folder) of the files; several for a query over several folders.
    folders: BTreeSet<(String, String)>,
    /// Root columns with their Parquet types, ascending.
    columns: Arc<BTreeSet<String>>,
    chunk_bytes: u64,
}

impl TableKey {
    pub(crate) fn of(files: &[Arc<TableFile>]) -> Self {
        let folder = |file: &TableFile| {
            let path = file.version().location.as_ref();
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            // hive partitions (`year=2026/`) are part of one table.
            let parts: Vec<&str> = folder.split('/').take_while(|p| !p.contains('=')).collect();
            (file.store().to_owned(), parts.join("/"))
        };
        let mut schemas: Vec<&Arc<BTreeSet<String>>> = Vec::new();
        for file in files {
            if !schemas
                .iter()
                .any(|known| Arc::ptr_eq(known, file.described()))
            {
                schemas.push(file.described());
            }
        }
        let columns = match schemas.as_slice() {
            [one] => Arc::clone(one),
            several => Arc::new(several.iter().flat_map(|s| s.iter().cloned()).collect()),
        };
        Self {
            folders: files.iter().map(|file| folder(file)).collect(),
            columns,
            chunk_bytes: files.first().map_or(0, |file| file.chunk_bytes()),
        }
    }
}

/// Where a chunk of a core table comes from.
#[derive(Clone, Debug)]
pub(crate) struct ChunkSource {
    pub(crate) file: Arc<TableFile>,
    /// Position in `file.chunks().chunks`.
    pub(crate) at: usize,
}

impl ChunkSource {
    /// The chunk's rows, counted from the file's first.
    pub(crate) fn rows(&self) -> Range<u64> {
        let chunk = &self.file.chunks().chunks[self.at];
        let first = chunk.pieces.first();
        let first = first.map_or(0, |piece| piece.first_row_of_file(self.file.metadata()));
        first..first + chunk.rows
    }
}

/// Where a shared extent of a core table comes from.
#[derive(Clone, Debug)]
pub(crate) struct ExtentSource {
    pub(crate) ranges: Vec<Range<u64>>,
}

/// A table as the core knows it.
#[derive(Debug)]
pub(crate) struct CoreTable {
    pub(crate) columns: TableColumns,
    /// Whether the table is registered with the core.
    pub(crate) registered: bool,
    pub(crate) chunks: Vec<ChunkSource>,
    pub(crate) extents: Vec<ExtentSource>,
    extents_of: BTreeMap<(ChunkId, ColumnId), Vec<ExtentId>>,
    files: HashMap<Arc<FileKey>, Place>,
    /// The number of views made of the table.
    pub(crate) views: u64,
    /// The most recently added version of each file, by store and path, with its number of chunks.
    latest: BTreeMap<(String, Path), (FileVersion, usize)>,
    /// Chunks of versions that are not the latest.
    replaced_chunks: usize,
}

impl CoreTable {
    pub(crate) fn new(columns: TableColumns) -> Self {
        Self {
            columns,
            registered: false,
            chunks: Vec::new(),
            extents: Vec::new(),
            extents_of: BTreeMap::new(),
            files: HashMap::new(),
            views: 0,
            latest: BTreeMap::new(),
            replaced_chunks: 0,
        }
    }

    /// The core column of a root column.
    pub(crate) fn column(&self, name: &str) -> Option<ColumnId> {
        self.columns.id(name)
    }

    /// Adds the files that are not in the table yet; returns the layout that the core should
    /// append.
    pub(crate) fn add(&mut self, files: Vec<(Arc<TableFile>, Vec<ChunkLayout>)>) -> TableLayout {
        let mut layout = TableLayout {
            columns: self.columns.count(),
            ..TableLayout::default()
        };
        for (file, mut layouts) in files {
            if self.files.contains_key(&**file.key()) {
                continue;
            }
            let base = u32::try_from(self.chunks.len()).unwrap_or(u32::MAX);
            let known = Place {
                base,
                chunks: file.chunks().chunks.len(),
                asked: self.views,
            };
            self.files.insert(Arc::clone(file.key()), known);
            let latest = (file.version().clone(), file.chunks().chunks.len());
            if let Some((_, chunks)) = self.latest.insert(place(&file), latest) {
                self.replaced_chunks += chunks;
            }
            layout.chunks.append(&mut layouts);
            let sources = (0..file.chunks().chunks.len()).map(|at| ChunkSource {
                file: Arc::clone(&file),
                at,
            });
            self.chunks.extend(sources);
            for shared in &file.chunks().shared {
                let root = file.column_names().nth(shared.column).unwrap_or_default();
                let Some(column) = self.column(root) else {
                    continue;
                };
                let id = |at: usize| ChunkId(base + u32::try_from(at).unwrap_or(u32::MAX));
                let extent = ExtentId(u32::try_from(self.extents.len()).unwrap_or(u32::MAX));
                for at in shared.first..=shared.last {
                    self.extents_of
                        .entry((id(at), column))
                        .or_default()
                        .push(extent);
                }
                layout.shared.push(SharedExtent {
                    column,
                    first: id(shared.first),
                    last: id(shared.last),
                    bytes: held(&shared.ranges),
                });
                let ranges = shared.ranges.clone();
                self.extents.push(ExtentSource { ranges });
            }
        }
        layout
    }

    /// Whether, with these files added, at least half of the table would be chunks of replaced
    /// files.
    pub(crate) fn would_be_outdated(&self, files: &[Arc<TableFile>]) -> bool {
        let (mut all, mut replaced) = (self.chunks.len(), self.replaced_chunks);
        for file in files.iter().filter(|file| self.base(file).is_none()) {
            all += file.chunks().chunks.len();
            replaced += self
                .latest
                .get(&place(file))
                .map_or(0, |(_, chunks)| *chunks);
        }
        replaced > 0 && 2 * replaced >= all
    }

    /// The error for a chunk that needs `bytes` while the budget can never exceed `budget`.
    pub(crate) fn too_large(&self, chunk: ChunkId, bytes: u64, budget: u64) -> StorageError {
        StorageError::ChunkTooLarge {
            file: self.chunks[chunk.0 as usize].file.name().to_owned(),
            bytes,
            budget,
        }
    }

    /// The shared extents of a segment.
    pub(crate) fn extents_of(
        &self,
        chunk: ChunkId,
        column: ColumnId,
    ) -> impl Iterator<Item = ExtentId> + '_ {
        self.extents_of
            .get(&(chunk, column))
            .into_iter()
            .flatten()
            .copied()
    }

    /// The chunk id of a file's first chunk.
    pub(crate) fn base(&self, file: &TableFile) -> Option<u32> {
        Some(self.files.get(&**file.key())?.base)
    }

    /// Like [`Self::base`]; also records that a view requests the file.
    pub(crate) fn ask(&mut self, file: &TableFile) -> Option<u32> {
        let place = self.files.get_mut(&**file.key())?;
        place.asked = self.views;
        Some(place.base)
    }

    /// Whether at least half of the table is chunks of files that no view has requested lately.
    pub(crate) fn is_mostly_unused(&self) -> bool {
        let lately = self.views.saturating_sub(UNUSED_AFTER);
        let unused = self.files.values().filter(|place| place.asked < lately);
        let unused: usize = unused.map(|place| place.chunks).sum();
        unused > 0 && 2 * unused >= self.chunks.len()
    }
}

/// A file counts as unused after this many views without a request for it; this matters only when
/// memory is short. Queries over parts of a folder request different files, and should not lose
/// their table too soon.
const UNUSED_AFTER: u64 = 8;

/// Where a file's chunks are in a core table.
#[derive(Clone, Copy, Debug)]
struct Place {
    base: u32,
    chunks: usize,
    /// The last view that requested the file.
    asked: u64,
}

/// A file's store and path, which all its versions share.
fn place(file: &TableFile) -> (String, Path) {
    (file.store().to_owned(), file.version().location.clone())
}
