//! How does one read of whole pages fill a buffer per range?
//!
//! Direct I/O reads whole pages into page-aligned memory, but ranges begin and end anywhere, and
//! each must own its memory, so that an evicted frame frees its bytes even if its neighbour from
//! the same read stays. So each range gets a buffer of the pages that it touches, and a run of
//! joined ranges is read with one vectored read through these buffers in turn. A page that two
//! ranges touch is read into the buffer of the first, and the second's share, less than a page, is
//! copied afterwards. Gaps are read into a sink whose content is ignored.
//! Not here: memory, files, errors. This file is arithmetic, tested on vectors.
//! Bounds: at most one segment per page, so a piece of 1 MiB has at most 256 segments, below the
//! `IOV_MAX` of 1024.
//! S1: the segments of a piece are adjacent in the file, whole pages, and at most `piece_bytes`.
//! S2: after all pieces and then all copies, in order, each buffer holds the bytes of its range.

use std::ops::Range;

use crate::device::merge::Request;

/// The unit of direct I/O and of buffer memory. It is a multiple of every block device's logical
/// block.
pub(super) const PAGE: u64 = 4096;

/// A plan of reads and copies.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::device) struct Scatter {
    /// For each wanted range the file bytes that its buffer covers: whole pages; empty for an empty
    /// range.
    pub(in crate::device) buffers: Vec<Range<u64>>,
    pub(in crate::device) pieces: Vec<Piece>,
    pub(super) copies: Vec<Copy>,
}

/// One vectored read.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::device) struct Piece {
    pub(in crate::device) offset: u64,
    /// The bytes that must arrive; the rest, up to the page's end, may be after the end of the
    /// file.
    pub(super) need: u64,
    pub(super) segments: Vec<Segment>,
}

/// The destination of the next bytes of a piece.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::device) struct Segment {
    /// The buffer, or `None` for the sink.
    pub(in crate::device) buffer: Option<usize>,
    /// Offset in the buffer.
    pub(in crate::device) at: u64,
    pub(in crate::device) len: u64,
}

/// The share of a page that was read into another buffer.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::device) struct Copy {
    pub(in crate::device) from: usize,
    pub(super) from_at: u64,
    pub(in crate::device) to: usize,
    pub(super) to_at: u64,
    pub(in crate::device) len: u64,
}

impl Scatter {
    /// Lays out the `runs` that [`plan`](crate::device::merge::plan) made of `wanted` without a
    /// maximum size and with a gap of at least a page, so that no two runs touch the same page.
    pub(in crate::device) fn new(
        wanted: &[Range<u64>],
        runs: &[Request],
        piece_bytes: u64,
        sink_bytes: u64,
    ) -> Self {
        let mut scatter = Self {
            buffers: wanted.iter().map(pages_of).collect(),
            ..Self::default()
        };
        for run in runs {
            let segments = scatter.segments(run, sink_bytes);
            scatter.cut(run, segments, piece_bytes);
        }
        scatter
    }

    /// The bytes that all pieces request from the device.
    pub(in crate::device) fn bytes(&self) -> u64 {
        let segments = self.pieces.iter().flat_map(|piece| &piece.segments);
        segments.map(|segment| segment.len).sum()
    }

    fn segments(&mut self, run: &Request, sink_bytes: u64) -> Vec<Segment> {
        let mut segments = Vec::with_capacity(run.parts.len());
        // The next page that no segment covers, and the buffer that receives the page before it.
        let mut next = floor(run.range.start);
        let mut owner = 0;
        for part in &run.parts {
            let pages = self.buffers[part.wanted].clone();
            if pages.start < next {
                self.copies.push(Copy {
                    from: owner,
                    from_at: part.range.start - self.buffers[owner].start,
                    to: part.wanted,
                    to_at: part.range.start - pages.start,
                    len: part.range.end.min(next) - part.range.start,
                });
            }
            while next < pages.start {
                let len = sink_bytes.min(pages.start - next);
                segments.push(Segment {
                    buffer: None,
                    at: 0,
                    len,
                });
                next += len;
            }
            if next < pages.end {
                segments.push(Segment {
                    buffer: Some(part.wanted),
                    at: next - pages.start,
                    len: pages.end - next,
                });
                next = pages.end;
                owner = part.wanted;
            }
        }
        segments
    }

