//! How do rows become column chunks whose pages all begin at multiples of `page_rows`?
//!
//! parquet's writer closes a page after a batch that reached the row limit, so the length of pages
//! depends on the batches, and differs from column to column. Three things would misalign pages:
//!
//! - a batch that extends beyond the end of a page: parts of lists are counted by values, and the
//!   page becomes longer. So no piece passed to the writer crosses the end of a page.
//! - a limit in bytes: there is none (`layout.rs`).
//! - a full dictionary: the column changes to plain values in the middle of a page, and the page
//!   ends there. Such a column is encoded a second time without a dictionary, and gets none in
//!   later row groups. (A dictionary that only some pages of a chunk use would have to be read for
//!   the other pages too.)
//!
//! Every column is a task of its own, so as many threads as there are cores encode a row group.
//! Encoding twice costs a column with many values the time of one row group per file.
//! Not here: when a row group is full, where its bytes go (`writer.rs`).
//! I1: all pages of a chunk that leaves this file begin at multiples of `page_rows`, as its offset
//! index shows.
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

/// The rows of a row group that is being collected.
#[derive(Default)]
pub(crate) struct Gathered {
    /// The pieces of each root column in row order (I2).
    columns: Vec<Vec<ArrayRef>>,
    rows: usize,
}

impl Gathered {
    /// Adds rows, which must not cross the end of a page (I2).
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

/// Encodes the row groups of one file, and records which of its columns have too many values for a
/// dictionary.
pub(crate) struct Encoder {
    schema: SchemaRef,
    page_rows: usize,
    with_dictionaries: ArrowRowGroupWriterFactory,
    plain: ArrowRowGroupWriterFactory,
    /// For each leaf whether its dictionary was ever full.
    outgrown: Vec<bool>,
    /// The number of leaves of each root column.
    leaves: Vec<usize>,
}

/// A root column of a row group, before it is encoded.
pub(crate) struct ColumnTask {
    field: FieldRef,
    pieces: Vec<ArrayRef>,
    /// The index of its first leaf in the file.
    first_leaf: usize,
    writers: Vec<Option<ArrowColumnWriter>>,
    /// Writers for a second attempt of the leaves whose first attempt uses a dictionary, which may
    /// be too small.
    spares: Vec<Option<ArrowColumnWriter>>,
    rows: usize,
    page_rows: usize,
}

/// One leaf column of a row group, encoded.
pub(crate) struct Leaf {
    /// The index of the leaf in the file.
    pub(crate) leaf: usize,
    pub(crate) chunk: ArrowColumnChunk,
    /// I1. If false, parquet's writer cut pages in an unexpected way.
    pub(crate) aligned: bool,
    /// Whether the leaf had too many values for a dictionary.
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

    /// A task for every root column of the row group, in order. `index` is the number of the row
    /// group in the file.
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

    /// Records the result of encoding a leaf.
    pub(crate) fn learn(&mut self, leaf: &Leaf) {
        self.outgrown[leaf.leaf] |= leaf.outgrown;
    }
}

impl ColumnTask {
    /// The name of the column.
    pub(crate) fn name(&self) -> &str {
        self.field.name()
    }

    /// Encodes the column. CPU-bound: blocks the calling thread.
    ///
    /// # Errors
    /// Errors of parquet's writer, such as a page of more than 2 GiB.
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

/// Writes the pieces of a root column with the writers of its leaves; leaves without a writer are
/// skipped.
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

/// I3: all pages of the chunk have the same encoding.
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
