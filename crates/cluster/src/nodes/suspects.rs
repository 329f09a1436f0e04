//! Which nodes were lost lately?
//!
//! A node that a query has lost gets no part of the next ones, until it has answered again. One
//! that is lost soon after it was back is asked later and later.
//! A node may report the loss of another: either that one is gone, or the connection between both
//! is cut. The other one is left out, and asked at once. If it answers, and is the same process as
//! before, the connection is cut, and the reporter is left out in its place.
//! Bounds: three entries for each node of the list that has ever answered.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use coscan::parts::LostNode;
use parking_lot::Mutex;
use url::Url;

use super::name;

/// How long after a node was lost, or was asked in vain, it is asked again.
const ASKED_AFTER: Duration = Duration::from_secs(1);
/// The same for a node that is lost again and again: each time doubles it, up to this.
const ASKED_AFTER_MAX: Duration = Duration::from_secs(64);
/// For how long a loss counts when there is a new one.
const REMEMBERED: Duration = Duration::from_secs(150);
const _: () = assert!(
    REMEMBERED.as_secs() > 2 * ASKED_AFTER_MAX.as_secs(),
    "the longest wait grows no shorter by itself"
);

/// The nodes that get no parts.
#[derive(Debug, Default)]
pub(crate) struct Suspects(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// By name.
    lost: HashMap<String, Suspect>,
    /// When a node was back, and how often it had been lost; by name.
    back: HashMap<String, (Instant, u32)>,
    /// The processes that have answered last; by name.
    processes: HashMap<String, String>,
}

/// What is known of a node that was lost.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    pub(crate) reason: String,
    /// When it was lost.
    pub(crate) since: Instant,
    /// From when on it is asked.
    ask_at: Instant,
    /// How often it was lost, each time soon after it was back.
    losses: u32,
    /// Another node that has reported the loss, and is the only one that has noticed.
    reported_by: Option<String>,
}

impl Suspect {
    fn ask_later(&mut self) {
        self.ask_at = Instant::now() + self.asked_after();
    }

    fn asked_after(&self) -> Duration {
        let factor = 1_u32.checked_shl(self.losses.saturating_sub(1));
        let after = factor.map_or(ASKED_AFTER_MAX, |factor| ASKED_AFTER.saturating_mul(factor));
        after.min(ASKED_AFTER_MAX)
    }
}

impl Known {
    fn lost(&mut self, node: &str, reason: &str) {
        let now = Instant::now();
        if let Some(suspect) = self.lost.get_mut(node) {
            suspect.ask_later();
            suspect.reported_by = None;
            reason.clone_into(&mut suspect.reason);
            return;
        }
        log::warn!("node {node} is lost: {reason}");
        let before = self.back.remove(node);
        let lately = before.filter(|(back, _)| back.elapsed() < REMEMBERED);
        let mut suspect = Suspect {
            reason: reason.to_owned(),
            since: now,
            ask_at: now,
            losses: lately.map_or(1, |(_, losses)| losses.saturating_add(1)),
            reported_by: None,
        };
        suspect.ask_later();
        self.lost.insert(node.to_owned(), suspect);
    }
}

impl Suspects {
    /// Notes that a node was lost, or has another version.
    pub(crate) fn lost(&self, node: &str, reason: &str) {
        self.0.lock().lost(node, reason);
    }

    /// Notes that the node `by` reports the loss of another.
    pub(crate) fn reported(&self, by: &str, lost: &LostNode) {
        let LostNode { node, reason } = lost;
        let mut known = self.0.lock();
        let is_known = |node: &str| known.lost.contains_key(node);
        if is_known(node) || is_known(by) || !known.processes.contains_key(node) {
            return;
        }
        known.lost(node, &format!("node {by} does not reach it: {reason}"));
        if let Some(suspect) = known.lost.get_mut(node) {
            suspect.reported_by = Some(by.to_owned());
            suspect.ask_at = Instant::now();
        }
    }

    /// Notes that a node has answered, which is this process.
    pub(crate) fn answered(&self, node: &str, process: &str) {
        let mut known = self.0.lock();
        let before = known.processes.insert(node.to_owned(), process.to_owned());
        let Some(suspect) = known.lost.remove(node) else {
            return;
        };
        log::info!("node {node} answers again");
        let reporter = suspect.reported_by.as_ref();
        let reporter = reporter.filter(|_| before.as_deref() == Some(process));
        if let Some(reporter) = reporter {
            known.lost(reporter, &format!("it does not reach node {node}"));
        }
        let back = (Instant::now(), suspect.losses);
        // It was well all the while.
        if reporter.is_none() {
            known.back.insert(node.to_owned(), back);
        }
    }

