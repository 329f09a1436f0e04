//! Open files, and whether each still is the version it was opened as.
//!
//! Opening a file walks its path and may block; a scan reads the same few files thousands of times. So handles are kept,
//! by file version, up to a bound.
//! Not here: reading.
//! Bounds: at most `open_max` files are kept open (reads that still run may hold a few more).
//! H1: a handle is used for a version only after its file was found to be that version (`local_version.rs`).
//!
//! What H1 cannot see: a file rewritten in place, at the same size, within the resolution of its file system's clock
//! (nanoseconds since Linux 6.13, up to 4 ms before); and a file replaced under its name while a handle to the old one is
//! open. The latter is harmless: the handle still reads the version that was asked for, as a whole.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use object_store::path::Path;
use parking_lot::Mutex;

use super::local_version::is_version;
use super::{FileVersion, sys};
use crate::StorageError;

/// An open file.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) file: Arc<File>,
    /// Opened with `O_DIRECT`.
    pub(super) direct: bool,
}

/// The open files of a device, least recently used first to go.
#[derive(Debug)]
pub(super) struct Handles {
    open: Mutex<Open>,
    /// Whether files are opened with `O_DIRECT`. Turned off for good when the file system refuses it.
    direct: AtomicBool,
    open_max: usize,
}

#[derive(Debug, Default)]
struct Open {
    handles: HashMap<FileVersion, (Arc<Handle>, u64)>,
    clock: u64,
}

impl Handles {
    pub(super) fn new(direct: bool, open_max: usize) -> Self {
        Self {
            open: Mutex::default(),
            direct: AtomicBool::new(direct),
            open_max: open_max.max(1),
        }
    }

    /// Whether reads pass the page cache by.
    pub(super) fn direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// The file system refused a direct read: from now on files are opened for buffered reads.
    pub(super) fn refuse_direct(&self) {
        self.direct.store(false, Ordering::Relaxed);
        self.open.lock().handles.clear();
    }

    /// A handle to the version (H1).
    ///
    /// # Errors
    /// `NotFound`, `Replaced`, `Read`.
    pub(super) async fn open(&self, file: &FileVersion) -> Result<Arc<Handle>, StorageError> {
        if let Some(handle) = self.cached(file) {
            verify(&handle.file, file).inspect_err(|_| self.forget(file))?;
            return Ok(handle);
        }
        let (path, direct) = (path_of(&file.location), self.direct());
        let handle = blocking(move || open(&path, direct))
            .await
            .map_err(|source| unreadable(&file.location, source))?;
        if direct && !handle.direct {
            self.refuse_direct();
        }
        verify(&handle.file, file)?;
        let handle = Arc::new(handle);
        self.keep(file.clone(), Arc::clone(&handle));
        Ok(handle)
    }

    pub(super) fn forget(&self, file: &FileVersion) {
        self.open.lock().handles.remove(file);
    }

    fn cached(&self, file: &FileVersion) -> Option<Arc<Handle>> {
        let mut open = self.open.lock();
        open.clock += 1;
        let now = open.clock;
        let (handle, used) = open.handles.get_mut(file)?;
        *used = now;
        Some(Arc::clone(handle))
    }

    fn keep(&self, file: FileVersion, handle: Arc<Handle>) {
        let mut open = self.open.lock();
        if handle.direct != self.direct() {
            return; // Direct reads were refused while it was being opened.
        }
        // A linear search among a few hundred, only when a file is opened: less than the opening costs.
        if open.handles.len() >= self.open_max
            && let Some(oldest) = open.handles.iter().min_by_key(|(_, (_, used))| *used)
        {
            let oldest = oldest.0.clone();
            open.handles.remove(&oldest);
        }
        open.clock += 1;
        let now = open.clock;
        open.handles.insert(file, (handle, now));
    }
}

/// Fails unless the open file is this version (H1).
pub(super) fn verify(open: &File, file: &FileVersion) -> Result<(), StorageError> {
    let metadata = open
        .metadata()
        .map_err(|source| unreadable(&file.location, source))?;
    if is_version(&metadata, file) {
        return Ok(());
    }
    Err(StorageError::Replaced {
        file: name_of(&file.location),
    })
}

/// The path of a location on a local store, which is rooted at `/`.
pub(super) fn path_of(location: &Path) -> PathBuf {
    PathBuf::from(name_of(location))
}

/// What errors call it.
pub(super) fn name_of(location: &Path) -> String {
    format!("/{location}")
}

pub(super) fn unreadable(location: &Path, source: io::Error) -> StorageError {
    let file = name_of(location);
    if source.kind() == io::ErrorKind::NotFound {
        return StorageError::NotFound { file };
    }
    StorageError::Read {
        file,
        range: 0..0,
        source: Arc::new(source),
    }
}

/// Runs a call that may block: beside the runtime's workers, or here if there is no runtime.
pub(super) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime
            .spawn_blocking(call)
            .await
            .map_err(io::Error::other)?,
        Err(_) => call(),
    }
}

fn open(path: &std::path::Path, direct: bool) -> io::Result<Handle> {
    if direct {
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(path);
        match opened {
            Ok(file) => {
                return Ok(Handle {
                    file: Arc::new(regular(file)?),
                    direct: true,
                });
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(error),
        }
    }
    let file = regular(File::open(path)?)?;
    // Exact reads: what is read ahead of a scan that takes a third of the columns is mostly waste.
    sys::advise_random(&file);
    Ok(Handle {
        file: Arc::new(file),
        direct: false,
    })
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("not a regular file"))
    }
}
