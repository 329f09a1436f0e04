//! Object stores: which one a URL means, and the local one.
//!
//! | where | question |
//! |---|---|
//! | `store_registry.rs`, `store_urls.rs` | which object store does a URL mean, and how is it set up? |
//! | `joint_store.rs` | how are files of several stores one table? |
//! | `staged_store.rs` | how do the files of one statement appear when it has ended? |
//! | `local_store/` | when are two local files the same version, and when is a write durable? |
//!
//! Not here: tables (`tables/`), what reads them (coscan-storage's devices).

pub(crate) mod joint_store;
pub(crate) mod local_store;
pub(crate) mod staged_store;
mod store_registry;
pub(crate) mod store_urls;

pub(crate) use store_registry::StoreRegistry;
