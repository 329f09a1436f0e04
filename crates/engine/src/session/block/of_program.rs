//! How does a program's session open and end a transaction block?
//!
//! A server's connection holds a [`Transaction`] itself, beside its settings and cursors.
//! Not here: which statements run in the block (`../rust/carry_out.rs`); what statements about
//! settings mean (`../settings/`).
//! TB3: a session has one block at most, which ends when it is dropped, at the latest. Otherwise
//! later INSERTs into tables of files would wait for a COMMIT that never comes, and of two blocks
//! one would restore settings, and modes, of the other.
//! TB4: the end of a block locks the session's settings before it asks the transaction for what
//! was saved. Otherwise a future that is dropped in between would lose the saved settings, and the
//! next block would save what is yet to be restored.
//! TB5: a block holds no session: a session may hold its block, and would never be dropped.
//! TB7: no statement of a block changes anything after what the block changed is undone. A task
//! whose stream was dropped would otherwise change tables outside of any transaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use arrow::array::RecordBatch;
use coscan_pg::PgError;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::TransactionMode;
use futures::FutureExt;
use futures::executor::block_on;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::coop::unconstrained;

use super::statement::BlockStatement;
use super::status::BlockStatus;
use super::transaction::Transaction;
use crate::commit_point::CommitPoint;
use crate::error::Result;
use crate::session::Session;
use crate::session::settings::{
    SavedSettings, SessionSettings, SettingStatement, TransactionModes,
};
use crate::session::start::TransactionRules;
use crate::session_names::Confinement;

/// An open transaction block of a program's session. All that the session changes until the end of
/// the block belongs to it, its settings included. Dropping it rolls back, so a panic or an early
/// return keeps nothing.
#[must_use = "dropping it rolls back"]
pub struct Block {
    context: SessionContext,
    settings: Arc<Mutex<SessionSettings>>,
    transaction: Transaction<SavedSettings>,
    /// Set when a statement fails that the block has started, and when the block is rolled back.
    has_failed: Arc<AtomicBool>,
    /// Up to when each of its statements can be given up.
    points: Vec<Weak<CommitPoint>>,
    /// TB3.
    _only: OwnedMutexGuard<()>,
}

impl Session {
    /// A session of the same engine with these rights. It has names and tables of its own, which
    /// ROLLBACK restores.
    #[must_use]
    pub fn confined(&self, confinement: &Confinement) -> Self {
        let context = confinement.session(&self.context);
        Self::new(self.engine.clone(), context)
    }

    /// The modes of a transaction that names none: READ WRITE and READ COMMITTED, unless the
    /// session's settings have other defaults (SET SESSION CHARACTERISTICS). In a block, those of
    /// the block.
    pub async fn modes(&self) -> TransactionModes {
        self.settings.lock().await.modes(&self.context)
    }

    /// BEGIN: opens a block of these modes, such as [`Session::modes`]. Statements that change what
    /// all sessions see are refused in it. All names of a session that is not
    /// [confined](Session::confined) are seen by all.
    ///
    /// # Errors
    /// 25001 if the session has a block; if there is no memory for a copy of the session's names.
    pub async fn begin(&self, modes: TransactionModes) -> Result<Block> {
        self.begin_as(&modes.written()).await
    }

    /// As [`Session::begin`], in the session's modes but for these.
    ///
    /// # Errors
    /// As [`Session::begin`]; 22023 for a mode that no transaction has.
    pub(in crate::session) async fn begin_as(&self, modes: &[TransactionMode]) -> Result<Block> {
        let Ok(only) = Arc::clone(&self.block).try_lock_owned() else {
            let begun = PgError::new("25001", "there is already a transaction in progress");
            return Err(DataFusionError::from(begun).into());
        };
        let saved = self.settings.lock().await.saved(&self.context);
        let mut transaction = Transaction::default();
        transaction.open(&self.context, || saved).await?;
        let block = Block {
            context: self.context.clone(),
            settings: Arc::clone(&self.settings),
            transaction,
            has_failed: Arc::default(),
            points: vec![],
            _only: only,
        };
        let mut settings = self.settings.lock().await;
        settings.set_modes(&self.context, modes).await?;
        settings.note_block(true);
        Ok(block)
    }
}

impl Block {
    /// The state of the block.
    #[must_use]
    pub fn status(&self) -> BlockStatus {
        let status = self.transaction.status();
        if status.is_block() && self.has_failed.load(Ordering::Acquire) {
            return BlockStatus::Failed;
        }
        status
    }

