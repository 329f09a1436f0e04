//! Which groups of an ordered aggregation are complete?
//!
//! Chunks of a sorted table arrive in any order. Within a chunk a group is a run of rows, so all
//! groups of a chunk except its first and its last are complete when a consumer has worked on the
//! chunk. The first group may have rows in the chunks before, the last group in the chunks after.
//! The aggregates of both are kept until the neighbouring chunk is known.
//!
//! Idea: chunks that have arrived, or that are known to have no row, form stretches without a gap.
//! A stretch can grow only at its two ends. Where two stretches meet, the groups on both sides of
//! the border are either one group or complete there. The two ends of the table are stretches too,
//! and nothing lies beyond them.
//! Not here: what is grouped and aggregated, and the order of a table's chunks. The driver knows
//! both; for each chunk it gives the first and the last key, and the *part* of each to keep: the
//! aggregate of that group's rows in the chunk.
//! Bounds: O(log chunks) for each chunk, and O(log chunks) moves of each part; at most two parts
//! are kept per chunk, and none of a complete group.
//! BORD-I1: a part is given back once, together with all parts of its group. BORD-I2: stretches
//! neither overlap nor touch. BORD-I3: keys of chunks that meet do not descend; otherwise the
//! error names the two chunks.
//! Source: [CoopScans07 §7.2], ordered aggregation.

use std::collections::BTreeMap;

/// The groups at the borders of the chunks of one scan.
///
/// `K` is a group's place in the order, `P` the part of a group in a chunk.
#[derive(Debug)]
pub struct Borders<K, P> {
    /// The stretches by their first chunk. Chunks count from 1 here; 0 and `chunks + 1` are the
    /// ends of the table.
    stretches: BTreeMap<usize, Stretch<K, P>>,
    chunks: usize,
    parts: usize,
}

/// The groups at the borders of a chunk.
#[derive(Debug)]
pub enum Edges<K, P> {
    /// The chunk has no rows.
    Empty,
    /// All rows of the chunk have one key.
    One(K, P),
    /// The rows of the chunk begin with one key and end with another.
    Two {
        /// The first key, and the part of its rows.
        first: (K, P),
        /// The last key, and the part of its rows.
        last: (K, P),
    },
}

/// Why a chunk is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BorderError {
    /// The last key of a chunk is above the first key of a later chunk.
    #[error("chunk {before} ends above where chunk {after} begins")]
    Descends {
        /// The earlier chunk.
        before: usize,
        /// The later chunk.
        after: usize,
    },
    /// The chunk does not belong to the scan, or has arrived already.
    #[error("chunk {0} is not awaited")]
    NotAwaited(usize),
}

/// A run of chunks without a gap.
#[derive(Debug)]
struct Stretch<K, P> {
    last: usize,
    open: Open<K, P>,
}

/// The groups of a stretch that may still grow.
#[derive(Debug)]
enum Open<K, P> {
    /// The stretch has no rows.
    Nothing,
    /// All rows of the stretch belong to one group.
    Both(Group<K, P>),
    /// The groups at the two ends; `None` at an end of the table.
    Ends {
        left: Option<Group<K, P>>,
        right: Option<Group<K, P>>,
    },
}

/// A group that is not complete.
#[derive(Debug)]
struct Group<K, P> {
    key: K,
    parts: Vec<P>,
    first: usize,
    last: usize,
}

impl<K: Ord, P> Borders<K, P> {
    /// The state before any of `chunks` chunks has arrived. Chunks are numbered from 0 in the
    /// order of their keys.
    #[must_use]
    pub fn new(chunks: usize) -> Self {
        let end = |at, last| {
            let (left, right) = (None, None);
            let open = Open::Ends { left, right };
            (at, Stretch { last, open })
        };
        let stretches = match chunks {
            0 => [end(0, 1)].into(),
            _ => [end(0, 0), end(chunks + 1, chunks + 1)].into(),
        };
        Self {
            stretches,
            chunks,
            parts: 0,
        }
    }

    /// Records that a consumer has worked on a chunk, or that none ever will (`Edges::Empty`).
    /// Returns, for each group that this completes, all its parts, in no particular order.
    /// # Errors
    /// The chunk is not awaited, or its keys are not in order with those of a neighbour.
    /// Afterwards the state is undefined, and the caller must not use it.
    pub fn came(&mut self, chunk: usize, edges: Edges<K, P>) -> Result<Vec<Vec<P>>, BorderError> {
        if chunk >= self.chunks || self.is_known(chunk) {
            return Err(BorderError::NotAwaited(chunk));
        }
        let mut first = chunk + 1;
        let mut stretch = Stretch {
            last: first,
            open: Open::of(first, edges),
        };
        self.parts += stretch.open.parts();
        let mut ready = Vec::new();
        let before = self.stretches.range(..first).next_back();
        let before = before.filter(|(_, before)| before.last + 1 == first);
        if let Some(at) = before.map(|(at, _)| *at)
            && let Some(left) = self.stretches.remove(&at)
        {
            first = at;
            stretch.open = left.open.meets(stretch.open, &mut ready)?;
        }
        if let Some(right) = self.stretches.remove(&(stretch.last + 1)) {
            stretch.last = right.last;
            stretch.open = stretch.open.meets(right.open, &mut ready)?;
        }
        self.stretches.insert(first, stretch);
        self.parts -= ready.iter().map(Vec::len).sum::<usize>();
        Ok(ready)
    }

