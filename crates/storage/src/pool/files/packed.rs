//! How are the bytes of tiny column chunks read and held?
//!
//! A device answers with whole pages, so the frame of a column chunk of a few hundred bytes, as
//! files of many small row groups have, would hold ten times its bytes. So small ranges are copied
//! out of the device's answer: those of one segment that come with one request share a buffer.
//! Small ranges that lie side by side, of any segments, are requested as one range, which touches
//! the same pages as the separate ranges.
//! Not here: which ranges share a request (`../segments/load.rs`), memory of devices
//! (`../device`).
//! Bounds: small ranges are joined into a range of at most [`ASKED_BYTES_MAX`]; a large range is
//! requested as it is.
//! P1: a segment holds as many bytes as [`held`] computes from its ranges.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::device::footprint;

/// Ranges of fewer bytes are copied. With the pages at its ends a range of this size holds up to a
/// quarter more than its bytes, and a smaller one far more.
const SMALL_BELOW: u64 = 16 << 10;
/// Ranges with a smaller gap between them touch the same page or neighbouring pages.
const GAP_BYTES: u64 = 4096;
/// The longest range that small ranges are joined to.
const ASKED_BYTES_MAX: u64 = 1 << 20;
/// What a small range takes in addition to its bytes: its place and its part of a buffer.
const RECORD_BYTES: u64 = 64;

/// Bytes with their places in the file.
pub(in crate::pool) type Buffers = Vec<(Range<u64>, Bytes)>;

/// A range to request: a large one, or joined small ones, each with the target that it is read
/// for.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::pool) struct Asked<T> {
    pub(in crate::pool) range: Range<u64>,
    parts: Vec<(Range<u64>, T)>,
}

/// The memory that the bytes of these ranges of one segment or extent hold.
pub(in crate::pool) fn held(ranges: &[Range<u64>]) -> u64 {
    let of_range = |range: &Range<u64>| {
        if is_small(range) {
            range.end - range.start + RECORD_BYTES
        } else {
            footprint(range)
        }
    };
    ranges.iter().map(of_range).sum()
}

fn is_small(range: &Range<u64>) -> bool {
    range.end - range.start < SMALL_BELOW
}

/// The ranges to request for these ranges, which ascend.
pub(in crate::pool) fn asked<T: Copy>(ranges: &[(Range<u64>, T)]) -> Vec<Asked<T>> {
    let mut asked: Vec<Asked<T>> = Vec::new();
    for (range, target) in ranges {
        let part = (range.clone(), *target);
        let beside = asked.last_mut().filter(|last| {
            let small = last.parts.last().is_some_and(|(last, _)| is_small(last));
            small
                && is_small(range)
                && range.start.saturating_sub(last.range.end) < GAP_BYTES
                && range.end - last.range.start <= ASKED_BYTES_MAX
        });
        match beside {
            Some(last) => {
                last.range.end = range.end;
                last.parts.push(part);
            }
            None => asked.push(Asked {
                range: range.clone(),
                parts: vec![part],
            }),
        }
    }
    asked
}

/// The buffers of each target, from the answers to the requested ranges.
pub(in crate::pool) fn answered<T: Copy + Ord>(
    asked: Vec<Asked<T>>,
    answers: Vec<Bytes>,
) -> BTreeMap<T, Buffers> {
    let mut of_targets: BTreeMap<T, Buffers> = BTreeMap::new();
    let mut copied: BTreeMap<T, (BytesMut, Vec<Range<u64>>)> = BTreeMap::new();
    let parts = asked.iter().flat_map(|asked| &asked.parts);
    for (range, target) in parts.filter(|(range, _)| is_small(range)) {
        let (_, ranges) = copied.entry(*target).or_default();
        ranges.push(range.clone());
    }
    for (buffer, ranges) in copied.values_mut() {
        buffer.reserve(ranges.iter().map(length).sum());
    }
    for (Asked { range: from, parts }, answer) in asked.into_iter().zip(answers) {
        for (range, target) in parts {
            match copied.get_mut(&target).filter(|_| is_small(&range)) {
                Some((buffer, _)) => {
                    let at = length(&(from.start..range.start));
                    buffer.extend_from_slice(&answer[at..at + length(&range)]);
                }
                None => {
                    let buffers = of_targets.entry(target).or_default();
                    buffers.push((range, answer.clone()));
                }
            }
        }
    }
    for (target, (buffer, ranges)) in copied {
        let mut buffer = buffer.freeze();
        let ranges = ranges.into_iter();
        let buffers = ranges.map(|range| (range.clone(), buffer.split_to(length(&range))));
        of_targets.entry(target).or_default().extend(buffers);
    }
    of_targets
}

/// The length of a range whose bytes are in memory, so that it fits `usize`.
fn length(range: &Range<u64>) -> usize {
    usize::try_from(range.end - range.start).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "tests: test data are low bits"
)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(range: &Range<u64>) -> Bytes {
        range.clone().map(|at| (at % 251) as u8).collect()
    }

    proptest! {
        #[test]
        fn every_range_arrives_once_and_takes_no_extra_pages(
            steps in prop::collection::vec(
                (prop_oneof![Just(0), 1u64..9000], prop_oneof![1u64..700, 1..40_000u64], 0u16..4),
                1..60,
            ),
        ) {
            let mut at = 4;
            let ranges = steps.into_iter().map(|(gap, length, column)| {
                let range = at + gap..at + gap + length;
                at = range.end;
                (range, column)
            });
            let ranges: Vec<(Range<u64>, u16)> = ranges.collect();
            let asked = asked(&ranges);
            let answers = asked.iter().map(|asked| bytes_of(&asked.range)).collect();
            let pages = |ranges: &mut dyn Iterator<Item = &Range<u64>>| -> u64 {
                ranges.map(footprint).sum()
            };
            prop_assert!(
                pages(&mut asked.iter().map(|asked| &asked.range))
                    <= pages(&mut ranges.iter().map(|(range, _)| range))
            );
            let mut came: Vec<(Range<u64>, u16)> = Vec::new();
            for (target, buffers) in answered(asked, answers) {
                for (range, bytes) in &buffers {
                    prop_assert_eq!(bytes, &bytes_of(range));
                }
                came.extend(buffers.into_iter().map(|(range, _)| (range, target)));
            }
            came.sort_by_key(|(range, _)| range.start);
            prop_assert_eq!(came, ranges);
        }
    }

    #[test]
    fn tiny_ranges_hold_little_more_than_their_bytes() {
        let tiny: Vec<Range<u64>> = (0..100)
            .map(|at| at * 100_000..at * 100_000 + 400)
            .collect();
        assert_eq!(held(&tiny), 100 * 464);
        let large = 5..4096 * 20 + 5;
        assert_eq!(held(std::slice::from_ref(&large)), 4096 * 21);
    }
}
