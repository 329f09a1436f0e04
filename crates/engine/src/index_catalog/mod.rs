//! Which indexes are there, and what is known of each without opening it?
//!
//! | file | what it answers |
//! |---|---|
//! | `catalog.rs` | which indexes there are |
//! | `folder.rs` | where indexes are kept |
//! | `manifest.rs` | what is written about an index, and how damage is noticed |
//! | `litter.rs` | what becomes of drafts whose process was killed |
//! | `progress.rs` | how far builds are |
//!
//! Not here: making, reading and looking for indexes (`index/`). Contract: `docs/design/index.md`.

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
