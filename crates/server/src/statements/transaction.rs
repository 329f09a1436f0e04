//! What does ROLLBACK restore for a client? What the engine restores (`coscan::Transaction`), and
//! the connection's settings, as they were at BEGIN and at each savepoint.
//!
//! Not here: the letter by which clients learn the state of the block
//! (`../protocol/connection.rs`).

use coscan::session_settings::{Report, SavedSettings};
use coscan::{AfterFailure, BlockStatus, TransactionModes};

use super::session::Session;
use crate::failure::Failure;

/// The connection's transaction.
#[derive(Default)]
pub(crate) struct Transaction(coscan::Transaction<Saved>);

/// What the connection saves at BEGIN and at each savepoint.
struct Saved {
    settings: SavedSettings,
    /// How many portals had been opened at that time.
    opened: u64,
}

/// The result of ROLLBACK TO.
pub(crate) struct Returned {
    /// Changed settings to report to the client.
    pub(crate) reports: Vec<Report>,
    /// How many portals had been opened at the savepoint.
    pub(crate) opened: u64,
}

impl Saved {
    fn now(session: &Session, opened: u64) -> Self {
        Self {
            settings: session.settings.saved(&session.context),
            opened,
        }
    }

    async fn restore(self, session: &mut Session) -> Result<Vec<Report>, Failure> {
        let context = &session.context;
        let restored = session.settings.bring_back(context, self.settings);
        Ok(restored.await?)
    }
}

impl Transaction {
    /// The state of the block.
    pub(crate) fn status(&self) -> BlockStatus {
        self.0.status()
    }

    /// Whether there is a transaction, of a block or without one.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.has_begun()
    }

    /// A statement has failed. Returns what that leaves to do.
    pub(crate) fn fail(&mut self) -> AfterFailure {
        self.0.fail()
    }

    /// BEGIN. In an open block this does nothing.
    ///
    /// # Errors
    /// If there is no memory for a copy of the session's names. This holds for every method that
    /// saves.
    pub(crate) async fn open(&mut self, session: &Session) -> Result<(), Failure> {
        let saved = || Saved::now(session, 0);
        Ok(self.0.open(&session.context, saved).await?)
    }

    /// Begins a transaction, without a block if there is none, unless one has begun.
    pub(crate) async fn begin(&mut self, session: &Session) -> Result<(), Failure> {
        let saved = || Saved::now(session, 0);
        Ok(self.0.begin(&session.context, saved).await?)
    }

    /// The transaction is about to run a query.
    ///
    /// # Errors
    /// If files cannot be listed.
    pub(crate) async fn query(&mut self, session: &mut Session) -> Result<(), Failure> {
        let modes = || session.settings.modes(&session.context);
        self.0.query(&session.context, modes).await?;
        session.snapshot = self.0.snapshot();
        Ok(())
    }

    /// Checks that the transaction may change its modes from `before` to the session's present
    /// ones.
    ///
    /// # Errors
    /// 25001.
    pub(crate) fn check_modes(
        &self,
        before: &TransactionModes,
        session: &Session,
    ) -> Result<(), Failure> {
        let after = session.settings.modes(&session.context);
        Ok(self.0.check_modes(before, &after)?)
    }

    /// SAVEPOINT, after `opened` portals were opened.
    pub(crate) async fn savepoint(
        &mut self,
        session: &Session,
        name: &str,
        opened: u64,
    ) -> Result<(), Failure> {
        let saved = Saved::now(session, opened);
        Ok(self.0.savepoint(&session.context, name, saved).await?)
    }

    /// ROLLBACK TO a savepoint, which remains.
    pub(crate) async fn rollback_to(
        &mut self,
        session: &mut Session,
        name: &str,
    ) -> Result<Returned, Failure> {
        let saved = self.0.rollback_to(name).await?;
        let opened = saved.opened;
        let reports = saved.restore(session).await;
        self.savepoint(session, name, opened).await?;
        let reports = reports?;
        Ok(Returned { reports, opened })
    }

    /// RELEASE: drops a savepoint and all later ones.
    pub(crate) fn release(&mut self, name: &str) -> Result<(), Failure> {
        Ok(self.0.release(name)?)
    }

    /// ROLLBACK. Outside of a transaction this does nothing.
    ///
    /// # Errors
    /// If a setting cannot be restored. Everything else has been.
    pub(crate) async fn rollback(&mut self, session: &mut Session) -> Result<Vec<Report>, Failure> {
        match self.0.rollback().await {
            Some(saved) => saved.restore(session).await,
            None => Ok(vec![]),
        }
    }

    /// COMMIT. Outside of a transaction this does nothing.
    ///
    /// # Errors
    /// If files that the transaction wrote cannot be published. The transaction is then still
    /// open, to be rolled back.
    pub(crate) async fn commit(&mut self, session: &Session) -> Result<(), Failure> {
        Ok(self.0.commit(&session.context).await?)
    }
}
