//! How does a planned query start?

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::scalar::ScalarValue;

use super::ended::Ended;
use crate::running::{Answer, Running};
use crate::session::Session;
use crate::session::prepared::Prepared;
use crate::session::start::{StartOptions, TransactionRules, start};
use crate::session_names::refused_read_only;

/// A planned query. It holds no session: a session keeps its queries by their names.
#[derive(Clone)]
pub(in crate::session) struct Query {
    pub(super) prepared: Arc<Prepared>,
    /// The memory of its text, tree and plan.
    pub(super) held: Arc<MemoryReservation>,
    /// Whether it takes long to plan.
    pub(super) is_large: bool,
    /// The tag of a statement that makes or drops an index, by a query. Such a query runs once.
    pub(super) tag: Option<&'static str>,
}

impl Query {
    /// What it answers.
    pub(super) fn answer(&self) -> Answer {
        match self.tag {
            Some(tag) => Answer::Done(tag),
            None => Answer::of(&self.prepared.plan()),
        }
    }

    /// Starts it in a session with these values. Without any it was planned just now, and starts by
    /// the plan that it has. `ended` is done when it ends, or is given up before its
    /// consumer has it.
    pub(super) async fn start(
        &self,
        session: &Session,
        values: Option<Vec<ScalarValue>>,
        options: StartOptions,
        ended: Ended,
    ) -> Result<Running> {
        // A query that was given up may have left requests, and parts of it may still run (B1).
        session.board.end_turn();
        let state = session.context.state();
        let plan = match values {
            None if self.prepared.types().is_empty() => self.prepared.plan(),
            values => {
                let values = values.unwrap_or_default();
                self.prepared.bind(&state, values).await?
            }
        };
        // Outside of a block a statement is a transaction of the modes that the session's settings
        // have.
        let read_only = options.transaction.read_only || session.board.is_read_only();
        if read_only && let Some(tag) = self.tag {
            return Err(refused_read_only(tag).into());
        }
        let options = StartOptions {
            guard: Some(Arc::new((Arc::clone(&self.held), options.guard)) as _),
            is_large: self.is_large || options.is_large,
            runs_once: self.tag.is_some() || options.runs_once,
            transaction: TransactionRules {
                read_only,
                ..options.transaction
            },
            ..options
        };
        let mut running = start(&session.context, state, plan, options).await?;
        running.at_end(Arc::new(ended));
        Ok(running)
    }
}
