//! How busy are the nodes, as far as they have said?
//!
//! A query that needs several nodes is planned when they have said how busy they are now; one that
//! needs a single node does not wait for that, but has them asked. What a node has said counts for
//! [`GOOD_FOR`]. A node that does not say it in time, or cannot, is silent about its load. One that
//! did not answer in time is asked less often, because a query waits for that in vain.
//! Queries take turns to ask: one that comes while nodes are asked waits for the same answers.
//! Not here: what follows from it (`coscan_core::parallelism::nodes`, `chosen.rs`).
//! Bounds: an entry for each node of the list that was asked; a node is asked once in
//! [`ASKED_AFTER`] at most, and a turn takes at most [`ANSWERED_WITHIN`].

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use coscan_core::parallelism::nodes::{Candidate, ClusterLoad, NodeReport, Why};
use parking_lot::Mutex;
use tokio::sync;
use url::Url;

use super::name;

/// Queries that come together are planned by one report: they share what they read.
pub(super) const ASKED_AFTER: Duration = Duration::from_millis(100);

/// The same for a query that does not wait for the answer, and for a node that has not answered.
pub(super) const ASKED_LATER: Duration = Duration::from_secs(1);

/// How long a query waits for reports. An answer takes a millisecond, and a large query seconds.
pub(super) const ANSWERED_WITHIN: Duration = Duration::from_millis(200);

/// For how long a report counts.
const GOOD_FOR: Duration = Duration::from_secs(3);

/// What nodes have said, and what follows.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    known: Mutex<Known>,
    /// Who has it asks nodes.
    turn: sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    /// By name: when the node was asked, or has answered that.
    asked: HashMap<String, Instant>,
    /// Those that did not answer in time when they were asked last.
    late: HashSet<String>,
    /// By name: what the node said last, and when.
    said: HashMap<String, (Instant, NodeReport)>,
    load: ClusterLoad,
}

impl Known {
    fn report(&self, node: &str) -> Option<NodeReport> {
        let (at, report) = self.said.get(node)?;
        (at.elapsed() < GOOD_FOR).then_some(*report)
    }

    fn is_due(&self, node: &str, within: Duration) -> bool {
        let within = if self.late.contains(node) {
            within.max(ASKED_LATER)
        } else {
            within
        };
        let asked = self.asked.get(node);
        asked.is_none_or(|asked| asked.elapsed() >= within)
    }
}

impl Loads {
    /// Waits for the turn to ask nodes, which one query has at a time.
    pub(super) async fn turn(&self) -> sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Whether some of the nodes should be asked now, if they were not in this time.
    pub(super) fn are_due(&self, nodes: &[Url], within: Duration) -> bool {
        let known = self.known.lock();
        nodes.iter().any(|node| known.is_due(name(node), within))
    }

    /// Whether a node should be asked now, if it was not in this time. The caller that gets `true`
    /// asks it.
    pub(super) fn is_to_be_asked(&self, node: &str, within: Duration) -> bool {
        let mut known = self.known.lock();
        let is_due = known.is_due(node, within);
        if is_due {
            known.asked.insert(node.to_owned(), Instant::now());
        }
        is_due
    }

    /// Notes that a node has answered, or has not in time.
    pub(super) fn was_asked(&self, node: &str, is_late: bool) {
        let mut known = self.known.lock();
        known.asked.insert(node.to_owned(), Instant::now());
        if is_late {
            known.late.insert(node.to_owned());
        } else {
            known.late.remove(node);
        }
    }

    /// Notes what a node has said.
    pub(super) fn said(&self, node: &str, report: NodeReport) {
        let said = (Instant::now(), report);
        self.known.lock().said.insert(node.to_owned(), said);
    }

    /// What a node has said lately.
    pub(crate) fn report(&self, node: &str) -> Option<NodeReport> {
        self.known.lock().report(node)
    }

    /// The nodes of these that have memory for parts, after a reading of all; if none has, all.
    pub(super) fn with_memory(&self, all: &[Url]) -> Vec<Url> {
        let mut known = self.known.lock();
        let names = all.iter().map(name);
        let reports: Vec<_> = names.map(|node| (node, known.report(node))).collect();
        known.load.measured(reports);
        let has_memory = |url: &&Url| known.load.has_memory(name(url));
        let found: Vec<Url> = all.iter().filter(has_memory).cloned().collect();
        if found.is_empty() {
            all.to_vec()
        } else {
            found
        }
    }

    /// How many nodes a query has that wants so many, and why.
    pub(super) fn degree(&self, wanted: usize) -> (usize, Why) {
        self.known.lock().load.degree(wanted)
    }

    /// The place of the first node that a narrow query has; see [`ClusterLoad::block`]. `ordered`
    /// are nodes in their order, each with the bytes of what the query needs that are its.
    pub(super) fn block<'a>(
        &self,
        degree: usize,
        ordered: impl Iterator<Item = (&'a str, u64)>,
    ) -> usize {
        let known = self.known.lock();
        let candidates = ordered.map(|(node, needed_bytes)| Candidate {
            report: known.report(node),
            needed_bytes,
        });
        let candidates: Vec<Candidate> = candidates.collect();
        known.load.block(degree, &candidates)
    }

    /// Forgets the nodes that are not among these.
    pub(super) fn keep(&self, all: &[Url]) {
        let listed: HashSet<&str> = all.iter().map(name).collect();
        let mut known = self.known.lock();
        known.asked.retain(|node, _| listed.contains(node.as_str()));
        known.said.retain(|node, _| listed.contains(node.as_str()));
        known.late.retain(|node| listed.contains(node.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_asked_now_and_then_and_forgotten_with_the_list() {
        let loads = Loads::default();
        let all = ["a:1", "b:1"].map(|node| Url::parse(&format!("http://{node}")).unwrap());
        let hour = Duration::from_secs(3_600);
        assert!(loads.is_to_be_asked("a:1", hour));
        assert!(!loads.is_to_be_asked("a:1", hour), "it was just asked");
        assert!(loads.is_to_be_asked("a:1", Duration::ZERO));
        assert!(loads.is_to_be_asked("b:1", hour));
        assert!(!loads.are_due(&all, hour));
        loads.was_asked("a:1", true);
        assert!(!loads.is_to_be_asked("a:1", Duration::ZERO), "it is late");
        assert!(!loads.are_due(&all[..1], Duration::ZERO), "it is late");
        assert!(loads.are_due(&all, Duration::ZERO), "the other is not");
        loads.was_asked("a:1", false);
        assert!(loads.is_to_be_asked("a:1", Duration::ZERO));
        loads.was_asked("b:1", true);
        let full = NodeReport {
            tasks: 0,
            processors: 1,
            device_permille: 0,
            free_permille: 0,
        };
        loads.said("b:1", full);
        assert_eq!(loads.report("a:1"), None);
        assert_eq!(loads.report("b:1"), Some(full));
        assert_eq!(loads.with_memory(&all), all[..1]);
        loads.said("a:1", full);
        assert_eq!(loads.with_memory(&all), all, "none has memory");
        loads.keep(&all[..1]);
        assert_eq!(loads.report("b:1"), None);
        assert!(loads.known.lock().late.is_empty());
        assert!(loads.is_to_be_asked("b:1", hour));
    }
}
