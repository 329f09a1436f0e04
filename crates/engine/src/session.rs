//! A session: settings of its own, tables shared with the engine's other sessions.

use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::TableProvider;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::{find_indexes, index_statement};
use crate::own::execute;
use crate::register;

/// One user's view of an [`Engine`]: what SET changes is the session's own, tables are shared by all sessions.
///
/// It is cheap to clone; clones are the same session.
#[derive(Clone)]
pub struct Session {
    engine: Engine,
    context: SessionContext,
}

impl Session {
    pub(crate) fn new(engine: Engine, context: SessionContext) -> Self {
        Self { engine, context }
    }

    /// Opens an engine with its defaults and a session on it.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn open() -> Result<Self> {
        Ok(Engine::new(crate::EngineConfig::default())?.session())
    }

    /// Makes a table of a file, a folder, a glob (`data/*.parquet`) or a URL (`s3://`, `http://`), or replaces the one of
    /// that name. All sessions of the engine see it.
    ///
    /// # Errors
    /// [`Error::Table`], which names the path.
    pub async fn register(&self, name: &str, path: &str) -> Result<()> {
        let refused = |error: &dyn std::error::Error| Error::Table {
            name: name.to_owned(),
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let state = self.context.state();
        let table: Arc<dyn TableProvider> = register::table_at(&state, path)
            .await
            .map_err(|error| refused(&error))?;
        let name = datafusion::common::TableReference::bare(name);
        self.context
            .deregister_table(name.clone())
            .map_err(|error| refused(&error))?;
        self.context
            .register_table(name, Arc::clone(&table))
            .map_err(|error| refused(&error))?;
        find_indexes(&self.engine, &state, &table).await;
        Ok(())
    }

    /// Plans one SQL statement and starts it. Rows come as they are asked for; dropping the stream cancels the query.
    ///
    /// # Errors
    /// What parsing and planning say; what running says comes through the stream.
    pub async fn sql(&self, text: &str) -> Result<SendableRecordBatchStream> {
        let about_index = index_statement(text)?;
        let text = about_index.as_ref().map_or(text, |index| &index.query);
        let plan = self.context.state().create_logical_plan(text).await?;
        let frame = execute(&self.context, plan).await?;
        let context = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await?;
        Ok(execute_stream(plan, context)?)
    }

    /// The plan of a SQL query as text, with our scans in it.
    ///
    /// # Errors
    /// What parsing and planning say.
    pub async fn explain(&self, text: &str) -> Result<String> {
        let stream = self.sql(&format!("EXPLAIN {text}")).await?;
        let batches: Vec<_> = stream.try_collect().await?;
        let table = pretty_format_batches(&batches).map_err(|error| {
            datafusion::error::DataFusionError::ArrowError(Box::new(error), None)
        })?;
        Ok(table.to_string())
    }

    /// Names this session's scans from now on, in traces and in `coscan.scans`.
    ///
    /// # Errors
    /// If the label is too long.
    pub fn label(&self, label: &str) -> Result<()> {
        self.set("coscan.label", label)
    }

    /// Changes a setting, as SET does.
    ///
    /// # Errors
    /// If there is no such setting or the value is none of its.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let state = self.context.state_ref();
        let mut state = state.write();
        Ok(state.config_mut().options_mut().set(name, value)?)
    }

    /// DataFusion's context, for everything else.
    #[must_use]
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}
