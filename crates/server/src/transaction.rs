//! What ROLLBACK comes back to: a session's own names and tables, its settings, and what it
//! inserted into tables of files, as they were at BEGIN and at each savepoint.
//!
//! Files that a transaction writes are not seen before COMMIT. What all sessions see otherwise is
//! not undone: a table that was replaced for all, an index.
//! Not here: the status that clients are told.

use std::sync::Arc;

use coscan::{SavedOwn, Snapshot, commit_own, save_own};

use crate::failure::Failure;
use crate::modes::Modes;
use crate::session::Session;
use crate::settings::SavedSettings;

/// The states of a transaction, the oldest first; none outside of one.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    states: Vec<State>,
    /// Whether it has run a query: from then on its modes stay.
    has_queried: bool,
}

#[derive(Debug)]
struct State {
    /// The savepoint's; `None` for BEGIN.
    name: Option<String>,
    /// `None` if the session has nothing of its own.
    own: Option<SavedOwn>,
    settings: SavedSettings,
    /// How many portals had been opened.
    opened: u64,
}

/// What ROLLBACK TO came back to.
pub(crate) struct Returned {
    /// Settings that the client is told to have changed.
    pub(crate) reports: Reports,
    /// How many portals had been opened.
    pub(crate) opened: u64,
}

/// Settings that the client is told to have changed.
type Reports = Vec<(&'static str, String)>;

impl Transaction {
    /// BEGIN; within a transaction, nothing.
    ///
    /// # Errors
    /// If there is no memory for a copy of the session's names; the same below.
    pub(crate) async fn begin(&mut self, session: &Session) -> Result<(), Failure> {
        if self.states.is_empty() {
            self.save(session, None, 0).await?;
            self.has_queried = false;
        }
        Ok(())
    }

    /// The transaction runs a query. From its first one on it may see one state of all files.
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

    /// Whether the transaction's modes may be those that the session has now.
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

    /// SAVEPOINT, after so many portals were opened.
    pub(crate) async fn savepoint(
        &mut self,
        session: &Session,
        name: &str,
        opened: u64,
    ) -> Result<(), Failure> {
        self.save(session, Some(name.to_owned()), opened).await
    }

    /// ROLLBACK TO a savepoint, which stays.
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

    /// RELEASE: forgets a savepoint, and those since.
    pub(crate) fn release(&mut self, name: &str) -> Result<(), Failure> {
        let at = self.savepoint_of(name)?;
        self.states.truncate(at);
        Ok(())
    }

    /// ROLLBACK; outside of a transaction, nothing.
    ///
    /// # Errors
    /// If a setting does not come back. Everything else has then.
    pub(crate) async fn rollback(&mut self, session: &mut Session) -> Result<Reports, Failure> {
        self.restore(session, 0).await
    }

    /// COMMIT; outside of a transaction, nothing.
    ///
    /// # Errors
    /// If files that the transaction wrote cannot appear. It is still there, to be rolled back.
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
