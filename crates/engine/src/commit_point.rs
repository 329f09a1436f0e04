//! Was a statement that was interrupted carried out?
//!
//! Between the moment at which a statement's changes appear and the one at which its client reads
//! that they have, a timeout or a cancel request may come. A client that is then told "canceled"
//! does its work a second time. So each statement has a point up to which it can be given up.
//! Sinks, statements about indexes and those that create names reach the point before their
//! changes appear. Whoever interrupts a statement tries to abandon it, and if that fails waits for
//! its end. A statement that is carried out once more, because memory was short
//! (`running/rerun.rs`), has a new run; an earlier one, which may still be at work, no longer
//! reaches the point.
//! Not here: who interrupts. What no interrupt can stop reaches no point (RENAME, DROP of several
//! names, COMMIT), nor do tables of an embedder's own kinds and COPY to other formats than Parquet.
//! CP1: a statement is abandoned, or one of its runs reaches the point, never both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use coscan_pg::PgError;
use datafusion::error::Result;
use datafusion::prelude::SessionConfig;

/// The point of one statement after which it can no longer be given up.
#[derive(Debug, Default)]
pub struct CommitPoint(
    /// The current run's number, a multiple of [`RUN`], plus [`REACHED`] or [`ABANDONED`].
    AtomicU32,
);

const REACHED: u32 = 1;
const ABANDONED: u32 = 2;
const RUN: u32 = 4;

impl CommitPoint {
    /// Gives the statement up: from now on none of its changes appears. False if it is too late
    /// for that.
    pub fn abandon(&self) -> bool {
        self.change(|state| match state % RUN {
            REACHED => None,
            _ => Some(state | ABANDONED),
        })
        .is_some()
    }

    /// The first run.
    pub(crate) fn first_run(self: &Arc<Self>) -> Run {
        Run {
            point: Arc::clone(self),
            number: 0,
        }
    }

    /// A new run instead of the one so far; `None` if that has reached the point, or the statement
    /// was abandoned.
    pub(crate) fn next_run(self: &Arc<Self>) -> Option<Run> {
        let next = |state: u32| state.is_multiple_of(RUN).then_some(state + RUN);
        let number = next(self.change(next)?)?;
        Some(Run {
            point: Arc::clone(self),
            number,
        })
    }

    /// Changes the state; returns the one before, or `None` if it must not change.
    fn change(&self, new: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let changed = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, new);
        changed.ok()
    }
}

/// One run of a statement.
#[derive(Debug)]
pub(crate) struct Run {
    point: Arc<CommitPoint>,
    /// A multiple of [`RUN`].
    number: u32,
}

impl Run {
    /// The run that executes with this configuration; a fresh one if nobody can interrupt the
    /// statement.
    pub(crate) fn of(config: &SessionConfig) -> Arc<Self> {
        let alone = || Arc::new(Arc::<CommitPoint>::default().first_run());
        config.get_extension().unwrap_or_else(alone)
    }

    /// Called before changes appear; several times, where they appear in several places.
    ///
    /// # Errors
    /// 57014 if the statement was given up, or has a later run.
    pub(crate) fn reach(&self) -> Result<()> {
        let reached = self.number | REACHED;
        let is_current = |state| (state == self.number || state == reached).then_some(reached);
        match self.point.change(is_current) {
            Some(_) => Ok(()),
            None => Err(PgError::new("57014", "canceling statement due to user request").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_first_decides() {
        let point = Arc::<CommitPoint>::default();
        let run = point.first_run();
        run.reach().unwrap();
        assert!(!point.abandon());
        assert!(point.next_run().is_none());
        run.reach().expect("changes may appear in several places");

        let point = Arc::<CommitPoint>::default();
        assert!(point.abandon());
        let refused = point.first_run().reach().unwrap_err();
        assert!(refused.to_string().contains("canceling"), "{refused}");
        assert!(point.abandon(), "it stays abandoned");
        assert!(point.next_run().is_none());
    }

    #[test]
    fn only_the_latest_run_reaches_the_point() {
        let point = Arc::<CommitPoint>::default();
        let first = point.first_run();
        let second = point.next_run().unwrap();
        first.reach().unwrap_err();
        let third = point.next_run().unwrap();
        second.reach().unwrap_err();
        third.reach().unwrap();
        first.reach().unwrap_err();
        assert!(!point.abandon());
    }
}
