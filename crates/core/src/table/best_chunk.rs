//! How is the best chunk of a set found without examining every chunk?
//!
//! Idea: branch and bound. Blocks hold 64 chunks, branches hold 64 blocks, and every node knows
//! which scans are interested in any of its chunks, which in all of them, and the smallest and the
//! largest interest count. These bound the score of the best chunk below a node, so nodes are
//! opened in the order of their bounds and most nodes are never opened. Where scans announce
//! ranges, neighbouring chunks are alike and a bound is exact. Where the ranges are full of holes a
//! bound is loose, but still skips most of the table.
//!
//! Not here: scores (the policies give the bound and the score).
//! Bounds: a change of one chunk costs at most 64 chunks and 64 blocks; a search costs at least all
//! branches and in the worst case all chunks. Finding the chunk that most of an arbitrary subset of
//! scans want is a maximum-inner-product search, for which nothing better is known. Measured by
//! `benches/decision.rs`, 64 scans × 100,000 chunks, p99 of a whole decision: ranges 8 to 9 µs,
//! ranges with a quarter of the chunks removed at random 26 to 27 µs.
//! ABM-I9: the summary of a node is exactly that of its chunks.

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::ChunkId;
use crate::bits::Bits;
use crate::table::interest::{Interest, Member};

/// Chunks per block and blocks per branch: the bits of a word.
const FAN: u32 = 64;
/// With at most this many branches a delivery visits them in order; with more, starting at the
/// best branch saves more than finding it costs.
const BRANCHES_IN_ORDER: usize = 4;

/// Which slots are interested in the chunks below a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Slots interested in some chunk.
    pub(crate) any: Bits,
    /// Slots interested in every chunk.
    pub(crate) all: Bits,
    /// The largest number of slots interested in one chunk.
    pub(crate) most: u32,
    /// The smallest number of slots interested in one chunk.
    pub(crate) least: u32,
}

impl Summary {
    fn of(member: Member<'_>) -> Self {
        Self {
            any: member.slots.clone(),
            all: member.slots.clone(),
            most: member.count,
            least: member.count,
        }
    }

    fn add_member(&mut self, member: Member<'_>) {
        self.any.union_with(member.slots);
        self.all.intersect_with(member.slots);
        self.most = self.most.max(member.count);
        self.least = self.least.min(member.count);
    }

    fn add(&mut self, other: &Self) {
        self.any.union_with(&other.any);
        self.all.intersect_with(&other.all);
        self.most = self.most.max(other.most);
        self.least = self.least.min(other.least);
    }

    /// Removes a slot's interest in one chunk below, in which `count` other slots are interested.
    /// `others`: whether the slot is interested in further chunks below. `counts`: the largest
    /// numbers of slots after the change.
    fn lose(&mut self, slot: usize, others: bool, count: u32, counts: impl Iterator<Item = u32>) {
        self.any.set(slot, others);
        self.all.remove(slot);
        self.least = self.least.min(count);
        if self.most == count + 1 {
            self.most = counts.max().unwrap_or(0);
        }
    }

    fn of_all<'a>(mut parts: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let mut sum = parts.next()?.clone();
        parts.for_each(|part| sum.add(part));
        Some(sum)
    }

    fn of_members(base: u32, members: u64, interest: &Interest) -> Option<Self> {
        let mut members = bits_of(members).map(|bit| interest.member(ChunkId(base + bit)));
        let mut sum = Self::of(members.next()?);
        members.for_each(|member| sum.add_member(member));
        Some(sum)
    }

    /// Whether the same slots are interested in every chunk below.
    fn is_uniform(&self) -> bool {
        self.any == self.all
    }

    /// An upper bound on how many of `slots` are interested in one chunk.
    pub(crate) fn at_most(&self, slots: &Bits) -> u32 {
        let others = self.all.len_minus(slots);
        self.any.len_and(slots).min(self.most - others)
    }

    /// A lower bound on how many of `slots` are interested in each chunk.
    pub(crate) fn at_least(&self, slots: &Bits) -> u32 {
        let others = self.any.len_minus(slots);
        self.all
            .len_and(slots)
            .max(self.least.saturating_sub(others))
    }
}

