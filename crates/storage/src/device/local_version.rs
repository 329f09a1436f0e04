//! When are two local files the same version?
//!
//! Size, modification time and inode are what most programs compare, and what `cp -p`, `rsync -t`
//! and `mv` keep. The time of the last change (ctime) they cannot set, so a version's time is that,
//! where the file system has it; its tag names all four. Versions that come from `object_store`'s
//! own listing know less: they are compared by what they know.
//! V1: two versions of ours that are equal are of one inode that was not changed in between, by the
//! file system's clock.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;

use object_store::path::Path;

use super::FileVersion;
use super::local_path::path_of;

const NS: i128 = 1_000_000_000;

/// The version that a local file has now.
#[must_use]
pub fn local_version(location: &Path, metadata: &Metadata) -> FileVersion {
    let (modified, changed) = (modified_ns(metadata), changed_ns(metadata));
    let known = tag(metadata.ino(), modified, metadata.len());
    FileVersion {
        location: location.clone(),
        size: metadata.len(),
        // Some file systems have no such time.
        modified_ns: if changed > 0 { changed } else { modified },
        e_tag: Some(format!("{known}-{modified:x}-{changed:x}")),
    }
}

/// The version that a local file has now, if it is still the one that a store has listed which
/// knows less; `None` if it is not, or if it was listed by who knows all.
#[must_use]
pub fn known_in_full(file: &FileVersion) -> Option<FileVersion> {
    if parts(file).count() == PARTS {
        return None;
    }
    let metadata = fs::metadata(path_of(&file.location)).ok()?;
    let now = local_version(&file.location, &metadata);
    is_now(file, &now).then_some(now)
}

/// Whether an open file is this version. What has lost its last name was changed by that and by
/// nobody else: no program can open it any more.
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

/// Whether a version is the one that [`local_version()`] found: it equals it, or was made by
/// somebody who knows less.
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
        // One of ours, which is another.
        (Some(_), PARTS) => false,
        // Any other tag, or none, says nothing about a local file.
        _ => true,
    };
    same_tag
        && file.size == now.size
        && file.location == now.location
        && i128::from_str_radix(modified, 16).is_ok_and(|modified| modified == file.modified_ns)
}

/// Parts of a tag of ours.
const PARTS: usize = 5;
/// Those of them that `object_store` knows, which come first.
const KNOWN: usize = 3;

fn parts(file: &FileVersion) -> impl Iterator<Item = &str> {
    file.e_tag.as_deref().unwrap_or_default().split('-')
}

/// `object_store`'s tag of a local file.
fn tag(inode: u64, modified_ns: i128, size: u64) -> String {
    // Before 1970 object_store says 0.
    let micros = modified_ns.max(0) / 1000;
    format!("{inode:x}-{micros:x}-{size:x}")
}

fn modified_ns(metadata: &Metadata) -> i128 {
    i128::from(metadata.mtime()) * NS + i128::from(metadata.mtime_nsec())
}

fn changed_ns(metadata: &Metadata) -> i128 {
    i128::from(metadata.ctime()) * NS + i128::from(metadata.ctime_nsec())
}
