//! Which statements does a session refuse whose queries other nodes run, and what has each of the
//! others?
//!
//! Not here: how such a session plans (`parts/coordinator.rs`).

use std::sync::Arc;

use coscan_pg::PgError;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, WriteOp};
use tokio::sync::Semaphore;

use crate::query_width::QueryWidth;

/// Marks a session whose plans run on other nodes.
pub(crate) struct OnNodes {
    /// The turn of the engine's query that nodes keep memory for (`running/rerun.rs`).
    pub(crate) turn: Arc<Semaphore>,
}

/// Gives a query a width, if it is one of a cluster. One that must not run again is as wide as its
/// size asks for: it could not be when a node has too little memory.
pub(super) fn has_width(state: &mut SessionState, may_run_again: bool) {
    let config = state.config_mut();
    if config.get_extension::<OnNodes>().is_none() {
        return;
    }
    let width = QueryWidth::default();
    if !may_run_again {
        width.widen();
    }
    config.set_extension(Arc::new(width));
}

/// Refuses statements that a cluster does not run, if the session is of one. `runs_once`: the
/// statement makes or drops an index.
pub(super) fn check(state: &SessionState, plan: &LogicalPlan, runs_once: bool) -> Result<()> {
    if state.config().get_extension::<OnNodes>().is_none() {
        return Ok(());
    }
    let what = if runs_once {
        Some("statements about an index")
    } else {
        refused(plan)
    };
    match what {
        None => Ok(()),
        Some(what) => Err(PgError::unsupported(format!("a cluster does not run {what}")).into()),
    }
}

/// What a statement is that a cluster does not run.
fn refused(plan: &LogicalPlan) -> Option<&'static str> {
    match plan {
        LogicalPlan::Explain(explain) => refused(&explain.plan),
        LogicalPlan::Analyze(analyze) => refused(&analyze.input),
        LogicalPlan::Copy(_) => Some("COPY"),
        LogicalPlan::Dml(dml) => Some(match dml.op {
            WriteOp::Insert(_) => "INSERT",
            WriteOp::Update => "UPDATE",
            WriteOp::Delete => "DELETE",
            _ => "statements that change rows",
        }),
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(_)) => {
            Some("CREATE TABLE: the tables of a session are in the memory of one process")
        }
        LogicalPlan::Ddl(DdlStatement::CreateIndex(_)) => Some("CREATE INDEX"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn a_query_of_a_cluster_that_cannot_run_again_is_as_wide_as_its_size() {
        let mut state = SessionContext::new().state();
        has_width(&mut state, true);
        assert!(QueryWidth::of(state.config()).is_none(), "of no cluster");
        let turn = Arc::new(Semaphore::new(1));
        state.config_mut().set_extension(Arc::new(OnNodes { turn }));
        for may_run_again in [true, false] {
            has_width(&mut state, may_run_again);
            let width = QueryWidth::of(state.config()).unwrap();
            assert_eq!(width.is_by_size(), !may_run_again);
        }
    }
}
