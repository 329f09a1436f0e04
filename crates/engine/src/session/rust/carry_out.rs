//! What does a program's statement do, and in which block?
//!
//! BEGIN as a statement opens a block that the session keeps; until its end all statements of the
//! session belong to it. A block of [`Session::begin`] is the program's, which runs its statements
//! by [`Block::start`] and ends it itself.
//! Not here: in which state of a block a statement may run (`../block/status.rs`).
//! TB6: a statement that fails in the block that BEGIN has opened fails the block, also when rows
//! were read of it, or when the future that starts it is dropped.

use std::sync::Arc;

use arrow::array::RecordBatch;
use coscan_pg::PgError;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::TransactionMode;
use tokio::runtime::Handle;

use super::ended::Ended;
use super::rows::{in_memory, stream_of};
use super::{AboutBlock, Asked, Executed, Query, Statement, ToPrepare};
use crate::error::Result;
use crate::notices::{Notice, Notices};
use crate::running::{Guard, Running, Streams};
use crate::session::Session;
use crate::session::block::{Block, BlockStatement, BlockStatus};
use crate::session::names::{arguments, declared_types};
use crate::session::prepared::Prepared;
use crate::session::settings::SettingStatement;
use crate::session::start::StartOptions;

/// A query that a statement runs.
#[derive(Clone, Copy)]
enum Runs<'a> {
    Own(&'a Query),
    /// The one that has a name.
    Named(&'a Executed),
}

impl Statement {
    /// As [`Statement::execute`], on the threads and in the transaction of `options`. The columns
    /// have the planner's names, which are unique; [`Statement::schema`] has PostgreSQL's.
    ///
    /// # Errors
    /// As [`Statement::execute`].
    pub async fn start(&self, values: Vec<ScalarValue>, options: StartOptions) -> Result<Running> {
        let started = if let Some(runs) = self.runs() {
            let begun = Box::pin(self.begin(runs, Some(values), options)).await;
            begun.map(handed_out)
        } else {
            let rows = self.rows(&values).await;
            rows.map(|rows| self.answered(rows, options))
        };
        self.session.noted(started).await
    }

    /// Starts the statement with these values. The stream computes rows as the caller polls it;
    /// dropping it cancels the query. A table that the statement creates is there when this
    /// returns. If a table, a view or a setting has changed, the statement is planned again.
    ///
    /// # Errors
    /// The errors of planning; 0A000 if the statement would now return other columns. Errors of
    /// running come through the stream. Any of them fails the block that BEGIN has opened as a
    /// statement; 25P02 if it has failed.
    pub async fn execute(&self, values: Vec<ScalarValue>) -> Result<SendableRecordBatchStream> {
        let rows = self.stream(Some(values)).await;
        self.session.noted(rows).await
    }

    /// Starts a statement without parameters that was prepared just now, by the plan that it has.
    ///
    /// # Errors
    /// As [`Statement::execute`].
    pub(in crate::session) async fn run_first(&self) -> Result<SendableRecordBatchStream> {
        let rows = self.stream(None).await;
        self.session.noted(rows).await
    }

    async fn stream(&self, values: Option<Vec<ScalarValue>>) -> Result<SendableRecordBatchStream> {
        let Some(runs) = self.runs() else {
            let rows = self.rows(values.as_deref().unwrap_or_default()).await?;
            return Ok(in_memory(&self.schema(), rows));
        };
        let options = StartOptions::of_caller()?;
        let (running, defines) = Box::pin(self.begin(runs, values, options)).await?;
        if !defines {
            running.is_handed_out();
        }
        Ok(stream_of(running, defines).await?)
    }

    fn runs(&self) -> Option<Runs<'_>> {
        match &self.asked {
            Asked::Query(query) => Some(Runs::Own(query)),
            Asked::Execute(executed) => Some(Runs::Named(executed)),
            Asked::Setting(_) | Asked::Block(_) | Asked::Prepare(_) | Asked::Deallocate(_) => None,
        }
    }

    /// Starts a query, in the block that BEGIN has opened, if there is one. Returns whether it
    /// creates or drops something.
    async fn begin(
        &self,
        runs: Runs<'_>,
        values: Option<Vec<ScalarValue>>,
        options: StartOptions,
    ) -> Result<(Running, bool)> {
        let mut opened = self.session.opened.lock().await;
        if let Some(block) = opened.as_mut() {
            return self.begin_in(block, runs, values, options).await;
        }
        drop(opened);
        let (query, values) = self.query(runs, values, &options.runtime).await?;
        let ended = Ended::of(&self.session, None);
        let running = query.start(&self.session, values, options, ended).await?;
        Ok((running, query.prepared.defines()))
    }

    async fn begin_in(
        &self,
        block: &mut Block,
        runs: Runs<'_>,
        values: Option<Vec<ScalarValue>>,
        options: StartOptions,
    ) -> Result<(Running, bool)> {
        check_alive(block)?;
        let ended = Ended::of(&self.session, Some(block.has_failed()));
        let (query, values) = self.query(runs, values, &options.runtime).await?;
        let transaction = block.query().await?;
        let point = options.commit_point.clone().unwrap_or_default();
        block.note(&point);
        let options = StartOptions {
            transaction,
            commit_point: Some(point),
            ..options
        };
        let running = query.start(&self.session, values, options, ended).await?;
        Ok((running, query.prepared.defines()))
    }

    /// The query that it runs, and its values.
    async fn query(
        &self,
        runs: Runs<'_>,
        values: Option<Vec<ScalarValue>>,
        runtime: &Handle,
    ) -> Result<(Query, Option<Vec<ScalarValue>>)> {
        let Executed {
            name,
            arguments: given,
        } = match runs {
            Runs::Own(query) => return Ok((query.clone(), values)),
            Runs::Named(executed) => executed,
        };
        check_none(values.as_deref().unwrap_or_default())?;
        let query = self.session.query_of(name).map_err(DataFusionError::from)?;
        let (context, types) = (&self.session.context, query.prepared.types());
        let values = arguments(runtime, context, name, types, given).await?;
        Ok((query, Some(values)))
    }

    /// Carries out a statement that runs no query. Returns its rows.
    async fn rows(&self, values: &[ScalarValue]) -> Result<Vec<RecordBatch>> {
        check_none(values)?;
        let mut opened = self.session.opened.lock().await;
        if let Asked::Block(about) = &self.asked {
            about.carry_out(&self.session, &mut opened).await?;
            return Ok(vec![]);
        }
        if let Some(block) = opened.as_mut() {
            return self.rows_in(block).await;
        }
        drop(opened);
        Ok(self.rows_alone().await?)
    }

    async fn rows_in(&self, block: &mut Block) -> Result<Vec<RecordBatch>> {
        check_alive(block)?;
        match &self.asked {
            Asked::Setting(setting) => Ok(block.answer(setting).await?),
            _ => Ok(self.rows_alone().await?),
        }
    }

    async fn rows_alone(&self) -> PlanResult<Vec<RecordBatch>> {
        let session = &self.session;
        match &self.asked {
            Asked::Setting(setting) => return session.answer(setting).await,
            Asked::Prepare(asked) => {
                let query = Box::pin(asked.query(session, Arc::clone(&self.held))).await?;
                session.names.lock().insert(asked.name.clone(), query)?;
            }
            Asked::Deallocate(name) => session.deallocate(name.as_deref())?,
            Asked::Block(_) => return Err(of_program().into()),
            Asked::Query(_) | Asked::Execute(_) => {}
        }
        Ok(vec![])
    }

    /// Rows that are there, as those of a query that runs.
    fn answered(&self, rows: Vec<RecordBatch>, options: StartOptions) -> Running {
        let schema = self.schema();
        let streams = Streams {
            partitions: vec![in_memory(&schema, rows)],
            schema,
            environment: self.session.context.runtime_env(),
        };
        let guard: Guard = Arc::new((Arc::clone(&self.held), options.guard));
        Running::start(options.runtime, None, streams, guard, None, true)
    }
}

