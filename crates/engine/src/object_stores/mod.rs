//! Which object store does a URL mean, and how do files appear in it?
//!
//! | where | question |
//! |---|---|
//! | `store_registry.rs`, `store_urls.rs` | which object store does a URL mean, and how is it set up? |
//! | `joint_store.rs` | how are files of several stores files of one table? |
//! | `staged_store.rs` | how do the files of a statement appear only when it has ended? |
//! | `local_store/` | when are two local files the same version, and when is a write durable? |
//!
//! Not here: tables (`tables/`), reading their files (coscan-storage's devices).

pub(crate) mod joint_store;
pub(crate) mod local_store;
pub(crate) mod staged_store;
mod store_registry;
pub(crate) mod store_urls;

pub(crate) use store_registry::StoreRegistry;
