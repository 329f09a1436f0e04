//! Where in an index's file are the leaves, and which bytes follow them?
//!
//! Not here: which leaves hold a key (`cursor.rs`, `key_list.rs`), writing them (`draft.rs`).

use std::sync::Arc;

use coscan_storage::device::FileVersion;
use coscan_storage::pool::{BufferPool, FileKey, TableFile};
use coscan_storage::{CHUNK_BYTES_DEFAULT, FileChunk, Piece};
use datafusion::error::{DataFusionError, Result};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;

use crate::error::external;

/// Opens the data file of an index.
pub(super) async fn open(
    pool: &BufferPool,
    store: &str,
    version: &FileVersion,
) -> Result<Arc<TableFile>> {
    let files = pool.shared().files();
    // The division of the file into chunks does not matter: the file is read leaf by leaf.
    let key = FileKey::new(store, version.clone());
    let opened = files.open(&[key], CHUNK_BYTES_DEFAULT).await;
    let mut opened = opened.map_err(external)?;
    opened
        .pop()
        .ok_or_else(|| DataFusionError::Internal("a file was opened and is not there".to_owned()))
}

/// The leaves, in order: the pages of the first column, each in one piece.
pub(super) fn leaves(file: &TableFile) -> Vec<FileChunk> {
    let metadata = file.metadata();
    let mut leaves = Vec::new();
    for (row_group, group) in metadata.row_groups().iter().enumerate() {
        let rows = group.num_rows().unsigned_abs();
        let index = metadata
            .offset_index()
            .and_then(|index| index.get(row_group)?.first());
        let pages = index
            .into_iter()
            .flat_map(OffsetIndexMetaData::page_locations);
        let mut cuts: Vec<u64> = pages
            .map(|page| page.first_row_index.unsigned_abs())
            .collect();
        if cuts.first() != Some(&0) {
            cuts = vec![0];
        }
        cuts.push(rows);
        leaves.extend(cuts.windows(2).map(|cut| FileChunk {
            pieces: vec![Piece {
                row_group,
                rows: cut[0]..cut[1],
            }],
            rows: cut[1] - cut[0],
            columns: Vec::new(),
        }));
    }
    leaves
}

/// Where the last leaf ends.
pub(super) fn leaves_end(file: &TableFile) -> u64 {
    let columns = file
        .metadata()
        .row_groups()
        .iter()
        .flat_map(RowGroupMetaData::columns);
    columns
        .map(|column| {
            let (start, length) = column.byte_range();
            start + length
        })
        .max()
        .unwrap_or(0)
}

/// The CRC-32 of the bytes after the leaves.
pub(super) async fn tail_crc32(file: &TableFile, leaves_end: u64) -> Result<u32> {
    let version = file.version();
    let tail = leaves_end..version.size;
    let read = file
        .device()
        .read(version, std::slice::from_ref(&tail))
        .await
        .map_err(external)?;
    Ok(read.first().map_or(0, |bytes| crc32fast::hash(bytes)))
}
