//! Promised: a table's pieces are spread evenly over the nodes, as a naive transcription of
//! rendezvous hashing with bounded loads places them; a node that joins or leaves moves little
//! more than its share; the nodes of a query on P nodes are among those of one on 2P.

use coscan_core::placement::{NodeOrder, Piece, degree, key};
use proptest::prelude::*;

/// How much may move between the other nodes when one joins or leaves, as a part of all bytes:
/// what their bounds displace.
const DISPLACED: f64 = 0.1;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("10.0.0.{at}:50051")).collect()
}

fn order(names: &[String]) -> NodeOrder {
    NodeOrder::new(names.iter().map(String::as_str))
}

fn pieces(seed: u64, sizes: &[u64]) -> Vec<Piece> {
    let sizes = sizes.iter().enumerate();
    let piece = |(at, bytes): (usize, &u64)| Piece {
        key: key(format!("{seed}/{at}").as_bytes()),
        bytes: *bytes,
    };
    sizes.map(piece).collect()
}

/// The nodes' names by piece.
fn homes<'a>(names: &'a [String], pieces: &[Piece], count: usize) -> Vec<&'a str> {
    let order = order(names);
    let nodes: Vec<usize> = order.first(count).collect();
    let placed = order.place(pieces, count);
    placed.iter().map(|at| names[nodes[*at]].as_str()).collect()
}

