//! Which indexes does the engine know, and what does it know of each without opening it?
//!
//! | file | question |
//! |---|---|
//! | `catalog.rs` | which indexes does the engine know? |
//! | `folder.rs` | where are indexes kept? |
//! | `manifest.rs` | what does a manifest record, and how is damage noticed? |
//! | `litter.rs` | what happens to drafts whose process was killed? |
//! | `progress.rs` | how far are the running builds? |
//!
//! Not here: building, reading and looking for indexes (`index/`). Contract:
//! `docs/design/index.md`.

mod catalog;
mod folder;
mod litter;
mod manifest;
mod progress;

pub(crate) use catalog::{Index, Indexes};
pub(crate) use folder::{Folder, NamedFolder};
pub(crate) use litter::Claim;
pub(crate) use manifest::{
    CoveredFile, KEY, Manifest, POSITION, is_ordered_alike, is_text, is_whole_number,
};
pub use progress::IndexBuild;
pub(crate) use progress::Progress;
