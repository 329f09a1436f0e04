//! The bytes of a segment in the form that parquet's readers expect: a file of which only some
//! parts are in memory.
//!
//! Not here: checks of pages (`guards/page_guard.rs`).

use std::io::Read;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

/// The longest page header, statistics included, unless these hold very long strings.
const HEADER_BYTES: usize = 4096;

/// A file of which only some parts are in memory.
pub(crate) struct SegmentBytes {
    /// The parts by start; they do not overlap.
    parts: Vec<(u64, Bytes)>,
}

impl SegmentBytes {
    pub(crate) fn new(buffers: Vec<(Range<u64>, Bytes)>) -> Self {
        let mut parts: Vec<_> = buffers
            .into_iter()
            .map(|(range, bytes)| (range.start, bytes))
            .collect();
        parts.sort_unstable_by_key(|part| part.0);
        Self { parts }
    }

    /// Passes the bytes from `start` to the end of its part to `look`. If `look` finds nothing, a
    /// header may straddle two parts: it then gets the next part's bytes too.
    pub(crate) fn with_bytes_at<T>(
        &self,
        start: u64,
        look: impl Fn(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let bytes = self.at(start)?;
        if let Some(seen) = look(&bytes) {
            return Some(seen);
        }
        let next = self.at(start + bytes.len() as u64)?;
        if bytes.len() > HEADER_BYTES {
            return None;
        }
        let mut both = BytesMut::from(&bytes[..]);
        both.extend_from_slice(&next[..next.len().min(HEADER_BYTES)]);
        look(&both)
    }

    /// The bytes from `start` to the end of its part.
    fn at(&self, start: u64) -> Option<Bytes> {
        let (from, bytes) = &self.parts[self
            .parts
            .partition_point(|p| p.0 <= start)
            .checked_sub(1)?];
        let skip = usize::try_from(start - from).ok()?;
        (skip < bytes.len()).then(|| bytes.slice(skip..))
    }
}

impl Length for SegmentBytes {
    fn len(&self) -> u64 {
        self.parts
            .last()
            .map_or(0, |(start, bytes)| start + bytes.len() as u64)
    }
}

impl ChunkReader for SegmentBytes {
    type T = SegmentRead;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let rest = self.at(start).unwrap_or_default();
        let end = start + rest.len() as u64;
        let next = self.parts.partition_point(|p| p.0 < end);
        let more = self.parts[next..]
            .first()
            .filter(|p| p.0 == end && !rest.is_empty())
            .map_or_else(Bytes::new, |p| p.1.clone());
        Ok(SegmentRead {
            now: rest,
            then: more,
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let missing = || {
            ParquetError::EOF(format!(
                "{length} bytes at {start} are not in the segment's ranges"
            ))
        };
        if length == 0 {
            return Ok(Bytes::new());
        }
        let part = self.at(start).ok_or_else(missing)?;
        if part.len() >= length {
            return Ok(part.slice(..length));
        }
        // The page spans two buffers: a boundary of shared and own pages, or of two reads, lies
        // inside it.
        let mut joined = BytesMut::from(&part[..]);
        while joined.len() < length {
            let part = self.at(start + joined.len() as u64).ok_or_else(missing)?;
            joined.extend_from_slice(&part[..part.len().min(length - joined.len())]);
        }
        Ok(joined.freeze())
    }
}

/// Reads page headers, which are far shorter than a part but may begin at the end of one.
pub(crate) struct SegmentRead {
    now: Bytes,
    then: Bytes,
}

impl Read for SegmentRead {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        if self.now.is_empty() {
            std::mem::swap(&mut self.now, &mut self.then);
        }
        let length = target.len().min(self.now.len());
        target[..length].copy_from_slice(&self.now.split_to(length));
        Ok(length)
    }
}
