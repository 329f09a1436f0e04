//! How much memory does a sort larger than memory get?
//!
//! Idea: reserve a block of the engine's memory for the sort as a whole, and let DataFusion's own
//! pool divide it. A sort that is about to spill first merges what it holds in memory. That merge
//! needs as much memory as the sort had, and gets it as the sort frees memory. The engine's pool
//! has to leave memory for other queries, so it bounds what one query's operators take; in the
//! block there is only this query, and its merge may have all that the sort frees.
//! Bounds: the block is half of the engine's memory, or less if other queries have it; the row
//! group that is collected above the sort is not part of it.

use std::sync::Arc;

use coscan::Session;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;

/// The memory of a sort.
pub(crate) struct SortMemory {
    /// A context whose operators have only the block; otherwise like the session's.
    pub(crate) context: SessionContext,
    /// The reservation of the block, held until this is dropped.
    _block: MemoryReservation,
}

/// The parts of the engine's memory that are tried, as divisors, the largest first. With less than
/// the smallest part the sort would write more and smaller runs than it could merge at once.
const PARTS: [usize; 5] = [2, 4, 8, 16, 32];

impl SortMemory {
    /// Reserves a block.
    ///
    /// # Errors
    /// `ResourcesExhausted` if other queries leave too little memory.
    pub(crate) fn reserve(session: &Session) -> Result<Self> {
        let engine = session.engine();
        let limit = usize::try_from(engine.memory().limit()).unwrap_or(usize::MAX);
        let block =
            MemoryConsumer::new("sort of a rewrite").register(&engine.runtime().memory_pool);
        let mut refused = Ok(());
        for part in PARTS {
            refused = block.try_grow(limit / part);
            if refused.is_ok() {
                break;
            }
        }
        refused?;
        let runtime = RuntimeEnvBuilder::from_runtime_env(engine.runtime())
            .with_memory_pool(Arc::new(FairSpillPool::new(block.size())))
            .build_arc()?;
        let state = session.context().state();
        // One sort, fed by as many readers as there are cores: an operator that cannot spill would
        // merge several sorts.
        let config = state.config().clone().with_repartition_sorts(false);
        let state = SessionStateBuilder::new_from_existing(state)
            .with_config(config)
            .with_runtime_env(runtime)
            .build();
        Ok(Self {
            context: SessionContext::new_with_state(state),
            _block: block,
        })
    }
}
