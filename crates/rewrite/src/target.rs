//! Where a rewritten file goes: a local file or an object, seen by others only when it is whole.
//!
//! A local file is written under another name beside its target, synced, and renamed, and the
//! folder is synced too. One that is given up, by an error or because the future is dropped, is
//! removed; a process that is killed leaves its `.NAME.*.part` behind, which the next one that
//! writes the same file removes. An object appears when its upload is completed; an upload that is
//! dropped is left to the store's own rules, one that fails is aborted.
//! Bounds: one write is under way at a time; nothing more is taken for an object while
//! `UPLOADS_MAX` parts of `PART_BYTES` are on their way.
//! Two that write the same object at once: the later one stays. Two that write the same local file:
//! one is refused, unless both replace.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coscan::{Disk, SystemDisk};
use coscan_storage::litter::Lock;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::runtime_env::RuntimeEnv;
use object_store::buffered::BufWriter;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use tempfile::TempPath;
use tokio::io::AsyncWriteExt;

use crate::error::RewriteError;
use crate::place::{Place, write_error};

/// A file that is being written.
pub(crate) struct Target {
    text: String,
    replace: bool,
    sink: Sink,
}

/// A local file that is complete and durable, under the name of its draft. Dropping it removes it.
pub(crate) struct Sealed {
    _lock: Option<File>,
    part: TempPath,
    path: PathBuf,
    bytes: u64,
}

impl Sealed {
    /// Where it is.
    pub(crate) fn draft(&self) -> &Path {
        &self.part
    }

    /// What it is to be called.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// It stays from now on.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn keep(self) -> io::Result<()> {
        self.part.keep().map(|_| ()).map_err(|error| error.error)
    }
}

enum Sink {
    Local {
        /// None while a write has it.
        file: Option<File>,
        part: TempPath,
        path: PathBuf,
    },
    Object(BufWriter),
}

/// The least that S3 takes is 5 MiB; with its 10,000 parts, an object can have 100 GiB.
const PART_BYTES: usize = 10 << 20;
/// Enough to keep a link busy while one part's answer is waited for.
const UPLOADS_MAX: usize = 4;

/// What a local file is called until it is whole: `.NAME.`, random characters, and this.
const DRAFT_SUFFIX: &str = ".part";
const DRAFT_RANDOM: usize = 6;
/// Younger ones may be somebody's who has not locked them yet.
const DRAFT_AGE_MIN: Duration = Duration::from_secs(60);

