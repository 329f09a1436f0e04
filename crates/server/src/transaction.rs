//! What ROLLBACK comes back to: a session's own names and tables, as they were at BEGIN and at each
//! savepoint.
//!
//! What all sessions see is not undone: a row that was inserted into a table of files is there at
//! once, and stays. Not here: settings (`settings/`), and the status that clients are told.

use coscan::{SavedOwn, save_own};
use datafusion::prelude::SessionContext;

use crate::failure::Failure;

/// The states of a transaction, the oldest first; none outside of one.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    states: Vec<State>,
}

#[derive(Debug)]
struct State {
    /// The savepoint's; `None` for BEGIN.
    name: Option<String>,
    /// `None` if the session has nothing of its own.
    own: Option<SavedOwn>,
    /// How many portals had been opened.
    opened: u64,
}

impl Transaction {
    /// BEGIN; within a transaction, nothing.
    ///
    /// # Errors
    /// If there is no memory for a copy of the session's names; the same below.
    pub(crate) async fn begin(&mut self, context: &SessionContext) -> Result<(), Failure> {
        if self.states.is_empty() {
            self.save(context, None, 0).await?;
        }
        Ok(())
    }

    /// SAVEPOINT, after so many portals were opened.
    pub(crate) async fn savepoint(
        &mut self,
        context: &SessionContext,
        name: &str,
        opened: u64,
    ) -> Result<(), Failure> {
        self.save(context, Some(name.to_owned()), opened).await
    }

    /// ROLLBACK TO a savepoint, which stays. Returns how many portals had been opened before it.
    pub(crate) async fn rollback_to(
        &mut self,
        context: &SessionContext,
        name: &str,
    ) -> Result<u64, Failure> {
        let at = self.savepoint_of(name)?;
        let opened = self.states[at].opened;
        self.restore(at).await;
        self.savepoint(context, name, opened).await?;
        Ok(opened)
    }

    /// RELEASE: forgets a savepoint, and those since.
    pub(crate) fn release(&mut self, name: &str) -> Result<(), Failure> {
        let at = self.savepoint_of(name)?;
        self.states.truncate(at);
        Ok(())
    }

    /// ROLLBACK; outside of a transaction, nothing.
    pub(crate) async fn rollback(&mut self) {
        self.restore(0).await;
    }

    /// COMMIT; outside of a transaction, nothing.
    pub(crate) fn commit(&mut self) {
        self.states.clear();
    }

    async fn save(
        &mut self,
        context: &SessionContext,
        name: Option<String>,
        opened: u64,
    ) -> Result<(), Failure> {
        let own = save_own(context).await?;
        self.states.push(State { name, own, opened });
        Ok(())
    }

    async fn restore(&mut self, at: usize) {
        if let Some(State { own: Some(own), .. }) = self.states.drain(at..).next() {
            own.restore().await;
        }
    }

    fn savepoint_of(&self, name: &str) -> Result<usize, Failure> {
        let is_it = |state: &State| state.name.as_deref() == Some(name);
        let at = self.states.iter().rposition(is_it);
        at.ok_or_else(|| Failure::new("3B001", format!("savepoint \"{name}\" does not exist")))
    }
}
