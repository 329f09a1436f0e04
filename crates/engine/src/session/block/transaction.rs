//! A transaction of a session: in which state is its block, and what does ROLLBACK restore?
//!
//! It restores the session's own names and tables, and what the session inserted into tables of
//! files, as they were at BEGIN and at each savepoint; and it returns what its owner saved then,
//! such as settings. Files that a transaction writes are invisible before COMMIT. Other changes
//! that all sessions see are not undone: a table that was replaced for all, an index.
//! Not here: what is saved of names and tables (`session_names/saved.rs`).
//! TB2: a transaction of a block has the state that BEGIN saved.

use std::sync::Arc;

use coscan_pg::PgError;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;

use super::status::{AfterFailure, BlockStatus};
use crate::session::settings::TransactionModes;
use crate::session_names::{SavedOwn, Snapshot, commit_own, save_own};

/// A session's transaction: that of its block, or that of a statement outside of one. Its owner
/// saves an `S` with each saved state.
pub struct Transaction<S> {
    status: BlockStatus,
    /// The saved states, the oldest first; none outside of a transaction.
    states: Vec<State<S>>,
    /// Whether it has run a query: from then on its modes are fixed.
    has_queried: bool,
    /// What all its queries see, if they see the same.
    snapshot: Option<Arc<Snapshot>>,
}

struct State<S> {
    /// The savepoint's name; `None` for BEGIN.
    name: Option<String>,
    /// `None` if the session has no names or tables of its own.
    own: Option<SavedOwn>,
    of_owner: S,
}

impl<S> Default for Transaction<S> {
    fn default() -> Self {
        Self {
            status: BlockStatus::Idle,
            states: vec![],
            has_queried: false,
            snapshot: None,
        }
    }
}

impl<S> Transaction<S> {
    /// The state of the block.
    #[must_use]
    pub fn status(&self) -> BlockStatus {
        self.status
    }

