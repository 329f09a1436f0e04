//! Bloom filters of row groups, read when a query asks for them.
//!
//! A filter only saves work, so a problem with one (damage, a failed read) means that the query
//! runs without it; if the data itself is unreadable, the read of the data reports that. Old
//! writers record a filter's offset without its length: then the filter's header is read first.
//! Not here: which row groups a filter excludes (the engine). Filters are not cached: one takes up
//! to a megabyte per row group and column, and the queries that use them read little else.
//! Bounds: two reads per call; filters above `FILTER_BYTES_MAX` are skipped.

use std::ops::Range;

use bytes::Bytes;
use parking_lot::Mutex;
use parquet::bloom_filter::Sbbf;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::pool::TableFile;

/// No writer makes filters as large as the format allows (128 MiB): one for ten million distinct
/// values takes 16 MiB.
const FILTER_BYTES_MAX: u64 = 16 << 20;
/// What the parquet crate reads first of a filter of unknown length.
const HEADER_BYTES: u64 = 20;

impl TableFile {
    /// The bloom filters of (row group, leaf column) pairs, in the order of `wanted`. `None` where
    /// a column has none or it cannot be read.
    pub async fn bloom_filters(&self, wanted: &[(usize, usize)]) -> Vec<Option<Sbbf>> {
        let mut parts = Parts::default();
        let known = wanted.iter().filter_map(|&(row_group, leaf)| {
            let column = self.metadata().row_group(row_group).column(leaf);
            let start = u64::try_from(column.bloom_filter_offset()?).ok()?;
            let length = column.bloom_filter_length();
            let length = length.map_or(Some(HEADER_BYTES), |length| u64::try_from(length).ok())?;
            Some(start..start.checked_add(length)?)
        });
        self.fetch(&mut parts, known.collect()).await;
        let first: Vec<_> = wanted.iter().map(|at| self.parse(&parts, *at)).collect();
        let missing = std::mem::take(parts.missing.get_mut());
        if missing.is_empty() {
            return first;
        }
        self.fetch(&mut parts, missing).await;
        wanted.iter().map(|at| self.parse(&parts, *at)).collect()
    }

    async fn fetch(&self, parts: &mut Parts, mut ranges: Vec<Range<u64>>) {
        let size = self.version().size;
        ranges.retain(|r| r.end <= size && r.end - r.start <= FILTER_BYTES_MAX && !r.is_empty());
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        // Filters do not overlap in a sound file; in a damaged one, overlapping filters are
        // skipped.
        ranges.dedup_by(|next, kept| next.start < kept.end);
        if ranges.is_empty() {
            return;
        }
        match self.device().read(self.version(), &ranges).await {
            Ok(bytes) => parts.have.extend(ranges.into_iter().zip(bytes)),
            Err(error) => log::debug!("bloom filters are skipped: {error}"),
        }
    }

    fn parse(&self, parts: &Parts, (row_group, leaf): (usize, usize)) -> Option<Sbbf> {
        let column = self.metadata().row_group(row_group).column(leaf);
        match Sbbf::read_from_column_chunk(column, parts) {
            // A filter without blocks is dropped: a lookup in it would ask for its first block.
            Ok(filter) => filter.filter(|filter| filter.num_blocks() > 0),
            Err(error) => {
                log::debug!("{}: a bloom filter is skipped: {error}", self.name());
                None
            }
        }
    }
}

/// A file of which only some parts are in memory; it records which other parts are asked for.
#[derive(Default)]
struct Parts {
    have: Vec<(Range<u64>, Bytes)>,
    missing: Mutex<Vec<Range<u64>>>,
}

impl Length for Parts {
    fn len(&self) -> u64 {
        self.have
            .iter()
            .map(|(range, _)| range.end)
            .max()
            .unwrap_or(0)
    }
}

impl ChunkReader for Parts {
    type T = std::io::Empty;

    fn get_read(&self, _: u64) -> Result<Self::T, ParquetError> {
        Err(ParquetError::General(
            "filters are read as bytes".to_owned(),
        ))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let end = start.saturating_add(length as u64);
        let part = self
            .have
            .iter()
            .find(|(range, _)| range.start <= start && end <= range.end);
        if let Some((range, bytes)) = part {
            let skip = usize::try_from(start - range.start)?;
            return Ok(bytes.slice(skip..skip + length));
        }
        self.missing.lock().push(start..end);
        Err(ParquetError::EOF(format!(
            "{length} bytes at {start} are not there yet"
        )))
    }
}
