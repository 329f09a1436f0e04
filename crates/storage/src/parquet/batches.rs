//! The lengths of the arrays that every column of a chunk is decoded into.
//!
//! They are computed, not listed: a file may say that it has more rows than a list of their batches
//! would fit into memory for.

use std::ops::Range;

use super::chunk_map::{FileChunk, Piece};
use super::decode::rows_of;

/// The batches of a chunk: each of `batch_rows` rows but the last of a piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// Of each piece: its first batch, its first row counted from the chunk's first, its rows.
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

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Rows of all.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many rows batch `at` has; 0 past the end.
    #[must_use]
    pub fn rows_of(&self, at: usize) -> usize {
        self.range_of(at).len()
    }

    /// The rows of batch `at`, counted from the chunk's first; none past the end.
    #[must_use]
    pub fn range_of(&self, at: usize) -> Range<usize> {
        let Some((piece, skipped)) = self.place_of(at) else {
            return self.rows..self.rows;
        };
        let (_, first, rows) = self.pieces[piece];
        first + skipped..first + rows.min(skipped.saturating_add(self.batch_rows))
    }

    /// The piece that batch `at` is in, and its first row counted from the piece's first; `None`
    /// past the end.
    #[must_use]
    pub fn place_of(&self, at: usize) -> Option<(usize, usize)> {
        if at >= self.len {
            return None;
        }
        let piece = self.pieces.partition_point(|(first, ..)| *first <= at) - 1;
        Some((piece, (at - self.pieces[piece].0) * self.batch_rows))
    }

    /// The rows of each batch, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len).map(|at| self.rows_of(at))
    }
}
