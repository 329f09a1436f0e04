//! Has the load of a cluster's nodes made a query narrower than its size asks for?
//!
//! On fewer nodes each has more of what the query's joins hold, which may be more than a node has.
//! So a query that finds no memory on a node is from then on as wide as its size asks for, whatever
//! the nodes are busy with (`running/rerun.rs`), and so is from the beginning one that must not run
//! again (`session/on_nodes.rs`).
//! Not here: when the coordinator narrows a query (`coscan-cluster`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::prelude::SessionConfig;

/// What is known of a query's width, over all its runs.
#[derive(Debug, Default)]
pub struct QueryWidth {
    is_by_size: AtomicBool,
    is_narrow: AtomicBool,
}

impl QueryWidth {
    /// That of the query that is planned with this configuration; `None` if it is no query of a
    /// cluster.
    #[must_use]
    pub fn of(config: &SessionConfig) -> Option<Arc<Self>> {
        config.get_extension()
    }

    /// Whether what processors are busy with does not count.
    #[must_use]
    pub fn is_by_size(&self) -> bool {
        self.is_by_size.load(Ordering::Relaxed)
    }

    /// Notes whether the plan of the next run has fewer nodes because their processors are busy.
    pub fn planned(&self, is_narrow: bool) {
        self.is_narrow.store(is_narrow, Ordering::Relaxed);
    }

    /// From now on the query is not made narrow. Returns whether its last plan was narrower.
    pub fn widen(&self) -> bool {
        self.is_by_size.store(true, Ordering::Relaxed);
        self.is_narrow.swap(false, Ordering::Relaxed)
    }
}
