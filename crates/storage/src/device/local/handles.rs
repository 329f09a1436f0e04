//! Open files, and whether each is still the version that it was opened for.
//!
//! Opening a file walks its path and may block, and a scan reads the same few files thousands of
//! times. So handles are cached by file version, up to a bound. What the kernel can open from its
//! memory is opened in place (`from_memory.rs`).
//! On a local file system the kernel answers `fstat` of an open file from memory, so the reading
//! thread calls it directly. Other file systems may contact a server and wait without bound; for
//! these every call, `close` included (`open_file.rs`), goes through `calls.rs`.
//! Not here: reading.
//! Bounds: at most `open_max` files are kept open (running reads may hold a few more), and none
//! when the process runs out of descriptors.
//! H1: a handle is used for a version only after its file was found to be that version
//! (`local_version.rs`).
//!
//! H1 cannot detect a file rewritten in place, at the same size, within the resolution of its file
//! system's clock (nanoseconds since Linux 6.13, up to 4 ms in older kernels), nor a file replaced
//! under its name while a handle to the old file is open. The latter is harmless: the handle still
//! reads the requested version as a whole.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use object_store::path::Path;
use parking_lot::Mutex;

use super::cached::is_local;
use super::calls::{Calls, Unanswered};
use super::local_path::{name_of, path_of};
use super::local_version::is_version;
use super::open_file::OpenFile;
use super::sys;
use crate::StorageError;
use crate::device::FileVersion;

/// An open file.
#[derive(Debug)]
pub(in crate::device) struct Handle {
    pub(in crate::device) file: Arc<OpenFile>,
    /// Opened with `O_DIRECT`.
    pub(super) direct: bool,
}

/// The open files of a device; the least recently used is closed first.
#[derive(Debug)]
pub(in crate::device) struct Handles {
    open: Mutex<Open>,
    /// Whether files are opened with `O_DIRECT`. Becomes false permanently when the file system
    /// refuses it.
    direct: AtomicBool,
    open_max: usize,
    calls: Arc<Calls>,
    /// Set by tests, which have no file system that hangs: treats every file as remote.
    #[cfg(test)]
    pub(super) all_remote: AtomicBool,
}

#[derive(Debug, Default)]
struct Open {
    handles: HashMap<FileVersion, (Arc<Handle>, u64)>,
    clock: u64,
}

impl Handles {
    pub(in crate::device) fn new(direct: bool, open_max: usize, calls: Arc<Calls>) -> Self {
        Self {
            open: Mutex::default(),
            direct: AtomicBool::new(direct),
            open_max: open_max.max(1),
            calls,
            #[cfg(test)]
            all_remote: AtomicBool::new(false),
        }
    }

    /// The threads for calls that may hang.
    pub(in crate::device) fn calls(&self) -> &Arc<Calls> {
        &self.calls
    }

    /// Whether reads bypass the page cache.
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
    /// `NotFound`, `Replaced`, `Read`, `NoAnswer`.
    pub(in crate::device) async fn open(
        &self,
        file: &FileVersion,
    ) -> Result<Arc<Handle>, StorageError> {
        if let Some(handle) = self.cached(file) {
            self.verify(&handle, file, None).await?;
            return Ok(handle);
        }
        let direct = self.direct();
        let mut opened = self.open_anew(file, direct).await;
        if let Err(Unanswered::Io(error)) = &opened
            && is_out_of_descriptors(error)
        {
            // Cached handles are closed first; running reads keep theirs.
            self.open.lock().handles.clear();
            opened = self.open_anew(file, direct).await;
        }
        let (handle, metadata) = opened.map_err(|why| unreadable(&file.location, why))?;
        if direct && !handle.direct {
            self.refuse_direct();
        }
        check_version(&metadata, file)?;
        let handle = Arc::new(handle);
        self.keep(file.clone(), Arc::clone(&handle));
        Ok(handle)
    }

    async fn open_anew(
        &self,
        file: &FileVersion,
        direct: bool,
    ) -> Result<(Handle, Metadata), Unanswered> {
        let (path, calls) = (path_of(&file.location), Arc::clone(&self.calls));
        if let Some((file, metadata)) = calls.at_once().open_for(&path, direct) {
            // Only files of this machine are opened so.
            return Ok((handle(file, direct, true, calls), metadata));
        }
        self.calls.ask(move || open(&path, direct, calls)).await
    }

    /// Fails, and removes the handle, unless the open file is still this version (H1). Also
    /// advises the kernel to drop the part `unneeded` from the page cache.
    ///
    /// # Errors
    /// `Replaced`, `Read`, `NoAnswer`.
    pub(super) async fn verify(
        &self,
        handle: &Handle,
        file: &FileVersion,
        unneeded: Option<Range<u64>>,
    ) -> Result<(), StorageError> {
        let open = Arc::clone(&handle.file);
        let look = move || {
            if let Some(part) = &unneeded {
                sys::advise_unneeded(&*open, part.start, part.end - part.start);
            }
            open.metadata()
        };
        let metadata = if self.answers_at_once(handle) {
            look().map_err(Unanswered::Io)
        } else {
            self.calls.ask(look).await
        };
        metadata
            .map_err(|why| unreadable(&file.location, why))
            .and_then(|metadata| check_version(&metadata, file))
            .inspect_err(|_| self.forget(file))
    }

    #[allow(clippy::unused_self)] // Only tests use it.
    fn answers_at_once(&self, handle: &Handle) -> bool {
        #[cfg(test)]
        if self.all_remote.load(Ordering::Relaxed) {
            return false;
        }
        handle.file.is_local()
    }

    fn forget(&self, file: &FileVersion) {
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
        // A linear search among a few hundred handles, which costs less than the opening of the
        // file that it follows.
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

/// Fails unless the metadata is that of this version (H1).
fn check_version(metadata: &Metadata, file: &FileVersion) -> Result<(), StorageError> {
    if is_version(metadata, file) {
        return Ok(());
    }
    Err(StorageError::Replaced {
        file: name_of(&file.location),
    })
}

/// The error for a file call that the kernel refused or did not answer.
pub(in crate::device) fn unreadable(location: &Path, why: Unanswered) -> StorageError {
    let file = name_of(location);
    let source = match why {
        Unanswered::Io(source) => source,
        Unanswered::Hangs(waited) => {
            let seconds = waited.as_secs();
            return StorageError::NoAnswer { file, seconds };
        }
    };
    if source.kind() == io::ErrorKind::NotFound {
        return StorageError::NotFound { file };
    }
    StorageError::Read {
        file,
        range: 0..0,
        source: Arc::new(source),
    }
}

/// Whether the process, or the machine, has no descriptor left.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Opens a file, and returns its metadata.
fn open(path: &std::path::Path, direct: bool, calls: Arc<Calls>) -> io::Result<(Handle, Metadata)> {
    let opened = |file: File, direct| {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let local = is_local(&file);
        calls.at_once().learned(metadata.dev(), local);
        Ok((handle(file, direct, local, calls), metadata))
    };
    if direct {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(path);
        match file {
            Ok(file) => return opened(file, true),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(error),
        }
    }
    let file = File::open(path)?;
    opened(file, false)
}

fn handle(file: File, direct: bool, local: bool, calls: Arc<Calls>) -> Handle {
    if !direct {
        // Reads are exact: read-ahead for a scan that takes a third of the columns is mostly waste.
        sys::advise_random(&file);
    }
    let file = Arc::new(OpenFile::new(file, local, calls));
    Handle { file, direct }
}
