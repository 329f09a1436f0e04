//! Rows to column chunks whose pages all begin at multiples of `page_rows`.
//!
//! parquet's writer closes a page when a batch has been written that brought it to the row limit,
//! so pages are as long as batches let them be, in each column differently. Three things would
//! misalign them:
//!
//! - a batch that reaches over the end of a page: parts of lists are counted by values, and the
//!   page becomes longer. So no piece that we hand over crosses the end of a page.
//! - a limit in bytes: there is none (`layout.rs`).
//! - a dictionary that is full: the column falls back to plain values in the middle of a page, and
//!   that page ends there. A column for which that happens is encoded again without a dictionary,
//!   and gets none in later row groups either. A dictionary that serves some pages of a chunk only
//!   would have to be read for the others too.
//!
//! Every column is a task of its own, so a row group is encoded by as many threads as there are
//! cores. Encoding twice costs a column without few values one row group's time per file.
//! Not here: when a row group is full, where its bytes go (`writer.rs`).
//! I1: the pages of a chunk that leaves this file begin at multiples of `page_rows`, all of them:
//! read off its offset index.
//! I2: no piece of an array crosses the end of a page.
//! I3: all data pages of a chunk that has a dictionary use it.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{FieldRef, SchemaRef};
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::basic::{Encoding, PageType};
use parquet::errors::Result;
use parquet::schema::types::SchemaDescriptor;

/// The rows of a row group that is being gathered.
#[derive(Default)]
pub(crate) struct Gathered {
    /// By root column: its pieces in row order (I2).
    columns: Vec<Vec<ArrayRef>>,
    rows: usize,
}

impl Gathered {
    /// Adds rows. They must not cross the end of a page (I2).
    pub(crate) fn push(&mut self, rows: &RecordBatch) {
        self.columns.resize_with(rows.num_columns(), Vec::new);
        for (pieces, column) in self.columns.iter_mut().zip(rows.columns()) {
            pieces.push(Arc::clone(column));
        }
        self.rows += rows.num_rows();
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }
}

/// Encodes the row groups of one file, and remembers which of its columns have too many values for
/// a dictionary.
pub(crate) struct Encoder {
    schema: SchemaRef,
    page_rows: usize,
    with_dictionaries: ArrowRowGroupWriterFactory,
    plain: ArrowRowGroupWriterFactory,
    /// By leaf: whether its dictionary was full once.
    outgrown: Vec<bool>,
    /// By root column: how many leaves it has.
    leaves: Vec<usize>,
}

/// One root column of a row group, to be encoded.
pub(crate) struct ColumnTask {
    field: FieldRef,
    pieces: Vec<ArrayRef>,
    /// Its first leaf's place among the file's.
    first_leaf: usize,
    writers: Vec<Option<ArrowColumnWriter>>,
    /// For a second attempt of the leaves whose first one has a dictionary, which may be too small.
    spares: Vec<Option<ArrowColumnWriter>>,
    rows: usize,
    page_rows: usize,
}

/// One leaf column of a row group, encoded.
pub(crate) struct Leaf {
    /// Its place among the file's leaves.
    pub(crate) leaf: usize,
    pub(crate) chunk: ArrowColumnChunk,
    /// I1. If not, parquet's writer does what we don't know of.
    pub(crate) aligned: bool,
    /// Whether it had too many values for a dictionary.
    outgrown: bool,
}

impl Encoder {
    /// An encoder for files with these columns.
    pub(crate) fn new(
        schema: SchemaRef,
        descriptor: &SchemaDescriptor,
        page_rows: usize,
        with_dictionaries: ArrowRowGroupWriterFactory,
        plain: ArrowRowGroupWriterFactory,
    ) -> Self {
        let mut leaves = vec![0; schema.fields().len()];
        for leaf in 0..descriptor.num_columns() {
            leaves[descriptor.get_column_root_idx(leaf)] += 1;
        }
        Self {
            schema,
            page_rows,
            with_dictionaries,
            plain,
            outgrown: vec![false; descriptor.num_columns()],
            leaves,
        }
    }

