//! Which chunks does a query over these files see?
//!
//! Queries that planned different subsets of a folder (partition pruning, a new file) must still
//! share. So a core table is a folder with one schema; it grows as files appear, and a query's
//! [`TableView`] lists the query's chunks in it.
//! Not here: the core table (`../state/core_table.rs`).

use std::sync::Arc;

use coscan_core::{ChunkId, Event, TableId};

use crate::Result;
use crate::pool::BufferPool;
use crate::pool::files::{Charge, TableColumns, TableFile, bytes_of_chunk, bytes_of_table};
use crate::pool::state::{CoreTable, TableKey, TableState};

impl BufferPool {
    /// The chunks of these files. Registers files that are new to the pool.
    ///
    /// Work per chunk and column is done without the pool's lock.
    ///
    /// # Errors
    /// `Internal` if the files have different target chunk sizes.
    pub fn table(&self, files: &[Arc<TableFile>]) -> Result<TableView> {
        let key = TableKey::of(files);
        let columns = TableColumns::of(self.inner.config.model, files);
        let (id, columns, user, missing) = self.inner.with_state(|state, effects| {
            let crowded = self.inner.shared.memory.metadata_excess() > 0;
            let id = state.current_table(key, files, crowded, effects);
            let table = state.tables.entry(id);
            let table = table.or_insert_with(|| {
                let known = bytes_of_table(columns.names().len());
                let known = Charge::new(Some(&self.inner.shared.memory), known);
                TableState::new(CoreTable::new(columns), known)
            });
            table.used = state.ids.now();
            table.core.views += 1;
            let new = files.iter().filter(|file| table.core.base(file).is_none());
            let new: Vec<_> = new.cloned().collect();
            Ok((
                id,
                table.core.columns.clone(),
                Arc::clone(&table.users),
                new,
            ))
        })?;
        let missing = missing.into_iter().map(|file| {
            let layouts = columns.layouts(&file);
            (file, layouts)
        });
        let missing: Vec<_> = missing.collect();
        let bases = self.inner.with_state(|state, effects| {
            let Some(table) = state.tables.get_mut(&id) else {
                return Err(state.unknown_table(id));
            };
            let layout = table.core.add(missing);
            let of_chunk = bytes_of_chunk(layout.columns.into());
            table.known.grow(of_chunk * layout.chunks.len() as u64);
            let bases = files.iter().map(|file| table.core.ask(file).unwrap_or(0));
            let bases: Vec<u32> = bases.collect();
            if !std::mem::replace(&mut table.core.registered, true) {
                state.handle(Event::TableRegistered { table: id, layout }, effects)?;
            } else if !layout.chunks.is_empty() {
                let (chunks, shared) = (layout.chunks, layout.shared);
                let table = id;
                let appended = Event::ChunksAppended {
                    table,
                    chunks,
                    shared,
                };
                state.handle(appended, effects)?;
            }
            Ok(bases)
        })?;
        self.inner.shared.memory.tell();
        Ok(TableView {
            table: id,
            chunks: infos(files, &bases),
            columns,
            _user: user,
        })
    }
}

/// The chunks of files whose first chunks have the ids `bases`.
fn infos(files: &[Arc<TableFile>], bases: &[u32]) -> Arc<[ChunkInfo]> {
    let chunks = files.iter().zip(bases).flat_map(|(file, &base)| {
        let count = u32::try_from(file.chunks().chunks.len()).unwrap_or(u32::MAX);
        (0..count).map(move |at| ChunkInfo {
            file: Arc::clone(file),
            file_chunk: at as usize,
            chunk: ChunkId(base + at),
        })
    });
    chunks.collect()
}

/// A chunk in a query's view.
#[derive(Clone, Debug)]
pub struct ChunkInfo {
    /// Its file.
    pub file: Arc<TableFile>,
    /// Its position in `file.chunks().chunks`.
    pub file_chunk: usize,
    pub(crate) chunk: ChunkId,
}

impl ChunkInfo {
    /// The chunk's number in its table: the same in all views of the table.
    #[must_use]
    pub fn id(&self) -> ChunkId {
        self.chunk
    }

    /// The number of its rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.file.chunks().chunks[self.file_chunk].rows
    }

    /// Bytes on disk of a root column, shared pages included.
    #[must_use]
    pub fn bytes(&self, column: usize) -> u64 {
        let ranges = self.file.chunks().ranges_of(self.file_chunk, column);
        ranges.iter().map(|range| range.end - range.start).sum()
    }
}

/// The chunks of the files that a query reads, in the order of the files.
#[derive(Clone, Debug)]
pub struct TableView {
    pub(crate) table: TableId,
    pub(crate) chunks: Arc<[ChunkInfo]>,
    pub(crate) columns: TableColumns,
    /// Keeps the table alive (`versions.rs`).
    pub(crate) _user: Arc<()>,
}

impl TableView {
    /// The chunks.
    #[must_use]
    pub fn chunks(&self) -> &[ChunkInfo] {
        &self.chunks
    }

    /// The table of the chunks. Views of the same pool with the same table id share chunks.
    #[must_use]
    pub fn table(&self) -> TableId {
        self.table
    }
}
