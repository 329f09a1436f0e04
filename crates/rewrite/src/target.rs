//! Where does a rewritten file go, and when does it become visible? A local file or an object.
//!
//! A local file is written under another name beside its target, synced, and renamed, and the
//! folder is synced too. A file that is abandoned, by an error or because the future is dropped,
//! is removed. A killed process leaves its `.NAME.*.part` behind, which the next process that
//! writes the same file removes. An object appears when its upload is completed; a dropped upload
//! is left to the store's own rules, a failed one is aborted.
//! Bounds: one write is under way at a time; no more bytes are accepted for an object while
//! `UPLOADS_MAX` parts of `PART_BYTES` are under way. Of two concurrent writes to the same object
//! the later one stays. Of two concurrent writes to the same local file one is refused, unless
//! both may replace.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coscan::{Disk, SystemDisk};
use coscan_storage::orphans::Lock;
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

/// A complete and durable local file, under the name of its draft. Dropping it removes the file.
pub(crate) struct Sealed {
    _lock: Option<File>,
    part: TempPath,
    path: PathBuf,
    bytes: u64,
}

impl Sealed {
    /// The path of the draft.
    pub(crate) fn draft(&self) -> &Path {
        &self.part
    }

    /// The final path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keeps the file when this is dropped.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn keep(self) -> io::Result<()> {
        self.part.keep().map(|_| ()).map_err(|error| error.error)
    }
}

enum Sink {
    Local {
        /// `None` while a write has it.
        file: Option<File>,
        part: TempPath,
        path: PathBuf,
    },
    Object(BufWriter),
}

/// S3 accepts parts of at least 5 MiB; with its 10,000 parts, an object can have 100 GiB.
const PART_BYTES: usize = 10 << 20;
/// Enough to keep a link busy while one part is awaited.
const UPLOADS_MAX: usize = 4;

/// The name of a local file until it is complete: `.NAME.`, random characters, and this suffix.
const DRAFT_SUFFIX: &str = ".part";
const DRAFT_RANDOM: usize = 6;
/// A younger draft may belong to a process that has not locked it yet.
const DRAFT_AGE_MIN: Duration = Duration::from_secs(60);

impl Target {
    /// Begins to write. Without `replace`, an existing file is left alone.
    ///
    /// # Errors
    /// [`RewriteError::Exists`], or an error of the folder or store.
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
    /// [`RewriteError::Write`], or [`RewriteError::Exists`] if a file that must not be replaced
    /// has appeared meanwhile.
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

    /// Makes the file durable under the name of its draft. Only a local file can be sealed.
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

    /// Abandons the file and removes what was written.
    pub(crate) async fn abandon(self) {
        if let Sink::Object(mut writer) = self.sink {
            // An error of the abort matters less than the reason for it.
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
        // The permissions of any new file, less the user's umask; by default a temporary file is
        // readable by its owner alone.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let (file, part) = builder
        .tempfile_in(folder)
        .map_err(|error| write_error(text, error))?
        .into_parts();
    // Without lock support no drafts are removed either.
    let _ = file.try_lock();
    Ok(Sink::Local {
        file: Some(file),
        part,
        path,
    })
}

/// Removes the unlocked drafts of this file that killed processes have left. A draft without a
/// lock that is younger than a minute may be about to be locked, and stays.
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

/// Runs `work` on the file on a thread that may block.
async fn on_file(
    file: &mut Option<File>,
    work: impl FnOnce(&mut File) -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    // A dropped write has not returned the file.
    let mut taken = file
        .take()
        .ok_or_else(|| io::Error::other("a write was abandoned"))?;
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
    fn unlocked_drafts_of_the_same_file_are_removed() {
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
