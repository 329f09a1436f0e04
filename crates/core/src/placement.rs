//! Which nodes of a cluster work on a query, and which of them reads a chunk?
//!
//! Idea: rendezvous hashing. Each pair of a node and a piece of a table has a score, and a piece
//! belongs to the node with the highest one. All queries thus meet at a piece on the same node,
//! whose memory serves the whole cluster, and a node that joins or leaves moves only the pieces
//! that it wins or loses. Plain rendezvous hashing is uneven where there are few pieces, so a node
//! has a bound: a piece goes to the node with the highest score among those with room.
//! The nodes have one order for all tables, because the scans of one stage run on the same nodes.
//! A query on P nodes runs on the first P, so that its nodes are among those of a query on 2P.
//! Not here: the pieces of a table (the engine); how many nodes a query has while nodes are busy,
//! and which (`parallelism/nodes.rs`).
//! Bounds: O(pieces × nodes) for each table.
//! PLACE-I1: a piece is on one node. PLACE-I2: no node has more bytes of a table than its bound.
//! PLACE-I3: the placement depends on the pieces and on the set of nodes, not on the order in
//! which either are listed.
//! Sources: rendezvous hashing (Thaler, Ravishankar 1998), bounded loads (Mirrokni et al. 2016).

/// The part of the mean, as a divisor, by which a node's bytes may exceed the mean. With less, a
/// node that joins moves more pieces between other nodes; with more, the slowest node is later.
const SLACK: u128 = 4;

/// A piece of a table that one node reads: a chunk, or the chunks of one row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Identifies the piece on every node: a [`key`] of its file and place.
    pub key: u64,
    /// Its size on disk.
    pub bytes: u64,
}

/// The nodes of a cluster in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeOrder {
    /// The keys and the positions in the caller's list, by key.
    nodes: Vec<(u64, usize)>,
}

impl NodeOrder {
    /// The order of the nodes with these names.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let keyed = names.into_iter().enumerate();
        let mut nodes: Vec<(u64, usize, &str)> = keyed
            .map(|(at, name)| (key(name.as_bytes()), at, name))
            .collect();
        // The names decide between equal keys, so that the list's order does not.
        nodes.sort_unstable_by_key(|(key, _, name)| (*key, *name));
        Self {
            nodes: nodes.into_iter().map(|(key, at, _)| (key, at)).collect(),
        }
    }

    /// The number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The nodes of a query on `count` nodes: their positions in the list that [`NodeOrder::new`]
    /// was given.
    pub fn first(&self, count: usize) -> impl Iterator<Item = usize> + '_ {
        self.nodes.iter().take(count).map(|(_, at)| *at)
    }

    /// For each piece its node, as a position in [`NodeOrder::first`] of `count`.
    ///
    /// # Panics
    /// If there are pieces and no nodes.
    #[must_use]
    pub fn place(&self, pieces: &[Piece], count: usize) -> Vec<usize> {
        let nodes = &self.nodes[..count.min(self.nodes.len())];
        assert!(
            !nodes.is_empty() || pieces.is_empty(),
            "PLACE-I1: a piece needs a node"
        );
        let most = bound(pieces, nodes.len());
        let mut loads = vec![0_u128; nodes.len()];
        let mut placed = vec![0; pieces.len()];
        let mut turns: Vec<usize> = (0..pieces.len()).collect();
        turns.sort_unstable_by_key(|at| (pieces[*at].key, pieces[*at].bytes));
        for at in turns {
            let piece = pieces[at];
            let bytes = u128::from(piece.bytes);
            let with_room = (0..nodes.len()).filter(|node| loads[*node] + bytes <= most);
            let best = with_room.max_by_key(|node| (score(nodes[*node].0, piece.key), *node));
            let best = best.expect("PLACE-I2: the least loaded node has room");
            loads[best] += bytes;
            placed[at] = best;
        }
        placed
    }
}

/// The most bytes of a table that a node may have: the mean and some slack, and at least a whole
/// piece above the mean, so that some node always has room.
fn bound(pieces: &[Piece], nodes: usize) -> u128 {
    let total: u128 = pieces.iter().map(|piece| u128::from(piece.bytes)).sum();
    let largest = pieces.iter().map(|piece| piece.bytes).max().unwrap_or(0);
    let mean = total.div_ceil(nodes.max(1) as u128);
    mean + (mean / SLACK).max(u128::from(largest))
}

/// On how many nodes a query runs that reads so many bytes: the least power of two with which no
/// node reads more than `bytes_per_node`, or all nodes.
#[must_use]
pub fn degree(bytes: u64, bytes_per_node: u64, nodes: usize) -> usize {
    let wanted = bytes.div_ceil(bytes_per_node.max(1)).max(1);
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    match wanted.checked_next_power_of_two() {
        Some(power) => power.min(nodes),
        None => nodes,
    }
}

/// A key of a name: FNV-1a, mixed. The same on every machine and in every version.
#[must_use]
pub fn key(name: &[u8]) -> u64 {
    let folded = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mixed(folded)
}

/// How much a node wants a piece.
fn score(node: u64, piece: u64) -> u64 {
    mixed(node ^ mixed(piece))
}

/// The finalizer of `SplitMix64`.
fn mixed(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
