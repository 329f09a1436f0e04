//! Which batches of a chunk can hold a row of the result?
//!
//! If a column's pages are sorted, a range of its values lies in few of them, and the page index
//! tells in which. The other batches need neither be decoded nor examined. This is judged when a
//! chunk is begun, and only if the predicate names a column with sorted pages: otherwise every
//! page may hold nearly all values of the chunk, and judging would cost as much as it saves.
//! Batches that span several tiny row groups are not judged either.
//! Not here: the statistics of a part of a row group (`chunk_bounds.rs`); how few batches are
//! decoded (coscan-storage).
//! Bounds: O(batches + pages) per column of the predicate and chunk; at most [`BATCHES_MAX`]
//! batches.
//! I1: a batch that is not wanted has no row for which the predicate is true. Dynamic filters
//! count as they were when the scan began; later they can only become narrower.

use coscan_storage::{Batches, FileChunk, Piece};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;

use super::Question;
use super::chunk_bounds::PartStatistics;

/// Chunks with more batches are not judged: a file may claim any number of rows, and a session may
/// ask for batches of one row.
const BATCHES_MAX: usize = 4096;

/// Judges the batches of the chunks of files with one plan.
pub(crate) struct BatchPruner {
    question: Question,
    /// The names of the predicate's columns.
    columns: Vec<String>,
}

/// Those batches of a chunk that may hold a row of the result.
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

    /// The batches of the chunk that may hold a row for which the predicate is true.
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
    /// All batches of a chunk, which has `len` of them.
    pub(crate) fn all(len: usize) -> Self {
        Self { len, wanted: None }
    }

    /// The first wanted batch; the number of all batches if there is none.
    pub(crate) fn first(&self) -> usize {
        self.from(0)
    }

    /// The first wanted batch after batch `at`. If there is none: the number of all batches, and
    /// after that one more.
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

    /// The positions of the wanted batches; `None` if all are wanted.
    pub(crate) fn some(&self) -> Option<Vec<usize>> {
        let wanted = self.wanted.as_ref()?;
        let some = (0..self.len).filter(|at| wanted[*at]).collect::<Vec<_>>();
        (some.len() < self.len).then_some(some)
    }

    /// The batches that either of two consumers of the chunk wants.
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
