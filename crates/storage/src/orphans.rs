//! Which temporary files did killed processes leave behind?
//!
//! A process keeps an flock on a lock file for as long as it uses what the file stands for; the
//! system releases the lock when the process ends, however it ends. So a lock file of ours whose
//! lock is free has no owner. On a file system without locks the owner works without one, and
//! nothing is ever removed.
//! L1: only what has our name, belongs to our user, and has a lock file that no process holds is
//! removed.
//! Not here: what is locked (in coscan `memory/spill.rs` and `index_catalog/litter.rs`, in
//! coscan-rewrite `target.rs`).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

/// A locked file. As long as it lives, no process takes the things that it stands for as orphaned.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Creates a lock file and locks it. The file appears under its name only once it is locked.
    ///
    /// # Errors
    /// If a file of this name exists, or the system refuses.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(".new");
        let file = File::create_new(&draft)?;
        let locked = file.try_lock().map_err(io::Error::from);
        // The lock belongs to the file, not to its name.
        let named = locked.and_then(|()| fs::hard_link(&draft, path));
        fs::remove_file(&draft)?;
        named.map(|()| Self { _file: file })
    }

    /// Takes the lock of an existing file; `None` if another process holds it, or if the file is
    /// not a regular file of our user.
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
    // This folder belongs to the user that the process runs as.
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
        assert!(Lock::create(&path).is_err(), "it exists");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        drop(lock);
        assert!(path.exists());
        let taken = Lock::take(&path);
        assert!(taken.is_some() && Lock::take(&path).is_none());
        assert!(Lock::take(&folder.path().join("none")).is_none());
    }
}