impl Block {
    /// Starts a statement of the block's session. If that fails, or its future is dropped, or if
    /// reading its rows fails, the block has failed.
    ///
    /// # Errors
    /// As [`Statement::execute`]; 25P02 in a failed block; 25006 or 40001 by the block's modes;
    /// 25001 for a change that ROLLBACK would not undo, and for modes that come too late; 55000
    /// for another session's statement, and for statements that begin and end blocks: the block
    /// has methods for that.
    pub async fn start(
        &mut self,
        statement: &Statement,
        values: Vec<ScalarValue>,
        options: StartOptions,
    ) -> Result<Running> {
        check_alive(self)?;
        let started = statement.start_in(self, values, options).await;
        if started.is_err() {
            self.fail();
        }
        started
    }
}

impl Statement {
    async fn start_in(
        &self,
        block: &mut Block,
        values: Vec<ScalarValue>,
        options: StartOptions,
    ) -> Result<Running> {
        if !self.is_of(block.context()) {
            let foreign = PgError::new("55000", "the statement is another session's");
            return Err(DataFusionError::from(foreign).into());
        }
        if let Some(runs) = self.runs() {
            let begun = Box::pin(self.begin_in(block, runs, Some(values), options)).await;
            return begun.map(handed_out);
        }
        check_none(&values)?;
        let rows = self.rows_in(block).await?;
        Ok(self.answered(rows, options))
    }
}

