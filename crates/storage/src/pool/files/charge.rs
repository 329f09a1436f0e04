//! The memory of metadata about files and tables, counted in the budget.
//!
//! Footers, page indexes, chunk maps and the core's own records live as long as they have an
//! owner. Each carries a charge, which leaves the budget when the last owner drops it.
//! Not here: which metadata is dropped when it takes too much (`file_cache.rs`,
//! `../tables/versions.rs`), the limit (`budget.rs`).

use std::sync::Arc;

use crate::memory::MemoryBudget;
use crate::parquet::FileChunks;

/// Bytes that the budget counts until the charge is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    memory: Option<Arc<MemoryBudget>>,
    bytes: u64,
}

impl Charge {
    /// Counts nothing if there is no budget.
    pub(crate) fn new(memory: Option<&Arc<MemoryBudget>>, bytes: u64) -> Self {
        let mut charge = Self {
            memory: memory.cloned(),
            bytes: 0,
        };
        charge.grow(bytes);
        charge
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn grow(&mut self, bytes: u64) {
        self.bytes += bytes;
        if let Some(memory) = &self.memory {
            memory.add_metadata(bytes);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            memory.remove_metadata(self.bytes);
        }
    }
}

/// About how many bytes a chunk map takes in memory.
pub(crate) fn bytes_of_map(chunks: &FileChunks) -> u64 {
    // A list is three words, a range two; each list is an allocation of its own, which costs two
    // more words.
    const LIST: usize = 5 * 8;
    const RANGE: usize = 2 * 8;
    let of_chunk = |chunk: &crate::parquet::FileChunk| {
        let ranges: usize = chunk.columns.iter().map(Vec::len).sum();
        let lists = chunk.columns.len() + 2;
        lists * LIST + (ranges + 2 * chunk.pieces.len()) * RANGE
    };
    let own: usize = chunks.chunks.iter().map(of_chunk).sum();
    let shared = chunks.shared.iter();
    let shared: usize = shared.map(|s| 2 * LIST + s.ranges.len() * RANGE).sum();
    (own + shared) as u64
}

/// About how many bytes an open file takes in addition to its footer and its chunk map: its
/// record, the order of its columns, and the copies of its name and key in the maps that find it.
pub(crate) fn bytes_of_file(name: &str, columns: usize) -> u64 {
    (768 + 8 * columns + 4 * name.len()) as u64
}

/// About how many bytes a table takes in the core and in the pool, without its chunks: its records
/// and maps, the first nodes of their trees, and the names of its columns.
pub(crate) fn bytes_of_table(columns: usize) -> u64 {
    9216 + 32 * columns as u64
}

/// About how many bytes a chunk takes in the core and in the pool: its records, and the byte count
/// of each of its columns.
pub(crate) fn bytes_of_chunk(columns: usize) -> u64 {
    512 + 8 * columns as u64
}