    /// The context of its session.
    pub(in crate::session) fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Where a running statement of the block tells that it has failed, and learns that what it
    /// sets is undone.
    pub(in crate::session) fn has_failed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_failed)
    }

    /// Notes up to when a statement that the block starts can be given up.
    pub(in crate::session) fn note(&mut self, point: &Arc<CommitPoint>) {
        self.points.retain(|point| point.strong_count() > 0);
        self.points.push(Arc::downgrade(point));
    }

    /// The block is about to run a query. Returns what it asks of it.
    ///
    /// # Errors
    /// If files cannot be listed.
    pub(in crate::session) async fn query(&mut self) -> PlanResult<TransactionRules> {
        let modes = self.settings.lock().await.modes(&self.context);
        let read_only = modes.read_only;
        self.transaction.query(&self.context, || modes).await?;
        Ok(TransactionRules {
            read_only,
            undoable: true,
            snapshot: self.transaction.snapshot(),
        })
    }

    /// Carries out a statement about settings. Returns its rows.
    ///
    /// # Errors
    /// Those of the statement; 25001 for modes that come too late.
    pub(in crate::session) async fn answer(
        &mut self,
        setting: &SettingStatement,
    ) -> PlanResult<Vec<RecordBatch>> {
        let context = &self.context;
        let mut settings = self.settings.lock().await;
        let before = settings.modes(context);
        let rows = settings.answer(context, setting, true).await?;
        if setting.may_be_late() {
            let after = settings.modes(context);
            self.transaction.check_modes(&before, &after)?;
        }
        Ok(rows)
    }

    /// BEGIN in the block, which gives it these modes.
    ///
    /// # Errors
    /// 25001 for modes that come too late.
    pub(in crate::session) async fn change_modes(
        &mut self,
        modes: &[TransactionMode],
    ) -> PlanResult<()> {
        let context = &self.context;
        let mut settings = self.settings.lock().await;
        let before = settings.modes(context);
        settings.set_modes(context, modes).await?;
        let after = settings.modes(context);
        self.transaction.check_modes(&before, &after)
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
        let saved = self.settings.lock().await.saved(&self.context);
        let made = self.transaction.savepoint(&self.context, name, saved).await;
        self.failed_if(made)
    }

    /// ROLLBACK TO a savepoint, which remains. It revives a failed block.
    ///
    /// # Errors
    /// 3B001 if there is no such savepoint; if there is no memory for a copy of the session's
    /// names.
    pub async fn rollback_to(&mut self, name: &str) -> Result<()> {
        // Until it has returned to the savepoint, also if the future is dropped.
        self.fail();
        // What statements from before may still tell, the savepoint undoes.
        give_up(&self.has_failed, &mut self.points);
        self.has_failed = Arc::default();
        let returned = self.return_to(name).await;
        self.failed_if(returned)
    }

    async fn return_to(&mut self, name: &str) -> PlanResult<()> {
        let context = &self.context;
        // TB4.
        let mut settings = self.settings.lock().await;
        let saved = self.transaction.rollback_to(name).await?;
        // It is not revived before it has the savepoint.
        self.transaction.fail();
        let restored = settings.bring_back(context, saved).await;
        let saved = settings.saved(context);
        self.transaction.savepoint(context, name, saved).await?;
        self.transaction.revive();
        restored.map(drop)
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
        let context = &self.context;
        // TB4.
        let mut settings = self.settings.lock().await;
        let committed = if commits {
            self.transaction.commit(context).await
        } else {
            Ok(())
        };
        if commits && committed.is_ok() {
            settings.note_block(false);
            warn_of(settings.end_transaction(context).await);
        } else {
            give_up(&self.has_failed, &mut self.points);
            roll_back(context, &mut settings, &mut self.transaction).await;
        }
        committed?;
        Ok(commits)
    }

    /// ROLLBACK.
    pub async fn rollback(mut self) {
        give_up(&self.has_failed, &mut self.points);
        let mut settings = self.settings.lock().await;
        roll_back(&self.context, &mut settings, &mut self.transaction).await;
    }

    fn check(&self, statement: &BlockStatement) -> Result<()> {
        let checked = self.status().check(statement);
        Ok(checked.map_err(DataFusionError::from)?)
    }

    fn failed_if(&mut self, done: PlanResult<()>) -> Result<()> {
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
        give_up(&self.has_failed, &mut self.points);
        let mut transaction = std::mem::take(&mut self.transaction);
        let context = self.context.clone();
        let settings = Arc::clone(&self.settings);
        let rollback = async move {
            let mut locked = settings.lock().await;
            roll_back(&context, &mut locked, &mut transaction).await;
        };
        let mut rollback = unconstrained(rollback.boxed());
        if FutureExt::now_or_never(&mut rollback).is_some() {
            return;
        }
        // A statement changes a table at this moment. There may be no runtime, or one that ends
        // sooner than that.
        let waits = thread::Builder::new().name("coscan-rollback".to_owned());
        if let Err(error) = waits.spawn(move || block_on(rollback)) {
            log::error!("no thread for the rollback of a dropped block: {error}");
        }
    }
}

/// TB7: gives up the statements of a block that have yet to change something, and what they ask to
/// be set, before the block restores what it saved.
fn give_up(has_failed: &AtomicBool, points: &mut Vec<Weak<CommitPoint>>) {
    has_failed.store(true, Ordering::Release);
    for point in points.drain(..) {
        if let Some(point) = point.upgrade() {
            point.abandon();
        }
    }
}

