//! A session: it has its own settings, and shares tables with the engine's other sessions.
//!
//! | file | question |
//! |---|---|
//! | `admission.rs` | when does a query begin? |
//! | `block/` | which statement may run in a transaction block, and what does its end restore? |
//! | `catalog/` | which names do all sessions see? |
//! | `engine.rs` | what do all sessions share? |
//! | `minimum.rs` | how much memory does a plan need at least? |
//! | `names/` | which prepared statements does a session have, and what does EXECUTE give them? |
//! | `on_nodes.rs` | which statements does a session refuse whose queries other nodes run? |
//! | `open_queries.rs` | which queries does a session have open, and what do they wait for? |
//! | `prepared.rs` | what does a prepared statement return, and when is its plan out of date? |
//! | `rust/` | how does a program prepare and run statements? |
//! | `settings/` | what do SET, RESET and SHOW do? |
//! | `start.rs` | how does a plan start? |
//! | `task_context.rs` | what do the tasks of a plan find in their context? |
//! | `ext.rs` | how does an embedder's DataFusion session get cooperative scans? |
//!
//! Not here: Coscan's own settings (`../settings/`), and which of them a session may change
//! (`../rights/settings.rs`).

mod admission;
mod block;
mod catalog;
mod engine;
mod ext;
mod minimum;
mod names;
mod on_nodes;
mod open_queries;
mod prepared;
mod rust;
pub mod settings;
mod start;
mod task_context;

use std::sync::Arc;

use coscan_pg::ASSIGNMENTS;
use coscan_pg::output::IntervalStyle;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, TableProvider};
use datafusion::common::TableReference;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use tokio::sync::Mutex;

use crate::error::{Error, Result};
use crate::index::find_indexes;
use crate::session_names::ChangeByQuery;
use crate::settings::EngineConfig;
use crate::small_plans;
use crate::tables::{SYSTEM_SCHEMA, registration};

pub use block::{AfterFailure, Block, BlockStatement, BlockStatus, Transaction};
use catalog::{Place, SharedTables, system_tables};
pub use engine::{Engine, EngineMetrics};
pub use ext::{CoscanExt, add_physical_rule, give_way_in_joins};
pub(crate) use ext::{add_settings, of_planned};
pub use names::{NamesStatement, PreparedNames, arguments, declared_types};
pub(crate) use on_nodes::OnNodes;
pub use open_queries::{OpenQueries, SessionOwner};
pub use prepared::Prepared;
use rust::Query;
pub use rust::Statement;
pub use settings::TransactionModes;
use settings::{Board, SessionSettings};
pub use start::{RunOptions, StartOptions, ToRun, TransactionRules, only_reads, run, start};

/// The catalog and the schema that every session sees.
const CATALOG: &str = "datafusion";
const SCHEMA: &str = "public";

/// The most keys that a hash join's build side passes to its probe side as a list.
const JOIN_KEYS_MAX: usize = 1_000;

/// Divided by the partitions of a query: the largest build side, in bytes, from which a hash join
/// makes one hash table for all partitions. For a larger one it partitions both sides by hash, so
/// that as many threads build tables as probe them. That pays with many cores, or where few rows
/// are probed; it copies all rows, and other queries cannot probe the tables.
const ONE_TABLE_BYTES: usize = 128 << 20;
/// The same limit for inputs of which only the number of rows is known.
const ONE_TABLE_ROWS: usize = 4 << 20;

/// The part of the budget, as a divisor, that a sort reserves for its merges. It is next to
/// nothing, so that the sort gets it however full the memory is (`memory/pool.rs`). A merge uses
/// the memory that its sort gives back.
const SORT_SHARE: u64 = 2048;

impl Engine {
    /// Creates an engine. Its threads start when the first query needs them.
    ///
    /// # Errors
    /// If the configuration has a value that an engine cannot have, or if the operating system
    /// refuses a resource or the file to record to.
    pub fn new(config: EngineConfig) -> Result<Self> {
        let engine = Self::bare(config)?;
        let catalog = MemoryCatalogProvider::new();
        let shared = SharedTables::new(engine.downgrade());
        catalog.register_schema(SCHEMA, Arc::new(shared))?;
        let system = system_tables::schema(&engine.downgrade())?;
        catalog.register_schema(SYSTEM_SCHEMA, Arc::new(system))?;
        let catalogs = engine.catalogs();
        catalogs.register_catalog(CATALOG.to_owned(), Arc::new(catalog));
        Ok(engine)
    }

