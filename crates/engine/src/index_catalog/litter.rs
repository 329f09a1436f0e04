//! What happens to a draft whose process was killed?
//!
//! A process that writes a draft in a local folder locks a file beside it, `….index.lock`, until
//! the draft has become an index or is removed. A lock file that no process holds belonged to a
//! killed process. The next process that looks through the folder removes it, and its data unless
//! a manifest names them. It takes the lock before it reads the manifests, because the killed
//! process may have committed.
//! Not here: stores that are not local, which have no locks. No manifest names the data left
//! there, so they cost only space.
//! L2: data are removed only with their lock held, and only if each manifest in the folder was
//! read and names other data.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use object_store::local::LocalFileSystem;

use super::folder::{Folder, MANIFEST_SUFFIX};
use super::manifest::Manifest;
use coscan_storage::orphans::Lock;

/// The ends of the names of data files and, after those, of their lock files.
const DATA_SUFFIX: &str = ".index";
const LOCK_SUFFIX: &str = ".lock";

/// A draft's lock file. Dropping the claim removes the file: the draft is then an index, or
/// removed.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    _lock: Lock,
}

impl Claim {
    /// Claims the data of this name, which do not exist yet; `None` where there are no locks.
    pub(crate) fn new(folder: &Folder, data: &str) -> Option<Self> {
        let folder = local(folder)?;
        // The first index creates the folder, inside the table's folder. If that fails, creating
        // the lock fails, too.
        let _ = fs::create_dir(&folder);
        let path = folder.join(format!("{data}{LOCK_SUFFIX}"));
        match Lock::create(&path) {
            Ok(lock) => Some(Self { path, _lock: lock }),
            Err(error) => {
                log::debug!("{}: {error}", path.display());
                None
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes what killed processes left in a folder.
pub(super) fn sweep(folder: &Folder) {
    let Some(folder) = local(folder) else {
        return;
    };
    let left: Vec<(String, Lock)> = names(&folder)
        .into_iter()
        .filter_map(|name| {
            let data = name.strip_suffix(LOCK_SUFFIX)?;
            let lock = || Lock::take(&folder.join(&name));
            data.ends_with(DATA_SUFFIX)
                .then(lock)?
                .map(|lock| (data.to_owned(), lock))
        })
        .collect();
    if left.is_empty() {
        return;
    }
    let all = names(&folder);
    let Some(named) = data_of_manifests(&folder, &all) else {
        return;
    };
    for (data, _lock) in &left {
        if !named.contains(data) {
            // The local store stages a file as data.coscan#1; earlier versions used data#1.
            let is_draft = |name: &str| {
                let rest = name.strip_prefix(data.as_str());
                rest.is_some_and(|rest| rest.starts_with('#') || rest.starts_with(".coscan#"))
            };
            for name in all.iter().filter(|n| *n == data || is_draft(n)) {
                let path = folder.join(name);
                match fs::remove_file(&path) {
                    Ok(()) => log::info!("{}: left behind, removed", path.display()),
                    Err(error) => log::warn!("{}: left behind: {error}", path.display()),
                }
            }
        }
        let _ = fs::remove_file(folder.join(format!("{data}{LOCK_SUFFIX}")));
    }
}

/// The data files that manifests name; `None` if a manifest cannot be read, because it may name
/// any of them.
fn data_of_manifests(folder: &Path, names: &[String]) -> Option<HashSet<String>> {
    let manifests = names.iter().filter(|name| name.ends_with(MANIFEST_SUFFIX));
    let data = manifests.map(|name| {
        let bytes = fs::read(folder.join(name)).ok()?;
        Manifest::open(&bytes).ok().map(|manifest| manifest.data)
    });
    data.collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// The folder's path, if it is local.
fn local(folder: &Folder) -> Option<PathBuf> {
    if folder.store.as_str() != "file:///" {
        return None;
    }
    LocalFileSystem::new().path_to_filesystem(&folder.path).ok()
}
