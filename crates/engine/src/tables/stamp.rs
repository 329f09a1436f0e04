//! Has a local file or folder changed since a table was made of it?
//!
//! A file has changed if its size, its time or the file itself is another. A folder changes when a
//! file in it is made, renamed or removed, not when one is overwritten in place.
//! Not here: folders below it, and object stores: a scan compares the columns of each file that it
//! finds changed (`parquet_format.rs`).
//! Bounds: one system call per place; it is made by the calling thread, which is cheaper than
//! handing it over.

use std::path::Path;
use std::time::SystemTime;

use super::locations;

/// What was at the places that a path names; `None` for one that is not local or not there.
#[derive(Debug, PartialEq)]
pub(super) struct Stamp(Vec<Option<Seen>>);

#[derive(Debug, PartialEq)]
struct Seen {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

impl Stamp {
    pub(super) fn of(path: &str) -> Self {
        let places = locations::split(path);
        Self(places.into_iter().map(seen).collect())
    }

    /// Whether something else is there now. What is gone has not changed: a scan says that it is
    /// gone.
    pub(super) fn has_changed(&self, path: &str) -> bool {
        let now = Self::of(path);
        now.0.len() != self.0.len()
            || now
                .0
                .iter()
                .zip(&self.0)
                .any(|(now, then)| now.is_some() && now != then)
    }
}

/// What is at one place: a file, or a folder, or the folder that a glob begins with.
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
