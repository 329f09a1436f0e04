//! Was a statement that was interrupted carried out?
//!
//! Between the moment at which a statement's changes appear and the one at which its client reads
//! that they have, a timeout or a cancel request may come. A client that is then told "canceled"
//! does its work a second time. So each statement has a point up to which it can be given up.
//! Whatever makes changes appear reaches the point first (tables in
//! memory, files that are written, indexes, statements that create or drop names).
//! Whoever interrupts a statement tries to abandon it, and if that fails waits for its end. A
//! statement that has not reached its point has changed nothing, so it may be carried out once more
//! (`running/rerun.rs`).
//! Not here: who interrupts; tables of the embedder's own kinds, which know no such point.
//! CP1: a statement is abandoned or reaches its point, never both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use coscan_pg::PgError;
use datafusion::error::Result;
use datafusion::prelude::SessionConfig;

/// The point of one statement after which it can no longer be given up.
#[derive(Debug, Default)]
pub struct CommitPoint(AtomicU8);

const OPEN: u8 = 0;
const REACHED: u8 = 1;
const ABANDONED: u8 = 2;

impl CommitPoint {
    /// Gives the statement up: from now on none of its changes appears. False if it is too late
    /// for that.
    pub fn abandon(&self) -> bool {
        self.leave_open_for(ABANDONED)
    }

    /// Called before changes appear; several times, where they appear in several places.
    ///
    /// # Errors
    /// 57014 if the statement was given up.
    pub(crate) fn reach(&self) -> Result<()> {
        if self.leave_open_for(REACHED) {
            return Ok(());
        }
        Err(PgError::new("57014", "canceling statement due to user request").into())
    }

    /// Whether changes may have appeared.
    pub(crate) fn is_reached(&self) -> bool {
        self.0.load(Ordering::Acquire) == REACHED
    }

    /// The point of the statement that runs with this configuration. One that cannot be
    /// interrupted has a point of its own.
    pub(crate) fn of(config: &SessionConfig) -> Arc<Self> {
        config.get_extension().unwrap_or_default()
    }

    /// Whether the state is, or was already, `wanted`.
    fn leave_open_for(&self, wanted: u8) -> bool {
        let order = Ordering::AcqRel;
        match self
            .0
            .compare_exchange(OPEN, wanted, order, Ordering::Acquire)
        {
            Ok(_) => true,
            Err(state) => state == wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_first_decides() {
        let point = CommitPoint::default();
        point.reach().unwrap();
        assert!(!point.abandon());
        point.reach().expect("changes may appear in several places");

        let point = CommitPoint::default();
        assert!(point.abandon());
        let refused = point.reach().unwrap_err();
        assert!(refused.to_string().contains("canceling"), "{refused}");
        assert!(point.abandon(), "it stays abandoned");
    }
}