#[derive(Debug)]
struct Block {
    /// One bit per chunk. Not 0.
    members: u64,
    summary: Summary,
}

#[derive(Debug)]
struct Branch {
    /// One bit per block that has members. Not 0.
    present: u64,
    /// The blocks of these bits, ascending.
    blocks: Vec<Block>,
    summary: Summary,
}

impl Branch {
    fn rank(&self, at: u32) -> usize {
        (self.present & ((1 << at) - 1)).count_ones() as usize
    }

    /// [`ChunkTree::least_wanted`] among the chunks of this branch. `first_block` is the number of
    /// its first block.
    fn least_wanted(
        &self,
        first_block: u32,
        best: &mut Option<(u32, ChunkId)>,
        slot: usize,
        interest: &Interest,
    ) {
        let beaten = |least: u32, block: u32, best: &Option<(u32, ChunkId)>| {
            best.is_some_and(|best| best <= (least, ChunkId(block * FAN)))
        };
        let none = !self.summary.any.contains(slot);
        if none || beaten(self.summary.least, first_block, best) {
            return;
        }
        for (block, node) in bits_of(self.present).zip(&self.blocks) {
            let number = first_block + block;
            let mask = node.members & interest.chunks_of(number, slot);
            if mask != 0 && !beaten(node.summary.least, number, best) {
                let least = interest.least_of(number, mask);
                if !beaten(least, number, best) {
                    let chunks = bits_of(mask).map(|bit| ChunkId(number * FAN + bit));
                    let found = chunks.map(|chunk| (interest.count(chunk), chunk)).min();
                    *best = (*best).into_iter().chain(found).min();
                }
            }
        }
    }

    fn refresh(&mut self) {
        if let Some(summary) = Summary::of_all(self.blocks.iter().map(|block| &block.summary)) {
            self.summary = summary;
        }
    }
}

/// The chunks that a search examines.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Among<'a> {
    All,
    /// All chunks, by a score that also depends on the chunk itself.
    Each,
    /// Chunks that this slot needs.
    Slot(usize),
    /// Chunks that one of these slots needs.
    Slots(&'a Bits),
}

impl Among<'_> {
    /// Whether such chunks can be below a node.
    fn may_be_in(self, node: &Summary) -> bool {
        match self {
            Self::All | Self::Each => true,
            Self::Slot(slot) => node.any.contains(slot),
            Self::Slots(slots) => node.any.intersects(slots),
        }
    }

    /// Which of the block's 64 chunks are such chunks, one bit each.
    fn of_block(self, block: u32, interest: &Interest) -> u64 {
        match self {
            Self::All | Self::Each => u64::MAX,
            Self::Slot(slot) => interest.chunks_of(block, slot),
            Self::Slots(slots) => interest.of_block(block, slots),
        }
    }
}

/// A set of chunks as a tree whose nodes bound what is below them.
#[derive(Debug, Default)]
pub(crate) struct ChunkTree {
    /// Branches that have members, by number. Stored contiguously: every search scans the whole
    /// array.
    branches: Vec<(u32, Branch)>,
    len: usize,
}

impl ChunkTree {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The position of a branch, or where it has to be inserted.
    fn position(&self, branch: u32) -> Result<usize, usize> {
        self.branches.binary_search_by_key(&branch, |&(at, _)| at)
    }

    /// Adds a chunk that is not in the set. `interest` covers every chunk of the table.
    pub(crate) fn insert(&mut self, chunk: ChunkId, interest: &Interest) {
        let (branch, block, bit) = place(chunk);
        let member = interest.member(chunk);
        self.len += 1;
        let at = self.position(branch).unwrap_or_else(|at| {
            let fresh = Branch {
                present: 0,
                blocks: Vec::new(),
                summary: Summary::of(member),
            };
            self.branches.insert(at, (branch, fresh));
            at
        });
        let branch = &mut self.branches[at].1;
        branch.summary.add_member(member);
        let at = branch.rank(block);
        if branch.present >> block & 1 == 1 {
            let block = &mut branch.blocks[at];
            block.members |= 1 << bit;
            block.summary.add_member(member);
        } else {
            branch.present |= 1 << block;
            let block = Block {
                members: 1 << bit,
                summary: Summary::of(member),
            };
            branch.blocks.insert(at, block);
        }
    }

