//! A set of small numbers, a bit each.
//!
//! Column sets and sets of scans are both this. Sets of up to 128 members live inline.

use smallvec::SmallVec;

/// A bit set without trailing zero words, so that equal sets compare equal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Bits {
    words: SmallVec<[u64; 2]>,
}

impl Bits {
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(crate) fn len(&self) -> u32 {
        self.words.iter().map(|w| w.count_ones()).sum()
    }

    pub(crate) fn contains(&self, bit: usize) -> bool {
        self.words
            .get(bit / 64)
            .is_some_and(|w| w >> (bit % 64) & 1 == 1)
    }

    pub(crate) fn insert(&mut self, bit: usize) {
        if self.words.len() <= bit / 64 {
            self.words.resize(bit / 64 + 1, 0);
        }
        self.words[bit / 64] |= 1 << (bit % 64);
    }

    pub(crate) fn remove(&mut self, bit: usize) {
        if let Some(word) = self.words.get_mut(bit / 64) {
            *word &= !(1 << (bit % 64));
            self.trim();
        }
    }

    pub(crate) fn set(&mut self, bit: usize, on: bool) {
        if on {
            self.insert(bit);
        } else {
            self.remove(bit);
        }
    }

    pub(crate) fn is_subset(&self, other: &Self) -> bool {
        self.words.len() <= other.words.len()
            && self
                .words
                .iter()
                .zip(&other.words)
                .all(|(a, b)| a & !b == 0)
    }

    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// The size of the intersection.
    pub(crate) fn len_and(&self, other: &Self) -> u32 {
        self.words
            .iter()
            .zip(&other.words)
            .map(|(a, b)| (a & b).count_ones())
            .sum()
    }

    /// Whether three sets share a member.
    pub(crate) fn intersects3(&self, b: &Self, c: &Self) -> bool {
        self.words
            .iter()
            .zip(&b.words)
            .zip(&c.words)
            .any(|((a, b), c)| a & b & c != 0)
    }

    pub(crate) fn union_with(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            *a |= b;
        }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let words = self
            .words
            .iter()
            .zip(&other.words)
            .map(|(a, b)| a & b)
            .collect();
        let mut set = Self { words };
        set.trim();
        set
    }

    pub(crate) fn difference(&self, other: &Self) -> Self {
        let mut words = self.words.clone();
        for (a, b) in words.iter_mut().zip(&other.words) {
            *a &= !b;
        }
        let mut set = Self { words };
        set.trim();
        set
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            std::iter::successors((word != 0).then_some(word), |w| {
                let rest = w & (w - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |w| at * 64 + w.trailing_zeros() as usize)
        })
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl FromIterator<usize> for Bits {
    fn from_iter<I: IntoIterator<Item = usize>>(bits: I) -> Self {
        let mut set = Self::default();
        for bit in bits {
            set.insert(bit);
        }
        set
    }
}

impl std::fmt::Debug for Bits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
