//! On which nodes of a cluster is a query planned?
//!
//! The nodes, those among them that are present, and the library that reaches them. A query is
//! planned on the nodes that are present. One that was lost is asked again while others are
//! planned, and so are the names of the list.

use std::sync::Arc;

use coscan::parts::ScanPiece;
use coscan_core::placement::{NodeOrder, Piece};
use futures::future::join_all;
use url::Url;

use crate::distribution::{Distribution, NodeStatus};
use crate::error::{Error, Result, other_version};
use crate::version::VERSION;

use super::loads::Loads;
use super::suspects::{Suspect, Suspects};
use super::{NodeList, Nodes, name};

/// The nodes of a cluster, and the library that reaches them.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) nodes: Nodes,
    pub(crate) list: Arc<NodeList>,
    suspects: Arc<Suspects>,
    pub(crate) loads: Loads,
    pub(crate) distribution: Box<dyn Distribution>,
}

/// The nodes that a query may run on.
#[derive(Clone, Debug)]
pub(crate) struct Present {
    pub(crate) urls: Vec<Url>,
    pub(crate) order: NodeOrder,
}

impl Members {
    pub(crate) fn new(
        nodes: Nodes,
        list: Arc<NodeList>,
        suspects: Arc<Suspects>,
        distribution: Box<dyn Distribution>,
    ) -> Self {
        Self {
            nodes,
            list,
            suspects,
            loads: Loads::default(),
            distribution,
        }
    }

    /// What is known of a node, if it was lost.
    pub(crate) fn suspect(&self, node: &str) -> Option<Suspect> {
        self.suspects.known(node)
    }

    /// Looks up the names of the list. What was known of nodes that are gone is forgotten.
    pub(crate) async fn look_up(&self) {
        if !self.list.has_names() {
            return;
        }
        self.list.look_up().await;
        let all = self.list.urls();
        self.suspects.keep(&all);
        self.loads.keep(&all);
        self.distribution.keep(&all);
    }

    /// Looks names up: at once if no node is known, and otherwise meanwhile, if it is time.
    pub(crate) async fn look_up_in_time(self: &Arc<Self>) {
        if self.list.urls().is_empty() {
            self.look_up().await;
        } else if self.list.is_due() {
            let members = Arc::clone(self);
            tokio::spawn(async move { members.look_up().await });
        }
    }

    /// The nodes that were not lost lately; if all were, those that answer now.
    ///
    /// # Errors
    /// [`Error::Lost`] or [`Error::OtherVersion`] if none does, [`Error::Name`] if none is known.
    pub(crate) async fn present(self: &Arc<Self>) -> Result<Present> {
        self.look_up_in_time().await;
        let all = self.list.known()?;
        let urls = self.suspects.without(&all);
        if urls.is_empty() {
            return self.answering(&all).await;
        }
        for url in all {
            if self.suspects.is_to_be_asked(name(&url)) {
                let members = Arc::clone(self);
                tokio::spawn(async move { members.is_well(&url).await });
            }
        }
        Ok(Present::of(urls))
    }

    /// Those of the nodes that answer now.
    async fn answering(&self, all: &[Url]) -> Result<Present> {
        let answers = join_all(all.iter().map(|url| self.is_well(url))).await;
        let mut failed = None;
        let mut urls = vec![];
        for (url, answer) in all.iter().zip(answers) {
            match answer {
                Ok(()) => urls.push(url.clone()),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if urls.is_empty() => Err(error),
            _ => Ok(Present::of(urls)),
        }
    }

    /// Asks a node for its version, and notes whether it answers.
    ///
    /// # Errors
    /// [`Error::Lost`], [`Error::OtherVersion`].
    pub(crate) async fn is_well(&self, url: &Url) -> Result<()> {
        let node = name(url);
        match self.distribution.status(url).await {
            Ok(NodeStatus {
                version, process, ..
            }) if version == VERSION => {
                self.suspects.answered(node, &process);
                Ok(())
            }
            Ok(NodeStatus { version, .. }) => {
                let error = other_version(node, version);
                self.suspects.lost(node, &error.to_string());
                Err(error)
            }
            Err(error) => {
                let reason = match &error {
                    Error::Lost { reason, .. } => reason.clone(),
                    other => other.to_string(),
                };
                self.suspects.lost(node, &reason);
                Err(error)
            }
        }
    }
}

impl Present {
    /// Only the node on which queries on all nodes read most of what is needed of these scans.
    pub(super) fn with_most<'a>(&self, scans: impl Iterator<Item = &'a [ScanPiece]>) -> Self {
        let needed = self.needed(scans);
        // Of equals the first one.
        let most = (0..needed.len()).rev().max_by_key(|at| needed[*at]);
        let node = most.and_then(|at| self.ordered().nth(at));
        Self::of(node.cloned().into_iter().collect())
    }

    /// By the nodes' places in the order, how many bytes of what these scans need are read there by
    /// queries on all nodes.
    pub(super) fn needed<'a>(&self, scans: impl Iterator<Item = &'a [ScanPiece]>) -> Vec<u64> {
        let all = self.order.len();
        let mut needed = vec![0_u64; all];
        for pieces in scans {
            let placed: Vec<Piece> = pieces.iter().map(|piece| piece.placed).collect();
            for (piece, at) in pieces.iter().zip(self.order.place(&placed, all)) {
                needed[at] = needed[at].saturating_add(piece.needed_bytes);
            }
        }
        needed
    }

    /// The nodes in their order.
    pub(super) fn ordered(&self) -> impl Iterator<Item = &Url> {
        let all = self.order.len();
        self.order.first(all).map(|at| &self.urls[at])
    }

    pub(super) fn of(urls: Vec<Url>) -> Self {
        Self {
            order: NodeOrder::new(urls.iter().map(name)),
            urls,
        }
    }
}
