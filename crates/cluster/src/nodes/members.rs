//! On which nodes of a cluster is a query planned?
//!
//! The nodes, those among them that are present, and the library that reaches them. A query is
//! planned on the nodes that are present. One that was lost is asked again while others are
//! planned.

use std::sync::Arc;

use coscan::parts::LostNode;
use coscan_core::placement::NodeOrder;
use url::Url;

use crate::distribution::Distribution;
use crate::error::{Error, Result, other_version};
use crate::version::VERSION;

use super::suspects::{Accusation, Suspect, Suspects};
use super::{Nodes, name};

/// The nodes of a cluster, and the library that reaches them.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) nodes: Nodes,
    suspects: Arc<Suspects>,
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
        suspects: Arc<Suspects>,
        distribution: Box<dyn Distribution>,
    ) -> Self {
        Self {
            nodes,
            suspects,
            distribution,
        }
    }

    /// What is known of a node, if it was lost.
    pub(crate) fn suspect(&self, node: &str) -> Option<Suspect> {
        self.suspects.known(node)
    }

    /// The nodes that were not lost lately; if all were, those that may be back.
    ///
    /// # Errors
    /// [`Error::OtherVersion`] if none may be.
    pub(crate) async fn present(self: &Arc<Self>) -> Result<Present> {
        for Accusation { by, lost } in self.suspects.take_accused() {
            self.look_into(&by, &lost).await;
        }
        let all = self.nodes.urls();
        for url in all {
            if self.suspects.is_to_be_asked(name(url)) {
                let (members, url) = (Arc::clone(self), url.clone());
                tokio::spawn(async move { members.is_well(&url).await });
            }
        }
        let urls = self.suspects.without(all);
        if let (true, Some(first)) = (urls.is_empty(), all.first()) {
            self.is_well(first).await?;
            return Ok(Present::of(vec![first.clone()]));
        }
        Ok(Present::of(urls))
    }

    /// Asks the node whose loss `by` reports. If it answers, `by` is cut off.
    async fn look_into(&self, by: &str, lost: &LostNode) {
        let urls = self.nodes.urls();
        let Some(url) = urls.iter().find(|url| name(url) == lost.node) else {
            return;
        };
        if self.is_well(url).await.is_ok() {
            let reason = format!("it does not reach node {}: {}", lost.node, lost.reason);
            self.suspects.lost(by, &reason);
        }
    }

    /// Asks a node for its version, and notes whether it answers.
    ///
    /// # Errors
    /// [`Error::Lost`], [`Error::OtherVersion`].
    pub(crate) async fn is_well(&self, url: &Url) -> Result<()> {
        let node = name(url);
        match self.distribution.version(url).await {
            Ok(theirs) if theirs == VERSION => {
                self.suspects.answered(node);
                Ok(())
            }
            Ok(theirs) => {
                let error = other_version(node, theirs);
                self.suspects.refused(node, &error.to_string());
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
    fn of(urls: Vec<Url>) -> Self {
        Self {
            order: NodeOrder::new(urls.iter().map(name)),
            urls,
        }
    }
}
