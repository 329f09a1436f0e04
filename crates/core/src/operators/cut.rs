//! The cheapest nodes without which no cycle leads through the first node of a graph.
//!
//! Idea: such a set is a cut between the node and itself. By the theorem of Ford and Fulkerson the
//! least cut costs as much as the greatest flow, which is found by augmenting the shortest path
//! that is not full (Edmonds and Karp). A node of a cost carries at most its cost, others any flow.
//!
//! Not here: what nodes are, and what they cost (`waits.rs`).
//! Bounds: with n nodes of a cost, at most n augmentations for each node; each is linear in the
//! edges.

use std::collections::VecDeque;

/// More than any cut costs.
const ENDLESS: u64 = u64::MAX / 2;

/// An arc of the residual graph; its reverse is the arc of the number with the lowest bit changed.
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

/// The cheapest set of nodes that have a cost, without which no cycle with such a node leads
/// through node 0. `edges`: for each node those that it leads to. Node 0 has no cost.
pub(super) fn least_cut(costs: &[Option<u64>], edges: &[Vec<usize>]) -> Vec<usize> {
    let mut back = vec![Vec::new(); costs.len()];
    for (from, to) in edges.iter().enumerate() {
        for to in to {
            back[*to].push(from);
        }
    }
    // Cycles without a node of a cost stay. So the flow begins where such a node is met first, and
    // ends where none is left to meet.
    let (begin, end) = (without_cost(costs, edges), without_cost(costs, &back));
    let (source, sink) = (2 * costs.len(), 2 * costs.len() + 1);
    let mut network = Network {
        arcs: Vec::new(),
        leaving: (0..=sink).map(|_| Vec::new()).collect(),
    };
    // A node is two vertices: what flows in, and what flows out.
    for (node, cost) in costs.iter().enumerate() {
        network.add(2 * node, 2 * node + 1, cost.unwrap_or(ENDLESS));
        for to in &edges[node] {
            let from = if begin[node] { source } else { 2 * node + 1 };
            match (cost, costs[*to]) {
                // Where the flow has not met a cost yet, or will meet none any more.
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

/// The nodes that node 0 leads to without meeting a node of a cost.
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

    /// For each vertex that more could flow to, the arc by which it is reached first (the source:
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

    /// Lets as much flow as the shortest path carries; `false`: there is none.
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

    /// The nodes that `from` leads to by at least one edge, without the nodes in `cut`.
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

    /// Whether a node of a cost that is not in `cut` is in a cycle with node 0.
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

        /// Against all sets of nodes.
        #[test]
        fn nothing_cheaper_breaks_all_cycles(
            costs in vec(proptest::option::weighted(0.6, 1_u64..20), 8),
            edges in vec(vec(0_usize..8, 0..4), 8),
        ) {
            let costs: Vec<_> = [None].into_iter().chain(costs.into_iter().skip(1)).collect();
            let cut = least_cut(&costs, &edges);
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
