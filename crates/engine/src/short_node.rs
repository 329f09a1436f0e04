//! Which error may be spared a query that comes back once a node has memory for it?
//!
//! A node that runs a part of a query finds no memory for it because others have it, or ends it
//! because its limit was lowered. The node knows what the query would have needed there; its
//! coordinator, whose memory is another, does not. So the error says it, and a query whose client
//! has no row yet is run once more (`running/rerun.rs`) with that as its minimum on every node
//! (`parts/memory.rs`).

use datafusion::error::DataFusionError;

use crate::error::wrapped;

/// A node has no memory for its part of a query, and may have it later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{said}")]
pub struct ShortNode {
    /// The bytes that the query would need there.
    pub needed: u64,
    /// The error as the node words it.
    pub said: String,
}

impl ShortNode {
    /// The refusal on a node that an error is, at any depth.
    #[must_use]
    pub fn of(error: &DataFusionError) -> Option<&Self> {
        wrapped(error)
    }
}

impl From<ShortNode> for DataFusionError {
    fn from(short: ShortNode) -> Self {
        Self::External(Box::new(short))
    }
}