    /// Whether every chunk has arrived. Then no part is kept.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.stretches.len() == 1
    }

    /// How many parts are kept.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// An invariant is broken; the message has its number.
    pub fn check(&self) {
        let mut free_from = 0;
        let mut parts = 0;
        for (first, stretch) in &self.stretches {
            assert!(
                free_from == 0 || *first > free_from,
                "BORD-I2: stretches overlap or touch"
            );
            assert!(stretch.last >= *first, "BORD-I2: a stretch has no chunk");
            free_from = stretch.last + 1;
            parts += stretch.open.parts();
        }
        assert_eq!(parts, self.parts, "BORD-I1: parts are counted");
        assert!(
            !self.is_complete() || parts == 0,
            "BORD-I1: all have come and a part is left"
        );
    }

    fn is_known(&self, chunk: usize) -> bool {
        let at = chunk + 1;
        let before = self.stretches.range(..=at).next_back();
        before.is_some_and(|(_, stretch)| stretch.last >= at)
    }
}

impl<K: Ord, P> Open<K, P> {
    fn of(at: usize, edges: Edges<K, P>) -> Self {
        let group = |(key, part)| Group {
            key,
            parts: vec![part],
            first: at,
            last: at,
        };
        match edges {
            Edges::Empty => Self::Nothing,
            Edges::One(key, part) => Self::Both(group((key, part))),
            Edges::Two { first, last } => Self::Ends {
                left: Some(group(first)),
                right: Some(group(last)),
            },
        }
    }

    /// Joins the open groups of two stretches that meet; groups that become complete go into
    /// `ready`.
    fn meets(self, right: Self, ready: &mut Vec<Vec<P>>) -> Result<Self, BorderError> {
        Ok(match (self, right) {
            (Self::Nothing, open) | (open, Self::Nothing) => open,
            (Self::Both(a), Self::Both(b)) => match a.joined(b)? {
                Joined::One(group) => Self::Both(group),
                Joined::Two(a, b) => Self::Ends {
                    left: Some(a),
                    right: Some(b),
                },
            },
            (Self::Both(a), Self::Ends { left: b, right }) => {
                let left = match b {
                    Some(b) => a.joined(b)?.first(ready),
                    None => a,
                };
                Self::Ends {
                    left: Some(left),
                    right,
                }
            }
            (Self::Ends { left, right: a }, Self::Both(b)) => {
                let right = match a {
                    Some(a) => a.joined(b)?.last(ready),
                    None => b,
                };
                Self::Ends {
                    left,
                    right: Some(right),
                }
            }
            (Self::Ends { left, right: a }, Self::Ends { left: b, right }) => {
                match (a, b) {
                    (Some(a), Some(b)) => a.joined(b)?.complete(ready),
                    (a, b) => ready.extend(a.into_iter().chain(b).map(|group| group.parts)),
                }
                Self::Ends { left, right }
            }
        })
    }

    fn parts(&self) -> usize {
        let of = |group: &Option<Group<K, P>>| group.as_ref().map_or(0, |g| g.parts.len());
        match self {
            Self::Nothing => 0,
            Self::Both(group) => group.parts.len(),
            Self::Ends { left, right } => of(left) + of(right),
        }
    }
}

/// The groups on the two sides of a border: one group, or two.
enum Joined<K, P> {
    One(Group<K, P>),
    Two(Group<K, P>, Group<K, P>),
}

impl<K, P> Joined<K, P> {
    /// The group that stays open on the left; one on the right of it is complete.
    fn first(self, ready: &mut Vec<Vec<P>>) -> Group<K, P> {
        match self {
            Self::One(group) => group,
            Self::Two(first, last) => {
                ready.push(last.parts);
                first
            }
        }
    }

    /// The group that stays open on the right; one on the left of it is complete.
    fn last(self, ready: &mut Vec<Vec<P>>) -> Group<K, P> {
        match self {
            Self::One(group) => group,
            Self::Two(first, last) => {
                ready.push(first.parts);
                last
            }
        }
    }

    /// None stays open.
    fn complete(self, ready: &mut Vec<Vec<P>>) {
        match self {
            Self::One(group) => ready.push(group.parts),
            Self::Two(first, last) => ready.extend([first.parts, last.parts]),
        }
    }
}

impl<K: Ord, P> Group<K, P> {
    fn joined(mut self, mut right: Self) -> Result<Joined<K, P>, BorderError> {
        if self.key > right.key {
            return Err(BorderError::Descends {
                before: self.last - 1,
                after: right.first - 1,
            });
        }
        if self.key < right.key {
            return Ok(Joined::Two(self, right));
        }
        // The shorter list moves, so that each part moves rarely.
        if self.parts.len() < right.parts.len() {
            std::mem::swap(&mut self.parts, &mut right.parts);
        }
        self.parts.append(&mut right.parts);
        self.last = right.last;
        Ok(Joined::One(self))
    }
}
