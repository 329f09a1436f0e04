//! On how many nodes of a cluster does a query run now, and on which?
//!
//! Idea: the controller's rule, one level up. A query that runs alone has as many nodes as its size
//! asks for, and the more queries want the processors, the fewer nodes each has: what the others
//! leave. The nodes report the tasks that run or wait for their turn. With eight tasks for each
//! processor, about eight queries that compute at once, a query has half of its nodes, and each
//! doubling halves them once more, so that each node has fewer parts and fewer rows are exchanged.
//! Not sooner: narrow queries find less in memory (below), which costs more than parts save while
//! queries are few (`lab/sim/tests/nodes.rs`). Halves, because the nodes of all queries are then
//! blocks of one order.
//! A busy device is no reason for fewer nodes: each node reads by a device or a link of its own. It
//! is a reason against: a query on half of its nodes reads there what the other half may have in
//! memory, up to as much again. Only devices that are idle for half of the time have room for that.
//! A node whose operators hold nearly all of its memory gets no part of a query.
//! What counts is the mean of the nodes, as a query waits for all of its nodes. Each bound has a
//! lower one at which a decision is taken back, so that the degree does not flap.
//! Not here: the degree that a query's size asks for ([`crate::placement::degree`]), how nodes
//! report (the cluster), from how many devices a scan reads on a node (`mod.rs`).
//! Bounds: O(nodes) for each reading and each decision.
//! DEGREE-I1: a query has a whole block, whose nodes are among those of a block of twice as many,
//! or of all nodes. DEGREE-I2: a query has at least one node, and no more than it wants.
//! Source: [RahmStohr94 §2, §5]; we differ: on one machine the degree changes while a scan runs; a
//! plan for several nodes is divided once.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;

/// From so many tasks for each processor on, a query has half of its nodes; from twice as many on a
/// quarter. Thousandths. With two or four, eight streams of the simulator take from a tenth longer
/// to twice as long as with the best fixed degree.
const NARROWER_PERMILLE: u64 = 8_000;

/// Below so many tasks for each processor it has all of them again. Thousandths.
const WIDER_PERMILLE: u64 = 6_000;

/// The most halvings: of more nodes than a cluster has.
const HALVINGS_MAX: u32 = 16;

/// Devices in use for more of the time keep queries wide: a narrow query reads up to twice as much,
/// and they have no time for that. Thousandths.
const DEVICE_BUSY_PERMILLE: u64 = 500;

/// Devices in use for less of the time no longer keep queries wide. Thousandths.
const DEVICE_FREE_PERMILLE: u64 = 400;

/// A node with less free memory gets no part: the next operator would be refused. Thousandths.
const SHORT_PERMILLE: u32 = 50;

/// With so much free memory it gets parts again. Thousandths.
const ROOMY_PERMILLE: u32 = 150;

/// What a node says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Tasks of queries that run or wait for their turn.
    pub tasks: u32,
    /// The processors that run them.
    pub processors: u32,
    /// Utilisation of the node's busiest device. Thousandths.
    pub device_permille: u32,
    /// The part of what operators can have at most that is free for them. Thousandths.
    pub free_permille: u32,
}

impl NodeReport {
    /// Tasks for each processor. Thousandths.
    fn tasks_permille(&self) -> u64 {
        u64::from(self.tasks) * 1_000 / u64::from(self.processors.max(1))
    }
}

/// A node that may get a part of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What it said last; `None` if it is silent about its load.
    pub report: Option<NodeReport>,
    /// How many bytes of what the query needs are read there by queries on all nodes.
    pub needed_bytes: u64,
}

