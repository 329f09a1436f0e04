//! Where in its table is a batch of a chunk?
//!
//! A row's position is its number within its file plus the position of the file's first row.
//! Indexes refer to rows by their positions.

use coscan_storage::Batches;
use coscan_storage::pool::ChunkInfo;

/// The positions of the batches of a chunk.
pub(crate) struct Positions {
    batches: Batches,
    /// The position of the first row of each piece.
    pieces: Vec<u64>,
}

impl Positions {
    /// The positions of a chunk's batches, if its file begins at position `first_row`.
    pub(crate) fn of(info: &ChunkInfo, first_row: u64, batches: &Batches) -> Self {
        let groups = info.file.metadata().row_groups();
        let pieces = &info.file.chunks().chunks[info.file_chunk].pieces;
        let pieces = pieces.iter().map(|piece| {
            let before = groups[..piece.row_group].iter();
            let before: u64 = before.map(|group| group.num_rows().unsigned_abs()).sum();
            first_row + before + piece.rows.start
        });
        Self {
            batches: batches.clone(),
            pieces: pieces.collect(),
        }
    }

    /// The position of the first row of batch `at`; `None` past the end.
    pub(crate) fn first_of(&self, at: usize) -> Option<u64> {
        let (piece, skipped) = self.batches.place_of(at)?;
        Some(self.pieces[piece] + skipped as u64)
    }
}
