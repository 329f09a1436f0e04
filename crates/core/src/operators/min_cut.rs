//! Which nodes of a graph have to be removed, at the least cost, so that no cycle with a costly
//! node leads through the first node?
//!
//! Idea: such a set is a cut between the node and itself. By the theorem of Ford and Fulkerson the
//! minimum cut costs as much as the maximum flow, which is found by augmenting the shortest path
//! with free capacity (Edmonds and Karp). The capacity of a node with a cost is its cost; other
//! nodes carry any flow.
//!
//! Not here: what nodes are, and what they cost (`waits.rs`).
//! Bounds: with n costly nodes, at most n augmentations per node; each is linear in the edges.

use std::collections::VecDeque;

/// The capacity of a node without a cost: more than any cut costs.
const ENDLESS: u64 = u64::MAX / 2;

/// An arc of the residual graph; flipping the lowest bit of its number gives the reverse arc.
struct Arc {
    to: usize,
    left: u64,
}

/// A flow network.
struct Network {
    arcs: Vec<Arc>,
    /// The arcs that leave each vertex.
    leaving: Vec<Vec<usize>>,
}

/// The cheapest set of costly nodes whose removal breaks all cycles through node 0 that contain a
/// costly node. `edges`: for each node, its successors. Node 0 has no cost.
pub(super) fn min_cut(costs: &[Option<u64>], edges: &[Vec<usize>]) -> Vec<usize> {
    let mut back = vec![Vec::new(); costs.len()];
    for (from, to) in edges.iter().enumerate() {
        for to in to {
            back[*to].push(from);
        }
    }
    // A cycle in which no node has a cost is left alone. So the flow begins where a path from node
    // 0 meets its first costly node, and ends after its last.
    let (begin, end) = (without_cost(costs, edges), without_cost(costs, &back));
    let (source, sink) = (2 * costs.len(), 2 * costs.len() + 1);
    let mut network = Network {
        arcs: Vec::new(),
        leaving: (0..=sink).map(|_| Vec::new()).collect(),
    };
    // A node is two vertices, one for the flow in and one for the flow out.
    for (node, cost) in costs.iter().enumerate() {
        network.add(2 * node, 2 * node + 1, cost.unwrap_or(ENDLESS));
        for to in &edges[node] {
            let from = if begin[node] { source } else { 2 * node + 1 };
            match (cost, costs[*to]) {
                // An edge before the first costly node, or after the last.
                (None, None) if begin[node] || end[*to] => {}
                (Some(_), None) if end[*to] => network.add(2 * node + 1, sink, ENDLESS),
                _ => network.add(from, 2 * *to, ENDLESS),
            }
        }
    }
    while network.augment(source, sink) {}
    let reached = network.reached(source);
    let cut = |node: &usize| reached[2 * node].is_some() && reached[2 * node + 1].is_none();
    (0..costs.len()).filter(cut).collect()
}

/// The nodes that node 0 reaches without passing a costly node.
fn without_cost(costs: &[Option<u64>], edges: &[Vec<usize>]) -> Vec<bool> {
    let mut found = vec![false; costs.len()];
    let mut to_visit = vec![0];
    while let Some(node) = to_visit.pop() {
        if costs[node].is_none() && !std::mem::replace(&mut found[node], true) {
            to_visit.extend(&edges[node]);
        }
    }
    found
}

impl Network {
    fn add(&mut self, from: usize, to: usize, left: u64) {
        self.leaving[from].push(self.arcs.len());
        self.arcs.push(Arc { to, left });
        self.leaving[to].push(self.arcs.len());
        self.arcs.push(Arc { to: from, left: 0 });
    }

    /// For each vertex that more flow can reach, the first arc that reaches it (for the source:
    /// any number).
    fn reached(&self, source: usize) -> Vec<Option<usize>> {
        let mut by = vec![None; self.leaving.len()];
        by[source] = Some(usize::MAX);
        let mut to_visit = VecDeque::from([source]);
        while let Some(vertex) = to_visit.pop_front() {
            for number in &self.leaving[vertex] {
                let arc = &self.arcs[*number];
                if arc.left > 0 && by[arc.to].is_none() {
                    by[arc.to] = Some(*number);
                    to_visit.push_back(arc.to);
                }
            }
        }
        by
    }

    /// Adds the flow that the shortest path can carry; `false` if there is no path.
    fn augment(&mut self, source: usize, sink: usize) -> bool {
        let by = self.reached(source);
        let mut path = Vec::new();
        let mut vertex = sink;
        while vertex != source {
            let Some(arc) = by[vertex] else { return false };
            path.push(arc);
            vertex = self.arcs[arc ^ 1].to;
        }
        let least = path.iter().map(|arc| self.arcs[*arc].left).min();
        let least = least.unwrap_or_default();
        for arc in path {
            self.arcs[arc].left -= least;
            self.arcs[arc ^ 1].left += least;
        }
        least > 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The nodes that `from` reaches by at least one edge, without passing the nodes in `cut`.
    fn after(edges: &[Vec<usize>], from: usize, cut: &[usize]) -> Vec<bool> {
        let mut found = vec![false; edges.len()];
        let mut to_visit = edges[from].clone();
        while let Some(node) = to_visit.pop() {
            if !cut.contains(&node) && !std::mem::replace(&mut found[node], true) {
                to_visit.extend(&edges[node]);
            }
        }
        found
    }

    /// Whether a costly node that is not in `cut` is in a cycle with node 0.
    fn has_cycle(costs: &[Option<u64>], edges: &[Vec<usize>], cut: &[usize]) -> bool {
        let from_first = after(edges, 0, cut);
        (0..costs.len())
            .any(|node| costs[node].is_some() && from_first[node] && after(edges, node, cut)[0])
    }

    fn cost(costs: &[Option<u64>], cut: &[usize]) -> u64 {
        cut.iter()
            .map(|node| costs[*node].expect("it has a cost"))
            .sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Compared with all sets of nodes.
        #[test]
        fn nothing_cheaper_breaks_all_cycles(
            costs in vec(proptest::option::weighted(0.6, 1_u64..20), 8),
            edges in vec(vec(0_usize..8, 0..4), 8),
        ) {
            let costs: Vec<_> = [None].into_iter().chain(costs.into_iter().skip(1)).collect();
            let cut = min_cut(&costs, &edges);
            prop_assert!(!has_cycle(&costs, &edges, &cut));
            let of_cost: Vec<usize> = (0..8).filter(|node| costs[*node].is_some()).collect();
            let sets = (0..1_usize << of_cost.len()).map(|mask| {
                let picked = of_cost.iter().enumerate();
                let picked = picked.filter(|(bit, _)| mask >> bit & 1 == 1);
                picked.map(|(_, node)| *node).collect::<Vec<usize>>()
            });
            let least = sets.filter(|set| !has_cycle(&costs, &edges, set));
            let least = least.map(|set| cost(&costs, &set)).min();
            prop_assert_eq!(Some(cost(&costs, &cut)), least);
        }
    }
}