/// Why a query has as many nodes as it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its size asks for so many.
    Size,
    /// Nodes have so many tasks for each processor, in thousandths, so it has fewer.
    Tasks(u64),
    /// Nodes have so many tasks for each processor, in thousandths, but their devices are busy.
    Devices(u64),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = |permille: u64| (permille / 1_000, permille % 1_000 / 100);
        match *self {
            Self::Size => f.write_str("by size"),
            Self::Tasks(permille) => {
                let (whole, tenths) = tenths(permille);
                write!(f, "{whole}.{tenths} tasks per processor")
            }
            Self::Devices(permille) => {
                let (whole, tenths) = tenths(permille);
                write!(
                    f,
                    "by size: {whole}.{tenths} tasks per processor, but busy devices"
                )
            }
        }
    }
}

/// What is known of a cluster's load, and what was decided by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterLoad {
    /// The mean of the nodes' tasks for each processor. Thousandths.
    tasks_permille: u64,
    /// How often the nodes of a query are halved. At most [`HALVINGS_MAX`].
    halvings: u32,
    devices_busy: bool,
    /// The nodes without memory.
    short: BTreeSet<String>,
}

impl ClusterLoad {
    /// Takes a reading of all nodes, by their names. A node that says nothing is taken to be as
    /// busy as the others, and to have memory.
    pub fn measured<'a>(&mut self, nodes: impl IntoIterator<Item = (&'a str, Option<NodeReport>)>) {
        let mut known = vec![];
        let mut short = BTreeSet::new();
        for (node, report) in nodes {
            let Some(report) = report else { continue };
            let was_short = self.short.contains(node);
            let bound = if was_short {
                ROOMY_PERMILLE
            } else {
                SHORT_PERMILLE
            };
            if report.free_permille < bound {
                short.insert(node.to_owned());
            }
            known.push(report);
        }
        self.short = short;
        self.tasks_permille = mean(known.iter().map(NodeReport::tasks_permille));
        let devices = known.iter().map(|report| u64::from(report.device_permille));
        self.devices_busy = match mean(devices) {
            busy if busy > DEVICE_BUSY_PERMILLE => true,
            free if free < DEVICE_FREE_PERMILLE => false,
            _ => self.devices_busy,
        };
        let tasks = self.tasks_permille;
        while self.halvings < HALVINGS_MAX && tasks >= NARROWER_PERMILLE << self.halvings {
            self.halvings += 1;
        }
        while self.halvings > 0 && tasks < WIDER_PERMILLE << (self.halvings - 1) {
            self.halvings -= 1;
        }
    }

    /// Whether a node has memory for a part.
    #[must_use]
    pub fn has_memory(&self, node: &str) -> bool {
        !self.short.contains(node)
    }

    /// How many nodes a query has that wants so many, and why.
    #[must_use]
    pub fn degree(&self, wanted: usize) -> (usize, Why) {
        let narrow = halved(wanted, self.halvings);
        if narrow == wanted {
            (wanted, Why::Size)
        } else if self.devices_busy {
            (wanted, Why::Devices(self.tasks_permille))
        } else {
            (narrow, Why::Tasks(self.tasks_permille))
        }
    }

    /// The first node of the block of `degree` nodes that a narrowed query has: the block with the
    /// fewest tasks; of equals the one that has most of what the query needs. `nodes` are in their
    /// order.
    #[must_use]
    pub fn block(&self, degree: usize, nodes: &[Candidate]) -> usize {
        let degree = degree.max(1);
        let blocks = nodes.chunks_exact(degree).enumerate();
        let rated = blocks.map(|(at, block)| {
            let tasks: u64 = block.iter().map(|node| self.whole_tasks(node)).sum();
            let needed = block.iter().map(|node| node.needed_bytes);
            let needed = needed.fold(0, u64::saturating_add);
            (tasks, Reverse(needed), at * degree)
        });
        rated.min().map_or(0, |(_, _, first)| first)
    }

    /// A node's tasks for each processor, without their fraction: so little is no difference.
    fn whole_tasks(&self, node: &Candidate) -> u64 {
        let report = node.report.as_ref();
        report.map_or(self.tasks_permille, NodeReport::tasks_permille) / 1_000
    }

    /// Checks the bounds between which the state stays as it is.
    ///
    /// # Panics
    /// If a decision stands that the last reading takes back.
    pub fn check(&self) {
        let up = NARROWER_PERMILLE << self.halvings;
        assert!(
            self.tasks_permille < up || self.halvings == HALVINGS_MAX,
            "a busy cluster has narrow queries"
        );
        if let Some(last) = self.halvings.checked_sub(1) {
            let down = WIDER_PERMILLE << last;
            assert!(
                self.tasks_permille >= down,
                "an idle cluster has wide queries"
            );
        }
    }
}

