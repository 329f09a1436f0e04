//! How does a program open a session on a cluster?
//!
//! A session on a cluster plans with an engine of its own, which reads footers and nothing else,
//! and has its queries run by the nodes.

use std::sync::Arc;

use coscan::{Engine, Session, parts};
use url::Url;

use crate::distribution::VERSION;
use crate::error::{Error, Result};
use crate::members::Members;
use crate::nodes::{self, Nodes};
use crate::planner::Planner;
use crate::subqueries::OneRow;
use crate::upstream::Upstream;

/// The nodes of a cluster, and the connections to them. Clones share them.
#[derive(Clone, Debug)]
pub struct Cluster {
    members: Arc<Members>,
}

/// What a node says about itself.
#[derive(Debug)]
pub struct NodeHealth {
    /// Its address.
    pub node: String,
    /// Whether it can take part in queries.
    pub is_well: Result<()>,
}

impl Cluster {
    /// The cluster of these nodes. Connections are opened when they are needed.
    ///
    /// # Errors
    /// [`Error::Thread`].
    pub fn new(nodes: Nodes) -> Result<Self> {
        let upstream = Upstream::new(nodes.urls().to_vec(), nodes.timeouts())?;
        Ok(Self {
            members: Arc::new(Members::new(nodes, Box::new(upstream))),
        })
    }

    /// A session whose queries the nodes run. `engine` plans them.
    #[must_use]
    pub fn session(&self, engine: &Engine) -> Session {
        parts::session(engine, |builder| {
            let mut builder = self.members.distribution.session(builder);
            let analyzer = builder.analyzer().get_or_insert_default();
            analyzer.rules.push(Arc::new(OneRow));
            let planner = Planner::new(Arc::clone(&self.members), engine.clone());
            builder.with_query_planner(Arc::new(planner))
        })
    }

    /// Asks every node for its version, all at once.
    pub async fn health(&self) -> Vec<NodeHealth> {
        let asked = self.members.nodes.urls().iter().map(|url| async move {
            NodeHealth {
                node: nodes::name(url).to_owned(),
                is_well: self.is_well(url).await,
            }
        });
        futures::future::join_all(asked).await
    }

    /// Waits until every node has answered.
    ///
    /// # Errors
    /// That of the first node in the list that cannot take part in queries.
    pub async fn connected(self) -> Result<Self> {
        for health in self.health().await {
            health.is_well?;
        }
        Ok(self)
    }

    async fn is_well(&self, url: &Url) -> Result<()> {
        let theirs = self.members.distribution.version(url).await?;
        if theirs == VERSION {
            return Ok(());
        }
        Err(Error::OtherVersion {
            node: nodes::name(url).to_owned(),
            theirs,
            ours: VERSION,
        })
    }
}
