//! How does a program run statements in a transaction block?
//!
//! A server's connection holds a [`Transaction`] itself, beside its settings and cursors.
//! Not here: rows that fail after a statement has started, of which the program tells the block.

use datafusion::error::DataFusionError;
use datafusion::scalar::ScalarValue;

use super::modes::TransactionModes;
use super::statement::BlockStatement;
use super::status::BlockStatus;
use super::transaction::Transaction;
use crate::error::Result;
use crate::running::Running;
use crate::session::Session;
use crate::session::rust::Statement;
use crate::session::start::{StartOptions, TransactionRules};
use crate::session_names::Confinement;

/// An open transaction block of a program's session. All that the session changes until the end of
/// the block belongs to it. Dropping it ends nothing: use [`Block::commit`] or
/// [`Block::rollback`].
#[must_use = "it ends by COMMIT or ROLLBACK"]
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

    /// BEGIN: opens a block of these modes. What all sessions see is not restored at its end, so
    /// the session should be [confined](Session::confined).
    ///
    /// # Errors
    /// If there is no memory for a copy of the session's names.
    pub async fn begin(&self, modes: TransactionModes) -> Result<Block> {
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
    /// 25001 for a change that ROLLBACK would not undo.
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