/// The mean of numbers; 0 of none.
fn mean(numbers: impl Iterator<Item = u64>) -> u64 {
    let (sum, count) = numbers.fold((0_u64, 0_u64), |(sum, count), number| {
        (sum.saturating_add(number), count + 1)
    });
    sum / count.max(1)
}

/// Half of a number of nodes so many times: a power of two, and at least one node of some.
fn halved(wanted: usize, halvings: u32) -> usize {
    if halvings == 0 {
        return wanted;
    }
    match (wanted >> halvings).checked_ilog2() {
        Some(power) => 1 << power,
        None => wanted.min(1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDLE: NodeReport = NodeReport {
        tasks: 0,
        processors: 4,
        device_permille: 0,
        free_permille: 1_000,
    };
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

    fn measured(load: &mut ClusterLoad, reports: &[NodeReport]) {
        let reports = reports.iter().map(|report| Some(*report));
        load.measured(NAMES.into_iter().zip(reports));
        load.check();
    }

    fn with_tasks(tasks: u32) -> [NodeReport; 8] {
        [NodeReport { tasks, ..IDLE }; 8]
    }

    fn nodes_of(load: &mut ClusterLoad, tasks: u32) -> usize {
        measured(load, &with_tasks(tasks));
        load.degree(8).0
    }

    #[test]
    fn an_idle_cluster_has_wide_queries() {
        let mut load = ClusterLoad::default();
        assert_eq!(load.degree(8), (8, Why::Size), "nothing is known");
        assert_eq!(nodes_of(&mut load, 0), 8);
        assert_eq!(nodes_of(&mut load, 31), 8, "a few others");
        assert_eq!(load.degree(1), (1, Why::Size), "a short query has one node");
        assert_eq!(load.degree(3), (3, Why::Size));
        assert_eq!(load.degree(0), (0, Why::Size));
    }

    #[test]
    fn busy_processors_make_queries_narrower() {
        let mut load = ClusterLoad::default();
        for (tasks, nodes) in [(32, 4), (64, 2), (128, 1), (9_999, 1)] {
            assert_eq!(nodes_of(&mut load, tasks), nodes, "{tasks} tasks");
        }
        measured(&mut load, &with_tasks(42));
        assert_eq!(load.degree(8), (4, Why::Tasks(10_500)));
        assert_eq!(load.degree(1).0, 1);
        assert_eq!(load.degree(3).0, 1, "blocks are powers of two");
        assert_eq!(load.degree(6).0, 2);
        let why = Why::Tasks(10_500).to_string();
        assert_eq!(why, "10.5 tasks per processor");
    }

    #[test]
    fn a_load_that_goes_to_and_fro_changes_nothing() {
        let mut load = ClusterLoad::default();
        assert_eq!(nodes_of(&mut load, 32), 4);
        for tasks in [28, 36, 24, 32, 28, 60] {
            assert_eq!(nodes_of(&mut load, tasks), 4, "{tasks} tasks");
        }
        assert_eq!(nodes_of(&mut load, 23), 8);
        for tasks in [28, 20, 31] {
            assert_eq!(nodes_of(&mut load, tasks), 8, "{tasks} tasks");
        }
    }

    #[test]
    fn what_waits_for_devices_stays_wide() {
        let mut load = ClusterLoad::default();
        let on_device = |device_permille: u32, tasks: u32| {
            [NodeReport {
                tasks,
                device_permille,
                ..IDLE
            }; 8]
        };
        measured(&mut load, &on_device(1_000, 0));
        assert_eq!(load.degree(8), (8, Why::Size), "each node has a device");
        measured(&mut load, &on_device(600, 64));
        assert_eq!(load.degree(8), (8, Why::Devices(16_000)));
        measured(&mut load, &on_device(450, 64));
        assert_eq!(load.degree(8).0, 8, "in between: as it is");
        measured(&mut load, &on_device(300, 64));
        assert_eq!(load.degree(8), (2, Why::Tasks(16_000)));
        measured(&mut load, &on_device(450, 64));
        assert_eq!(load.degree(8).0, 2, "in between: as it is");
    }

    #[test]
    fn a_node_without_memory_gets_no_part() {
        let mut load = ClusterLoad::default();
        let mut reports = with_tasks(0);
        let has = |load: &ClusterLoad| NAMES.map(|node| load.has_memory(node));
        assert_eq!(has(&load), [true; 8], "nothing is known");
        for (free, has_memory) in [(60, true), (40, false), (100, false), (150, true)] {
            reports[2].free_permille = free;
            measured(&mut load, &reports);
            assert_eq!(has(&load)[2], has_memory, "{free} thousandths");
            assert!(has(&load)[3]);
        }
        reports[2].free_permille = 0;
        measured(&mut load, &reports);
        load.measured(NAMES.map(|node| (node, None)));
        assert_eq!(has(&load), [true; 8], "they have fallen silent");
    }

    #[test]
    fn a_narrow_query_runs_where_fewer_do() {
        let mut load = ClusterLoad::default();
        let mut reports = with_tasks(48);
        for report in &mut reports[4..6] {
            report.tasks = 16;
        }
        measured(&mut load, &reports);
        let mut nodes = reports.map(|report| Candidate {
            report: Some(report),
            needed_bytes: 0,
        });
        assert_eq!(load.degree(8), (4, Why::Tasks(10_000)));
        assert_eq!(load.block(4, &nodes), 4);
        assert_eq!(load.block(2, &nodes), 4);
        nodes[5].needed_bytes = 1;
        assert_eq!(load.block(1, &nodes), 5, "what it needs is in memory there");
        nodes[3].report = None;
        assert_eq!(load.block(4, &nodes), 4, "silent: as busy as the others");
        assert_eq!(load.block(2, &nodes[..3]), 0, "only whole blocks");
    }

    proptest! {
        /// DEGREE-I1, DEGREE-I2, whatever nodes say.
        #[test]
        fn nodes_at_a_degree_are_among_those_at_twice(
            readings in prop::collection::vec(
                prop::collection::vec((0_u32..64, 0_u32..4, 0_u32..1_100, 0_u32..1_000), 8),
                1..8,
            ),
            wanted in 1_usize..=8,
        ) {
            let mut load = ClusterLoad::default();
            let mut nodes = vec![];
            for reading in readings {
                let reports: Vec<NodeReport> = reading
                    .into_iter()
                    .map(|(tasks, processors, device_permille, free_permille)| NodeReport {
                        tasks,
                        processors,
                        device_permille,
                        free_permille,
                    })
                    .collect();
                measured(&mut load, &reports);
                let candidate = |report: &NodeReport| Candidate {
                    report: Some(*report),
                    needed_bytes: u64::from(report.free_permille),
                };
                nodes = reports.iter().map(candidate).collect();
            }
            let (degree, _) = load.degree(wanted);
            prop_assert!((1..=wanted).contains(&degree), "DEGREE-I2");
            prop_assert!(degree == wanted || degree.is_power_of_two(), "DEGREE-I1");
            if degree < wanted {
                let first = load.block(degree, &nodes);
                let twice = first / (2 * degree) * 2 * degree;
                prop_assert_eq!(first % degree, 0, "DEGREE-I1");
                prop_assert!(first + degree <= nodes.len(), "DEGREE-I2");
                prop_assert!(twice <= first && first + degree <= twice + 2 * degree, "DEGREE-I1");
            }
        }
    }
}
