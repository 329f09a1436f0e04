//! Which error may another node spare the query?
//!
//! The planner of the next run leaves the lost node out (`coscan-cluster`), so a query whose
//! client has no row yet is run once more (`running/rerun.rs`).

use datafusion::error::DataFusionError;

use crate::error::wrapped;

/// A node that runs a part of a query cannot be reached, or was lost while it worked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node}: {reason}")]
pub struct LostNode {
    /// Its address.
    pub node: String,
    /// What the connection says.
    pub reason: String,
}

impl LostNode {
    /// The lost node that an error names, at any depth.
    #[must_use]
    pub fn of(error: &DataFusionError) -> Option<&Self> {
        wrapped(error)
    }
}

impl From<LostNode> for DataFusionError {
    fn from(lost: LostNode) -> Self {
        Self::External(Box::new(lost))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_lost_node_is_found_below_what_wraps_it() {
        let lost = LostNode {
            node: "10.0.0.1:50051".to_owned(),
            reason: "connection refused".to_owned(),
        };
        let error = DataFusionError::from(lost.clone());
        let shared = DataFusionError::Shared(Arc::new(error.context("while it worked")));
        assert_eq!(LostNode::of(&shared), Some(&lost));
        assert_eq!(LostNode::of(&DataFusionError::External("x".into())), None);
    }
}