impl AboutBlock {
    /// Carries out a statement about the block that BEGIN has opened.
    async fn carry_out(&self, session: &Session, opened: &mut Option<Block>) -> Result<()> {
        if opened.is_none() && session.settings.lock().await.is_in_block() {
            return Err(DataFusionError::from(of_program()).into());
        }
        let status = opened.as_ref().map_or(BlockStatus::Idle, Block::status);
        let statement = &self.statement;
        status.check(statement).map_err(DataFusionError::from)?;
        if let Some(warning) = status.warning(statement) {
            session.say(warning);
        }
        match statement {
            BlockStatement::Begin { modes, .. } => begin(session, opened, modes).await?,
            BlockStatement::Commit { chain } => end(session, opened, true, *chain).await?,
            BlockStatement::Rollback { chain } => end(session, opened, false, *chain).await?,
            BlockStatement::RollbackTo(name) => inside(opened)?.rollback_to(name).await?,
            BlockStatement::Savepoint(name) => inside(opened)?.savepoint(name).await?,
            BlockStatement::Release(name) => inside(opened)?.release(name)?,
        }
        *self.tag.lock() = status.tag(statement);
        Ok(())
    }
}

/// BEGIN, which in a block only gives it the modes.
async fn begin(
    session: &Session,
    opened: &mut Option<Block>,
    modes: &[TransactionMode],
) -> Result<()> {
    if let Some(block) = opened {
        return Ok(block.change_modes(modes).await?);
    }
    *opened = Some(session.begin_as(modes).await?);
    Ok(())
}

/// The block that BEGIN has opened.
///
/// # Errors
/// 25P01 if there is none.
fn inside(opened: &mut Option<Block>) -> PlanResult<&mut Block> {
    let none = PgError::new("25P01", "there is no transaction in progress");
    opened.as_mut().ok_or_else(|| none.into())
}

/// COMMIT and ROLLBACK of the block that BEGIN has opened. `chain`: the next one begins at once, in
/// the same modes.
async fn end(
    session: &Session,
    opened: &mut Option<Block>,
    commits: bool,
    chain: bool,
) -> Result<()> {
    let Some(block) = opened.take() else {
        return Ok(());
    };
    let modes = session.modes().await;
    if commits {
        block.commit().await?;
    } else {
        block.rollback().await;
    }
    if chain {
        *opened = Some(session.begin(modes).await?);
    }
    Ok(())
}

