//! Which calls does a durable change of a folder take?
//!
//! Every step after which power may fail is a call of [`Disk`], so that a test can lose, at each of
//! them, what was not synced.
//! D1: `put_in_place` and `remove` return when the change survives a power loss; until then, either
//! the old state or the new one survives.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The calls that change folders and files. Contents are written to the file itself.
pub trait Disk: Send + Sync + Debug {
    /// Creates a new file.
    ///
    /// # Errors
    /// What the file system says; `AlreadyExists`.
    fn create(&self, path: &Path) -> io::Result<File>;

    /// Makes what was written to the file survive a power loss, if its name does.
    ///
    /// # Errors
    /// What the file system says.
    fn sync(&self, file: &File, path: &Path) -> io::Result<()>;

    /// Gives the file another name. A file that has that name loses it.
    ///
    /// # Errors
    /// What the file system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives the file a second name.
    ///
    /// # Errors
    /// What the file system says; `AlreadyExists`.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name.
    ///
    /// # Errors
    /// What the file system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a new folder.
    ///
    /// # Errors
    /// What the file system says; `AlreadyExists`.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in the folder, as they are now, survive a power loss.
    ///
    /// # Errors
    /// What the file system says.
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
            // File systems that keep no folders of their own refuse, and have nothing to sync.
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

/// What the names of our staged files add to those of their targets, before `#` and a number: other
/// programs stage files as `name#1`, and hold no locks.
pub(super) const STAGED: &str = ".coscan#";

/// Creates a file, to be put in place, under a name that nobody looks for. It is locked as long as
/// it is open, so that nobody takes it for left behind (`left_behind.rs`).
pub(super) fn stage(disk: &dyn Disk, target: &Path) -> io::Result<(File, PathBuf)> {
    for number in 1_u64.. {
        // Listings leave out names that end like this, here and in `object_store`.
        let mut name = target.as_os_str().to_owned();
        name.push(format!("{STAGED}{number}"));
        let path = PathBuf::from(name);
        match disk.create(&path) {
            Ok(file) if is_held(&file, &path) => return Ok((file, path)),
            // Another process took the file for left behind before it was locked.
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

/// Locks a new file; false if another process holds or has removed it. Where there are no locks
/// nobody removes anything.
fn is_held(file: &File, path: &Path) -> bool {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(_)) => true,
        Ok(()) => path.exists(),
    }
}

/// Gives a staged file its name (D1). After an error the file has that name or is gone. If all that
/// is unknown is whether the name survives a power loss, the file has it now.
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
        // If this fails, the staged name is litter at worst.
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

/// Makes sure that the folder, and those above it, exist.
pub(super) fn make_folders(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    match disk.create_folder(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_folders(disk, folder_of(folder))?;
            disk.create_folder(folder)?;
        }
        // Another process has made it meanwhile, and may not have synced it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    disk.sync_folder(folder_of(folder))
}

pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
