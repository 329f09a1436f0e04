//! A transaction of a session: what does ROLLBACK restore, and when may its modes change?
//!
//! It restores the session's own names and tables, and what the session inserted into tables of
//! files, as they were at BEGIN and at each savepoint; and it returns what its owner saved then,
//! such as settings. Files that a transaction writes are invisible before COMMIT. Other changes
//! that all sessions see are not undone: a table that was replaced for all, an index.
//! Not here: what is saved of names and tables (`saved.rs`), the status that clients see.

use std::sync::Arc;

use coscan_pg::PgError;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{
    TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};

use super::saved::{SavedOwn, commit_own, save_own};
use super::snapshot::Snapshot;

/// The saved states of a transaction, the oldest first; none outside of one. Its owner saves an
/// `S` with each.
pub struct Transaction<S> {
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
            states: vec![],
            has_queried: false,
            snapshot: None,
        }
    }
}

impl<S> Transaction<S> {
    /// BEGIN. Inside a transaction this does nothing.
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
    #[must_use]
    pub fn has_savepoint(&self) -> bool {
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

    /// ROLLBACK TO a savepoint. Its owner gets back what it saved, restores that, and makes the
    /// savepoint once more: it remains.
    ///
    /// # Errors
    /// 3B001 if there is no such savepoint.
    pub async fn rollback_to(&mut self, name: &str) -> Result<S> {
        let restored = match self.savepoint_of(name) {
            Some(at) => self.restore(at).await,
            None => None,
        };
        restored.ok_or_else(|| no_savepoint(name).into())
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

    /// ROLLBACK. Its owner gets back what it saved at BEGIN; `None` outside of a transaction.
    pub async fn rollback(&mut self) -> Option<S> {
        self.restore(0).await
    }

    /// COMMIT. Outside of a transaction this does nothing.
    ///
    /// # Errors
    /// If files that the transaction wrote cannot be published. The transaction is then still
    /// open, to be rolled back.
    pub async fn commit(&mut self, context: &SessionContext) -> Result<()> {
        if !self.states.is_empty() {
            commit_own(context).await?;
            self.states.clear();
        }
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

    async fn restore(&mut self, at: usize) -> Option<S> {
        let State { own, of_owner, .. } = self.states.drain(at..).next()?;
        if let Some(own) = own {
            own.restore().await;
        }
        Some(of_owner)
    }

    fn savepoint_of(&self, name: &str) -> Option<usize> {
        let is_it = |state: &State<S>| state.name.as_deref() == Some(name);
        self.states.iter().rposition(is_it)
    }
}

fn no_savepoint(name: &str) -> PgError {
    PgError::new("3B001", format!("savepoint \"{name}\" does not exist"))
}

/// The modes of a transaction: READ ONLY and ISOLATION LEVEL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionModes {
    /// READ ONLY: its statements change nothing.
    pub read_only: bool,
    /// ISOLATION LEVEL, in lower case.
    pub isolation: String,
}

impl TransactionModes {
    /// Whether all statements see what the first one saw.
    fn is_snapshot(&self) -> bool {
        matches!(self.isolation.as_str(), "repeatable read" | "serializable")
    }

    /// The modes as clauses of BEGIN.
    #[must_use]
    pub fn written(&self) -> [TransactionMode; 2] {
        let level = match self.isolation.as_str() {
            "serializable" => TransactionIsolationLevel::Serializable,
            "repeatable read" => TransactionIsolationLevel::RepeatableRead,
            "read uncommitted" => TransactionIsolationLevel::ReadUncommitted,
            _ => TransactionIsolationLevel::ReadCommitted,
        };
        let access = if self.read_only {
            TransactionAccessMode::ReadOnly
        } else {
            TransactionAccessMode::ReadWrite
        };
        [
            TransactionMode::IsolationLevel(level),
            TransactionMode::AccessMode(access),
        ]
    }

    /// Whether the modes may become `after` in a transaction that has already `queried`, or inside
    /// a savepoint (`nested`).
    ///
    /// # Errors
    /// 25001.
    fn check(&self, after: &Self, queried: bool, nested: bool) -> Result<(), PgError> {
        let text = match (queried, nested) {
            _ if self.isolation == after.isolation => None,
            (true, _) => Some("SET TRANSACTION ISOLATION LEVEL must be called before any query"),
            (_, true) => {
                Some("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction")
            }
            _ => None,
        };
        let text = text.or(match (queried, nested) {
            _ if !self.read_only || after.read_only => None,
            (_, true) => {
                Some("cannot set transaction read-write mode inside a read-only transaction")
            }
            (true, _) => Some("transaction read-write mode must be set before any query"),
            _ => None,
        });
        match text {
            Some(text) => Err(PgError::new("25001", text)),
            None => Ok(()),
        }
    }
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
        transaction.savepoint(&context, "a", 3).await.unwrap();
        transaction.savepoint(&context, "b", 4).await.unwrap();
        assert_eq!(transaction.rollback_to("a").await.unwrap(), 3);
        assert!(transaction.release("b").is_err(), "it is later than a");
        assert_eq!(transaction.rollback().await, Some(1));
        assert_eq!(transaction.rollback().await, None);
    }
}
