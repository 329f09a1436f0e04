//! The journal of a spread: lists complete files until all of them have their names.
//!
//! The journal is `.STEM.spread.json` in the first folder. It is written under another name,
//! synced and renamed after all drafts are synced. The publishing process holds its lock (flock);
//! a journal whose lock can be taken belongs to a killed process.
//! S3: while a journal exists, all files exist, under their own names or under those of their
//! drafts.
//! S4: before a journal is removed, all its files have their names, durably.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use coscan::{Disk, SystemDisk};
use coscan_storage::orphans::Lock;
use serde::{Deserialize, Serialize};

use crate::error::{Result, RewriteError};
use crate::place::write_error;
use crate::target::Sealed;

const SUFFIX: &str = ".spread.json";

/// Complete files that have to be published.
pub(super) struct Journal {
    path: PathBuf,
    entries: Vec<Entry>,
    /// Held while the files are published.
    _lock: Option<Lock>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    draft: PathBuf,
    file: PathBuf,
    bytes: u64,
}

impl Journal {
    /// Records that these files are complete. From then on they stay, whatever happens.
    ///
    /// # Errors
    /// [`RewriteError::Write`]; then the drafts are removed, and no journal exists.
    pub(super) fn write(folder: &Path, stem: &str, sealed: Vec<Sealed>) -> Result<Self> {
        let path = folder.join(format!(".{stem}{SUFFIX}"));
        let entries: Vec<Entry> = sealed
            .iter()
            .map(|sealed| Entry {
                draft: sealed.draft().to_owned(),
                file: sealed.path().to_owned(),
                bytes: sealed.bytes(),
            })
            .collect();
        let failed = |error| write_error(&path.display().to_string(), error);
        note(&path, &entries).map_err(failed)?;
        let lock = Lock::take(&path);
        for sealed in sealed {
            sealed.keep().map_err(failed)?;
        }
        Ok(Self {
            path,
            entries,
            _lock: lock,
        })
    }

    /// The journals that killed processes have left in a folder.
    fn left_in(folder: &Path) -> Result<Vec<Self>> {
        let mut journals = Vec::new();
        let failed = |error| write_error(&folder.display().to_string(), error);
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !name.starts_with('.') || !name.ends_with(SUFFIX) {
                continue;
            }
            let unfinished = |reason: String| RewriteError::Unfinished {
                journal: path.display().to_string(),
                reason,
            };
            let lock = Lock::take(&path);
            let lock =
                lock.ok_or_else(|| unfinished("another process is publishing it".to_owned()))?;
            let text = fs::read(&path).map_err(|error| unfinished(error.to_string()))?;
            let entries = serde_json::from_slice(&text);
            let entries = entries.map_err(|error| unfinished(error.to_string()))?;
            journals.push(Self {
                path,
                entries,
                _lock: Some(lock),
            });
        }
        Ok(journals)
    }

    /// Gives each file its name, and removes the journal.
    ///
    /// # Errors
    /// [`RewriteError::Unfinished`] if a file is missing; [`RewriteError::Write`].
    pub(super) fn publish(self) -> Result<Vec<PathBuf>> {
        for entry in &self.entries {
            self.publish_one(entry)?;
        }
        let remove = || {
            SystemDisk.remove(&self.path)?;
            sync_folder_of(&self.path)
        };
        remove().map_err(|error| write_error(&self.path.display().to_string(), error))?;
        Ok(self.entries.into_iter().map(|entry| entry.file).collect())
    }

    fn publish_one(&self, entry: &Entry) -> Result<()> {
        let has = |path: &Path| fs::metadata(path).is_ok_and(|file| file.len() == entry.bytes);
        let failed = |error| write_error(&entry.file.display().to_string(), error);
        if has(&entry.draft) {
            let rename = SystemDisk.rename(&entry.draft, &entry.file);
            rename.map_err(failed)?;
        } else if !has(&entry.file) {
            return Err(RewriteError::Unfinished {
                journal: self.path.display().to_string(),
                reason: format!(
                    "{} no longer exists; remove the journal and the files that it names, and spread again",
                    entry.draft.display()
                ),
            });
        }
        sync_folder_of(&entry.file).map_err(failed)
    }
}

/// Publishes the complete files of interrupted spreads to these folders; returns these files.
///
/// # Errors
/// As [`Journal::publish`].
pub(super) fn finish_interrupted(folders: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut finished = Vec::new();
    for folder in folders {
        for journal in Journal::left_in(folder)? {
            finished.extend(journal.publish()?);
        }
    }
    Ok(finished)
}

fn note(path: &Path, entries: &[Entry]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let mut file = File::create(&draft)?;
    file.write_all(&serde_json::to_vec_pretty(entries)?)?;
    SystemDisk.sync(&file, &draft)?;
    SystemDisk.rename(&draft, path)?;
    sync_folder_of(path)
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    SystemDisk.sync_folder(path.parent().unwrap_or(path))
}
