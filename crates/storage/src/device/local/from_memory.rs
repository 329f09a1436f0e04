//! Which questions about local files does the kernel answer from its memory?
//!
//! A call into a file system may wait without bound, so other threads make it (`calls.rs`). The
//! query then changes threads twice for a call that usually takes a microsecond, and beside other
//! programs each change waits for a processor. So the question is put first in a form that the
//! kernel answers from its memory or refuses (`cached.rs`). That a path leads to a file system
//! of this machine is learned by a thread that may wait; from then on its open files can be asked
//! directly, as in `handles.rs`.
//! Not here: the calls that may wait, and what a refused question falls back to.
//! Bounds: [`SYSTEMS_MAX`] file systems, each for [`KNOWN_FOR`]; [`READ_MAX`] bytes a read.
//! FM1: nothing here but [`FromMemory::learn`] waits for a device or a server. Two things are not
//! excluded: a mount that replaces another at the path in the same microseconds, and a program that
//! the administrator lets approve every opening of a file (`fanotify`).

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use super::cached;

/// What is known of a file system is learned again after this time: its number may belong to
/// another one after it was unmounted.
const KNOWN_FOR: Duration = Duration::from_secs(10);
/// More file systems than a machine has.
const SYSTEMS_MAX: usize = 1024;
/// Copying so much takes a fifth of a millisecond, less than its decode on the same thread.
const READ_MAX: u64 = 1 << 20;

/// Answers from the kernel's memory, for files of this machine's file systems.
#[derive(Debug, Default)]
pub struct FromMemory {
    /// By number (`st_dev`).
    systems: Mutex<BTreeMap<u64, System>>,
}

/// What is known of a file system.
#[derive(Clone, Copy, Debug)]
struct System {
    /// Whether it is on this machine.
    is_local: bool,
    learned: Instant,
}

impl FromMemory {
    /// The metadata of the file at this path, if the kernel has them in memory and the file is
    /// known to be on this machine.
    #[must_use]
    pub fn metadata(&self, path: &Path) -> Option<Metadata> {
        let is_any_local = self.systems.lock().values().any(|system| system.is_local);
        if !is_any_local {
            return None;
        }
        let file = cached::open_cached(path, libc::O_PATH)?;
        if self.is_local(cached::number_cached(&file)?)? {
            file.metadata().ok()
        } else {
            None
        }
    }

    /// Opens a regular file for reading; `None` as for [`Self::metadata`], or if it cannot be
    /// opened.
    #[must_use]
    pub fn open(&self, path: &Path) -> Option<(File, Metadata)> {
        self.open_for(path, false)
    }

    /// Like [`Self::open`], if `direct` for reads that bypass the page cache.
    pub(super) fn open_for(&self, path: &Path, direct: bool) -> Option<(File, Metadata)> {
        if !self.metadata(path)?.is_file() {
            return None;
        }
        let file = cached::open_for_reads(path, direct)?;
        let metadata = file.metadata().ok()?;
        metadata.is_file().then_some((file, metadata))
    }

    /// The bytes of these ranges of a file, if they are few and the page cache holds them all;
    /// `None` as for [`Self::open`].
    #[must_use]
    pub fn read(&self, path: &Path, ranges: &[Range<u64>]) -> Option<Vec<Bytes>> {
        let mut wanted = 0_u64;
        for range in ranges {
            wanted = wanted.checked_add(range.end.checked_sub(range.start)?)?;
        }
        if wanted > READ_MAX {
            return None;
        }
        let (file, _) = self.open(path)?;
        let read = |range| cached::read_cached(&file, range);
        ranges.iter().map(read).collect()
    }

    /// Whether [`Self::learn`] would learn something from this path.
    #[must_use]
    pub fn is_new(&self, path: &Path) -> bool {
        let file = cached::open_cached(path, libc::O_PATH);
        let number = file.and_then(|file| cached::number_cached(&file));
        number.is_some_and(|number| self.is_local(number).is_none())
    }

    /// Learns what file system the path leads to. May wait without bound.
    pub fn learn(&self, path: &Path) {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(path);
        // What cannot be opened teaches nothing.
        let Ok(file) = file else { return };
        let number = file.metadata().map(|metadata| metadata.dev());
        let Ok(number) = number else { return };
        self.learned(number, cached::is_local(&file));
    }

