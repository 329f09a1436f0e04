//! Which keys of a clustered join are complete on the driving side?
//!
//! The chunks of the driving table are in sequence by the join's key and come in any order. Each
//! key belongs to the chunk whose bounds contain it. Keys between two chunks, which only the other
//! table can have, belong to the first of the two. A key belongs to several chunks only if it is a
//! border: one chunk ends with the key with which the next one begins. Rows with such a key are
//! kept until all chunks that may have it have come.
//!
//! Idea: each chunk that comes completes one interval of keys: its own, with the border at either
//! end if it is the last of that border's chunks to come. The intervals of all chunks cover each
//! key once, so joining the rows of both tables interval by interval joins each row once.
//! Not here: the other table, the join itself, and the order of chunks, which are the caller's.
//! Bounds: O(chunks) memory, O(parts) for each chunk.
//! KEY-I1: each key is in exactly one returned interval.
//! KEY-I2: a part is returned once, with the interval that contains its key.
//! KEY-I3: when all chunks have come, no part is kept.
//! Source: [Zukowski09 §7.5.2], Cooperative Merge Join; we differ: one table's chunks are the
//! joined table's.

use std::ops::Bound;

/// The keys of the driving table of one join.
///
/// `K` is a key, `P` a part: kept rows of a chunk with a border's key.
#[derive(Debug)]
pub(super) struct KeyRanges<K, P> {
    chunks: Vec<Chunk<K>>,
    borders: Vec<Border<P>>,
    left: usize,
}

#[derive(Debug)]
struct Chunk<K> {
    low: K,
    high: K,
    /// The borders at its low and its high end; the same border if the chunk has only one key.
    low_border: Option<usize>,
    high_border: Option<usize>,
    has_come: bool,
}

/// A key that several chunks may have.
#[derive(Debug)]
struct Border<P> {
    /// The number of its chunks that have not come.
    missing: usize,
    parts: Vec<P>,
}

/// Keys for which all rows of the driving table have come.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Complete<K, P> {
    /// The beginning of the interval.
    pub(super) from: Bound<K>,
    /// The end of the interval.
    pub(super) to: Bound<K>,
    /// The kept rows with a border's key.
    pub(super) parts: Vec<P>,
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyRangeError {
    /// The chunk ends above the beginning of the next one, or begins above its own end.
    #[error("chunk {0} does not end where the next one begins, or before")]
    Overlaps(usize),
    /// The chunk is not one of the table's, or has already come.
    #[error("chunk {0} is not awaited")]
    NotAwaited(usize),
}

impl<K: Ord + Clone, P> KeyRanges<K, P> {
    /// The chunks in the order of their keys, each given by its least and its greatest key. None
    /// of them has come yet.
    ///
    /// # Errors
    /// If they are not in sequence.
    pub(super) fn new(bounds: Vec<(K, K)>) -> Result<Self, KeyRangeError> {
        let mut borders: Vec<Border<P>> = Vec::new();
        let mut chunks: Vec<Chunk<K>> = Vec::with_capacity(bounds.len());
        for (at, (low, high)) in bounds.into_iter().enumerate() {
            if low > high {
                return Err(KeyRangeError::Overlaps(at));
            }
            let mut low_border = None;
            if let Some(before) = chunks.last_mut() {
                if before.high > low {
                    return Err(KeyRangeError::Overlaps(at - 1));
                }
                if before.high == low {
                    // A chunk of one key may lie in the middle of a border.
                    let known = before.low_border.filter(|_| before.low == low);
                    let border = known.unwrap_or_else(|| {
                        borders.push(Border {
                            missing: 1,
                            parts: Vec::new(),
                        });
                        borders.len() - 1
                    });
                    borders[border].missing += 1;
                    before.high_border = Some(border);
                    low_border = Some(border);
                }
            }
            chunks.push(Chunk {
                low,
                high,
                low_border,
                high_border: None,
                has_come: false,
            });
        }
        Ok(Self {
            left: chunks.len(),
            chunks,
            borders,
        })
    }

    /// Whether rows with the chunk's least key, and with its greatest key, must be kept.
    pub(super) fn borders_of(&self, chunk: usize) -> (bool, bool) {
        self.chunks.get(chunk).map_or((false, false), |chunk| {
            (chunk.low_border.is_some(), chunk.high_border.is_some())
        })
    }

    /// The keys that this chunk may complete, whichever chunks came before it; both bounds are
    /// inclusive.
    pub(super) fn reach_of(&self, chunk: usize) -> (Bound<K>, Bound<K>) {
        let low = self.chunks.get(chunk).filter(|_| chunk > 0);
        let high = self.chunks.get(chunk + 1);
        let bound =
            |key: Option<&K>| key.map_or(Bound::Unbounded, |key| Bound::Included(key.clone()));
        (
            bound(low.map(|chunk| &chunk.low)),
            bound(high.map(|chunk| &chunk.low)),
        )
    }

