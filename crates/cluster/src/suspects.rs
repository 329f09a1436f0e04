//! Which nodes were lost lately?
//!
//! A node that a query has lost gets no part of the next ones, until it has answered again.
//! Bounds: an entry for each node.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use url::Url;

use crate::nodes;

/// How long after a node was lost, or was asked in vain, it is asked again.
const ASKED_AFTER: Duration = Duration::from_secs(1);

/// The nodes that were lost, by name.
#[derive(Debug, Default)]
pub(crate) struct Suspects(Mutex<HashMap<String, Suspect>>);

/// What is known of a node that was lost.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    pub(crate) reason: String,
    /// When it was lost.
    pub(crate) since: Instant,
    /// When it was lost, or asked last.
    seen: Instant,
}

impl Suspects {
    /// Notes that a node was lost.
    pub(crate) fn lost(&self, node: &str, reason: &str) {
        let now = Instant::now();
        let mut suspects = self.0.lock();
        if let Some(known) = suspects.get_mut(node) {
            known.seen = now;
            return;
        }
        log::warn!("node {node} is left out until it answers: {reason}");
        let suspect = Suspect {
            reason: reason.to_owned(),
            since: now,
            seen: now,
        };
        suspects.insert(node.to_owned(), suspect);
    }

    /// Notes that a node has answered.
    pub(crate) fn answered(&self, node: &str) {
        if self.0.lock().remove(node).is_some() {
            log::info!("node {node} answers again");
        }
    }

    /// The nodes that were not lost; all of them if all were.
    pub(crate) fn without(&self, all: &[Url]) -> Vec<Url> {
        let suspects = self.0.lock();
        let is_present = |url: &&Url| !suspects.contains_key(nodes::name(url));
        let present: Vec<Url> = all.iter().filter(is_present).cloned().collect();
        if present.is_empty() {
            return all.to_vec();
        }
        present
    }

    /// What is known of a node, if it was lost.
    pub(crate) fn known(&self, node: &str) -> Option<Suspect> {
        self.0.lock().get(node).cloned()
    }

    /// Whether it is time to ask a node that was lost; whoever is told so asks it.
    pub(crate) fn is_to_be_asked(&self, node: &str) -> bool {
        let mut suspects = self.0.lock();
        match suspects.get_mut(node) {
            Some(suspect) if suspect.seen.elapsed() >= ASKED_AFTER => {
                suspect.seen = Instant::now();
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_node_is_left_out_until_it_answers() {
        let all = ["http://10.0.0.1:1", "http://10.0.0.2:1"].map(|url| Url::parse(url).unwrap());
        let suspects = Suspects::default();
        suspects.lost("10.0.0.1:1", "silent");
        assert_eq!(suspects.without(&all), all[1..]);
        assert!(!suspects.is_to_be_asked("10.0.0.1:1"), "it was just lost");
        assert!(!suspects.is_to_be_asked("10.0.0.2:1"), "it was not lost");
        suspects.lost("10.0.0.2:1", "silent");
        assert_eq!(suspects.without(&all), all, "nobody is left");
        suspects.answered("10.0.0.1:1");
        assert_eq!(suspects.without(&all), all[..1]);
    }
}
