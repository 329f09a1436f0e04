//! Which batches is a chunk decoded into? The same for every column.
//!
//! The batches are computed, not listed: a file may claim more rows than a list of their batches
//! could hold in memory.

use std::ops::Range;

use super::chunk_map::{FileChunk, Piece};
use super::decode::rows_of;

/// The batches of a chunk: each has `batch_rows` rows, except the last one of a piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// For each piece: its first batch, its first row counted from the chunk's first, its number of
    /// rows.
    pieces: Vec<(usize, usize, usize)>,
    batch_rows: usize,
    len: usize,
    rows: usize,
}

impl Batches {
    /// The batches of `chunk`, of at most `batch_rows` rows.
    #[must_use]
    pub fn of(chunk: &FileChunk, batch_rows: usize) -> Self {
        let batch_rows = batch_rows.max(1);
        let mut batches = Self {
            pieces: Vec::with_capacity(chunk.pieces.len()),
            batch_rows,
            len: 0,
            rows: 0,
        };
        for rows in chunk.pieces.iter().map(|piece: &Piece| rows_of(piece)) {
            batches.pieces.push((batches.len, batches.rows, rows));
            batches.len = batches.len.saturating_add(rows.div_ceil(batch_rows));
            batches.rows = batches.rows.saturating_add(rows);
        }
        batches
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
        let Some((piece, skipped)) = self.place_of(at) else {
            return self.rows..self.rows;
        };
        let (_, first, rows) = self.pieces[piece];
        first + skipped..first + rows.min(skipped.saturating_add(self.batch_rows))
    }

    /// The piece of batch `at`, and its first row counted from the piece's first; `None` past the
    /// end.
    #[must_use]
    pub fn place_of(&self, at: usize) -> Option<(usize, usize)> {
        if at >= self.len {
            return None;
        }
        let piece = self.pieces.partition_point(|(first, ..)| *first <= at) - 1;
        Some((piece, (at - self.pieces[piece].0) * self.batch_rows))
    }

    /// The number of rows of each batch, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len).map(|at| self.rows_of(at))
    }
}
