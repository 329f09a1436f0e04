//! How do several files get their names at once?
//!
//! No system call renames several files. So a journal lists them first: `_coscan/….names` in the
//! table's folder, with a line for each staged path and one for its target, relative to that
//! folder. Once the journal survives a power loss, the statement is committed: whatever happens,
//! the next process that lists the folder carries out what the journal says. The writer holds the
//! journal's lock, so no other process carries it out while the writer lives.
//! Not here: what listings of the same process show in the meantime (`together.rs`).
//! J1: a journal is put in place only when all its staged files and their names survive a power
//! loss.
//! J2: a journal is removed only when the targets' names survive a power loss.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use coscan_storage::orphans::Lock;

use super::disk::{self, Disk, folder_of};

/// The folder of journals; indexes use it, too.
pub(super) const FOLDER: &str = "_coscan";
const SUFFIX: &str = "names";

/// The paths of a staged file and of its target.
pub(super) type Renaming = (PathBuf, PathBuf);

/// A journal in place. It keeps its lock until it is dropped.
pub(super) struct Journal {
    path: PathBuf,
    _locked: File,
}

impl Journal {
    /// Writes the journal of these files, which are already synced.
    pub(super) fn write(disk: &dyn Disk, table: &Path, files: &[Renaming]) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        for folder in folders(files.iter().map(|(staged, _)| staged)) {
            disk.sync_folder(folder)?;
        }
        let mut text = String::new();
        for path in files.iter().flat_map(|(staged, target)| [staged, target]) {
            let relative = path.strip_prefix(table).ok().and_then(Path::to_str);
            let relative = relative.filter(|path| !path.contains('\n'));
            let relative = relative.ok_or_else(|| io::Error::other("a path has no such name"))?;
            text.push_str(relative);
            text.push('\n');
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let name = format!(
            "{}-{}-{number}.{SUFFIX}",
            std::process::id(),
            now.map_or(0, |now| now.as_nanos())
        );
        let path = table.join(FOLDER).join(name);
        let (mut file, staged) = disk::stage(disk, &path)?;
        if let Err(error) = file.write_all(text.as_bytes()) {
            let _ = disk.remove(&staged);
            return Err(error);
        }
        disk::put_in_place(disk, &file, &staged, &path, true)?;
        Ok(Self {
            path,
            _locked: file,
        })
    }

    /// Gives the files their names, and removes the journal.
    pub(super) fn finish(self, disk: &dyn Disk, files: &[Renaming]) -> io::Result<()> {
        carry_out(disk, files)?;
        // A journal that reappears after a power loss has nothing left to do.
        let _ = disk.remove(&self.path);
        Ok(())
    }
}

/// Finishes the journals in a table's folder that no living process holds.
pub(super) fn finish_all(disk: &dyn Disk, table: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(table.join(FOLDER)) {
        Ok(entries) => entries,
        Err(error) if is_no_folder(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != SUFFIX) {
            continue;
        }
        // A living process carries out a journal that it holds.
        let Some(_lock) = Lock::take(&path) else {
            continue;
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if is_no_folder(&error) => continue,
            Err(error) => return Err(error),
        };
        let lines: Vec<&str> = text.lines().collect();
        let files = lines.chunks_exact(2);
        let files: Vec<Renaming> = files
            .map(|pair| (table.join(pair[0]), table.join(pair[1])))
            .collect();
        carry_out(disk, &files)?;
        disk.remove(&path)?;
    }
    Ok(())
}

fn carry_out(disk: &dyn Disk, files: &[Renaming]) -> io::Result<()> {
    for (staged, target) in files {
        match disk.rename(staged, target) {
            // The file has its name already.
            Err(error) if error.kind() == io::ErrorKind::NotFound && target.exists() => {}
            renamed => renamed?,
        }
    }
    for folder in folders(files.iter().map(|(_, target)| target)) {
        disk.sync_folder(folder)?;
    }
    Ok(())
}

fn folders<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> BTreeSet<&'a Path> {
    paths.map(|path| folder_of(path)).collect()
}

fn is_no_folder(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