    /// The file system with this number is on this machine, or is not.
    pub(super) fn learned(&self, number: u64, is_local: bool) {
        let learned = Instant::now();
        let system = System { is_local, learned };
        let mut systems = self.systems.lock();
        if systems.len() >= SYSTEMS_MAX {
            systems.clear();
        }
        systems.insert(number, system);
    }

    /// Whether the file system with this number is on this machine, if that is known.
    pub(super) fn is_local(&self, number: u64) -> Option<bool> {
        let system = self.systems.lock().get(&number).copied()?;
        (system.learned.elapsed() < KNOWN_FOR).then_some(system.is_local)
    }

    /// Forgets all, as if nothing had been learned.
    #[cfg(test)]
    pub(super) fn forget(&self) {
        self.systems.lock().clear();
    }

    /// Whether the kernel answers from its memory here, and the path is on this machine.
    #[cfg(test)]
    pub(in crate::device) fn works_for(path: &Path) -> bool {
        let file = cached::open_cached(path, libc::O_PATH);
        let works = file.is_some_and(|file| cached::is_local(&file));
        if !works {
            eprintln!("skipped: no local file system, or no openat2");
        }
        works
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    reason = "tests: a failure should panic, reads take lists of ranges"
)]
mod tests {
    use std::fs;

    use tempfile::NamedTempFile;

    use super::*;

    /// The answer. A mount anywhere may make the kernel refuse a question now and then.
    fn soon<T>(ask: impl Fn() -> Option<T>) -> T {
        (0..100).find_map(|_| ask()).unwrap()
    }

    /// Whether the file system reads from its memory alone. tmpfs does not.
    fn reads_at_once(path: &Path) -> bool {
        let file = File::open(path).unwrap();
        let reads = (0..100).any(|_| cached::read_cached(&file, &(0..1)).is_some());
        if !reads {
            eprintln!("skipped: reads of this file system may wait");
        }
        reads
    }

    #[test]
    fn files_of_a_known_file_system_are_answered_from_memory() {
        let file = NamedTempFile::new_in("/var/tmp").unwrap();
        let path = file.path();
        if !FromMemory::works_for(path) {
            return;
        }
        let content: Vec<u8> = (0..=250).cycle().take(100_000).collect();
        fs::write(path, &content).unwrap();
        if !reads_at_once(path) {
            return;
        }
        let memory = FromMemory::default();
        assert!(memory.metadata(path).is_none() && memory.read(path, &[0..9]).is_none());
        assert!(soon(|| memory.is_new(path).then_some(true)));
        memory.learn(path);
        assert!(!memory.is_new(path));
        let metadata = soon(|| memory.metadata(path));
        let usual = fs::metadata(path).unwrap();
        assert_eq!((metadata.dev(), metadata.ino()), (usual.dev(), usual.ino()));
        assert_eq!(metadata.len(), 100_000);
        let answers = soon(|| memory.read(path, &[5..6, 70_000..100_000, 0..0]));
        assert!(answers[0] == content[5..6] && answers[1] == content[70_000..]);
        assert!(answers[2].is_empty());
        memory.forget();
        assert!(memory.open(path).is_none());
    }

    #[test]
    fn what_is_not_a_readable_part_of_a_file_is_refused() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        if !FromMemory::works_for(folder.path()) {
            return;
        }
        let memory = FromMemory::default();
        memory.learn(folder.path());
        assert!(soon(|| memory.metadata(folder.path())).is_dir());
        assert!(memory.open(folder.path()).is_none(), "a folder");
        let path = folder.path().join("f");
        assert!(memory.metadata(&path).is_none(), "it does not exist");
        let end = 2 * READ_MAX;
        fs::write(&path, vec![7; 2 << 20]).unwrap();
        if !reads_at_once(&path) {
            return;
        }
        let most = soon(|| memory.read(&path, &[0..READ_MAX]));
        assert_eq!(most[0].len(), 1 << 20);
        let reversed = Range { start: 9, end: 8 };
        for refused in [
            vec![0..READ_MAX, 0..1],
            vec![end - 1..end + 1],
            vec![reversed],
        ] {
            assert!(memory.read(&path, &refused).is_none(), "{refused:?}");
        }
    }

    #[test]
    fn files_of_other_file_systems_are_not_asked() {
        // The kernel makes these bytes when they are read, however long that takes.
        let path = Path::new("/proc/version");
        let memory = FromMemory::default();
        memory.learn(path);
        assert!(!memory.is_new(path) && memory.metadata(path).is_none());
        memory.learn(Path::new("/var/tmp"));
        assert!(memory.metadata(path).is_none() && memory.open(path).is_none());
    }
}
