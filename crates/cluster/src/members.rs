//! What do sessions, plans and scans of a cluster have in common?

use coscan_core::placement::NodeOrder;

use crate::distribution::Distribution;
use crate::nodes::{self, Nodes};

/// The nodes of a cluster in their order, and the library that reaches them.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) nodes: Nodes,
    pub(crate) order: NodeOrder,
    pub(crate) distribution: Box<dyn Distribution>,
}

impl Members {
    pub(crate) fn new(nodes: Nodes, distribution: Box<dyn Distribution>) -> Self {
        Self {
            order: NodeOrder::new(nodes.urls().iter().map(nodes::name)),
            distribution,
            nodes,
        }
    }
}
