//! What does ROLLBACK restore? The session's own names and tables, its settings, and what it
//! inserted into tables of files, as they were at BEGIN and at each savepoint.
//!
//! Files that a transaction writes are invisible before COMMIT. Other changes that all sessions
//! see are not undone: a table that was replaced for all, an index.
//! Not here: the transaction status that clients see (`../protocol/simple.rs`).

use std::sync::Arc;

use coscan::{SavedOwn, Snapshot, commit_own, save_own};

use super::session::Session;
use crate::failure::Failure;
use crate::settings::{Modes, SavedSettings};

/// The saved states of a transaction, the oldest first; empty outside of one.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    states: Vec<State>,
    /// Whether it has run a query: from then on its modes are fixed.
    has_queried: bool,
}

#[derive(Debug)]
struct State {
    /// The savepoint's name; `None` for BEGIN.
    name: Option<String>,
    /// `None` if the session has no names or tables of its own.
    own: Option<SavedOwn>,
    settings: SavedSettings,
    /// How many portals had been opened at that time.
    opened: u64,
}

/// The result of ROLLBACK TO.
pub(crate) struct Returned {
    /// Changed settings to report to the client.
    pub(crate) reports: Reports,
    /// How many portals had been opened at the savepoint.
    pub(crate) opened: u64,
}

/// Changed settings to report to the client.
type Reports = Vec<(&'static str, String)>;

impl Transaction {
    /// BEGIN. Inside a transaction this does nothing.
    ///
    /// # Errors
    /// If there is no memory for a copy of the session's names. This holds for every method that
    /// saves.
    pub(crate) async fn begin(&mut self, session: &Session) -> Result<(), Failure> {
        if self.states.is_empty() {
            self.save(session, None, 0).await?;
            self.has_queried = false;
        }
        Ok(())
    }

    /// The transaction is about to run a query. In some modes all its queries see the files as
    /// they are at the first one.
    ///
    /// # Errors
    /// If files cannot be listed.
    pub(crate) async fn query(&mut self, session: &mut Session) -> Result<(), Failure> {
        if self.states.is_empty() {
            session.snapshot = None;
        } else if !self.has_queried {
            self.has_queried = true;
            let modes = session.settings.modes(&session.context);
            session.snapshot = if modes.is_snapshot() {
                Some(Arc::new(Snapshot::now(&session.context.state()).await?))
            } else {
                None
            };
        }
        Ok(())
    }

    /// Checks that the transaction may change its modes from `before` to the session's present
    /// ones.
    ///
    /// # Errors
    /// 25001.
    pub(crate) fn check_modes(&self, before: &Modes, session: &Session) -> Result<(), Failure> {
        let after = session.settings.modes(&session.context);
        match self.states.len() {
            0 => Ok(()),
            states => before.check(&after, self.has_queried, states > 1),
        }
    }

    /// Whether ROLLBACK TO can revive the transaction after a failure.
    pub(crate) fn has_savepoint(&self) -> bool {
        self.states.len() > 1
    }

    /// SAVEPOINT, after `opened` portals were opened.
    pub(crate) async fn savepoint(
        &mut self,
        session: &Session,
        name: &str,
        opened: u64,
    ) -> Result<(), Failure> {
        self.save(session, Some(name.to_owned()), opened).await
    }

    /// ROLLBACK TO a savepoint, which remains.
    pub(crate) async fn rollback_to(
        &mut self,
        session: &mut Session,
        name: &str,
    ) -> Result<Returned, Failure> {
        let at = self.savepoint_of(name)?;
        let opened = self.states[at].opened;
        let reports = self.restore(session, at).await;
        self.savepoint(session, name, opened).await?;
        let reports = reports?;
        Ok(Returned { reports, opened })
    }

    /// RELEASE: drops a savepoint and all later ones.
    pub(crate) fn release(&mut self, name: &str) -> Result<(), Failure> {
        let at = self.savepoint_of(name)?;
        self.states.truncate(at);
        Ok(())
    }

    /// ROLLBACK. Outside of a transaction this does nothing.
    ///
    /// # Errors
    /// If a setting cannot be restored. Everything else has been.
    pub(crate) async fn rollback(&mut self, session: &mut Session) -> Result<Reports, Failure> {
        self.restore(session, 0).await
    }

    /// COMMIT. Outside of a transaction this does nothing.
    ///
    /// # Errors
    /// If files that the transaction wrote cannot be published. The transaction is then still
    /// open, to be rolled back.
    pub(crate) async fn commit(&mut self, session: &Session) -> Result<(), Failure> {
        if !self.states.is_empty() {
            commit_own(&session.context).await?;
            self.states.clear();
        }
        Ok(())
    }

    async fn save(
        &mut self,
        session: &Session,
        name: Option<String>,
        opened: u64,
    ) -> Result<(), Failure> {
        let own = save_own(&session.context).await?;
        let settings = session.settings.saved(&session.context);
        self.states.push(State {
            name,
            own,
            settings,
            opened,
        });
        Ok(())
    }

    async fn restore(&mut self, session: &mut Session, at: usize) -> Result<Reports, Failure> {
        let Some(State { own, settings, .. }) = self.states.drain(at..).next() else {
            return Ok(vec![]);
        };
        if let Some(own) = own {
            own.restore().await;
        }
        let context = &session.context;
        session.settings.bring_back(context, settings).await
    }

    fn savepoint_of(&self, name: &str) -> Result<usize, Failure> {
        let is_it = |state: &State| state.name.as_deref() == Some(name);
        let at = self.states.iter().rposition(is_it);
        at.ok_or_else(|| Failure::new("3B001", format!("savepoint \"{name}\" does not exist")))
    }
}
