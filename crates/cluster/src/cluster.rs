//! How does a program open a session on a cluster?
//!
//! A session on a cluster plans with an engine of its own, which reads footers and nothing else,
//! and has its queries run by the nodes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coscan::{Engine, Session, parts};

use crate::error::{Error, Result};
use crate::nodes::{self, Links, Members, Nodes, NodesTable, Suspects};
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
    /// Its address; or an entry of the list whose addresses are not known.
    pub node: String,
    /// Until it answered, or was found not to.
    pub took: Duration,
    /// Whether it can take part in queries.
    pub is_well: Result<()>,
}

impl Cluster {
    /// The cluster of these nodes. Connections are opened when they are needed.
    ///
    /// # Errors
    /// [`Error::Thread`](crate::Error::Thread), [`Error::Tls`](crate::Error::Tls).
    pub fn new(nodes: Nodes) -> Result<Self> {
        let suspects = Arc::<Suspects>::default();
        let list = Arc::new(nodes.list());
        let upstream = Upstream::new(Arc::clone(&list), Arc::clone(&suspects), nodes.links())?;
        let members = Members::new(nodes, list, suspects, Box::new(upstream));
        Ok(Self {
            members: Arc::new(members),
        })
    }

    /// How its nodes are reached. A worker of this process may use the same.
    #[must_use]
    pub fn links(&self) -> &Links {
        self.members.nodes.links()
    }

    /// A session whose queries the nodes run. `engine` plans them; its table `coscan.nodes` shows
    /// the nodes of the first cluster that it has a session of.
    #[must_use]
    pub fn session(&self, engine: &Engine) -> Session {
        let shown = Arc::new(NodesTable(Arc::clone(&self.members)));
        if let Err(error) = parts::add_system_table(engine, nodes::TABLE, shown) {
            log::warn!("coscan.nodes is not shown: {error}");
        }
        parts::session(engine, |builder| {
            let mut builder = self.members.distribution.session(builder);
            let analyzer = builder.analyzer().get_or_insert_default();
            analyzer.rules.push(Arc::new(OneRow));
            let planner = Planner::new(Arc::clone(&self.members), engine.clone());
            builder.with_query_planner(Arc::new(planner))
        })
    }

    /// Asks every node for its version, all at once, after the names of the list were looked up.
    /// Those that do not answer get no part of a query until they do.
    pub async fn health(&self) -> Vec<NodeHealth> {
        let begun = Instant::now();
        self.members.look_up().await;
        let looked_up = begun.elapsed();
        let unknown = self.members.list.unknown().into_iter();
        let unknown = unknown.map(|error| NodeHealth {
            node: match &error {
                Error::Name { name, .. } => name.clone(),
                other => other.to_string(),
            },
            took: looked_up,
            is_well: Err(error),
        });
        let mut health: Vec<NodeHealth> = unknown.collect();
        let urls = self.members.list.urls();
        let asked = urls.iter().map(|url| async move {
            let asked = Instant::now();
            let is_well = self.members.is_well(url).await;
            NodeHealth {
                node: nodes::name(url).to_owned(),
                took: asked.elapsed(),
                is_well,
            }
        });
        health.extend(futures::future::join_all(asked).await);
        health
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
}
