//! `coscan.scans`, `coscan.chunks`, `coscan.devices`: the engine as tables.

use datafusion::catalog::MemorySchemaProvider;

use crate::engine::WeakEngine;
use crate::error::Result;

/// The schema with the system tables.
pub(crate) fn schema(_engine: &WeakEngine) -> Result<MemorySchemaProvider> {
    Ok(MemorySchemaProvider::new())
}
