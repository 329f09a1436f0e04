//! The memory of connections: messages, statements, prepared statements.
//!
//! A part of the limit is reserved for them, which queries never get (MEM-I7), so that a client
//! can connect, end its transaction or change a setting, whatever queries hold.
//! Not here: how much one connection may have (the server).

use std::fmt;
use std::sync::Arc;

use coscan_storage::pool::MemoryBudget;
use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};

/// The memory of an engine's connections.
pub(super) struct ConnectionMemory(pub(super) Arc<MemoryBudget>);

impl MemoryPool for ConnectionMemory {
    fn name(&self) -> &'static str {
        "connections"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.0.hold_for_connection(additional as u64);
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.0.free_of_connection(shrink as u64);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if self.0.try_hold_for_connection(additional as u64) {
            return Ok(());
        }
        Err(resources_datafusion_err!(
            "{} needs {additional} more bytes, and has {}; of the {} bytes of coscan.memory, connections have {}, and operators {}",
            reservation.consumer().name(),
            reservation.size(),
            self.0.limit(),
            self.0.connection_bytes(),
            self.0.operator_bytes()
        ))
    }

    fn reserved(&self) -> usize {
        usize::try_from(self.0.connection_bytes()).unwrap_or(usize::MAX)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(usize::try_from(self.0.limit()).unwrap_or(usize::MAX))
    }
}

impl fmt::Debug for ConnectionMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConnectionMemory").field(&self.0).finish()
    }
}

impl fmt::Display for ConnectionMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "connections(used: {}, limit: {})",
            self.reserved(),
            self.0.limit()
        )
    }
}
