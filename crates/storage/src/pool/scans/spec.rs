//! What does a scan ask for, and what does it need of the core?
//!
//! The spec is computed from the files that the query holds, before the pool's lock is taken: it
//! takes a step per chunk and column of the table, and holding the lock for that long would delay
//! every other query.
//! Not here: whether there is enough memory at the moment (`../../memory/budget.rs`).
//! Bounds: O(chunks × columns wanted + shared extents).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use coscan_core::{ChunkId, ChunkSet, ColumnSet, Part};

use crate::device::footprint;
use crate::pool::state::LargestLoad;
use crate::pool::{TableFile, TableView};
use crate::{Result, StorageError};

/// Chunks of which a scan wants the same columns.
#[derive(Clone, Debug)]
pub struct ScanPart {
    /// Positions in [`TableView::chunks`].
    pub chunks: Vec<usize>,
    /// Root columns by name; a file that lacks one is read without it. May be empty: such chunks
    /// are handed out without a read.
    pub columns: Vec<String>,
}

/// What a scan asks for.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// The table; `parts` choose among its chunks.
    pub table: TableView,
    /// Disjoint sets of chunks with the columns wanted of them.
    pub parts: Vec<ScanPart>,
    /// How many consumers will call [`crate::pool::Scan::next_chunk`] at the same time.
    pub consumers: usize,
    /// Whether chunks must come in ascending order of their position.
    pub ordered: bool,
    /// From how many devices the scan may read at a time, at least 1. `None`: as many as suits all
    /// running scans (`../limits/degree.rs`).
    pub devices_max: Option<u32>,
    /// The scan's name in traces and in `coscan.scans`.
    pub label: Arc<str>,
}

/// A scan before it is registered.
#[derive(Debug, Default)]
pub(in crate::pool) struct Spec {
    pub(in crate::pool) parts: Vec<Part>,
    /// For each chunk: its position in the view, and its part of the request.
    pub(in crate::pool) positions: BTreeMap<ChunkId, (usize, usize)>,
    /// Chunks of which the scan wants no bytes.
    pub(in crate::pool) without_bytes: VecDeque<ChunkId>,
    pub(in crate::pool) chunks_wanted: u64,
    pub(in crate::pool) largest: Option<LargestLoad>,
}

impl Spec {
    /// The spec of a scan of these parts. A chunk may take at most `budget` bytes.
    ///
    /// # Errors
    /// `ChunkTooLarge` if a chunk can never fit, so that the scan would wait without end.
    /// `Internal` for a chunk that is not in the table.
    pub(in crate::pool) fn new(table: &TableView, parts: &[ScanPart], budget: u64) -> Result<Self> {
        let mut spec = Self::default();
        for (number, part) in parts.iter().enumerate() {
            spec.add(table, number, part, budget)?;
        }
        Ok(spec)
    }

    fn add(
        &mut self,
        table: &TableView,
        number: usize,
        part: &ScanPart,
        budget: u64,
    ) -> Result<()> {
        let names = part.columns.iter();
        let columns: ColumnSet = names.filter_map(|name| table.columns.id(name)).collect();
        let mut chunks = ChunkSet::new();
        let mut file: Option<FileBytes> = None;
        for &at in &part.chunks {
            let info = table.chunks.get(at).ok_or_else(|| {
                StorageError::Internal("a scan names a chunk that the table lacks".to_owned())
            })?;
            self.chunks_wanted += 1;
            self.positions.insert(info.chunk, (at, number));
            if columns.is_empty() {
                self.without_bytes.push_back(info.chunk);
                continue;
            }
            chunks.insert(info.chunk);
            let known = file
                .take()
                .filter(|known| Arc::ptr_eq(&known.file, &info.file));
            let known = known.unwrap_or_else(|| FileBytes::new(table, &columns, &info.file));
            let bytes = known.of_chunk(info.file_chunk);
            file = Some(known);
            if bytes > budget {
                return Err(StorageError::ChunkTooLarge {
                    file: info.file.name().to_owned(),
                    bytes,
                    budget,
                });
            }
            if self.largest.is_none_or(|largest| bytes > largest.bytes) {
                self.largest = Some(LargestLoad {
                    bytes,
                    table: table.table,
                    chunk: info.chunk,
                });
            }
        }
        if !chunks.is_empty() {
            self.parts.push(Part { chunks, columns });
        }
        Ok(())
    }
}

/// The bytes in memory of some columns of a file's chunks.
struct FileBytes {
    file: Arc<TableFile>,
    roots: Vec<usize>,
    /// For each chunk, the bytes of its shared extents; empty if no chunk shares any.
    shared: Vec<u64>,
}

impl FileBytes {
    fn new(table: &TableView, columns: &ColumnSet, file: &Arc<TableFile>) -> Self {
        let wanted = |name: &str| {
            table
                .columns
                .id(name)
                .is_some_and(|id| columns.contains(id))
        };
        let names = file.column_names().enumerate();
        let roots: Vec<usize> = names
            .filter(|(_, name)| wanted(name))
            .map(|(root, _)| root)
            .collect();
        let mut shared = Vec::new();
        let chunks = file.chunks();
        if !chunks.shared.is_empty() {
            // For each chunk, the shared bytes that begin with it and those that ended with the
            // chunk before.
            let mut steps = vec![(0, 0); chunks.chunks.len() + 1];
            for extent in &chunks.shared {
                if roots.binary_search(&extent.column).is_ok() {
                    let bytes = sum(&extent.ranges);
                    steps[extent.first].0 += bytes;
                    steps[extent.last + 1].1 += bytes;
                }
            }
            let now = steps.iter().scan(0, |now, (begins, ends)| {
                *now = *now + begins - ends;
                Some(*now)
            });
            shared = now.collect();
        }
        Self {
            file: Arc::clone(file),
            roots,
            shared,
        }
    }

