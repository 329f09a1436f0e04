//! When are two local files the same version?
//!
//! Most programs compare size, modification time and inode; `cp -p` and `rsync -t` preserve the
//! first two, `mv` all three. No program can set the time of the last change (ctime), so a
//! version's time is ctime where the file system has it; its tag contains all four values and the
//! device. A file system's clock ticks every few milliseconds, so two files may have all times in
//! common, and DataFusion's caches compare only size and time. So the time that a listing shows
//! ([`listed_time()`]) also depends on the tag. Versions from `object_store`'s own listing have
//! fewer of these values and are compared by those.
//! V1: two equal versions made here are of one inode that did not change in between, by the file
//! system's clock.

use std::fs::{self, Metadata};
use std::hash::Hasher;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use object_store::path::Path;

use super::local_path::path_of;
use crate::device::FileVersion;

const NS: i128 = 1_000_000_000;

/// The current version of a local file.
#[must_use]
pub fn local_version(location: &Path, metadata: &Metadata) -> FileVersion {
    let (modified, changed) = (modified_ns(metadata), changed_ns(metadata));
    let known = tag(metadata.ino(), modified, metadata.len());
    FileVersion {
        location: location.clone(),
        size: metadata.len(),
        // Some file systems lack ctime.
        modified_ns: if changed > 0 { changed } else { modified },
        e_tag: Some(format!(
            "{known}-{modified:x}-{changed:x}-{:x}",
            metadata.dev()
        )),
    }
}

/// The time that a listing shows for a version made here: the second of the last change, plus a
/// fraction that is a hash of the tag. Two files, or two versions of a file, with the same size
/// and second get the same time with a probability of one in a thousand million.
#[must_use]
pub fn listed_time(file: &FileVersion) -> SystemTime {
    let mut hash = Fnv::default();
    hash.write(file.e_tag.as_deref().unwrap_or_default().as_bytes());
    let part = i128::from(hash.finish()).rem_euclid(NS);
    FileVersion {
        modified_ns: file.modified_ns.div_euclid(NS) * NS + part,
        ..file.clone()
    }
    .modified()
}

/// The true time of a version whose time is that of a listing; `None` if the tag does not contain
/// it.
pub(in crate::device) fn time_of(e_tag: &str) -> Option<i128> {
    let parts: Vec<&str> = e_tag.split('-').collect();
    let [_, _, _, modified, changed, _] = parts.as_slice() else {
        return None;
    };
    // Times before 1970 are negative.
    let time = |part: &str| u128::from_str_radix(part, 16).map(u128::cast_signed).ok();
    let (modified, changed) = (time(modified)?, time(changed)?);
    Some(if changed > 0 { changed } else { modified })
}

/// The number of a local file's device, as its listing found it; `None` if the tag does not
/// contain it.
pub(in crate::device) fn device_number(e_tag: &str) -> Option<u64> {
    time_of(e_tag)?;
    let (_, number) = e_tag.rsplit_once('-')?;
    u64::from_str_radix(number, 16).ok()
}

/// The tag without the device, whose number may change when the machine restarts.
#[must_use]
pub fn lasting_tag(e_tag: &str) -> &str {
    match (time_of(e_tag), e_tag.rsplit_once('-')) {
        (Some(_), Some((lasting, _device))) => lasting,
        _ => e_tag,
    }
}

/// FNV-1a, because every run and every version of Rust must compute the same hash.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The full version of a local file that a store has listed with fewer values, if the file still
/// has those values. `None` if it does not, or if the version is full already.
#[must_use]
pub fn known_in_full(file: &FileVersion) -> Option<FileVersion> {
    if parts(file).count() == PARTS {
        return None;
    }
    let metadata = fs::metadata(path_of(&file.location)).ok()?;
    let now = local_version(&file.location, &metadata);
    is_now(file, &now).then_some(now)
}

/// Whether an open file is this version. Removing a file's last name changes its ctime and not its
/// content, because no program can open it any more; for such a file ctime is not compared.
pub(in crate::device) fn is_version(metadata: &Metadata, file: &FileVersion) -> bool {
    let now = local_version(&file.location, metadata);
    let nameless = || {
        let without_change = |version: &FileVersion| {
            let mut parts: Vec<&str> = version.e_tag.as_deref()?.split('-').collect();
            (parts.len() == PARTS).then(|| parts.remove(CHANGED))?;
            Some((parts.join("-"), version.size))
        };
        metadata.nlink() == 0 && without_change(&now) == without_change(file)
    };
    is_now(file, &now) || nameless()
}

/// Whether a version is the one that [`local_version()`] found: equal to it, or equal in those
/// values that it has.
pub(in crate::device) fn is_now(file: &FileVersion, now: &FileVersion) -> bool {
    if file == now {
        return true;
    }
    let of_now: Vec<&str> = parts(now).collect();
    let [inode, micros, size, modified, _, _] = of_now.as_slice() else {
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

/// The number of parts of a tag made here.
const PARTS: usize = 6;
/// The position of the time of the last change.
const CHANGED: usize = 4;
/// The number of parts that `object_store`'s tag has too; they come first.
const KNOWN: usize = 3;

fn parts(file: &FileVersion) -> impl Iterator<Item = &str> {
    file.e_tag.as_deref().unwrap_or_default().split('-')
}

/// `object_store`'s tag of a local file.
fn tag(inode: u64, modified_ns: i128, size: u64) -> String {
    // object_store writes 0 for times before 1970.
    let micros = modified_ns.max(0) / 1000;
    format!("{inode:x}-{micros:x}-{size:x}")
}

fn modified_ns(metadata: &Metadata) -> i128 {
    i128::from(metadata.mtime()) * NS + i128::from(metadata.mtime_nsec())
}

fn changed_ns(metadata: &Metadata) -> i128 {
    i128::from(metadata.ctime()) * NS + i128::from(metadata.ctime_nsec())
}

#[cfg(test)]
mod tests {
    use object_store::ObjectMeta;

    use super::*;

    fn version(e_tag: &str) -> FileVersion {
        FileVersion {
            location: Path::from("data/a.parquet"),
            size: 3,
            modified_ns: 1_700_000_000_123_456_789,
            e_tag: Some(e_tag.to_owned()),
        }
    }

    #[test]
    fn files_with_equal_size_and_times_are_listed_with_different_times() {
        let changed = format!("{:x}", 1_700_000_000_123_456_789_i64);
        let tags = ["5-1-3", "6-1-3"].map(|known| format!("{known}-1-{changed}-fd00"));
        let other_device = format!("5-1-3-1-{changed}-fd01");
        let times = [&tags[0], &tags[1], &other_device].map(|tag| listed_time(&version(tag)));
        assert!(times[0] != times[1] && times[0] != times[2] && times[1] != times[2]);
        for (tag, time) in tags.iter().zip(times) {
            let listed = ObjectMeta {
                location: Path::from("data/a.parquet"),
                last_modified: time.into(),
                size: 3,
                e_tag: Some(tag.clone()),
                version: None,
            };
            assert_eq!(FileVersion::from(&listed), version(tag));
        }
        assert_eq!(lasting_tag(&tags[0]), format!("5-1-3-1-{changed}"));
        assert_eq!(lasting_tag("\"abc-17\""), "\"abc-17\"");
    }
}
