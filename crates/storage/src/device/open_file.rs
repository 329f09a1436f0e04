//! A file that is closed where that may take for ever.
//!
//! On a local file system `close` returns at once. Any other may ask a server first, and wait for
//! it for ever; there it is one of the calls of `calls.rs`.
//! Not here: which files are open (`handles.rs`), reads of them (`sys`).

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use super::calls::Calls;

/// See the file's header.
#[derive(Debug)]
pub(super) struct OpenFile {
    /// There until it is dropped.
    file: Option<File>,
    calls: Arc<Calls>,
    /// It is on a local file system: calls on it return at once.
    local: bool,
}

impl OpenFile {
    pub(super) fn new(file: File, local: bool, calls: Arc<Calls>) -> Self {
        Self {
            file: Some(file),
            calls,
            local,
        }
    }

    /// Whether calls on it return at once.
    pub(super) fn is_local(&self) -> bool {
        self.local
    }

    /// What the kernel says of it. May hang, unless it is local.
    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        let file = self.file.as_ref();
        file.ok_or(io::ErrorKind::NotFound)?.metadata()
    }
}

impl AsRawFd for OpenFile {
    fn as_raw_fd(&self) -> RawFd {
        // No descriptor has this number: the kernel would say that it is a bad one.
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