    /// The nodes that were not lost.
    pub(crate) fn without(&self, all: &[Url]) -> Vec<Url> {
        let known = self.0.lock();
        let is_present = |url: &&Url| !known.lost.contains_key(name(url));
        all.iter().filter(is_present).cloned().collect()
    }

    /// Forgets the nodes that are not among these.
    pub(crate) fn keep(&self, all: &[Url]) {
        let listed: HashSet<&str> = all.iter().map(name).collect();
        let mut known = self.0.lock();
        known.lost.retain(|node, _| listed.contains(node.as_str()));
        known.back.retain(|node, _| listed.contains(node.as_str()));
        let processes = &mut known.processes;
        processes.retain(|node, _| listed.contains(node.as_str()));
    }

    /// What is known of a node, if it was lost.
    pub(crate) fn known(&self, node: &str) -> Option<Suspect> {
        self.0.lock().lost.get(node).cloned()
    }

    /// Whether a lost node should be asked now. The caller that gets `true` asks it.
    pub(crate) fn is_to_be_asked(&self, node: &str) -> bool {
        let mut known = self.0.lock();
        match known.lost.get_mut(node) {
            Some(suspect) if suspect.ask_at <= Instant::now() => {
                suspect.ask_later();
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "10.0.0.1:1";
    const SECOND: &str = "10.0.0.2:1";

    fn all() -> [Url; 2] {
        [FIRST, SECOND].map(|node| Url::parse(&format!("http://{node}")).unwrap())
    }

    #[test]
    fn a_lost_node_is_left_out_until_it_answers() {
        let (all, suspects) = (all(), Suspects::default());
        suspects.lost(FIRST, "silent");
        assert_eq!(suspects.without(&all), all[1..]);
        assert!(!suspects.is_to_be_asked(FIRST), "it was just lost");
        assert!(!suspects.is_to_be_asked(SECOND), "it was not lost");
        suspects.lost(SECOND, "silent");
        assert!(suspects.without(&all).is_empty());
        suspects.answered(FIRST, "a");
        assert_eq!(suspects.without(&all), all[..1]);
        suspects.lost(SECOND, "another version");
        assert_eq!(suspects.known(SECOND).unwrap().reason, "another version");
    }

    #[test]
    fn nodes_that_are_gone_are_forgotten() {
        let (all, suspects) = (all(), Suspects::default());
        for node in [FIRST, SECOND] {
            suspects.answered(node, "a");
            suspects.lost(node, "reset");
        }
        suspects.keep(&all[1..]);
        assert!(suspects.known(FIRST).is_none());
        assert!(suspects.known(SECOND).is_some());
        let known = suspects.0.lock();
        assert_eq!(known.processes.len(), 1);
    }

    #[test]
    fn a_node_that_is_lost_again_and_again_is_asked_later() {
        let suspects = Suspects::default();
        let asked_after = [1, 2, 4, 8, 16, 32, 64, 64].map(Duration::from_secs);
        for after in asked_after {
            suspects.lost(FIRST, "reset");
            suspects.lost(FIRST, "reset");
            assert_eq!(suspects.known(FIRST).unwrap().asked_after(), after);
            suspects.answered(FIRST, "a");
        }
    }

    #[test]
    fn of_a_report_one_node_is_left_out() {
        let (all, suspects) = (all(), Suspects::default());
        let lost = |node: &str| LostNode {
            node: node.to_owned(),
            reason: "reset".to_owned(),
        };
        suspects.reported(FIRST, &lost("10.0.0.9:9"));
        suspects.reported(FIRST, &lost(SECOND));
        assert_eq!(suspects.without(&all), all, "neither has answered ever");
        suspects.answered(FIRST, "a");
        suspects.answered(SECOND, "b");

        // Both ends of one connection report it.
        suspects.reported(FIRST, &lost(SECOND));
        suspects.reported(SECOND, &lost(FIRST));
        assert_eq!(suspects.without(&all), all[..1]);
        assert!(suspects.is_to_be_asked(SECOND), "at once");
        assert!(!suspects.is_to_be_asked(SECOND), "but once");
        suspects.answered(SECOND, "b");
        assert_eq!(suspects.without(&all), all[1..], "the connection is cut");
        assert!(suspects.known(FIRST).unwrap().reason.contains(SECOND));
        suspects.answered(FIRST, "a");

        // The process at its address is another one.
        suspects.reported(FIRST, &lost(SECOND));
        suspects.answered(SECOND, "c");
        assert_eq!(suspects.without(&all), all);

        // This process has lost it, too.
        suspects.reported(FIRST, &lost(SECOND));
        suspects.lost(SECOND, "reset");
        suspects.answered(SECOND, "c");
        assert_eq!(suspects.without(&all), all);
    }
}
