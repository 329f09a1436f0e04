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
//! An [`Engine`] owns memory, devices and tables; each [`Session`] has settings of its own
//! ([`Settings`], changed by SET). Queries are planned by DataFusion; scans of Parquet tables then
//! are replaced by cooperative scans, which are scheduled together by the Active Buffer Manager of
//! `coscan-core`. A DataFusion session of your own gets them by [`CoscanExt`].

mod config;
mod engine;
mod error;
mod ext;
mod footers;
mod fragment;
mod index;
mod litter;
mod local_store;
mod memory_limit;
mod memory_pool;
mod named_files;
mod own;
mod register;
mod registry;
pub mod rewrite;
mod rights;
mod scan;
mod session;
mod settings;
mod size;
mod smooth;
mod sort_credit;
mod spill;
mod statement;
mod stores;
mod system_tables;

pub use config::EngineConfig;
pub use coscan_core::smooth::{AccessPath, SmoothPolicy, SmoothTrigger};
pub use coscan_core::{Policy, StorageModel, UnknownName};
pub use coscan_storage::StorageError;
pub use coscan_storage::device::DeviceSnapshot;
pub use coscan_storage::pool::{LoadTrace, PageTrace, PoolSnapshot};
pub use engine::{Engine, EngineMetrics};
pub use error::{Error, Result, is_denied, storage_error};
pub use ext::CoscanExt;
pub use index::{IndexBuild, IndexStatement, index_statement};
pub use local_store::{Disk, LocalStore};
pub use own::{execute, forget_own};
pub use rights::{Confinement, Right, Rights, check as check_rights};
pub use session::Session;
pub use settings::{CHUNK_BYTES_DEFAULT, SMALL_TABLE_BYTES_DEFAULT, Settings, parse_memory};
pub use statement::{
    StatementError, StatementSize, StatementText, StatementTexts, on_large_stack, parse_statement,
    plan_statement, reserve_statement, shape_datafusion, shape_statement, split_statements,
    statement_texts,
};
