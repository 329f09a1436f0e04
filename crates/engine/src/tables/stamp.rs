//! Has a local file or folder changed since it was registered as a table?
//!
//! A file has changed if its size, its time or its inode is another. A folder changes when a file
//! in it is created, renamed or removed, not when one is overwritten in place.
//! Not here: folders below it, and object stores: a scan compares the columns of each file that it
//! finds changed (`parquet_format.rs`).
//! Bounds: one system call per place; the calling thread makes it, which costs less than handing
//! it over.

use std::path::Path;
use std::time::SystemTime;

use super::locations;

/// What each of a path's places held; `None` for one that is not local or does not exist.
#[derive(Debug, PartialEq)]
pub(crate) struct Stamp(Vec<Option<Seen>>);

#[derive(Debug, PartialEq)]
struct Seen {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

impl Stamp {
    pub(crate) fn of(path: &str) -> Self {
        let places = locations::split(path);
        Self(places.into_iter().map(seen).collect())
    }

    /// Whether a place now holds something else. A place that was removed does not count as
    /// changed: a scan reports that.
    pub(crate) fn has_changed(&self, path: &str) -> bool {
        let now = Self::of(path);
        now.0.len() != self.0.len()
            || now
                .0
                .iter()
                .zip(&self.0)
                .any(|(now, then)| now.is_some() && now != then)
    }
}

/// What one place holds: a file, a folder, or the folder before a glob.
fn seen(place: &str) -> Option<Seen> {
    if place.contains("://") {
        return None;
    }
    let path = Path::new(place);
    let found = std::fs::metadata(path).or_else(|error| {
        let glob = place.find(['*', '?', '[']).ok_or(error)?;
        let folder = place[..glob]
            .rfind('/')
            .map_or(".", |slash| &place[..=slash]);
        std::fs::metadata(folder)
    });
    let found = found.ok()?;
    Some(Seen {
        modified: found.modified().ok(),
        bytes: found.len(),
        inode: inode(&found),
    })
}

#[cfg(unix)]
fn inode(found: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(found)
}

#[cfg(not(unix))]
fn inode(_: &std::fs::Metadata) -> u64 {
    0
}