    fn of_chunk(&self, at: usize) -> u64 {
        let columns = &self.file.chunks().chunks[at].columns;
        let own = self.roots.iter().filter_map(|&root| columns.get(root));
        let own: u64 = own.map(|ranges| sum(ranges)).sum();
        own + self.shared.get(at).copied().unwrap_or(0)
    }
}

fn sum(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(footprint).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use std::sync::atomic::Ordering;

    use coscan_core::{Policy, StorageModel};

    use super::*;
    use crate::device::Devices;
    use crate::memory::MemoryBudget;
    use crate::pool::{BufferPool, FileCache, PoolConfig, PoolShared, ScanRequest};

    const CHUNKS: u64 = 6400;

    /// How long the lock is held at a time: to register a table of the file, and to begin a scan
    /// of all of it. The minimum of a few tries, because the machine may be busy.
    fn locked_ns(file: &Arc<TableFile>, model: StorageModel) -> [u64; 2] {
        let columns: Vec<String> = file.column_names().map(str::to_owned).collect();
        let mut least = [u64::MAX; 2];
        for _ in 0..4 {
            let files = FileCache::new(Arc::new(Devices::default()));
            // Loads fail at once, because the file does not exist.
            let shared = PoolShared::new(files, MemoryBudget::new(1 << 40), 1).unwrap();
            let config = PoolConfig {
                policy: Policy::Relevance,
                model,
                ..PoolConfig::default()
            };
            let pool = BufferPool::new(config, shared);
            let locked = || pool.inner.locked_ns_max.swap(0, Ordering::Relaxed);
            locked();
            let table = pool.table(std::slice::from_ref(file)).unwrap();
            least[0] = least[0].min(locked());
            let chunks = (0..table.chunks().len()).collect();
            let columns = columns.clone();
            let request = ScanRequest {
                table,
                parts: vec![ScanPart { chunks, columns }],
                consumers: 1,
                ordered: false,
                devices_max: None,
                label: "test".into(),
            };
            let scan = pool.scan(request).unwrap();
            least[1] = least[1].min(locked());
            drop(scan);
        }
        least
    }

    #[test]
    fn no_work_per_column_is_done_under_the_lock() {
        let narrow = TableFile::imagined(3, CHUNKS);
        let wide = TableFile::imagined(300, CHUNKS);
        for model in [StorageModel::Nsm, StorageModel::Dsm] {
            let (few, many) = (locked_ns(&narrow, model), locked_ns(&wide, model));
            println!("{model:?}, 3 and 300 columns: table and scan {few:?}, {many:?} ns");
            // The core sums up the new chunks' columns once. A scan's work under the lock does not
            // depend on the number of columns.
            assert!(many[0] < 60 * few[0], "table: {many:?} against {few:?}");
            assert!(many[1] < 15 * few[1], "scan: {many:?} against {few:?}");
        }
    }

    #[test]
    fn the_largest_load_counts_extents_that_chunks_share() {
        let file = TableFile::imagined(3, 4);
        let mut shared = Arc::into_inner(file).unwrap();
        shared.share(1, 1..=2, 100_000..150_000);
        let file = Arc::new(shared);
        let files = FileCache::new(Arc::new(Devices::default()));
        let shared = PoolShared::new(files, MemoryBudget::new(1 << 30), 1).unwrap();
        let config = PoolConfig {
            model: StorageModel::Dsm,
            ..PoolConfig::default()
        };
        let pool = BufferPool::new(config, shared);
        let table = pool.table(&[file]).unwrap();
        let part = |chunks: &[usize], columns: &[&str]| ScanPart {
            chunks: chunks.to_vec(),
            columns: columns.iter().map(|&c| c.to_owned()).collect(),
        };
        let largest = |parts: &[ScanPart], budget| {
            let spec = Spec::new(&table, parts, budget)?;
            Ok(spec.largest.map(|largest| (largest.chunk.0, largest.bytes)))
        };
        // The extent touches pages of 53,248 bytes in total.
        let both = part(&[0, 1, 2, 3], &["c0", "c1"]);
        let answer: Result<_> = largest(std::slice::from_ref(&both), u64::MAX);
        assert_eq!(answer.unwrap(), Some((1, 2 * 8192 + 53_248)));
        let answer: Result<_> = largest(&[part(&[0, 3], &["c0", "c1", "none"])], u64::MAX);
        assert_eq!(answer.unwrap(), Some((0, 2 * 8192)));
        let answer: Result<_> = largest(&[part(&[1], &["c0", "c2"])], u64::MAX);
        assert_eq!(answer.unwrap(), Some((1, 2 * 8192)));
        assert!(matches!(
            largest(&[both], 60_000),
            Err(StorageError::ChunkTooLarge {
                bytes: 69_632,
                budget: 60_000,
                ..
            })
        ));
    }
}
