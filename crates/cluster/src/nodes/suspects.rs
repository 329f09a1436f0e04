//! Which nodes were lost lately?
//!
//! A node that a query has lost gets no part of the next ones, until it has answered again.
//! A node that reports the loss of another may itself be cut off.
//! Bounds: an entry for each node, [`ACCUSED_MAX`].

use std::collections::HashMap;
use std::time::{Duration, Instant};

use coscan::parts::LostNode;
use parking_lot::Mutex;
use url::Url;

use super::name;

/// How long after a node was lost, or was asked in vain, it is asked again.
const ASKED_AFTER: Duration = Duration::from_secs(1);
/// The most accusations that wait to be looked into.
const ACCUSED_MAX: usize = 64;

/// The nodes that get no parts.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    /// By name.
    known: Mutex<HashMap<String, Suspect>>,
    /// Reports of losses. Of the two nodes of a report one is cut off.
    accused: Mutex<Vec<Accusation>>,
}

/// A node reports the loss of another.
#[derive(Clone, Debug)]
pub(crate) struct Accusation {
    pub(crate) by: String,
    pub(crate) lost: LostNode,
}

/// What is known of a node that was lost.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    pub(crate) reason: String,
    /// When it was lost.
    pub(crate) since: Instant,
    /// Whether it answers, and must not get parts nevertheless.
    is_refused: bool,
    /// When it was lost, or asked last.
    seen: Instant,
}

impl Suspects {
    /// Notes that a node was lost.
    pub(crate) fn lost(&self, node: &str, reason: &str) {
        self.note(node, reason, false);
    }

    /// Notes that a node has another version, and gets no part whatever happens.
    pub(crate) fn refused(&self, node: &str, reason: &str) {
        self.note(node, reason, true);
    }

    fn note(&self, node: &str, reason: &str, is_refused: bool) {
        let now = Instant::now();
        let mut known = self.known.lock();
        if let Some(suspect) = known.get_mut(node) {
            suspect.seen = now;
            suspect.is_refused = is_refused;
            return;
        }
        log::warn!("node {node} is lost: {reason}");
        let suspect = Suspect {
            reason: reason.to_owned(),
            since: now,
            is_refused,
            seen: now,
        };
        known.insert(node.to_owned(), suspect);
    }

    /// Notes that a node reports the loss of another. Which of them is cut off is found out before
    /// the next query is planned.
    pub(crate) fn accused(&self, by: &str, lost: &LostNode) {
        let mut accused = self.accused.lock();
        let is_new = |known: &Accusation| known.by != by || known.lost.node != lost.node;
        if accused.len() < ACCUSED_MAX && accused.iter().all(is_new) {
            let (by, lost) = (by.to_owned(), lost.clone());
            accused.push(Accusation { by, lost });
        }
    }

    /// The accusations since the last call.
    pub(crate) fn take_accused(&self) -> Vec<Accusation> {
        std::mem::take(&mut self.accused.lock())
    }

    /// Notes that a node has answered.
    pub(crate) fn answered(&self, node: &str) {
        if self.known.lock().remove(node).is_some() {
            log::info!("node {node} answers again");
        }
    }

    /// The nodes that were not lost; if all were, those that may come back.
    pub(crate) fn without(&self, all: &[Url]) -> Vec<Url> {
        let known = self.known.lock();
        let suspect = |url: &Url| known.get(name(url));
        let is_present = |url: &&Url| suspect(url).is_none();
        let present: Vec<Url> = all.iter().filter(is_present).cloned().collect();
        if !present.is_empty() {
            return present;
        }
        let may_be_back = |url: &&Url| suspect(url).is_none_or(|suspect| !suspect.is_refused);
        all.iter().filter(may_be_back).cloned().collect()
    }

    /// What is known of a node, if it was lost.
    pub(crate) fn known(&self, node: &str) -> Option<Suspect> {
        self.known.lock().get(node).cloned()
    }

    /// Whether a lost node should be asked now. The caller that gets `true` asks it.
    pub(crate) fn is_to_be_asked(&self, node: &str) -> bool {
        let mut known = self.known.lock();
        match known.get_mut(node) {
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
        assert_eq!(suspects.without(&all), all, "all are lost");
        suspects.answered("10.0.0.1:1");
        assert_eq!(suspects.without(&all), all[..1]);
        suspects.refused("10.0.0.1:1", "another version");
        assert_eq!(suspects.without(&all), all[1..], "a lost one may be back");
        suspects.refused("10.0.0.2:1", "another version");
        assert!(suspects.without(&all).is_empty());
    }
}