/// The same, written down from the definition: every piece, in the order of keys, goes through all
/// nodes from the one that wants it most, and stays with the first that has room.
fn naive<'a>(names: &'a [String], pieces: &[Piece]) -> Vec<&'a str> {
    fn mixed(bits: u64) -> u64 {
        let a = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let b = (a ^ (a >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let c = (b ^ (b >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        c ^ (c >> 31)
    }
    let total: u64 = pieces.iter().map(|piece| piece.bytes).sum();
    let largest = pieces.iter().map(|piece| piece.bytes).max().unwrap_or(0);
    let mean = total.div_ceil(names.len() as u64);
    let bound = mean + (mean / 4).max(largest);
    let mut loads = vec![0; names.len()];
    let mut homes = vec![""; pieces.len()];
    let mut turns: Vec<usize> = (0..pieces.len()).collect();
    turns.sort_by_key(|at| pieces[*at].key);
    for at in turns {
        let mut wanted: Vec<usize> = (0..names.len()).collect();
        let score = |node: &usize| mixed(key(names[*node].as_bytes()) ^ mixed(pieces[at].key));
        wanted.sort_by_key(|node| std::cmp::Reverse(score(node)));
        let room = |node: &&usize| loads[**node] + pieces[at].bytes <= bound;
        let home = *wanted.iter().find(room).expect("room");
        loads[home] += pieces[at].bytes;
        homes[at] = names[home].as_str();
    }
    homes
}

/// The part of the bytes whose home differs.
fn moved(pieces: &[Piece], before: &[&str], after: &[&str]) -> f64 {
    let differs = pieces.iter().zip(before.iter().zip(after));
    let differs = differs.filter(|(_, (before, after))| before != after);
    let bytes: u64 = differs.map(|(piece, _)| piece.bytes).sum();
    let total: u64 = pieces.iter().map(|piece| piece.bytes).sum();
    bytes as f64 / total.max(1) as f64
}

proptest! {
    #[test]
    fn pieces_are_where_the_definition_puts_them(
        seed: u64,
        nodes in 1_usize..12,
        sizes in prop::collection::vec(0_u64..50, 0..120),
    ) {
        let (names, pieces) = (names(nodes), pieces(seed, &sizes));
        prop_assert_eq!(homes(&names, &pieces, nodes), naive(&names, &pieces));
    }

    #[test]
    fn no_node_has_more_than_its_bound(
        seed: u64,
        nodes in 1_usize..12,
        sizes in prop::collection::vec(1_u64..50, 1..200),
    ) {
        let (names, pieces) = (names(nodes), pieces(seed, &sizes));
        let homes = homes(&names, &pieces, nodes);
        let total: u64 = sizes.iter().sum();
        let largest = sizes.iter().max().copied().unwrap_or(0);
        let mean = total.div_ceil(nodes as u64);
        for name in &names {
            let mine = homes.iter().zip(&sizes).filter(|(home, _)| *home == name);
            let mine: u64 = mine.map(|(_, bytes)| bytes).sum();
            prop_assert!(mine <= mean + (mean / 4).max(largest), "{} of {}", mine, mean);
        }
    }

    #[test]
    fn the_order_of_the_lists_is_of_no_account(
        seed: u64,
        nodes in 1_usize..10,
        turned in 0_usize..10,
        sizes in prop::collection::vec(1_u64..50, 1..100),
    ) {
        let (mut names, mut pieces) = (names(nodes), pieces(seed, &sizes));
        let before: Vec<String> = homes(&names, &pieces, nodes).iter().map(|&n| n.to_owned()).collect();
        names.rotate_left(turned % nodes);
        pieces.reverse();
        let mut after = homes(&names, &pieces, nodes);
        after.reverse();
        prop_assert_eq!(before, after);
    }

    #[test]
    fn nodes_of_a_narrow_query_are_among_those_of_a_wider_one(nodes in 1_usize..40, narrow in 1_usize..20) {
        let order = order(&names(nodes));
        let few: Vec<usize> = order.first(narrow).collect();
        let many: Vec<usize> = order.first(narrow * 2).collect();
        prop_assert_eq!(few.len(), narrow.min(nodes));
        prop_assert_eq!(&many[..few.len()], &few[..]);
    }

    #[test]
    fn a_query_takes_powers_of_two_or_all_nodes(
        bytes in 0_u64..1 << 44,
        per_node in 1_u64..1 << 30,
        nodes in 1_usize..100,
    ) {
        let taken = degree(bytes, per_node, nodes);
        prop_assert!(taken == nodes || taken.is_power_of_two() && taken < nodes);
        let enough = u128::from(per_node) * taken as u128 >= u128::from(bytes);
        prop_assert!(enough || taken == nodes);
        let half = u128::from(per_node) * (taken as u128 / 2);
        prop_assert!(taken == 1 || half < u128::from(bytes), "half of the nodes are enough");
    }
}

/// The pieces of a table of 512 chunks, which differ in size as the last row groups of files do.
fn table(seed: u64) -> Vec<Piece> {
    let sizes: Vec<u64> = (0..512)
        .map(|at| if at % 16 == 0 { 5 } else { 16 })
        .collect();
    pieces(seed, &sizes)
}

#[test]
fn a_node_that_joins_moves_little_more_than_its_share() {
    for (seed, nodes) in (0..40).flat_map(|seed| [3, 4, 8, 16].map(|nodes| (seed, nodes))) {
        let (pieces, names) = (table(seed), names(nodes + 1));
        let before = homes(&names[..nodes], &pieces, nodes);
        let after = homes(&names, &pieces, nodes + 1);
        let share = 1.0 / (nodes + 1) as f64;
        let moved = moved(&pieces, &before, &after);
        assert!(
            moved <= share + DISPLACED,
            "{moved} of {share} at {nodes} nodes, seed {seed}"
        );
        assert!(
            moved >= share / 2.0,
            "the new node has work: {moved}, seed {seed}"
        );
    }
}

#[test]
fn a_query_on_twice_the_nodes_finds_half_of_the_pieces_where_they_were() {
    for (seed, narrow) in (0..40).flat_map(|seed| [1, 2, 4, 8].map(|narrow| (seed, narrow))) {
        let (pieces, names) = (table(seed), names(16));
        let before = homes(&names, &pieces, narrow);
        let after = homes(&names, &pieces, narrow * 2);
        let moved = moved(&pieces, &before, &after);
        assert!(
            moved <= 0.5 + DISPLACED,
            "{moved} at {narrow} nodes, seed {seed}"
        );
    }
}
