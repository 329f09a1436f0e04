//! How do the files of one statement appear together?
//!
//! An upload with a [`Together`] in its options stays staged when it is complete. When the
//! statement has written everything, [`Together::publish`] gives all files their names: a single
//! one by a rename, several by a journal (`journal.rs`). A listing of this process that begins
//! before the last file has its name shows none of them.
//! Not here: stores other than local ones, whose files appear one after the other
//! (`staged_store.rs`).
//! T1: a listing shows all files of a statement or none.
//! T2: files that are not published are removed.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::disk::{self, Disk};
use super::journal::{Journal, Renaming};

/// The files of one statement. Clones share them.
#[derive(Clone)]
pub(crate) struct Together {
    inner: Arc<Inner>,
}

struct Inner {
    /// The table's folder, which contains all files.
    folder: PathBuf,
    staged: Mutex<Vec<Staged>>,
}

/// A file that is complete and synced, but does not have its name yet.
pub(super) struct Staged {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
    pub(super) target: PathBuf,
    pub(super) appearing: Arc<Appearing>,
}

impl std::fmt::Debug for Together {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Together")
            .field("folder", &self.inner.folder)
            .finish_non_exhaustive()
    }
}

impl Together {
    /// For a statement on the table in this folder.
    pub(crate) fn in_folder(folder: PathBuf) -> Self {
        let inner = Inner {
            folder,
            staged: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    pub(super) fn add(&self, staged: Staged) {
        self.inner.staged.lock().push(staged);
    }

    /// Gives the files their names, all or none (T1). Blocks.
    ///
    /// # Errors
    /// The file system's errors. After an error between several files, the next listing of another
    /// process gives all of them their names.
    pub(crate) fn publish(&self) -> io::Result<()> {
        let staged = std::mem::take(&mut *self.inner.staged.lock());
        match staged.as_slice() {
            [] => Ok(()),
            [one] => disk::put_in_place(&*one.disk, &one.file, &one.path, &one.target, true),
            [first, ..] => {
                let files: Vec<Renaming> = staged
                    .iter()
                    .map(|one| (one.path.clone(), one.target.clone()))
                    .collect();
                let journal = Journal::write(&*first.disk, &self.inner.folder, &files);
                let journal = journal.inspect_err(|_| remove(&staged))?;
                let hidden = first.appearing.hide(&files);
                journal.finish(&*first.disk, &files)?;
                hidden.show();
                Ok(())
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        remove(self.staged.get_mut());
    }
}

fn remove(staged: &[Staged]) {
    for one in staged {
        let _ = one.disk.remove(&one.path);
    }
}

/// Files that have their names, but are hidden from listings that began earlier.
#[derive(Debug, Default)]
pub(super) struct Appearing {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of published statements.
    published: u64,
    listings: usize,
    /// For each file, the number of the statement that published it; `None` while it is being
    /// published.
    new: HashMap<PathBuf, Option<u64>>,
}

/// Files that are being published. If this is dropped, they stay hidden from this process.
struct Hidden {
    appearing: Arc<Appearing>,
    files: Vec<PathBuf>,
}

impl Appearing {
    fn hide(self: &Arc<Self>, files: &[Renaming]) -> Hidden {
        let files: Vec<PathBuf> = files.iter().map(|(_, target)| target.clone()).collect();
        let mut state = self.state.lock();
        state
            .new
            .extend(files.iter().cloned().map(|file| (file, None)));
        drop(state);
        Hidden {
            appearing: Arc::clone(self),
            files,
        }
    }

    /// Begins a listing.
    pub(super) fn listing(self: &Arc<Self>) -> Listing {
        let mut state = self.state.lock();
        state.listings += 1;
        Listing {
            appearing: Arc::clone(self),
            published: state.published,
        }
    }
}

impl Hidden {
    fn show(self) {
        let mut state = self.appearing.state.lock();
        state.published += 1;
        let now = state.published;
        for file in &self.files {
            if state.listings == 0 {
                state.new.remove(file);
            } else {
                state.new.insert(file.clone(), Some(now));
            }
        }
    }
}

/// A running listing.
pub(super) struct Listing {
    appearing: Arc<Appearing>,
    published: u64,
}

impl Listing {
    /// Whether it shows this file (T1).
    pub(super) fn shows(&self, path: impl FnOnce() -> Option<PathBuf>) -> bool {
        let state = self.appearing.state.lock();
        if state.new.is_empty() {
            return true;
        }
        let Some(path) = path() else { return true };
        match state.new.get::<Path>(&path) {
            None => true,
            Some(by) => by.is_some_and(|by| by <= self.published),
        }
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        let mut state = self.appearing.state.lock();
        state.listings -= 1;
        if state.listings == 0 {
            state.new.retain(|_, by| by.is_none());
        }
    }
}
