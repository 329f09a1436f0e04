//! Transactions of a connection: what ends with them?
//!
//! Not here: which statement may run in which state (`coscan::BlockStatus`), what ROLLBACK restores
//! (`../statements/transaction.rs`), locks (`../advisory.rs`).

use coscan::{BlockStatement, refused_read_only};
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::TransactionMode;

use super::connection::{Connection, Halt, supervise};
use crate::failure::Failure;
use crate::statements::{Action, State};

impl Connection {
    /// In a failed transaction, refuses every action that neither ends nor revives it. In a READ
    /// ONLY one, refuses writes.
    pub(crate) fn check_transaction(&self, action: &Action) -> Result<(), Failure> {
        match action {
            Action::Block(statement) => self.transaction.status().admits(statement)?,
            _ => self.check_alive()?,
        }
        match action.writes() {
            Some(verb) if self.session.is_read_only() => Err(refused_read_only(verb).into()),
            _ => Ok(()),
        }
    }

    /// Checks that the current transaction has not failed.
    ///
    /// # Errors
    /// 25P02 in a failed transaction.
    pub(crate) fn check_alive(&self) -> Result<(), Failure> {
        Ok(self.transaction.status().check_alive()?)
    }

    /// Refuses a statement outside of a transaction block.
    pub(super) fn check_block(&self, statement: &str) -> Result<(), Failure> {
        Ok(self.transaction.status().check_inside(statement)?)
    }

    /// A statement about the block. Returns its tag.
    pub(super) async fn block(&mut self, statement: &BlockStatement) -> Result<&'static str, Halt> {
        let status = self.transaction.status();
        status.check(statement).map_err(Failure::from)?;
        if let Some(warning) = status.warning(statement) {
            self.session.notices.add(warning);
        }
        match statement {
            BlockStatement::Begin { modes, .. } => self.begin(modes).await?,
            BlockStatement::Commit { chain } => self.end(true, *chain).await?,
            BlockStatement::Rollback { chain } => self.end(false, *chain).await?,
            BlockStatement::RollbackTo(name) => self.roll_back_to(name).await?,
            BlockStatement::Savepoint(name) => self.savepoint(name).await?,
            BlockStatement::Release(name) => self.transaction.release(name)?,
        }
        Ok(status.tag(statement))
    }

    /// BEGIN. If the transaction cannot have these modes, no block is opened.
    async fn begin(&mut self, modes: &[TransactionMode]) -> Result<(), Halt> {
        let session = &mut self.session;
        self.transaction.begin(session).await?;
        let before = session.settings.modes(&session.context);
        session.settings.set_modes(&session.context, modes).await?;
        self.transaction.check_modes(&before, &self.session)?;
        Ok(self.transaction.open(&self.session).await?)
    }

    /// COMMIT and ROLLBACK.
    async fn end(&mut self, commits: bool, chain: bool) -> Result<(), Halt> {
        let session = &mut self.session;
        let modes = session.settings.modes(&session.context);
        if commits && self.transaction.status().commits() {
            if let Err(halt) = self.commit().await {
                self.roll_back().await?;
                return Err(halt);
            }
            self.end_local_settings().await?;
        } else {
            self.roll_back().await?;
        }
        if chain {
            self.begin(&modes.written()).await?;
        }
        Ok(())
    }

    /// ROLLBACK TO.
    async fn roll_back_to(&mut self, name: &str) -> Result<(), Halt> {
        let session = &mut self.session;
        let returned = self.transaction.rollback_to(session, name).await?;
        self.portals.close_since(returned.opened);
        self.report(returned.reports)
    }

    /// SAVEPOINT.
    async fn savepoint(&mut self, name: &str) -> Result<(), Halt> {
        let opened = self.portals.opened();
        let saved = self.transaction.savepoint(&self.session, name, opened);
        Ok(saved.await?)
    }

    /// LOCK, which only looks whether there are such tables.
    pub(super) fn lock(&self, names: &[TableReference]) -> Result<&'static str, Halt> {
        self.check_block("LOCK TABLE")?;
        for name in names {
            let exists = self.session.context.table_exist(name.clone());
            if !exists.unwrap_or(false) {
                let text = format!("relation \"{name}\" does not exist");
                return Err(Failure::new("42P01", text).into());
            }
        }
        Ok("LOCK TABLE")
    }

    /// Undoes SET LOCAL.
    async fn end_local_settings(&mut self) -> Result<(), Halt> {
        let session = &mut self.session;
        let reports = session.settings.end_transaction(&session.context).await?;
        self.report(reports)
    }

    /// Carries out the requests of `set_config()`.
    pub(crate) async fn grant_settings(&mut self) -> Result<(), Halt> {
        if !self.session.settings.has_requests() {
            return Ok(());
        }
        self.transaction.begin(&self.session).await?;
        let session = &mut self.session;
        let before = session.settings.modes(&session.context);
        let reports = session.settings.grant(&session.context).await?;
        self.report(reports)?;
        Ok(self.transaction.check_modes(&before, &self.session)?)
    }

    /// Makes what the transaction did permanent, and keeps its cursors WITH HOLD.
    ///
    /// # Errors
    /// If the rows of a cursor cannot be computed, or files that the transaction wrote cannot be
    /// published. The transaction is then still open, to be rolled back.
    async fn commit(&mut self) -> Result<(), Halt> {
        if self.portals.held().next().is_some() {
            let mut interrupt = self.interrupt().await;
            for portal in self.portals.held() {
                if let State::Open(rows) = &mut portal.state {
                    let environment = self.session.context.runtime_env();
                    let held = rows.hold(&self.session.ledger, environment);
                    supervise(&mut self.wire, &mut interrupt, held).await?;
                }
            }
        }
        self.transaction.commit(&self.session).await?;
        self.session.moments.end_transaction();
        self.portals.commit();
        // After its cursors have ended, which may take locks.
        self.locks.end_transaction();
        Ok(())
    }

    /// ROLLBACK.
    pub(crate) async fn roll_back(&mut self) -> Result<(), Halt> {
        let reports = self.transaction.rollback(&mut self.session).await;
        self.session.moments.end_transaction();
        self.portals.roll_back();
        // After its cursors have ended, which may take locks.
        self.locks.end_transaction();
        self.report(reports?)
    }

    /// P1: outside of a transaction block, each simple query, or run of messages up to a Sync, is
    /// a transaction.
    pub(crate) async fn end_implicit_transaction(&mut self) -> Result<(), Halt> {
        if !self.transaction.status().is_block() {
            self.commit().await?;
            self.end_local_settings().await?;
        }
        Ok(())
    }
}
