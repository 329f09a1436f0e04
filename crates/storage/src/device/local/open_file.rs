//! An open file whose `close` may hang.
//!
//! On a local file system `close` returns at once. Other file systems may contact a server first
//! and wait without bound; for these `close` is one of the calls of `calls.rs`.
//! Not here: the set of open files (`handles.rs`), reads of them (`sys`).

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use super::calls::Calls;

/// An open file that is closed without blocking its owner.
#[derive(Debug)]
pub(in crate::device) struct OpenFile {
    /// `Some` until the value is dropped.
    file: Option<File>,
    calls: Arc<Calls>,
    /// Whether the file is on a local file system: calls on it return at once.
    local: bool,
}

impl OpenFile {
    pub(in crate::device) fn new(file: File, local: bool, calls: Arc<Calls>) -> Self {
        Self {
            file: Some(file),
            calls,
            local,
        }
    }

    /// Whether calls on the file return at once.
    pub(super) fn is_local(&self) -> bool {
        self.local
    }

    /// The kernel's metadata of the file. May hang, unless the file is local.
    pub(in crate::device) fn metadata(&self) -> io::Result<Metadata> {
        let file = self.file.as_ref();
        file.ok_or(io::ErrorKind::NotFound)?.metadata()
    }
}

impl AsRawFd for OpenFile {
    fn as_raw_fd(&self) -> RawFd {
        // No descriptor has this number, so the kernel rejects it.
        self.file.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let Some(file) = self.file.take()
            && !self.local
        {
            self.calls.close(file);
        }
    }
}