impl ToPrepare {
    /// Plans what PREPARE prepares, whose text holds this memory.
    async fn query(&self, session: &Session, held: Arc<MemoryReservation>) -> PlanResult<Query> {
        session.names.lock().check_free(&self.name)?;
        let declared = declared_types(&self.types)?;
        let state = session.context.state();
        let query = self.query.clone();
        let prepared = Prepared::new(&state, query, self.size, &declared, &self.written);
        Ok(Query {
            prepared: Arc::new(prepared.await?),
            held,
            is_large: self.size.plans_long(),
            tag: None,
        })
    }
}

impl Session {
    /// What a statement has become. If it has failed, so has the block that BEGIN has opened
    /// (TB6).
    pub(super) async fn noted<T>(&self, done: Result<T>) -> Result<T> {
        if done.is_err() {
            self.board.end_turn();
            if let Some(block) = self.opened.lock().await.as_mut() {
                block.fail();
            }
        }
        done
    }

    /// The prepared statement of this name.
    ///
    /// # Errors
    /// 26000 if there is none.
    pub(super) fn query_of(&self, name: &str) -> std::result::Result<Query, PgError> {
        self.names.lock().statement(name).cloned()
    }

    /// DEALLOCATE of a prepared statement, or of all.
    ///
    /// # Errors
    /// 26000 if there is none of this name.
    fn deallocate(&self, name: Option<&str>) -> std::result::Result<(), PgError> {
        let mut names = self.names.lock();
        let Some(name) = name else {
            names.clear();
            return Ok(());
        };
        names.statement(name)?;
        names.remove(name);
        Ok(())
    }

    /// Carries out a statement about settings that belongs to no block of BEGIN. In a block of the
    /// program SET LOCAL lasts until its end, and its modes are the program's to change.
    ///
    /// # Errors
    /// Those of the statement; 55000 if it changes the modes of the program's block.
    async fn answer(&self, setting: &SettingStatement) -> PlanResult<Vec<RecordBatch>> {
        let mut settings = self.settings.lock().await;
        if !settings.is_in_block() {
            if let Some(warning) = setting.warning() {
                self.say(warning);
            }
            return settings.answer(&self.context, setting, false).await;
        }
        let (before, saved) = (settings.modes(&self.context), settings.saved(&self.context));
        let rows = settings.answer(&self.context, setting, true).await?;
        if settings.modes(&self.context) == before {
            return Ok(rows);
        }
        settings.bring_back(&self.context, saved).await?;
        Err(of_program().into())
    }

    /// Warns whoever takes the session's notices.
    fn say(&self, warning: Notice) {
        Notices::say(self.context.state_ref().read().config(), || warning);
    }
}

/// A query that its consumer gets.
fn handed_out((running, _): (Running, bool)) -> Running {
    running.is_handed_out();
    running
}

/// Checks that a block has not failed.
///
/// # Errors
/// 25P02.
fn check_alive(block: &Block) -> Result<()> {
    let alive = block.status().check_alive();
    Ok(alive.map_err(DataFusionError::from)?)
}

/// Checks that a statement without parameters gets no values.
fn check_none(values: &[ScalarValue]) -> PlanResult<()> {
    if values.is_empty() {
        return Ok(());
    }
    let text = format!("{} parameters, but 0 are needed", values.len());
    Err(PgError::new("08P01", text).into())
}

/// The refusal of a statement about a block that the program has opened by a method.
fn of_program() -> PgError {
    let told = "the block was opened by Session::begin: it ends, and changes its modes, by what \
                Block offers";
    PgError::new("55000", told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, EngineConfig};

    /// TB5, and as much for prepared statements.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_block_and_prepared_statements_do_not_keep_their_session() {
        let session = Engine::new(EngineConfig::default()).unwrap().session();
        session.sql("BEGIN").await.unwrap();
        session.sql("PREPARE p AS SELECT 1").await.unwrap();
        assert_eq!(session.status().await, BlockStatus::Open);
        let settings = Arc::downgrade(&session.settings);
        drop(session);
        assert!(settings.upgrade().is_none());
    }
}
