//! Which batches is a chunk decoded into? The same for every column.
//!
//! Batches end with their piece, so that they begin where pages do. But every batch has a cost, so
//! adjacent tiny pieces form one *stretch*, and a batch may span pieces of its stretch.
//! The batches are computed, not listed: a damaged file may claim more rows than a list of their
//! batches could hold in memory.

use std::ops::Range;

use super::chunk_map::{FileChunk, Piece};

/// A piece of less than this part of a batch's rows (a divisor) is tiny. A batch over several
/// pieces cannot use the file's dictionary; for larger pieces that costs more than it saves.
const TINY: usize = 8;

/// The batches of a chunk: each has `batch_rows` rows, except the last one of a stretch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    stretches: Vec<Stretch>,
    batch_rows: usize,
    len: usize,
    rows: usize,
}

/// A piece, or adjacent tiny pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stretch {
    pieces: Range<usize>,
    first_batch: usize,
    /// The first row, counted from the chunk's first.
    first_row: usize,
    rows: usize,
}

pub(crate) fn rows_of(piece: &Piece) -> usize {
    usize::try_from(piece.rows.end - piece.rows.start).unwrap_or(usize::MAX)
}

/// The positions of the pieces of each stretch.
pub(crate) fn stretches(pieces: &[Piece], batch_rows: usize) -> Vec<Range<usize>> {
    let mut stretches: Vec<Range<usize>> = Vec::new();
    let mut tiny_before = false;
    for (at, piece) in pieces.iter().enumerate() {
        let tiny = rows_of(piece) < batch_rows / TINY;
        match stretches.last_mut() {
            Some(last) if tiny && tiny_before => last.end = at + 1,
            _ => stretches.push(at..at + 1),
        }
        tiny_before = tiny;
    }
    stretches
}

impl Batches {
    /// The batches of `chunk`, of at most `batch_rows` rows.
    #[must_use]
    pub fn of(chunk: &FileChunk, batch_rows: usize) -> Self {
        let batch_rows = batch_rows.max(1);
        let stretches = stretches(&chunk.pieces, batch_rows);
        let mut batches = Self {
            stretches: Vec::with_capacity(stretches.len()),
            batch_rows,
            len: 0,
            rows: 0,
        };
        for pieces in stretches {
            let own = chunk.pieces[pieces.clone()].iter().map(rows_of);
            let rows = own.fold(0, usize::saturating_add);
            batches.stretches.push(Stretch {
                pieces,
                first_batch: batches.len,
                first_row: batches.rows,
                rows,
            });
            batches.len = batches.len.saturating_add(rows.div_ceil(batch_rows));
            batches.rows = batches.rows.saturating_add(rows);
        }
        batches
    }

    /// Whether a batch may have rows of several pieces.
    #[must_use]
    pub fn span_pieces(&self) -> bool {
        self.stretches
            .iter()
            .any(|stretch| stretch.pieces.len() > 1)
    }

    /// The number of batches.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no batch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of rows in all batches.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of rows of batch `at`; 0 past the end.
    #[must_use]
    pub fn rows_of(&self, at: usize) -> usize {
        self.range_of(at).len()
    }

    /// The rows of batch `at`, counted from the chunk's first; empty past the end.
    #[must_use]
    pub fn range_of(&self, at: usize) -> Range<usize> {
        let Some((stretch, skipped)) = self.stretch_of(at) else {
            return self.rows..self.rows;
        };
        let (first, rows) = (stretch.first_row, stretch.rows);
        first + skipped..first + rows.min(skipped.saturating_add(self.batch_rows))
    }

    /// The piece in which the stretch of batch `at` begins, and the batch's first row counted from
    /// that piece's first; `None` past the end.
    #[must_use]
    pub fn place_of(&self, at: usize) -> Option<(usize, usize)> {
        let (stretch, skipped) = self.stretch_of(at)?;
        Some((stretch.pieces.start, skipped))
    }

    /// The stretch of batch `at`, and the batch's first row counted from the stretch's first.
    fn stretch_of(&self, at: usize) -> Option<(&Stretch, usize)> {
        if at >= self.len {
            return None;
        }
        let begun = |stretch: &Stretch| stretch.first_batch <= at;
        let stretch = &self.stretches[self.stretches.partition_point(begun) - 1];
        Some((stretch, (at - stretch.first_batch) * self.batch_rows))
    }

    /// The number of rows of each batch, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len).map(|at| self.rows_of(at))
    }
}