    /// Removes a chunk that is in the set.
    pub(crate) fn remove(&mut self, chunk: ChunkId, interest: &Interest) {
        let (at_branch, at_block, bit) = place(chunk);
        let Ok(at_branch) = self.position(at_branch) else {
            return;
        };
        let branch = &mut self.branches[at_branch].1;
        self.len -= 1;
        let at = branch.rank(at_block);
        let block = &mut branch.blocks[at];
        block.members &= !(1 << bit);
        let base = chunk.0 - bit;
        if block.members == 0 {
            branch.blocks.remove(at);
            branch.present &= !(1 << at_block);
        } else if block.summary.is_uniform() {
            return;
        } else if let Some(fresh) = Summary::of_members(base, block.members, interest) {
            if fresh == block.summary {
                return;
            }
            block.summary = fresh;
        }
        if branch.present == 0 {
            self.branches.remove(at_branch);
        } else if !branch.summary.is_uniform() {
            branch.refresh();
        }
    }

    /// A slot's interest in a chunk of the set has ended.
    pub(crate) fn drop_interest(&mut self, chunk: ChunkId, slot: usize, interest: &Interest) {
        let (at_branch, at_block, _) = place(chunk);
        let Ok(at_branch) = self.position(at_branch) else {
            return;
        };
        let branch = &mut self.branches[at_branch].1;
        let at = branch.rank(at_block);
        let block = &mut branch.blocks[at];
        let Member { count, .. } = interest.member(chunk);
        let others = interest.chunks_of(chunk.0 / FAN, slot) & block.members != 0;
        let members = bits_of(block.members).map(|bit| ChunkId(chunk.0 / FAN * FAN + bit));
        let counts = members.map(|member| interest.count(member));
        block.summary.lose(slot, others, count, counts);
        let others = branch.blocks.iter().any(|b| b.summary.any.contains(slot));
        let counts = branch.blocks.iter().map(|block| block.summary.most);
        branch.summary.lose(slot, others, count, counts);
    }

    /// The interest in chunks of these blocks (chunk number / 64, ascending) has changed.
    pub(crate) fn refresh(&mut self, blocks: &[u32], interest: &Interest) {
        for of_branch in blocks.chunk_by(|a, b| a / FAN == b / FAN) {
            let Ok(at_branch) = self.position(of_branch[0] / FAN) else {
                continue;
            };
            let branch = &mut self.branches[at_branch].1;
            for number in of_branch {
                let at = branch.rank(number % FAN);
                let block = &mut branch.blocks[at];
                let fresh = Summary::of_members(number * FAN, block.members, interest);
                block.summary = fresh.expect("a block has members");
            }
            branch.refresh();
        }
    }

