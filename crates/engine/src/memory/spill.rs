//! Where do operators spill, and how many spilled files does a merge read at a time?
//!
//! In a folder of the engine, `coscan-spill-…`, inside the configured folder or else the system's
//! folder for temporary files. The engine's folder is removed with the engine's runtime. A process
//! that is killed leaves its folder behind, with all that it spilled; the next engine that uses
//! the same place removes it if no process holds its lock (`orphans.rs`).
//! Not here: the files inside, which are DataFusion's, except for rows of smooth scans
//! (`probe/streams/result_cache.rs`), which go there too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use coscan_storage::orphans::{Lock, is_ours};
use coscan_storage::pool::MemoryBudget;
use datafusion::execution::disk_manager::DiskManager;

/// The option whose default differs here;
/// [`CoscanExt::with_coscan`](crate::CoscanExt::with_coscan) says why.
pub(crate) const SPILL_FILE_BYTES: &str = "datafusion.execution.max_spill_file_size_bytes";
/// Its default here.
pub(crate) const SPILL_FILE_BYTES_DEFAULT: &str = "1";

/// A merge of a sort's spilled files reserves room for four of the largest batches of each file,
/// some 4 MiB where batches have 8,192 rows, and for as many files as the memory has room for if
/// nothing bounds them: the merge of one large sort takes what all other queries need. So it reads
/// one file for so many bytes of the limit, which is an eighth of it. With more files it goes over
/// its rows once more.
const LIMIT_PER_MERGED_FILE: u64 = 32 << 20;
/// A merge reads so many files in any case. Batches are smaller where the limit is (`batches.rs`).
const MERGED_FILES_MIN: usize = 16;

/// How many spilled files a merge reads at a time in a memory of this limit, in bytes.
fn merged_files_max(limit: u64) -> usize {
    let files = usize::try_from(limit / LIMIT_PER_MERGED_FILE).unwrap_or(usize::MAX);
    files.max(MERGED_FILES_MIN)
}

/// Bounds how many spilled files the merges of a runtime read at a time in this memory, now and
/// after each change of the limit. For the engine's own runtime: other runtimes that draw on its
/// memory have the bound that their program chose.
pub(crate) fn bound_merges(disk: &Arc<DiskManager>, budget: &MemoryBudget) {
    let disk = Arc::downgrade(disk);
    budget.on_limit(move |limit| {
        let Some(disk) = disk.upgrade() else {
            return false;
        };
        disk.set_max_spill_merge_fan_in(merged_files_max(limit));
        true
    });
}

/// The prefix of our folders' names.
const PREFIX: &str = "coscan-spill-";
/// The file in each folder that its owner locks.
const LOCK: &str = "lock";

/// An engine's folder. Dropping this removes the folder with everything in it.
#[derive(Debug)]
pub(crate) struct SpillFolder {
    path: PathBuf,
    _lock: Lock,
}

