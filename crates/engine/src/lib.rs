//! Analytical SQL in which many queries that run at once share one read of a table.
//!
//! ```no_run
//! # async fn example() -> coscan::Result<()> {
//! use futures::TryStreamExt;
//!
//! let session = coscan::Session::open()?;
//! session.register("lineitem", "data/lineitem.parquet").await?;
//! let mut rows = session.sql("SELECT count(*) FROM lineitem WHERE l_tax > 0.02").await?;
//! while let Some(batch) = rows.try_next().await? {
//!     println!("{batch:?}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! An [`Engine`] owns memory, devices and tables; each [`Session`] has its own settings
//! ([`Settings`], changed by SET). DataFusion plans the queries; an optimizer rule then replaces
//! scans of Parquet tables by cooperative scans, which the Active Buffer Manager of `coscan-core`
//! schedules together. [`CoscanExt`] adds them to a DataFusion session of your own.

mod commit_point;
mod cscan;
mod effects;
mod error;
mod fragment;
mod index;
mod index_catalog;
mod inner_planner;
mod lost_node;
mod memory;
mod notices;
mod object_stores;
mod once;
mod operators;
mod ordered;
pub mod parts;
mod plan;
mod probe;
mod query_width;
mod read;
mod resources;
mod retained;
mod right;
mod rights;
pub mod running;
mod session;
mod session_names;
mod settings;
mod short_node;
mod small_plans;
mod statement;
mod tables;
pub mod tasks;

pub use commit_point::CommitPoint;
pub use coscan_core::smooth::{AccessPath, SmoothPolicy, SmoothTrigger};
pub use coscan_core::{Policy, StorageModel, UnknownName};
pub use coscan_storage::device::{DeviceSnapshot, NamedDevice, Throttle};
pub use coscan_storage::pool::{JobTrace, LoadTrace, PageTrace, PoolSnapshot, Reclaim};
pub use coscan_storage::{StorageError, threads};
pub use effects::Effects;
pub use error::{Error, Result, is_denied, is_stopped, storage_error};
pub use index::{IndexStatement, index_statement};
pub use index_catalog::IndexBuild;

pub use memory::{Wait, bounded, connection_memory};
pub use notices::{Notice, Notices, Severity};
pub use object_stores::local_store::{Disk, LocalStore, SystemDisk};
pub use operators::{OperatorTaker, OperatorTrace};
pub use retained::Retained;
pub use right::{Right, Rights};
pub use rights::without_folders;
pub use running::Running;
pub use session::{
    AfterFailure, Block, BlockStatement, BlockStatus, CoscanExt, Engine, EngineMetrics,
    NamesStatement, OpenQueries, Prepared, PreparedNames, RunOptions, Session, SessionOwner,
    StartOptions, Statement, ToRun, Transaction, TransactionModes, TransactionRules,
    add_physical_rule, arguments, declared_types, give_way_in_joins, only_reads, run,
    settings as session_settings, start,
};
pub use session_names::{
    AlterColumns, ColumnChange, Confinement, DatabaseName, DropNames, Rename, Snapshot,
    TEMPORARY_SCHEMA, alter_own, drop_own, execute, forget_own, refused_read_only, rename_own,
};
pub use settings::{
    ClusterWidth, EngineConfig, MergeJoins, Nested, SETTINGS, Setting, Settings, Values,
};
pub use statement::{
    StatementError, StatementSize, StatementText, StatementTexts, THREAD_STACK_BYTES,
    on_large_stack, parse_postgresql, parse_statement, plan_statement, reserve_statement,
    shape_datafusion, shape_statement, split_statements, statement_texts,
};
pub use tables::partitioned::files_of;
