//! Which requests fetch these ranges at the least cost?
//!
//! Ranges that touch are joined. A gap is read only when that is cheaper than a second request. A
//! request has a maximum size, so that a large range arrives as several concurrent requests.
//! Not here: the cost of a request
//! ([`Device::request_cost_bytes`](super::Device::request_cost_bytes)), alignment to pages
//! (`local/scatter.rs`), issuing requests.
//! Bounds: one pass; at most one request per range plus one per `request_bytes_max` bytes.
//! M1: every wanted byte is in exactly one part of one request. M2: requests are ascending, do not
//! overlap, and begin and end with a wanted byte. M3: no request is longer than
//! `request_bytes_max`.

use std::ops::Range;

use bytes::Bytes;

/// One request to issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The bytes of the file to fetch.
    pub range: Range<u64>,
    /// The parts of the request that belong to wanted ranges, ascending. The bytes between parts
    /// are gaps.
    pub parts: Vec<Part>,
}

/// The piece of a wanted range that a request brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Position of the wanted range in the list given to [`plan`].
    pub wanted: usize,
    /// The bytes of the file.
    pub range: Range<u64>,
}

impl Request {
    /// The number of bytes it fetches.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Always false: a request begins with a wanted byte (M2).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The part's bytes within the request's answer, without a copy.
    ///
    /// # Panics
    /// `answer` is not the whole answer of this request.
    #[must_use]
    pub fn slice(&self, answer: &Bytes, part: &Part) -> Bytes {
        // The length of an answer in memory fits.
        let at = |offset: u64| usize::try_from(offset - self.range.start).unwrap_or(usize::MAX);
        answer.slice(at(part.range.start)..at(part.range.end))
    }
}

/// The requests that fetch `wanted`, which must be ascending and not overlapping; empty ranges get
/// no part. Ranges are joined where they touch or the gap between them is smaller than `gap_bytes`.
///
/// # Panics
/// `request_bytes_max` is 0.
#[must_use]
pub fn plan(wanted: &[Range<u64>], gap_bytes: u64, request_bytes_max: u64) -> Vec<Request> {
    assert!(request_bytes_max > 0, "a request brings at least one byte");
    let mut requests: Vec<Request> = Vec::new();
    for (index, range) in wanted.iter().enumerate() {
        let mut start = range.start;
        if let Some(last) = requests.last_mut() {
            let end_max = last.range.start.saturating_add(request_bytes_max);
            let gap = start.saturating_sub(last.range.end);
            if (gap == 0 || gap < gap_bytes) && start < end_max && start < range.end {
                let end = range.end.min(end_max);
                last.range.end = end;
                last.parts.push(Part {
                    wanted: index,
                    range: start..end,
                });
                start = end;
            }
        }
        while start < range.end {
            let end = range.end.min(start.saturating_add(request_bytes_max));
            requests.push(Request {
                range: start..end,
                parts: vec![Part {
                    wanted: index,
                    range: start..end,
                }],
            });
            start = end;
        }
    }
    requests
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

    /// Ascending, not overlapping, some empty, some touching.
    fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        prop::collection::vec((0u64..6, 0u64..9), 0..12).prop_map(|steps| {
            let mut at = 0;
            steps
                .into_iter()
                .map(|(gap, len)| {
                    let range = at + gap..at + gap + len;
                    at = range.end;
                    range
                })
                .collect()
        })
    }

    /// Byte by byte: a wanted byte joins the open request if it is near enough and the request has
    /// room; otherwise it opens one.
    fn naive(wanted: &[Range<u64>], gap: u64, max: u64) -> Vec<Range<u64>> {
        let mut requests: Vec<Range<u64>> = Vec::new();
        for byte in wanted.iter().cloned().flatten() {
            match requests.last_mut() {
                Some(last)
                    if (byte == last.end || byte - last.end < gap) && byte - last.start < max =>
                {
                    last.end = byte + 1;
                }
                _ => requests.push(byte..byte + 1),
            }
        }
        requests
    }

    proptest! {
        #[test]
        fn agrees_with_the_naive_model(wanted in ranges(), gap in 0u64..8, max in 1u64..20) {
            let requests = plan(&wanted, gap, max);
            let issued: Vec<_> = requests.iter().map(|r| r.range.clone()).collect();
            prop_assert_eq!(&issued, &naive(&wanted, gap, max));

            // Slicing the answers gives each range its bytes, once and in order (M1).
            let file: Vec<u8> = (0..200).collect();
            let mut got = vec![Vec::new(); wanted.len()];
            for request in &requests {
                let bytes = &file[request.range.start as usize..request.range.end as usize];
                let answer = Bytes::copy_from_slice(bytes);
                prop_assert!(!request.is_empty() && request.len() <= max);
                for part in &request.parts {
                    got[part.wanted].extend_from_slice(&request.slice(&answer, part));
                }
            }
            for (got, range) in got.iter().zip(&wanted) {
                prop_assert_eq!(&got[..], &file[range.start as usize..range.end as usize]);
            }
        }
    }

    #[test]
    fn a_gap_is_read_only_when_it_is_cheaper_than_a_request() {
        let wanted = [0..10, 20..30];
        assert_eq!(plan(&wanted, 10, 1000).len(), 2);
        assert_eq!(plan(&wanted, 11, 1000).len(), 1);
        assert_eq!(plan(&[0..10, 10..20], 0, 1000).len(), 1);
    }
}