    fn cut(&mut self, run: &Request, segments: Vec<Segment>, piece_bytes: u64) {
        let mut offset = floor(run.range.start);
        let mut piece: Vec<Segment> = Vec::new();
        let mut filled = 0;
        let mut push = |offset: &mut u64, filled: &mut u64, segments: Vec<Segment>| {
            let end = (*offset + *filled).min(run.range.end);
            self.pieces.push(Piece {
                offset: *offset,
                need: end - *offset,
                segments,
            });
            *offset += *filled;
            *filled = 0;
        };
        for mut segment in segments {
            while filled + segment.len > piece_bytes {
                let head = piece_bytes - filled;
                if head > 0 {
                    piece.push(Segment {
                        len: head,
                        ..segment
                    });
                }
                // Every read into the sink starts at its beginning.
                if segment.buffer.is_some() {
                    segment.at += head;
                }
                segment.len -= head;
                filled += head;
                push(&mut offset, &mut filled, std::mem::take(&mut piece));
            }
            filled += segment.len;
            piece.push(segment);
        }
        if filled > 0 {
            push(&mut offset, &mut filled, piece);
        }
    }
}

/// The whole pages that a range touches.
pub(in crate::device) fn pages_of(range: &Range<u64>) -> Range<u64> {
    if range.is_empty() {
        return range.start..range.start;
    }
    floor(range.start)..range.end.next_multiple_of(PAGE)
}

fn floor(offset: u64) -> u64 {
    offset - offset % PAGE
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    clippy::cast_possible_truncation,
    reason = "tests: a failure should panic, reads take lists of ranges, test data are low bits"
)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::device::merge::plan;

    const FILE: u64 = 60 * PAGE + 123;

    fn byte(at: u64) -> u8 {
        (at % 251) as u8 ^ (at / 251 % 256) as u8
    }

    /// Carries out the plan on vectors; the file ends at `FILE`.
    fn carry_out(scatter: &Scatter, piece_bytes: u64) -> Vec<Vec<u8>> {
        let mut buffers: Vec<Vec<u8>> = scatter
            .buffers
            .iter()
            .map(|b| vec![0; (b.end - b.start) as usize])
            .collect();
        for piece in &scatter.pieces {
            let mut at = piece.offset;
            assert_eq!(at % PAGE, 0, "S1");
            for segment in &piece.segments {
                assert!(
                    segment.len > 0 && segment.len % PAGE == 0 && segment.at % PAGE == 0,
                    "S1"
                );
                if let Some(buffer) = segment.buffer {
                    for i in 0..segment.len {
                        if at + i < FILE {
                            buffers[buffer][(segment.at + i) as usize] = byte(at + i);
                        }
                    }
                }
                at += segment.len;
            }
            assert!(at - piece.offset <= piece_bytes, "S1");
            assert!(piece.need <= at - piece.offset && piece.need > 0);
        }
        for copy in &scatter.copies {
            assert!(copy.len <= PAGE);
            for i in 0..copy.len {
                buffers[copy.to][(copy.to_at + i) as usize] =
                    buffers[copy.from][(copy.from_at + i) as usize];
            }
        }
        buffers
    }

    proptest! {
        #[test]
        fn every_range_gets_its_bytes(
            steps in prop::collection::vec(
                (prop_oneof![Just(0), 0u64..50, 0..3 * PAGE], prop_oneof![Just(0), 1u64..40, 0..5 * PAGE]),
                0..14,
            ),
            gap in PAGE..4 * PAGE,
            piece_pages in 1u64..6,
            sink_pages in 1u64..3,
        ) {
            let mut at = 0;
            let wanted: Vec<Range<u64>> = steps
                .into_iter()
                .map(|(gap, len)| {
                    let start = (at + gap).min(FILE);
                    at = (start + len).min(FILE);
                    start..at
                })
                .collect();
            let runs = plan(&wanted, gap, u64::MAX);
            let piece_bytes = piece_pages * PAGE;
            let scatter = Scatter::new(&wanted, &runs, piece_bytes, sink_pages * PAGE);
            let buffers = carry_out(&scatter, piece_bytes);
            for ((buffer, covers), range) in buffers.iter().zip(&scatter.buffers).zip(&wanted) {
                let expected: Vec<u8> = range.clone().map(byte).collect();
                let head = (range.start - covers.start) as usize;
                prop_assert_eq!(&buffer[head..head + expected.len()], &expected[..]);
            }
            let mut pages: Vec<u64> = scatter.pieces.iter().map(|p| p.offset).collect();
            pages.dedup();
            prop_assert!(pages.is_sorted() && pages.len() == scatter.pieces.len());
        }
    }
}