    /// The chunks, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.branches.iter().flat_map(|&(at, ref branch)| {
            let blocks = bits_of(branch.present).zip(&branch.blocks);
            blocks.flat_map(move |(block, members)| {
                let base = (at * FAN + block) * FAN;
                bits_of(members.members).map(move |bit| ChunkId(base + bit))
            })
        })
    }

    /// Replaces `best` if a chunk at or after `from` scores more, or as much with a lower id.
    ///
    /// `bound`: no chunk below the node scores more; `None`: no chunk below counts. `score`:
    /// `None` if the chunk does not count, or if its score is known to be below the best one
    /// found, which is passed in. Apart from that the score must depend on the interest alone,
    /// except with `Each`.
    pub(crate) fn search<S: Ord + Copy>(
        &self,
        best: &mut Option<(S, ChunkId)>,
        from: ChunkId,
        interest: &Interest,
        among: Among<'_>,
        bound: impl Fn(&Summary) -> Option<S>,
        score: impl Fn(Member<'_>, Option<S>) -> Option<S>,
    ) {
        let (from_branch, from_block, _) = place(from);
        let first = self.position(from_branch).unwrap_or_else(|at| at);
        let branches = self.branches[first..].iter();
        let branches = branches.map(|(at, branch)| (at * FAN * FAN, &branch.summary, branch));
        let branches = branches.filter(|(_, summary, _)| among.may_be_in(summary));
        let (mut open_branches, mut open_blocks) = (Open::new(), Open::new());
        open(&mut open_branches, *best, branches, &bound);
        for &(limit, base, branch) in &open_branches {
            if !beats(limit, base, *best) {
                break;
            }
            let blocks = bits_of(branch.present).zip(&branch.blocks);
            let blocks = blocks
                .map(|(at, block)| (base + at * FAN, block))
                .filter(|&(first, _)| first >= (from_branch * FAN + from_block) * FAN)
                .filter_map(|(first, block)| {
                    let members = block.members & among.of_block(first / FAN, interest);
                    (members != 0).then_some((first, &block.summary, (block, members)))
                });
            open(&mut open_blocks, *best, blocks, &bound);
            for (limit, base, (block, members)) in open_blocks.drain(..) {
                if !beats(limit, base, *best) {
                    break;
                }
                let uniform = !matches!(among, Among::Each) && block.summary.is_uniform();
                let chunks = bits_of(members).map(|bit| ChunkId(base + bit));
                for chunk in chunks.filter(|&chunk| chunk >= from) {
                    let so_far = best.map(|(score, _)| score);
                    let Some(score) = score(interest.member(chunk), so_far) else {
                        continue;
                    };
                    if beats(score, chunk.0, *best) {
                        *best = Some((score, chunk));
                    }
                    if uniform {
                        break;
                    }
                }
            }
        }
    }

    /// Replaces `best` if a chunk that the slot needs is needed by fewer scans, or by as many with
    /// a lower id.
    /// Equivalent to [`Self::search`] with the negated count as score, but faster. A scan gets
    /// first the chunks that the fewest scans need, so the least-wanted chunks of the region that
    /// it has passed are chunks that it does not need itself, and the bounds exclude little. Most
    /// blocks are opened, so opening a block has to be cheap.
    pub(crate) fn least_wanted(
        &self,
        best: &mut Option<(u32, ChunkId)>,
        slot: usize,
        interest: &Interest,
    ) {
        let leads = (self.branches.len() > BRANCHES_IN_ORDER).then(|| {
            let needed = self.branches.iter().enumerate();
            let needed = needed.filter(|(_, (_, branch))| branch.summary.any.contains(slot));
            needed.min_by_key(|(_, (_, branch))| branch.summary.least)
        });
        let lead = leads.flatten().map(|(at, _)| at);
        let rest = (0..self.branches.len()).filter(|&at| Some(at) != lead);
        for at in lead.into_iter().chain(rest) {
            let (at, branch) = &self.branches[at];
            branch.least_wanted(at * FAN, best, slot, interest);
        }
    }

    /// Asserts ABM-I9.
    pub(crate) fn check(&self, interest: &Interest) {
        assert_eq!(self.len, self.iter().count());
        for (at, branch) in &self.branches {
            assert_eq!(branch.present.count_ones() as usize, branch.blocks.len());
            for (block, node) in bits_of(branch.present).zip(&branch.blocks) {
                let base = (at * FAN + block) * FAN;
                let fresh = Summary::of_members(base, node.members, interest);
                assert_eq!(fresh.as_ref(), Some(&node.summary), "ABM-I9");
            }
            let fresh = Summary::of_all(branch.blocks.iter().map(|block| &block.summary));
            assert_eq!(fresh.as_ref(), Some(&branch.summary), "ABM-I9");
        }
    }
}

/// Nodes still to be opened: bound, first chunk, node. The type is large, so it is passed by
/// reference.
type Open<S, N> = SmallVec<[(S, u32, N); 32]>;

