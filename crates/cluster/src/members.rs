//! What do sessions, plans and scans of a cluster have in common?
//!
//! The nodes, those among them that are present, and the library that reaches them. A query is
//! planned on the nodes that are present. One that was lost is asked again while others are
//! planned.

use std::sync::Arc;

use coscan_core::placement::NodeOrder;
use url::Url;

use crate::distribution::{Distribution, VERSION};
use crate::error::{Error, Result};
use crate::nodes::{self, Nodes};
use crate::suspects::{Suspect, Suspects};

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

    /// The nodes that were not lost lately; all of them if there is no other.
    pub(crate) fn present(self: &Arc<Self>) -> Present {
        let all = self.nodes.urls();
        for url in all {
            if self.suspects.is_to_be_asked(nodes::name(url)) {
                let (members, url) = (Arc::clone(self), url.clone());
                tokio::spawn(async move { members.is_well(&url).await });
            }
        }
        let urls = self.suspects.without(all);
        Present {
            order: NodeOrder::new(urls.iter().map(nodes::name)),
            urls,
        }
    }

    /// Asks a node for its version, and notes whether it answers.
    ///
    /// # Errors
    /// [`Error::Lost`], [`Error::OtherVersion`].
    pub(crate) async fn is_well(&self, url: &Url) -> Result<()> {
        let node = nodes::name(url);
        let asked = self.distribution.version(url).await;
        let asked = asked.and_then(|theirs| {
            if theirs == VERSION {
                return Ok(());
            }
            Err(Error::OtherVersion {
                node: node.to_owned(),
                theirs,
                ours: VERSION,
            })
        });
        match &asked {
            Ok(()) => self.suspects.answered(node),
            Err(Error::Lost { reason, .. }) => self.suspects.lost(node, reason),
            Err(other) => self.suspects.lost(node, &other.to_string()),
        }
        asked
    }
}
