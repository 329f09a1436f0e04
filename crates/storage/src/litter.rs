//! What has a process left that was killed?
//!
//! Who makes something that is to go again locks a file of it (flock) for as long as he lives: the
//! system lets go of the lock when the process ends, however it ends. So what has our name and a
//! lock that can be taken belongs to nobody. Where locks are not known the owner goes on without,
//! and nothing is removed.
//! L1: only what has our name, belongs to our user, and has a lock file that nobody holds is
//! removed.
//! Not here: what is locked (in coscan `memory/spill.rs` and `index_catalog/litter.rs`, in
//! coscan-rewrite `target.rs`).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

/// A file that is locked, so that nobody takes what it stands for as left behind.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Makes a lock file and locks it. Others see it under its name when it is locked.
    ///
    /// # Errors
    /// If there is a file of this name, or the system refuses.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(".new");
        let file = File::create_new(&draft)?;
        let locked = file.try_lock().map_err(io::Error::from);
        // The lock is the file's, whatever its name.
        let named = locked.and_then(|()| fs::hard_link(&draft, path));
        fs::remove_file(&draft)?;
        named.map(|()| Self { _file: file })
    }

    /// Takes the lock of a file that is there; `None` if somebody holds it, or it is none of ours.
    #[must_use]
    pub fn take(path: &Path) -> Option<Self> {
        let is_file = fs::symlink_metadata(path).is_ok_and(|file| file.is_file());
        if !is_file || !is_ours(path) {
            return None;
        }
        let file = File::open(path).ok()?;
        match file.try_lock() {
            Ok(()) => Some(Self { _file: file }),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
        }
    }
}

/// Whether a file or folder belongs to the user of this process.
#[cfg(unix)]
#[must_use]
pub fn is_ours(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    // A process's own folder belongs to whom it runs as.
    let Ok(own) = fs::metadata("/proc/self") else {
        return false;
    };
    fs::symlink_metadata(path).is_ok_and(|file| file.uid() == own.uid())
}

/// Whether a file or folder belongs to the user of this process.
#[cfg(not(unix))]
#[must_use]
pub fn is_ours(_: &Path) -> bool {
    false
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_taken_when_its_owner_has_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = Lock::create(&path).unwrap();
        assert!(Lock::take(&path).is_none(), "it is held");
        assert!(Lock::create(&path).is_err(), "it is there");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        drop(lock);
        assert!(path.exists());
        let taken = Lock::take(&path);
        assert!(taken.is_some() && Lock::take(&path).is_none());
        assert!(Lock::take(&folder.path().join("none")).is_none());
    }
}