/// Restores what a session had at BEGIN. The caller has locked its settings (TB4).
async fn roll_back(
    context: &SessionContext,
    settings: &mut SessionSettings,
    transaction: &mut Transaction<SavedSettings>,
) {
    if let Some(saved) = transaction.rollback().await {
        settings.note_block(false);
        warn_of(settings.bring_back(context, saved).await);
    }
}

/// The block has ended all the same, so its owner could do nothing about it.
fn warn_of<T>(restored: PlanResult<T>) {
    if let Err(error) = restored {
        log::warn!("a setting was not restored: {error}");
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use futures::TryStreamExt;

    use super::*;
    use crate::session_names::MemoryTable;
    use crate::{Engine, EngineConfig, Rights};

    const TABLES: [&str; 3] = ["a", "b", "c"];

    async fn insert(session: &Session, table: &str) {
        let sql = format!("INSERT INTO {table} SELECT 2::bigint");
        let rows = session.sql(&sql).await.unwrap();
        let _: Vec<RecordBatch> = rows.try_collect().await.unwrap();
    }

    async fn count(session: &Session, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        let rows = session.sql(&sql).await.unwrap();
        let rows: Vec<RecordBatch> = rows.try_collect().await.unwrap();
        rows[0].column(0).as_primitive::<Int64Type>().value(0)
    }

    /// A session with tables of one row, and a block that has inserted a second one into each.
    async fn inserted() -> (Session, Block) {
        let engine = Engine::new(EngineConfig::default()).unwrap();
        let session = engine.session().confined(&Confinement::new(Rights::NONE));
        for table in TABLES {
            let made = format!("CREATE TABLE {table} AS SELECT 1::bigint AS n");
            session.sql(&made).await.unwrap();
        }
        let block = session.begin(TransactionModes::default()).await.unwrap();
        for table in TABLES {
            insert(&session, table).await;
        }
        (session, block)
    }

    /// Keeps statements that change a table waiting, as one that changes it does.
    async fn busy(session: &Session, table: &str) -> OwnedMutexGuard<u64> {
        let table = session.context.table_provider(table).await.unwrap();
        let table = table.downcast_ref::<MemoryTable>().unwrap();
        table.locked().await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_block_that_is_dropped_beside_a_change_is_rolled_back_after_it() {
        let (session, block) = inserted().await;
        let change = busy(&session, "a").await;
        thread::spawn(move || drop(block)).join().unwrap();
        // TB3: this is no part of the block.
        insert(&session, "b").await;
        drop(change);
        assert_eq!(count(&session, "a").await, 1);
        assert_eq!(count(&session, "b").await, 2);
        assert_eq!(count(&session, "c").await, 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_rollback_that_is_given_up_is_done_all_the_same() {
        let (session, block) = inserted().await;
        let change = busy(&session, "b").await;
        assert!(block.rollback().now_or_never().is_none());
        drop(change);
        for table in TABLES {
            assert_eq!(count(&session, table).await, 1, "{table}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_return_to_a_savepoint_that_is_given_up_leaves_a_failed_block() {
        let (session, mut block) = inserted().await;
        block.savepoint("s").await.unwrap();
        for table in TABLES {
            insert(&session, table).await;
        }
        let change = busy(&session, "b").await;
        assert!(block.rollback_to("s").now_or_never().is_none());
        assert_eq!(block.status(), BlockStatus::Failed);
        drop(change);
        block.rollback_to("s").await.unwrap();
        for table in TABLES {
            assert_eq!(count(&session, table).await, 2, "{table}");
        }
        assert!(block.commit().await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_return_that_is_given_up_before_it_has_its_savepoint_leaves_a_failed_block() {
        let (session, mut block) = inserted().await;
        block.savepoint("s").await.unwrap();
        let change = busy(&session, "a").await;
        let mut returned = block.rollback_to("s").boxed_local();
        assert!(FutureExt::now_or_never(&mut returned).is_none());
        // Its turn comes when the rows are restored, before they are saved once more.
        let mut next = busy(&session, "a").boxed_local();
        assert!(FutureExt::now_or_never(&mut next).is_none());
        drop(change);
        assert!(FutureExt::now_or_never(&mut returned).is_none());
        drop(returned);
        assert_eq!(block.status(), BlockStatus::Failed);
        drop(next.await);
        assert!(!block.commit().await.unwrap());
        for table in TABLES {
            assert_eq!(count(&session, table).await, 1, "{table}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_two_blocks_that_begin_at_once_one_is_refused() {
        let (session, block) = inserted().await;
        block.rollback().await;
        let change = busy(&session, "a").await;
        let mut first = session.begin(TransactionModes::default()).boxed();
        assert!(FutureExt::now_or_never(&mut first).is_none());
        let second = session.begin(TransactionModes::default()).await;
        let refused = second.err().unwrap().to_string();
        assert!(refused.contains("already a transaction"), "{refused}");
        drop(change);
        first.await.unwrap().rollback().await;
        let next = session.begin(TransactionModes::default()).await;
        next.unwrap().rollback().await;
    }
}
