//! Which system calls make a change of a folder durable?
//!
//! Every step after which power may fail is a call of [`Disk`], so that a test can drop, at each
//! of them, whatever is not synced.
//! D1: when `put_in_place` or `remove` returns, the change survives a power loss; before that,
//! either the old state or the new one survives.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The system calls that change folders and files. Contents are written to the [`File`] directly.
pub trait Disk: Send + Sync + Debug {
    /// Creates a new file.
    ///
    /// # Errors
    /// The file system's errors; `AlreadyExists`.
    fn create(&self, path: &Path) -> io::Result<File>;

    /// Makes the contents of the file survive a power loss, if its name does.
    ///
    /// # Errors
    /// The file system's errors.
    fn sync(&self, file: &File, path: &Path) -> io::Result<()>;

    /// Gives the file another name, and takes the name from any file that has it.
    ///
    /// # Errors
    /// The file system's errors.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives the file a second name.
    ///
    /// # Errors
    /// The file system's errors; `AlreadyExists`.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name.
    ///
    /// # Errors
    /// The file system's errors.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a new folder.
    ///
    /// # Errors
    /// The file system's errors; `AlreadyExists`.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes the folder's current names survive a power loss.
    ///
    /// # Errors
    /// The file system's errors.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// The operating system's folders and files.
#[derive(Debug)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).open(path)
    }

    fn sync(&self, file: &File, _: &Path) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        match File::open(path)?.sync_all() {
            // A file system that stores no folders refuses, and has nothing to sync.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
                ) =>
            {
                Ok(())
            }
            synced => synced,
        }
    }
}

/// Stands between the name of a target and a number in the name of a staged file. Other programs
/// stage files as `name#1`, and hold no locks.
pub(super) const STAGED: &str = ".coscan#";

/// Creates a file under a name that no listing shows, to be put in place later. It is locked while
/// it is open, so that no process removes it as left behind (`left_behind.rs`).
pub(super) fn stage(disk: &dyn Disk, target: &Path) -> io::Result<(File, PathBuf)> {
    for number in 1_u64.. {
        // Listings skip names that end like this, here and in `object_store`.
        let mut name = target.as_os_str().to_owned();
        name.push(format!("{STAGED}{number}"));
        let path = PathBuf::from(name);
        match disk.create(&path) {
            Ok(file) if is_held(&file, &path) => return Ok((file, path)),
            // Another process removed the file as left behind before it was locked.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_folders(disk, folder_of(target))?;
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Locks a new file; false if another process holds it or has removed it. Where there are no
/// locks, no process removes anything.
fn is_held(file: &File, path: &Path) -> bool {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(_)) => true,
        Ok(()) => path.exists(),
    }
}

/// Gives a staged file its name (D1). After an error the file either has its name or is removed.
/// It has its name if only the sync of the folder failed.
pub(super) fn put_in_place(
    disk: &dyn Disk,
    file: &File,
    staged: &Path,
    target: &Path,
    replaces: bool,
) -> io::Result<()> {
    let named = disk.sync(file, staged).and_then(|()| {
        if replaces {
            return disk.rename(staged, target);
        }
        disk.link(staged, target)?;
        // If this fails, the staged name is left behind, which costs nothing more.
        let _ = disk.remove(staged);
        Ok(())
    });
    if let Err(error) = named {
        let _ = disk.remove(staged);
        return Err(error);
    }
    disk.sync_folder(folder_of(target))
}

/// Removes the file (D1).
pub(super) fn remove(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    disk.remove(path)?;
    disk.sync_folder(folder_of(path))
}

/// Creates the folder and those above it, if they are missing.
pub(super) fn make_folders(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    match disk.create_folder(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_folders(disk, folder_of(folder))?;
            disk.create_folder(folder)?;
        }
        // Another process has created it in the meantime, perhaps without a sync.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    disk.sync_folder(folder_of(folder))
}

pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