impl SpillFolder {
    /// Makes a folder, and removes orphaned ones. `None` if the system's folder for temporary
    /// files cannot be written to: DataFusion may then try when it has something to spill.
    ///
    /// # Errors
    /// [`Error::Spill`] if the configured folder cannot be written to.
    pub(crate) fn create(place: Option<&Path>) -> Result<Option<Self>> {
        let system = std::env::temp_dir();
        let base = place.unwrap_or(&system);
        match make(base) {
            Ok(folder) => {
                sweep(base);
                Ok(Some(folder))
            }
            Err(reason) if place.is_some() => Err(Error::Spill {
                path: base.display().to_string(),
                reason,
            }),
            Err(reason) => {
                log::warn!("{}: operators cannot spill: {reason}", base.display());
                Ok(None)
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SpillFolder {
    fn drop(&mut self) {
        // The next engine removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn make(base: &Path) -> io::Result<SpillFolder> {
    fs::create_dir_all(base)?;
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(base)?;
    let lock = Lock::create(&folder.path().join(LOCK))?;
    Ok(SpillFolder {
        path: folder.keep(),
        _lock: lock,
    })
}

/// Removes the folders of processes that have ended.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    for entry in entries.flatten() {
        let is_named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let path = entry.path();
        if !is_named || !is_folder || !is_ours(&path) {
            continue;
        }
        // The lock is held until the whole folder is removed.
        if let Some(_lock) = Lock::take(&path.join(LOCK)) {
            match fs::remove_dir_all(&path) {
                Ok(()) => log::info!("{}: orphaned folder removed", path.display()),
                Err(error) => log::warn!("{}: orphaned folder: {error}", path.display()),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;

    use super::super::QueryMemory;
    use super::*;
    use crate::{Engine, EngineConfig};

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn more_memory_merges_more_files() {
        for (mebibytes, files) in [(0, 16), (150, 16), (512, 16), (1 << 10, 32), (1 << 14, 512)] {
            assert_eq!(merged_files_max(mebibytes << 20), files, "{mebibytes} MiB");
        }
    }

    #[tokio::test]
    async fn merges_of_the_engines_own_runtime_are_as_wide_as_its_memory_allows() {
        let config = EngineConfig {
            memory_bytes: Some(1 << 30),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).unwrap();
        let width = || engine.runtime().disk_manager.max_spill_merge_fan_in();
        assert_eq!(width(), 32, "before the first query");
        for (limit, files) in [(2 << 30, 64), (1 << 27, 16)] {
            engine.memory().set_limit(limit);
            assert_eq!(width(), files);
        }
        let query = QueryMemory::of_session(engine.runtime()).unwrap();
        let running = query.environment(engine.runtime());
        engine.memory().set_limit(1 << 30);
        let width = running.disk_manager.max_spill_merge_fan_in();
        assert_eq!(width, 32, "of a query that runs while the limit changes");
        let foreign = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&engine.runtime().memory_pool))
            .with_max_spill_merge_fan_in(7)
            .build_arc()
            .unwrap();
        let query = QueryMemory::of_session(&foreign).unwrap();
        let environment = query.environment(&foreign);
        assert_eq!(environment.disk_manager.max_spill_merge_fan_in(), 7);
    }

    #[test]
    fn create_removes_orphaned_folders_only() {
        let base = tempfile::tempdir().unwrap();
        let live = SpillFolder::create(Some(base.path())).unwrap().unwrap();
        fs::write(live.path().join("rows"), "x").unwrap();
        let dead = base.path().join(format!("{PREFIX}dead"));
        fs::create_dir_all(dead.join("datafusion-1")).unwrap();
        fs::write(dead.join("datafusion-1/rows"), "x").unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        // Without a lock file; a file; a link to a foreign folder; another name.
        fs::create_dir(base.path().join(format!("{PREFIX}other"))).unwrap();
        fs::write(base.path().join(format!("{PREFIX}file")), "").unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join(LOCK), "").unwrap();
        let link = base.path().join(format!("{PREFIX}link"));
        std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
        fs::create_dir(base.path().join("spill")).unwrap();
        fs::write(base.path().join("spill").join(LOCK), "").unwrap();
        let before = names(base.path());

        let next = SpillFolder::create(Some(base.path())).unwrap().unwrap();
        let mut expected = before;
        expected.retain(|name| *name != format!("{PREFIX}dead"));
        let own = next.path().file_name().unwrap().to_string_lossy();
        expected.push(own.into_owned());
        expected.sort();
        assert_eq!(names(base.path()), expected);
        assert!(live.path().join("rows").exists() && elsewhere.path().join(LOCK).exists());
        let path = live.path().to_owned();
        drop(live);
        assert!(!path.exists());
    }

    #[test]
    fn a_configured_place_must_be_a_folder() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = SpillFolder::create(Some(&file)).unwrap_err();
        assert!(refused.to_string().contains("file"), "{refused}");
    }
}