    /// A chunk was processed, or never will be. `low_parts` and `high_parts` are its rows with a
    /// border's key, at its low and at its high end, if it has such borders. Returns the keys that
    /// this completes, if any.
    ///
    /// # Errors
    /// If the chunk is not awaited.
    pub(super) fn came(
        &mut self,
        chunk: usize,
        low_parts: Vec<P>,
        high_parts: Vec<P>,
    ) -> Result<Option<Complete<K, P>>, KeyRangeError> {
        let next = self.chunks.get(chunk + 1).map(|next| next.low.clone());
        let own = self.chunks.get_mut(chunk).filter(|own| !own.has_come);
        let own = own.ok_or(KeyRangeError::NotAwaited(chunk))?;
        own.has_come = true;
        self.left -= 1;
        let low = own.low.clone();
        let (low_border, high_border) = (own.low_border, own.high_border);

        let mut parts = Vec::new();
        let mut arrives = |border: Option<usize>, own: Vec<P>, counts: bool| {
            let Some(border) = border.and_then(|border| self.borders.get_mut(border)) else {
                return false;
            };
            border.parts.extend(own);
            if counts {
                border.missing -= 1;
            }
            parts.append(&mut if border.missing == 0 {
                std::mem::take(&mut border.parts)
            } else {
                Vec::new()
            });
            border.missing == 0
        };
        let low_is_complete = arrives(low_border, low_parts, true);
        let high_is_complete = arrives(high_border, high_parts, high_border != low_border);

        let from = match (chunk, low_border) {
            (0, _) => Bound::Unbounded,
            (_, Some(_)) if !low_is_complete => Bound::Excluded(low),
            _ => Bound::Included(low),
        };
        let to = match next {
            None => Bound::Unbounded,
            Some(next) if high_is_complete => Bound::Included(next),
            Some(next) => Bound::Excluded(next),
        };
        let is_empty = match (&from, &to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (
                Bound::Included(from) | Bound::Excluded(from),
                Bound::Included(to) | Bound::Excluded(to),
            ) => from >= to,
            _ => false,
        };
        Ok((!is_empty).then_some(Complete { from, to, parts }))
    }

    /// Whether every chunk has come; then no part is kept.
    pub(super) fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// The number of kept parts.
    pub(super) fn parts(&self) -> usize {
        self.borders.iter().map(|border| border.parts.len()).sum()
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is violated, with its number.
    #[cfg(test)]
    pub(super) fn check(&self) {
        for (at, border) in self.borders.iter().enumerate() {
            let members = self
                .chunks
                .iter()
                .filter(|chunk| chunk.low_border == Some(at) || chunk.high_border == Some(at));
            let missing = members.filter(|chunk| !chunk.has_come).count();
            assert_eq!(
                missing, border.missing,
                "KEY-I2: chunks of a border are counted"
            );
            assert!(
                missing > 0 || border.parts.is_empty(),
                "KEY-I3: a border is complete and a part is left"
            );
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_border_waits_for_all_of_its_chunks() {
        let mut keys = KeyRanges::new(vec![(1, 5), (5, 5), (5, 9), (11, 12)]).unwrap();
        let complete = |from, to, parts| Ok(Some(Complete { from, to, parts }));
        assert_eq!(keys.borders_of(0), (false, true));
        assert_eq!(keys.borders_of(1), (true, true));
        assert_eq!(
            keys.came(2, vec!["2"], vec![]),
            complete(Bound::Excluded(5), Bound::Excluded(11), vec![])
        );
        assert_eq!(keys.came(1, vec!["1"], vec![]), Ok(None));
        assert_eq!(
            keys.came(1, vec![], vec![]),
            Err(KeyRangeError::NotAwaited(1))
        );
        assert_eq!(keys.parts(), 2);
        assert_eq!(
            keys.came(0, vec![], vec!["0"]),
            complete(Bound::Unbounded, Bound::Included(5), vec!["2", "1", "0"])
        );
        assert_eq!(
            keys.came(3, vec![], vec![]),
            complete(Bound::Included(11), Bound::Unbounded, vec![])
        );
        assert!(keys.is_complete());
        assert!(KeyRanges::<_, ()>::new(vec![(1, 6), (5, 9)]).is_err());
    }

    proptest! {
        #[test]
        fn each_key_is_complete_once_and_with_all_its_parts(
            steps in prop::collection::vec((0..3i32, 0..3i32), 1..12),
            order in any::<prop::sample::Index>(),
            shuffle in prop::collection::vec(any::<prop::sample::Index>(), 12),
        ) {
            let mut at = 10;
            let bounds: Vec<(i32, i32)> = steps.iter().map(|(gap, width)| {
                let low = at + gap;
                at = low + width;
                (low, at)
            }).collect();
            let mut waiting: Vec<usize> = (0..bounds.len()).collect();
            let turn = order.index(bounds.len());
            waiting.rotate_left(turn);
            let mut keys = KeyRanges::new(bounds.clone()).unwrap();
            let mut given = vec![0; 100];
            let mut shuffle = shuffle.iter().cycle();
            while !waiting.is_empty() {
                let chunk = waiting.remove(shuffle.next().unwrap().index(waiting.len()));
                let (low, high) = bounds[chunk];
                let (at_low, at_high) = keys.borders_of(chunk);
                let low_parts = if at_low { vec![(low, chunk)] } else { vec![] };
                let high_parts = if at_high && !(at_low && low == high) {
                    vec![(high, chunk)]
                } else {
                    vec![]
                };
                let complete = keys.came(chunk, low_parts, high_parts).unwrap();
                keys.check();
                let Some(Complete { from, to, parts }) = complete else { continue };
                for key in 0..100 {
                    given[usize::try_from(key).unwrap()] +=
                        usize::from(std::ops::RangeBounds::contains(&(from, to), &key));
                }
                for (key, _) in &parts {
                    prop_assert!(std::ops::RangeBounds::contains(&(from, to), key));
                    let of_key = parts.iter().filter(|(part, _)| part == key).count();
                    let having = bounds.iter().filter(|(low, high)| low <= key && key <= high);
                    prop_assert_eq!(of_key, having.count());
                }
            }
            prop_assert!(given.iter().all(|times| *times == 1), "KEY-I1: {:?}", given);
            prop_assert!(keys.is_complete() && keys.parts() == 0);
        }
    }
}