    /// A new session that starts with the engine's configured settings.
    #[must_use]
    pub fn session(&self) -> Session {
        self.session_with(|builder| builder.with_coscan(self))
    }

    /// Adds a table to the schema `coscan`, unless there is one of this name.
    ///
    /// # Errors
    /// The catalog's.
    pub(crate) fn add_system_table(
        &self,
        name: &str,
        table: Arc<dyn TableProvider>,
    ) -> std::result::Result<(), DataFusionError> {
        let catalog = self.catalogs().catalog(CATALOG);
        let schema = catalog.and_then(|catalog| catalog.schema(SYSTEM_SCHEMA));
        match schema {
            Some(schema) if !schema.table_exist(name) => {
                schema.register_table(name.to_owned(), table).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// A session in which `rules` adds Coscan's rules.
    pub(crate) fn session_with(
        &self,
        rules: impl FnOnce(SessionStateBuilder) -> SessionStateBuilder,
    ) -> Session {
        let builder = SessionStateBuilder::new()
            .with_config(self.session_config())
            .with_runtime_env(Arc::clone(self.runtime()))
            .with_catalog_list(Arc::clone(self.catalogs()))
            .with_default_features();
        let mut builder = rules(coscan_pg::install(builder));
        if self.resources().config().target_partitions.is_none() {
            small_plans::allow(builder.config().get_or_insert_default());
        }
        // Before the rules that rewrite predicates, after the rule that expects UPDATE's original
        // form.
        let rules = &mut builder.analyzer().get_or_insert_default().rules;
        let form = rules.iter().position(|rule| rule.name() == ASSIGNMENTS);
        rules.insert(form.map_or(0, |at| at + 1), Arc::new(ChangeByQuery));
        let mut state = builder.build();
        registration::write_by_our_rules(&mut state);
        Session::new(self.clone(), SessionContext::new_with_state(state))
    }

    /// The configuration of a new session, which is one of the engine's open ones from now on.
    fn session_config(&self) -> SessionConfig {
        let config = self.resources().config();
        let mut options = SessionConfig::new()
            .with_information_schema(true)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .with_batch_size(config.batch_rows)
            .with_extension(self.sessions().begin());
        if let Some(partitions) = config.target_partitions {
            options = options.with_target_partitions(partitions);
        }
        // Every sort reserves this much to merge what it spilled. Many sorts at once could not get
        // the default of 10 MiB from a small budget.
        let share = usize::try_from(self.memory().limit() / SORT_SHARE).unwrap_or(usize::MAX);
        let aside = &mut options.options_mut().execution.sort_spill_reservation_bytes;
        *aside = (*aside).min(share);
        // The most keys of a join's build side with which an index is probed; DataFusion's default
        // is 150. A list of any length is looked up by hash.
        let partitions = options.target_partitions().max(1);
        let optimizer = &mut options.options_mut().optimizer;
        optimizer.hash_join_inlist_pushdown_max_distinct_values = JOIN_KEYS_MAX;
        for (threshold, most) in [
            (
                &mut optimizer.hash_join_single_partition_threshold,
                ONE_TABLE_BYTES,
            ),
            (
                &mut optimizer.hash_join_single_partition_threshold_rows,
                ONE_TABLE_ROWS,
            ),
        ] {
            *threshold = (*threshold).max(most / partitions);
        }
        // Two partitions that publish bounds of min and max at the same time may lose one of them,
        // and then the filter drops rows that count (DataFusion 55.2, `aggregate_stream.rs`).
        options
            .options_mut()
            .optimizer
            .enable_aggregate_dynamic_filter_pushdown = false;
        // In nanoseconds, INT96 spans only 1677 to 2262, and other years would wrap around.
        options.options_mut().execution.parquet.coerce_int96 = Some("us".to_owned());
        // What SET IntervalStyle sets.
        let extensions = &mut options.options_mut().extensions;
        extensions.insert(IntervalStyle::default());
        options
    }
}

/// One user's view of an [`Engine`]: SET changes only this session, tables are shared by all
/// sessions.
///
/// Cheap to clone; clones share the session.
#[derive(Clone)]
pub struct Session {
    engine: Engine,
    context: SessionContext,
    /// Locked while a statement about settings is carried out, and while a block ends.
    settings: Arc<Mutex<SessionSettings>>,
    /// The values of the settings, for statements, which do not wait for that lock.
    board: Arc<Board>,
    /// Locked while the session has a block (`block/of_program.rs`, TB3).
    block: Arc<Mutex<()>>,
    /// The block that BEGIN has opened as a statement. Locked while a statement starts in it.
    opened: Arc<Mutex<Option<Block>>>,
    /// What PREPARE has prepared.
    names: Arc<parking_lot::Mutex<PreparedNames<Query>>>,
}

impl Session {
    pub(crate) fn new(engine: Engine, context: SessionContext) -> Self {
        let board = Arc::new(Board::default());
        let own = Arc::clone(&board);
        context.state_ref().write().config_mut().set_extension(own);
        settings::register_functions(&context, &board);
        let mut settings = SessionSettings::new(&context, "");
        settings.have_started(&context);
        Self {
            engine,
            context,
            settings: Arc::new(Mutex::new(settings)),
            board,
            block: Arc::default(),
            opened: Arc::default(),
            names: Arc::default(),
        }
    }

    /// Opens an engine with its defaults and a session on it.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn open() -> Result<Self> {
        Ok(Engine::new(EngineConfig::default())?.session())
    }

    /// Registers a file, a folder, a glob (`data/*.parquet`) or a URL (`s3://`, `http://`), or
    /// several of these separated by commas, as a table. It replaces a table of that name. All
    /// sessions of the engine see it.
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
        // The stamp is taken before the files are read, so a change in between is noticed later.
        let place = Place::new(path);
        let table = registration::table_at(&state, path)
            .await
            .map_err(|error| refused(&error))?;
        let schema = state
            .schema_for_ref(TableReference::bare(name))
            .map_err(|error| refused(&error))?;
        if let Some(shared) = schema.downcast_ref::<SharedTables>() {
            shared.put(name, Arc::clone(&table), place);
        } else {
            let register = |table| {
                schema.deregister_table(name)?;
                schema.register_table(name.to_owned(), table)
            };
            register(Arc::clone(&table)).map_err(|error| refused(&error))?;
        }
        find_indexes(self.engine.resources().indexes(), &state, &table).await;
        Ok(())
    }

    /// Registers a table as [`Session::register`] does. If that fails, the name is kept:
    /// statements that use it get the current error of its files. The first error is returned.
    pub async fn declare(&self, name: &str, path: &str) -> Option<Error> {
        let error = self.register(name, path).await.err()?;
        let schema = self.context.state();
        let schema = schema.schema_for_ref(TableReference::bare(name));
        if let Ok(schema) = schema
            && let Some(shared) = schema.downcast_ref::<SharedTables>()
        {
            shared.keep_unopened(name, path);
        }
        Some(error)
    }

    /// The table of the files at `path`, as [`Session::register`] makes it, without a name.
    ///
    /// # Errors
    /// If the path does not exist, or a file is not what its extension says, or does not fit the
    /// others.
    pub async fn table_at(&self, path: &str) -> Result<Arc<dyn TableProvider>> {
        Ok(registration::table_at(&self.context.state(), path).await?)
    }

    /// Plans one statement of PostgreSQL's SQL, without parameters, and starts it on the caller's
    /// runtime: [`Session::prepare`] and [`Statement::execute`] in one. Rows come as they are asked
    /// for; dropping the stream cancels the query. A query that others left no memory for is run
    /// again, as long as it has given no row. One whose rows are not asked for is ended if others
    /// need its memory.
    ///
    /// BEGIN opens a block, to which all statements of the session belong until COMMIT or ROLLBACK;
    /// a statement that fails fails the block. As in a block of [`Session::begin`], statements that
    /// change what all sessions see are refused.
    ///
    /// # Errors
    /// The errors of parsing and planning. Errors of running come through the stream.
    pub async fn sql(&self, text: &str) -> Result<SendableRecordBatchStream> {
        let statement = self.prepare(text, &[]).await?;
        statement.run_first().await
    }

    /// The plan of a SQL query as text, with cooperative scans in it.
    ///
    /// # Errors
    /// The errors of parsing and planning.
    pub async fn explain(&self, text: &str) -> Result<String> {
        let stream = self.sql(&format!("EXPLAIN {text}")).await?;
        let batches: Vec<_> = stream.try_collect().await?;
        let table = pretty_format_batches(&batches)
            .map_err(|error| DataFusionError::ArrowError(Box::new(error), None))?;
        Ok(table.to_string())
    }

    /// Labels this session's next scans in traces and in `coscan.scans`.
    ///
    /// # Errors
    /// If the label is too long.
    pub fn label(&self, label: &str) -> Result<()> {
        self.set("coscan.label", label)
    }

    /// Changes a setting of Coscan's or DataFusion's, as SET does.
    ///
    /// # Errors
    /// If there is no such setting, or it cannot have the value.
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
