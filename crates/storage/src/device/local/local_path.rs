//! Which path does a location of the local store have, and which name do errors use?
//!
//! The store is rooted at `/`, and locations have no leading slash.

use std::path::PathBuf;

use object_store::path::Path;

/// The path of a location.
pub(in crate::device) fn path_of(location: &Path) -> PathBuf {
    PathBuf::from(name_of(location))
}

/// The name of a location in errors.
pub(in crate::device) fn name_of(location: &Path) -> String {
    format!("/{location}")
}
