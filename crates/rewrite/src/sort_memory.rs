//! Memory for a sort that is larger than memory.
//!
//! Idea: a block of the engine's memory is reserved for the sort as a whole, and shared out inside
//! by DataFusion's own rule. A sort that is about to spill first merges all that it holds, in
//! memory; that merge cannot make do with less than the sort had, and gets it as the sort gives it
//! back. The engine's pool, which must leave something to everybody's queries, holds merges to half
//! of what operators have, and refuses it. Here is only one query, and its merge may have all that
//! the sort gives back.
//! Bounds: the block is half of the engine's memory, or less if other queries have it; the row
//! group that is gathered above the sort is outside of it.

use std::sync::Arc;

use coscan::Session;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;

/// What can be sorted in.
pub(crate) struct SortMemory {
    /// A context whose operators have the block and nothing else; as the session's otherwise.
    pub(crate) context: SessionContext,
    /// The block, until this is dropped.
    _block: MemoryReservation,
}

/// The largest part of the engine's memory that is asked for, and the smallest, as divisors: below
/// it the sort would write more and smaller runs than it could merge at once.
const PARTS: [usize; 5] = [2, 4, 8, 16, 32];

impl SortMemory {
    /// Reserves a block.
    ///
    /// # Errors
    /// `ResourcesExhausted` if others leave too little.
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
        // One sort, fed by as many readers as there are cores: several would be merged by an
        // operator that cannot spill.
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
