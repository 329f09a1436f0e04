//! Which batches of a chunk can hold a row of the answer?
//!
//! Where a column's pages are sorted, a range of its values lies in few of them, and the page index
//! tells in which. The other batches need be neither decoded nor looked at. That is asked when a
//! chunk is begun, and only where the predicate names a column with sorted pages: elsewhere every
//! page may hold nearly everything that the chunk holds, and the answer would cost as much. Nor is
//! it asked where batches span several tiny row groups.
//! Not here: the statistics of a part of a row group (`chunk_bounds.rs`); how few batches are
//! decoded (coscan-storage).
//! Bounds: O(batches + pages) per column of the predicate and chunk; at most [`BATCHES_MAX`]
//! batches.
//! I1: a batch that is not wanted has no row for which the predicate is true. Dynamic filters count
//! as they were when the scan began; since then they can only have become narrower.

use coscan_storage::{Batches, FileChunk, Piece};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;

use super::Question;
use super::chunk_bounds::PartStatistics;

/// Chunks of more batches are not judged: a file may claim any number of rows, and a session may
/// ask for batches of one row.
const BATCHES_MAX: usize = 4096;

/// Judges the batches of the chunks of files with one plan.
pub(crate) struct BatchPruner {
    question: Question,
    /// The names of the columns of the predicate.
    columns: Vec<String>,
}

/// Which batches of a chunk may hold a row of the answer.
pub(crate) struct WantedBatches {
    len: usize,
    /// Per batch; `None` if all are wanted.
    wanted: Option<Vec<bool>>,
}

impl BatchPruner {
    pub(super) fn new(question: Question) -> Self {
        let columns = collect_columns(question.pruning.orig_expr());
        Self {
            columns: columns.iter().map(|c| Column::name(c).to_owned()).collect(),
            question,
        }
    }

    pub(super) fn question(&self) -> &Question {
        &self.question
    }

    /// Which of these batches of the chunk may hold a row for which the predicate is true.
    pub(crate) fn wanted(
        &self,
        metadata: &ParquetMetaData,
        chunk: &FileChunk,
        batches: &Batches,
    ) -> WantedBatches {
        let wanted = || {
            let is_worth_it = batches.len() <= BATCHES_MAX
                && !batches.span_pieces()
                && self.has_sorted_pages(metadata, chunk);
            let parts = is_worth_it.then(|| parts_of(chunk, batches))?;
            let parts = parts.iter().collect();
            let schema = &self.question.schema;
            let statistics = PartStatistics::new(metadata, schema, parts)?;
            self.question.ask(&statistics)
        };
        WantedBatches {
            len: batches.len(),
            wanted: wanted(),
        }
    }

    /// Whether a column of the predicate has several pages in the chunk's row groups, in the order
    /// of their values.
    fn has_sorted_pages(&self, metadata: &ParquetMetaData, chunk: &FileChunk) -> bool {
        let Some(index) = metadata.column_index() else {
            return false;
        };
        let descriptor = metadata.file_metadata().schema_descr();
        let leaf_of = |name: &String| {
            let converter = StatisticsConverter::try_new(name, &self.question.schema, descriptor);
            converter.ok()?.parquet_column_index()
        };
        self.columns.iter().filter_map(leaf_of).any(|leaf| {
            let of_group = |piece: &Piece| index.get(piece.row_group)?.get(leaf);
            let mut pieces = chunk.pieces.iter().filter_map(of_group);
            pieces.any(|pages| pages.is_sorted() && pages.num_pages() > 1)
        })
    }
}

impl WantedBatches {
    /// All batches of a chunk of so many.
    pub(crate) fn all(len: usize) -> Self {
        Self { len, wanted: None }
    }

    /// The first of them; the number of all batches if there is none.
    pub(crate) fn first(&self) -> usize {
        self.from(0)
    }

    /// The first of them behind batch `at`; the number of all batches, and then one more, if there
    /// is none.
    pub(crate) fn after(&self, at: usize) -> usize {
        if at < self.len {
            self.from(at + 1)
        } else {
            at + 1
        }
    }

    fn from(&self, at: usize) -> usize {
        match &self.wanted {
            Some(wanted) => {
                let rest = wanted.get(at..).unwrap_or_default();
                let skipped = rest.iter().position(|wanted| *wanted);
                skipped.map_or(self.len, |skipped| at + skipped)
            }
            None => at.min(self.len),
        }
    }

    /// Their positions; `None` if all are wanted.
    pub(crate) fn some(&self) -> Option<Vec<usize>> {
        let wanted = self.wanted.as_ref()?;
        let some = (0..self.len).filter(|at| wanted[*at]).collect::<Vec<_>>();
        (some.len() < self.len).then_some(some)
    }

    /// These and those that another one wants of the same batches.
    pub(crate) fn and(self, other: Self) -> Self {
        let either = |(one, other): (bool, bool)| one || other;
        let both = self.wanted.zip(other.wanted);
        Self {
            len: self.len,
            wanted: both.map(|(one, other)| one.into_iter().zip(other).map(either).collect()),
        }
    }
}

/// The rows of each batch, as parts of row groups.
fn parts_of(chunk: &FileChunk, batches: &Batches) -> Vec<Piece> {
    let places = (0..batches.len()).filter_map(|at| Some((at, batches.place_of(at)?)));
    let parts = places.map(|(at, (piece, skipped))| {
        let piece = &chunk.pieces[piece];
        let start = piece.rows.start + skipped as u64;
        Piece {
            row_group: piece.row_group,
            rows: start..start + batches.rows_of(at) as u64,
        }
    });
    parts.collect()
}