/// Adds the nodes that could hold a better chunk, best bound first.
fn open<'a, S: Ord + Copy, N>(
    open: &mut Open<S, N>,
    best: Option<(S, ChunkId)>,
    nodes: impl Iterator<Item = (u32, &'a Summary, N)>,
    bound: &impl Fn(&Summary) -> Option<S>,
) {
    let bounded = nodes.filter_map(|(first, summary, node)| Some((bound(summary)?, first, node)));
    open.extend(bounded.filter(|&(limit, first, _)| beats(limit, first, best)));
    open.sort_by_key(|&(limit, ..)| Reverse(limit));
}

fn beats<S: Ord + Copy>(score: S, first: u32, best: Option<(S, ChunkId)>) -> bool {
    best.is_none_or(|(most, chunk)| score > most || score == most && first < chunk.0)
}

/// The branch, the block in the branch and the chunk in the block.
fn place(chunk: ChunkId) -> (u32, u32, u32) {
    let block = chunk.0 / FAN;
    (block / FAN, block % FAN, chunk.0 % FAN)
}

fn bits_of(word: u64) -> impl Iterator<Item = u32> {
    std::iter::successors((word != 0).then_some(word), |w| {
        let rest = w & (w - 1);
        (rest != 0).then_some(rest)
    })
    .map(u64::trailing_zeros)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const CHUNKS: u32 = 6_000;

    /// (chunk, whether it becomes a member, the slots interested in it, how many of these interests
    /// end afterwards).
    type Change = (u32, bool, BTreeSet<usize>, usize);

    fn change() -> impl Strategy<Value = Change> {
        let chunk = prop_oneof![0u32..200, 4_000u32..4_200, 0u32..CHUNKS];
        (
            chunk,
            any::<bool>(),
            prop::collection::btree_set(0usize..140, 0..6),
            0usize..4,
        )
    }

    proptest! {
        #[test]
        fn finds_what_an_exhaustive_search_finds(
            changes in prop::collection::vec(change(), 1..300),
            slots in prop::collection::btree_set(0usize..140, 0..80),
            from in 0u32..CHUNKS,
        ) {
            let slots: Bits = slots.into_iter().collect();
            let mut interest = Interest::default();
            (0..CHUNKS).for_each(|_| interest.push());
            let (mut set, mut model) = (ChunkTree::default(), BTreeSet::new());
            for (chunk, member, interested, lost) in changes {
                if model.remove(&chunk) {
                    set.remove(ChunkId(chunk), &interest);
                }
                for slot in 0..140 {
                    interest.set(ChunkId(chunk), slot, interested.contains(&slot));
                }
                if member {
                    set.insert(ChunkId(chunk), &interest);
                    model.insert(chunk);
                    for slot in interested.into_iter().take(lost) {
                        interest.set(ChunkId(chunk), slot, false);
                        set.drop_interest(ChunkId(chunk), slot, &interest);
                    }
                }
            }
            set.check(&interest);
            interest.check();
            prop_assert!(set.iter().map(|c| c.0).eq(model.iter().copied()));

            for from in [0, from] {
                let count = |chunk: u32| interest.slots(ChunkId(chunk)).len_and(&slots);
                let members = || model.range(from..).copied();
                let most = members().map(|c| (count(c), Reverse(c))).max();
                let mut best = None;
                set.search(
                    &mut best,
                    ChunkId(from),
                    &interest,
                    Among::All,
                    |node| Some(node.at_most(&slots)),
                    |member, _| Some(member.slots.len_and(&slots)),
                );
                prop_assert_eq!(best, most.map(|(n, Reverse(c))| (n, ChunkId(c))));

                let least = members().filter(|&c| count(c) > 0).map(|c| (count(c), c)).min();
                let mut best = None;
                set.search(
                    &mut best,
                    ChunkId(from),
                    &interest,
                    Among::Slots(&slots),
                    |node| Some(Reverse(node.at_least(&slots))),
                    |member, _| Some(Reverse(member.slots.len_and(&slots))),
                );
                prop_assert_eq!(best, least.map(|(n, c)| (Reverse(n), ChunkId(c))));
            }
        }
    }
}