impl Target {
    /// Begins to write. Without `replace`, a file that is there is left alone.
    ///
    /// # Errors
    /// [`RewriteError::Exists`], or that the folder or store refuses.
    pub(crate) async fn create(
        place: Place,
        runtime: &RuntimeEnv,
        replace: bool,
    ) -> Result<Self, RewriteError> {
        let text = place.text;
        let sink = match place.local {
            Some(path) => local(&text, path, replace)?,
            None => {
                let store = runtime
                    .object_store_registry
                    .get_store(&place.store)
                    .map_err(|error| write_error(&text, io::Error::other(error)))?;
                object(&text, store, place.path, replace).await?
            }
        };
        Ok(Self {
            text,
            replace,
            sink,
        })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// [`RewriteError::Write`].
    pub(crate) async fn write(&mut self, bytes: Bytes) -> Result<(), RewriteError> {
        let written = match &mut self.sink {
            Sink::Local { file, .. } => on_file(file, move |file| file.write_all(&bytes)).await,
            Sink::Object(writer) => writer.put(bytes).await.map_err(io::Error::from),
        };
        written.map_err(|error| write_error(&self.text, error))
    }

    /// Makes the file appear.
    ///
    /// # Errors
    /// [`RewriteError::Write`], or [`RewriteError::Exists`] if a file has come up meanwhile that
    /// must not be replaced.
    pub(crate) async fn finish(self) -> Result<(), RewriteError> {
        let failed = |error| write_error(&self.text, error);
        match self.sink {
            Sink::Local {
                mut file,
                part,
                path,
            } => {
                on_file(&mut file, |file| file.sync_all())
                    .await
                    .map_err(failed)?;
                let renamed = if self.replace {
                    part.persist(&path)
                } else {
                    part.persist_noclobber(&path)
                };
                renamed.map_err(|error| match error.error.kind() {
                    io::ErrorKind::AlreadyExists => exists(&self.text),
                    _ => write_error(&self.text, error.error),
                })?;
                let folder = path.parent().unwrap_or(&path).to_owned();
                let synced = SpawnedTask::spawn_blocking(move || SystemDisk.sync_folder(&folder));
                let synced = synced.join_unwind().await.map_err(io::Error::other);
                synced.and_then(|synced| synced).map_err(failed)
            }
            Sink::Object(mut writer) => writer.shutdown().await.map_err(failed),
        }
    }

    /// Makes the file durable under the name of its draft. Only a local one can be sealed.
    ///
    /// # Errors
    /// [`RewriteError::Write`].
    pub(crate) async fn seal(self, bytes: u64) -> Result<Sealed, RewriteError> {
        let failed = |error| write_error(&self.text, error);
        match self.sink {
            Sink::Local {
                mut file,
                part,
                path,
            } => {
                on_file(&mut file, |file| file.sync_all())
                    .await
                    .map_err(failed)?;
                Ok(Sealed {
                    _lock: file,
                    part,
                    path,
                    bytes,
                })
            }
            Sink::Object(_) => Err(failed(io::ErrorKind::Unsupported.into())),
        }
    }

    /// Gives the file up.
    pub(crate) async fn abandon(self) {
        if let Sink::Object(mut writer) = self.sink {
            // What it fails with matters less than what it is given up for.
            let _ = writer.abort().await;
        }
    }
}

fn local(text: &str, path: PathBuf, replace: bool) -> Result<Sink, RewriteError> {
    if !replace && path.exists() {
        return Err(exists(text));
    }
    let folder = path.parent().unwrap_or(&path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".{name}.");
    sweep(folder, &prefix);
    let mut builder = tempfile::Builder::new();
    builder
        .prefix(&prefix)
        .suffix(DRAFT_SUFFIX)
        .rand_bytes(DRAFT_RANDOM);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As for any new file, less the user's umask; by default a temporary file is its owner's
        // alone.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let (file, part) = builder
        .tempfile_in(folder)
        .map_err(|error| write_error(text, error))?
        .into_parts();
    // Where there are no locks nothing is removed either.
    let _ = file.try_lock();
    Ok(Sink::Local {
        file: Some(file),
        part,
        path,
    })
}

/// Removes the drafts of this file that killed processes have left: those that nobody has locked.
/// Between its making and its lock a draft is younger than a minute.
fn sweep(folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let random = name
            .to_str()
            .and_then(|name| name.strip_prefix(prefix)?.strip_suffix(DRAFT_SUFFIX));
        let is_draft = random.is_some_and(|random| {
            random.len() == DRAFT_RANDOM && random.chars().all(|c| c.is_ascii_alphanumeric())
        });
        let age = entry.metadata().and_then(|file| file.modified());
        let age = age.ok().and_then(|modified| modified.elapsed().ok());
        if is_draft
            && age.is_some_and(|age| age > DRAFT_AGE_MIN)
            && let Some(_lock) = Lock::take(&entry.path())
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

async fn object(
    text: &str,
    store: Arc<dyn ObjectStore>,
    path: ObjectPath,
    replace: bool,
) -> Result<Sink, RewriteError> {
    match store.head(&path).await {
        Ok(_) if !replace => return Err(exists(text)),
        Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
        Err(error) => return Err(write_error(text, error.into())),
    }
    let writer = BufWriter::with_capacity(store, path, PART_BYTES);
    Ok(Sink::Object(writer.with_max_concurrency(UPLOADS_MAX)))
}

/// Does something with the file on a thread that may block.
async fn on_file(
    file: &mut Option<File>,
    work: impl FnOnce(&mut File) -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    // A write that was dropped has not brought the file back.
    let mut taken = file
        .take()
        .ok_or_else(|| io::Error::other("a write was given up"))?;
    let task = SpawnedTask::spawn_blocking(move || (work(&mut taken), taken));
    let (done, back) = task.join_unwind().await.map_err(io::Error::other)?;
    *file = Some(back);
    done
}

fn exists(path: &str) -> RewriteError {
    RewriteError::Exists {
        path: path.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn drafts_of_the_same_file_that_nobody_holds_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let long_ago = SystemTime::now() - 2 * DRAFT_AGE_MIN;
        let make = |name: &str| {
            let file = File::create_new(path(name)).unwrap();
            file.set_modified(long_ago).unwrap();
            file
        };
        drop(make(".x.parquet.dead00.part"));
        let held = make(".x.parquet.held00.part");
        held.lock().unwrap();
        let kept = [
            ".y.parquet.other0.part",
            ".x.parquet.longer00.part",
            ".x.parquet.dead-0.part",
            "x.parquet.dead00.part",
            ".x.parquet.dead00.par",
        ];
        for name in kept {
            drop(make(name));
        }
        File::create_new(path(".x.parquet.young0.part")).unwrap();
        fs::create_dir(path(".x.parquet.folder.part")).unwrap();

        let target = local("x.parquet", path("x.parquet"), true).unwrap();
        assert!(!path(".x.parquet.dead00.part").exists());
        for name in kept.iter().chain(&[
            ".x.parquet.held00.part",
            ".x.parquet.young0.part",
            ".x.parquet.folder.part",
        ]) {
            assert!(path(name).exists(), "{name}");
        }
        let before = fs::read_dir(folder.path()).unwrap().count();
        drop(target);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before - 1);
    }
}
