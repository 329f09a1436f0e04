//! What did processes that were killed while they wrote leave in a table's folders?
//!
//! They left staged files (`disk.rs`), whose locks are free, and journals of statements whose
//! files got only some of their names (`journal.rs`). Both are cleaned up when a table is
//! registered and before rows are added to it.
//! Not here: drafts of indexes (`index_catalog/litter.rs`).
//! Bounds: the sweep enters folders named `key=value`, [`DEPTH_MAX`] deep.
//! L3: a staged file is removed only with its lock held, and only when no journal remains that may
//! name it.

use std::fs;
use std::path::Path;

use coscan_storage::orphans::Lock;

use super::disk::{STAGED, SystemDisk};
use super::journal;

/// The deepest nesting of folders; no table has more partition columns.
const DEPTH_MAX: usize = 32;

/// Carries out the journals in a table's folder and removes the staged files that are left.
pub(crate) fn settle(folder: &Path) {
    match journal::finish_all(&SystemDisk, folder) {
        Ok(()) => {
            sweep(folder, DEPTH_MAX);
            sweep(&folder.join(journal::FOLDER), 0);
        }
        Err(error) => log::warn!("{}: left behind: {error}", folder.display()),
    }
}

fn sweep(folder: &Path, depth: usize) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let path = entry.path();
        if is_staged(name) {
            // If another process removed the file first, there is nothing to do.
            if let Some(_lock) = Lock::take(&path)
                && fs::remove_file(&path).is_ok()
            {
                log::info!("{}: left behind, removed", path.display());
            }
        } else if depth > 0 && name.contains('=') && path.is_dir() {
            sweep(&path, depth - 1);
        }
    }
}

fn is_staged(name: &str) -> bool {
    name.rsplit_once(STAGED).is_some_and(|(_, number)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use super::super::disk::stage;
    use super::*;

    #[test]
    fn only_our_files_without_an_owner_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("p=1");
        let target = part.join("x.parquet");
        let (file, held) = stage(&SystemDisk, &target).unwrap();
        let (other, left) = stage(&SystemDisk, &folder.path().join("y.parquet")).unwrap();
        drop(other);
        let foreign = folder.path().join("z.parquet#1");
        fs::write(&foreign, "").unwrap();
        settle(folder.path());
        assert!(held.exists() && foreign.exists() && !left.exists());
        drop(file);
        settle(folder.path());
        assert!(!held.exists());
    }
}