    /// A task for every root column of the row group, in order. `index` is the row group's place in
    /// the file.
    ///
    /// # Errors
    /// A column's type cannot be encoded.
    pub(crate) fn tasks(&self, index: usize, group: Gathered) -> Result<Vec<ColumnTask>> {
        let dictionary = self.with_dictionaries.create_column_writers(index)?;
        let plain = self.plain.create_column_writers(index)?;
        let mut writers = dictionary.into_iter().zip(plain).zip(&self.outgrown);
        let columns = self.schema.fields().iter().zip(group.columns);
        let mut first_leaf = 0;
        let tasks = columns.zip(&self.leaves).map(|((field, pieces), leaves)| {
            let attempts = writers.by_ref().take(*leaves);
            let (writers, spares) = attempts
                .map(|((dictionary, plain), outgrown)| {
                    if *outgrown {
                        (Some(plain), None)
                    } else {
                        (Some(dictionary), Some(plain))
                    }
                })
                .unzip();
            first_leaf += leaves;
            ColumnTask {
                field: Arc::clone(field),
                pieces,
                first_leaf: first_leaf - leaves,
                writers,
                spares,
                rows: group.rows,
                page_rows: self.page_rows,
            }
        });
        Ok(tasks.collect())
    }

    /// Takes note of what a leaf's encoding showed.
    pub(crate) fn learn(&mut self, leaf: &Leaf) {
        self.outgrown[leaf.leaf] |= leaf.outgrown;
    }
}

impl ColumnTask {
    /// The column's name.
    pub(crate) fn name(&self) -> &str {
        self.field.name()
    }

    /// Encodes the column, which takes a core for a while.
    ///
    /// # Errors
    /// What parquet's writer says, such as of a page of more than 2 GiB.
    pub(crate) fn encode(self) -> Result<Vec<Leaf>> {
        let (rows, page_rows) = (self.rows, self.page_rows);
        let first = write(&self.field, &self.pieces, self.writers)?;
        let mut spares = self.spares;
        for (spare, chunk) in spares.iter_mut().zip(&first) {
            if chunk
                .as_ref()
                .is_some_and(|chunk| is_aligned(chunk, rows, page_rows) && is_uniform(chunk))
            {
                *spare = None;
            }
        }
        let second = write(&self.field, &self.pieces, spares)?;
        let leaves = first.into_iter().zip(second).zip(self.first_leaf..);
        let leaves = leaves.filter_map(|((first, second), leaf)| {
            let outgrown = second.is_some();
            second.or(first).map(|chunk| Leaf {
                leaf,
                aligned: is_aligned(&chunk, rows, page_rows),
                chunk,
                outgrown,
            })
        });
        Ok(leaves.collect())
    }
}

/// Writes the pieces of a root column by the writers of its leaves; leaves without one are left
/// out.
fn write(
    field: &FieldRef,
    pieces: &[ArrayRef],
    mut writers: Vec<Option<ArrowColumnWriter>>,
) -> Result<Vec<Option<ArrowColumnChunk>>> {
    if writers.iter().all(Option::is_none) {
        return Ok(Vec::from_iter(writers.iter().map(|_| None)));
    }
    for piece in pieces {
        let leaves = compute_leaves(field, piece)?;
        for (writer, leaf) in writers.iter_mut().zip(&leaves) {
            if let Some(writer) = writer {
                writer.write(leaf)?;
            }
        }
    }
    let close =
        |writer: Option<ArrowColumnWriter>| writer.map(ArrowColumnWriter::close).transpose();
    writers.into_iter().map(close).collect()
}

/// I1.
fn is_aligned(chunk: &ArrowColumnChunk, rows: usize, page_rows: usize) -> bool {
    let Some(index) = &chunk.close().offset_index else {
        return false;
    };
    let expected = (0..rows).step_by(page_rows);
    let first_rows = index
        .page_locations()
        .iter()
        .map(|page| page.first_row_index);
    expected
        .map(|row| i64::try_from(row).unwrap_or(i64::MAX))
        .eq(first_rows)
}

/// I3: no page of the chunk is encoded in another way than the others.
fn is_uniform(chunk: &ArrowColumnChunk) -> bool {
    let metadata = &chunk.close().metadata;
    let of_dictionary = |encoding| {
        matches!(
            encoding,
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY
        )
    };
    metadata.dictionary_page_offset().is_none()
        || metadata.page_encoding_stats().is_some_and(|stats| {
            stats.iter().all(|pages| {
                pages.page_type == PageType::DICTIONARY_PAGE || of_dictionary(pages.encoding)
            })
        })
}