    /// Whether there is a transaction, of a block or without one.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        !self.states.is_empty()
    }

    /// BEGIN. In an open block this does nothing.
    ///
    /// # Errors
    /// As [`Transaction::begin`].
    pub async fn open(
        &mut self,
        context: &SessionContext,
        saved: impl FnOnce() -> S,
    ) -> Result<()> {
        self.begin(context, saved).await?;
        self.status = BlockStatus::Open;
        Ok(())
    }

    /// A statement has failed. Returns what that leaves to do.
    pub fn fail(&mut self) -> AfterFailure {
        let (status, after) = self.status.failed(self.has_savepoint());
        self.status = status;
        after
    }

    /// Begins a transaction, without a block if there is none, unless one has begun.
    ///
    /// # Errors
    /// If there is no memory for a copy of the session's names.
    pub async fn begin(
        &mut self,
        context: &SessionContext,
        saved: impl FnOnce() -> S,
    ) -> Result<()> {
        if self.states.is_empty() {
            self.save(context, None, saved()).await?;
            self.has_queried = false;
        }
        Ok(())
    }

    /// The transaction, of these modes, is about to run a query. In some modes all its queries see
    /// the files as they are at the first one.
    ///
    /// # Errors
    /// If files cannot be listed.
    pub async fn query(
        &mut self,
        context: &SessionContext,
        modes: impl FnOnce() -> TransactionModes,
    ) -> Result<()> {
        if self.states.is_empty() {
            self.snapshot = None;
        } else if !self.has_queried {
            // Of an earlier transaction. If this fails, a savepoint may revive the transaction, and
            // its next query is the first one.
            self.snapshot = None;
            if modes().is_snapshot() {
                self.snapshot = Some(Arc::new(Snapshot::now(&context.state()).await?));
            }
            self.has_queried = true;
        }
        Ok(())
    }

    /// What all its queries see, if they see the same.
    #[must_use]
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.clone()
    }

    /// Whether a savepoint could revive it after a failure.
    fn has_savepoint(&self) -> bool {
        self.states.len() > 1
    }

    /// Checks that it may change its modes. Outside of a transaction it may.
    ///
    /// # Errors
    /// 25001.
    pub fn check_modes(&self, before: &TransactionModes, after: &TransactionModes) -> Result<()> {
        match self.states.len() {
            0 => Ok(()),
            states => Ok(before.check(after, self.has_queried, states > 1)?),
        }
    }

    /// SAVEPOINT.
    ///
    /// # Errors
    /// As [`Transaction::begin`].
    pub async fn savepoint(
        &mut self,
        context: &SessionContext,
        name: &str,
        saved: S,
    ) -> Result<()> {
        self.save(context, Some(name.to_owned()), saved).await
    }

    /// ROLLBACK TO a savepoint, which revives the block. Its owner gets back what it saved,
    /// restores that, and makes the savepoint once more: it remains.
    ///
    /// # Errors
    /// 3B001 if there is no such savepoint.
    pub async fn rollback_to(&mut self, name: &str) -> Result<S> {
        let restored = match self.savepoint_of(name) {
            Some(at) => self.restore(at).await,
            None => None,
        };
        let of_owner = restored.ok_or_else(|| no_savepoint(name))?;
        self.status = BlockStatus::Open;
        Ok(of_owner)
    }

    /// The block has the savepoint once more to which it returned.
    pub(super) fn revive(&mut self) {
        self.status = BlockStatus::Open;
    }

    /// RELEASE: drops a savepoint and all later ones.
    ///
    /// # Errors
    /// 3B001 if there is no such savepoint.
    pub fn release(&mut self, name: &str) -> Result<()> {
        let at = self.savepoint_of(name).ok_or_else(|| no_savepoint(name))?;
        self.states.truncate(at);
        Ok(())
    }

    /// ROLLBACK, which ends the block. Its owner gets back what it saved at BEGIN; `None` outside
    /// of a transaction.
    ///
    /// If the future is dropped, the block has not ended, and a second call does the rest.
    pub async fn rollback(&mut self) -> Option<S> {
        let of_owner = self.restore(0).await;
        self.status = BlockStatus::Idle;
        of_owner
    }

    /// COMMIT, which ends the block. Outside of a transaction this does nothing.
    ///
    /// # Errors
    /// If files that the transaction wrote cannot be published. The transaction is then still
    /// open, to be rolled back.
    pub async fn commit(&mut self, context: &SessionContext) -> Result<()> {
        if !self.states.is_empty() {
            commit_own(context).await?;
            self.states.clear();
        }
        self.status = BlockStatus::Idle;
        Ok(())
    }

    async fn save(
        &mut self,
        context: &SessionContext,
        name: Option<String>,
        of_owner: S,
    ) -> Result<()> {
        let own = save_own(context).await?;
        self.states.push(State {
            name,
            own,
            of_owner,
        });
        Ok(())
    }

    /// Restores a state, which stays until all of it is restored.
    async fn restore(&mut self, at: usize) -> Option<S> {
        self.states.truncate(at + 1);
        if let Some(own) = &mut self.states.get_mut(at)?.own {
            own.restore().await;
        }
        self.states.pop().map(|state| state.of_owner)
    }

    fn savepoint_of(&self, name: &str) -> Option<usize> {
        let is_it = |state: &State<S>| state.name.as_deref() == Some(name);
        self.states.iter().rposition(is_it)
    }
}

fn no_savepoint(name: &str) -> PgError {
    PgError::new("3B001", format!("savepoint \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_owner_gets_back_what_it_saved() {
        let context = SessionContext::new();
        let mut transaction = Transaction::default();
        transaction.begin(&context, || 1).await.unwrap();
        transaction.begin(&context, || 2).await.unwrap();
        assert!(transaction.has_begun());
        transaction.savepoint(&context, "a", 3).await.unwrap();
        transaction.savepoint(&context, "b", 4).await.unwrap();
        assert_eq!(transaction.rollback_to("a").await.unwrap(), 3);
        assert!(transaction.release("b").is_err(), "it is later than a");
        assert_eq!(transaction.rollback().await, Some(1));
        assert!(!transaction.has_begun());
        assert_eq!(transaction.rollback().await, None);
    }

    #[tokio::test]
    async fn a_savepoint_revives_a_failed_block() {
        let context = SessionContext::new();
        let mut transaction = Transaction::default();
        transaction.begin(&context, || ()).await.unwrap();
        assert_eq!(transaction.fail(), AfterFailure::RollBack);
        transaction.open(&context, || ()).await.unwrap();
        transaction.savepoint(&context, "a", ()).await.unwrap();
        assert_eq!(transaction.fail(), AfterFailure::MayRevive);
        assert!(transaction.rollback_to("b").await.is_err());
        assert_eq!(transaction.status(), BlockStatus::Failed);
        transaction.rollback_to("a").await.unwrap();
        assert_eq!(transaction.status(), BlockStatus::Open);
        assert_eq!(transaction.fail(), AfterFailure::AwaitEnd);
        assert!(transaction.rollback().await.is_some());
        assert_eq!(transaction.status(), BlockStatus::Idle);
    }
}
