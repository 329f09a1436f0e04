//! Where is a location of the local store, and what do errors call it?
//!
//! The store is rooted at `/`, and locations have no first slash.

use std::path::PathBuf;

use object_store::path::Path;

/// The path of a location.
pub(super) fn path_of(location: &Path) -> PathBuf {
    PathBuf::from(name_of(location))
}

/// What errors call it.
pub(super) fn name_of(location: &Path) -> String {
    format!("/{location}")
}
