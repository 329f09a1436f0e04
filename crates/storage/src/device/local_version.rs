//! When are two local files the same version?
//!
//! Most programs compare size, modification time and inode; `cp -p` and `rsync -t` preserve the
//! first two, `mv` all three. No program can set the time of the last change (ctime), so a
//! version's time is ctime where the file system has it; its tag names all four. Versions from
//! `object_store`'s own listing have fewer of these values and are compared by those.
//! V1: two equal versions made here are of one inode that did not change in between, by the file
//! system's clock.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;

use object_store::path::Path;

use super::FileVersion;
use super::local_path::path_of;

const NS: i128 = 1_000_000_000;

/// The current version of a local file.
#[must_use]
pub fn local_version(location: &Path, metadata: &Metadata) -> FileVersion {
    let (modified, changed) = (modified_ns(metadata), changed_ns(metadata));
    let known = tag(metadata.ino(), modified, metadata.len());
    FileVersion {
        location: location.clone(),
        size: metadata.len(),
        // Some file systems have no ctime.
        modified_ns: if changed > 0 { changed } else { modified },
        e_tag: Some(format!("{known}-{modified:x}-{changed:x}")),
    }
}

/// The current version of a local file that a store has listed with fewer values, if the file still
/// has those values. `None` if it does not, or if the version has all values already.
#[must_use]
pub fn known_in_full(file: &FileVersion) -> Option<FileVersion> {
    if parts(file).count() == PARTS {
        return None;
    }
    let metadata = fs::metadata(path_of(&file.location)).ok()?;
    let now = local_version(&file.location, &metadata);
    is_now(file, &now).then_some(now)
}

/// Whether an open file is this version. A file that has lost its last name has a new ctime for
/// that reason alone, because no program can open it; for such a file ctime is not compared.
pub(super) fn is_version(metadata: &Metadata, file: &FileVersion) -> bool {
    let now = local_version(&file.location, metadata);
    let nameless = || {
        let without_change = |version: &FileVersion| {
            let tag = version.e_tag.as_deref()?.rsplit_once('-')?.0.to_owned();
            Some((tag, version.size))
        };
        metadata.nlink() == 0 && without_change(&now) == without_change(file)
    };
    is_now(file, &now) || nameless()
}

/// Whether a version is the one that [`local_version()`] found: equal to it, or equal in the fewer
/// values that it has.
pub(super) fn is_now(file: &FileVersion, now: &FileVersion) -> bool {
    if file == now {
        return true;
    }
    let of_now: Vec<&str> = parts(now).collect();
    let [inode, micros, size, modified, _] = of_now.as_slice() else {
        return false;
    };
    let same_tag = match (file.e_tag.as_deref(), parts(file).count()) {
        (Some(tag), KNOWN) => tag == format!("{inode}-{micros}-{size}"),
        // A tag of the full form that differs.
        (Some(_), PARTS) => false,
        // Any other tag, or none, does not identify a local file.
        _ => true,
    };
    same_tag
        && file.size == now.size
        && file.location == now.location
        && i128::from_str_radix(modified, 16).is_ok_and(|modified| modified == file.modified_ns)
}

/// The number of parts in a tag made here.
const PARTS: usize = 5;
/// The number of parts that `object_store` has too; they come first.
const KNOWN: usize = 3;

fn parts(file: &FileVersion) -> impl Iterator<Item = &str> {
    file.e_tag.as_deref().unwrap_or_default().split('-')
}

/// `object_store`'s tag of a local file.
fn tag(inode: u64, modified_ns: i128, size: u64) -> String {
    // For times before 1970 object_store writes 0.
    let micros = modified_ns.max(0) / 1000;
    format!("{inode:x}-{micros:x}-{size:x}")
}

fn modified_ns(metadata: &Metadata) -> i128 {
    i128::from(metadata.mtime()) * NS + i128::from(metadata.mtime_nsec())
}

fn changed_ns(metadata: &Metadata) -> i128 {
    i128::from(metadata.ctime()) * NS + i128::from(metadata.ctime_nsec())
}
