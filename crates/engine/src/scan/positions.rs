//! Where in its table is a batch of a chunk?
//!
//! A row's position is its number within its file plus the position that the file's first row was given. Indexes name rows by it.

use coscan_storage::pool::ChunkInfo;

/// The position of the first row of each batch of a chunk, where its file begins at `first_row` and the batches have so many rows
/// each; a batch does not span two row groups.
pub(crate) fn positions_of(info: &ChunkInfo, first_row: u64, batch_rows: &[usize]) -> Vec<u64> {
    let groups = info.file.metadata().row_groups();
    let mut batches = batch_rows.iter().map(|rows| *rows as u64);
    let mut positions = Vec::with_capacity(batch_rows.len());
    for piece in &info.file.chunks().chunks[info.file_chunk].pieces {
        let before = groups[..piece.row_group].iter();
        let before: u64 = before.map(|group| group.num_rows().unsigned_abs()).sum();
        let (mut at, end) = (piece.rows.start, piece.rows.end);
        while at < end
            && let Some(rows) = batches.next()
        {
            positions.push(first_row + before + at);
            at += rows;
        }
    }
    positions
}
