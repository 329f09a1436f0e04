//! How does a program run statements in a transaction block?
//!
//! A server's connection holds a [`Transaction`] itself, beside its settings and cursors.
//! Not here: rows that fail after a statement has started, of which the program tells the block.
//! TB3: a session with names of its own has one block at most, which ends when it is dropped, at
//! the latest. Later INSERTs into tables of files would wait for a COMMIT that nobody sends.

use coscan_pg::PgError;
use datafusion::error::DataFusionError;
use datafusion::scalar::ScalarValue;
use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;

use super::modes::TransactionModes;
use super::statement::BlockStatement;
use super::status::BlockStatus;
use super::transaction::Transaction;
use crate::error::Result;
use crate::running::Running;
use crate::session::Session;
use crate::session::rust::Statement;
use crate::session::start::{StartOptions, TransactionRules};
use crate::session_names::{Confinement, in_transaction};

/// An open transaction block of a program's session. All that the session changes until the end of
/// the block belongs to it. Dropping it rolls back, so a panic or an early return keeps nothing.
#[must_use = "dropping it rolls back"]
pub struct Block {
    session: Session,
    transaction: Transaction<()>,
    modes: TransactionModes,
}

impl Session {
    /// A session of the same engine with these rights. It has names and tables of its own, which
    /// ROLLBACK restores.
    #[must_use]
    pub fn confined(&self, confinement: &Confinement) -> Self {
        let context = confinement.session(&self.context);
        Self::new(self.engine.clone(), context)
    }

    /// BEGIN: opens a block of these modes. Statements that change what all sessions see are
    /// refused in it. All names of a session that is not [confined](Session::confined) are seen by
    /// all.
    ///
    /// # Errors
    /// 25001 if the session has a block; if there is no memory for a copy of the session's names.
    pub async fn begin(&self, modes: TransactionModes) -> Result<Block> {
        if in_transaction(&self.context) {
            let open = PgError::new("25001", "there is already a transaction in progress");
            return Err(DataFusionError::from(open).into());
        }
        let mut transaction = Transaction::default();
        transaction.open(&self.context, || ()).await?;
        Ok(Block {
            session: self.clone(),
            transaction,
            modes,
        })
    }
}

impl Block {
    /// The state of the block.
    #[must_use]
    pub fn status(&self) -> BlockStatus {
        self.transaction.status()
    }

    /// Starts a statement of the block's session. If that fails, the block has failed.
    ///
    /// # Errors
    /// As [`Statement::execute`]; 25P02 in a failed block; 25006 or 40001 by the block's modes;
    /// 25001 for a change that ROLLBACK would not undo; 55000 for another session's statement.
    pub async fn start(
        &mut self,
        statement: &Statement,
        values: Vec<ScalarValue>,
        options: StartOptions,
    ) -> Result<Running> {
        self.status().check_alive().map_err(DataFusionError::from)?;
        let started = self.started(statement, values, options).await;
        if started.is_err() {
            self.fail();
        }
        started
    }

    async fn started(
        &mut self,
        statement: &Statement,
        values: Vec<ScalarValue>,
        options: StartOptions,
    ) -> Result<Running> {
        if !statement.is_of(&self.session) {
            let foreign = PgError::new("55000", "the statement is another session's");
            return Err(DataFusionError::from(foreign).into());
        }
        let context = &self.session.context;
        self.transaction
            .query(context, || self.modes.clone())
            .await?;
        let transaction = TransactionRules {
            read_only: self.modes.read_only,
            undoable: true,
            snapshot: self.transaction.snapshot(),
        };
        let options = StartOptions {
            transaction,
            ..options
        };
        statement.start(values, options).await
    }

    /// A statement of the block has failed after its start.
    pub fn fail(&mut self) {
        self.transaction.fail();
    }

    /// SAVEPOINT.
    ///
    /// # Errors
    /// 25P02 in a failed block; if there is no memory for a copy of the session's names.
    pub async fn savepoint(&mut self, name: &str) -> Result<()> {
        self.check(&BlockStatement::Savepoint(name.to_owned()))?;
        let context = &self.session.context;
        let made = self.transaction.savepoint(context, name, ()).await;
        self.failed_if(made)
    }

    /// ROLLBACK TO a savepoint, which remains. It revives a failed block.
    ///
    /// # Errors
    /// 3B001 if there is no such savepoint; if there is no memory for a copy of the session's
    /// names.
    pub async fn rollback_to(&mut self, name: &str) -> Result<()> {
        let context = &self.session.context;
        let returned = match self.transaction.rollback_to(name).await {
            Ok(()) => self.transaction.savepoint(context, name, ()).await,
            Err(error) => Err(error),
        };
        self.failed_if(returned)
    }

    /// RELEASE of a savepoint and all later ones.
    ///
    /// # Errors
    /// 25P02 in a failed block; 3B001 if there is no such savepoint.
    pub fn release(&mut self, name: &str) -> Result<()> {
        self.check(&BlockStatement::Release(name.to_owned()))?;
        let released = self.transaction.release(name);
        self.failed_if(released)
    }

    /// COMMIT. Returns whether the changes were kept: those of a failed block are rolled back.
    ///
    /// # Errors
    /// If files that the block wrote cannot be published. It is then rolled back.
    pub async fn commit(mut self) -> Result<bool> {
        let commits = self.status().commits();
        let committed = if commits {
            self.transaction.commit(&self.session.context).await
        } else {
            Ok(())
        };
        if !commits || committed.is_err() {
            self.transaction.rollback().await;
        }
        committed?;
        Ok(commits)
    }

    /// ROLLBACK.
    pub async fn rollback(mut self) {
        self.transaction.rollback().await;
    }

    fn check(&self, statement: &BlockStatement) -> Result<()> {
        let checked = self.status().check(statement);
        Ok(checked.map_err(DataFusionError::from)?)
    }

    fn failed_if(&mut self, done: datafusion::error::Result<()>) -> Result<()> {
        if done.is_err() {
            self.transaction.fail();
        }
        Ok(done?)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if !self.status().is_block() {
            return;
        }
        let mut transaction = std::mem::take(&mut self.transaction);
        let rollback = async move {
            transaction.rollback().await;
        };
        let mut rollback = unconstrained(rollback.boxed());
        // It waits only where a statement changes a table at this moment.
        if FutureExt::now_or_never(&mut rollback).is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(rollback);
        }
    }
}
