//! Tables: from a path to something that can be scanned, and who sees it.
//!
//! | where | question |
//! |---|---|
//! | `registration.rs` | which files are the table at a path? |
//! | `parquet_format.rs` | which file of a table cannot be read, or does not fit the others? |
//! | `footers.rs` | which footers does DataFusion plan with? |
//! | `store_registry.rs`, `store_urls.rs` | which object store does a URL mean, and how is it set up? |
//! | `local_store/` | when are two local files the same version, and when is a write there to stay? |
//! | `own/` | what do sessions make, and who sees it? |

pub(crate) mod footers;
pub(crate) mod local_store;
pub(crate) mod own;
mod parquet_format;
pub(crate) mod registration;
mod store_registry;
pub(crate) mod store_urls;

pub(crate) use store_registry::StoreRegistry;

/// The schema of the tables that the engine makes of itself.
pub(crate) const SYSTEM_SCHEMA: &str = "coscan";
