//! Where a rewritten file goes: a local file or an object, seen by others only when it is whole.
//!
//! A local file is written under another name beside its target, synced, and renamed, and the folder is synced too. One that is given up, by an error or because the
//! future is dropped, is removed; only a process that is killed leaves its `.NAME.*.part` behind. An object appears when its upload is
//! completed; an upload that is dropped is left to the store's own rules, one that fails is aborted.
//! Bounds: one write is under way at a time; nothing more is taken for an object while `UPLOADS_MAX` parts of `PART_BYTES` are on
//! their way.
//! Two that write the same object at once: the later one stays. Two that write the same local file: one is refused, unless both replace.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::runtime_env::RuntimeEnv;
use object_store::buffered::BufWriter;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use tempfile::TempPath;
use tokio::io::AsyncWriteExt;

use super::error::RewriteError;
use super::place::{Place, write_error};
use crate::local_store::sync_folder;

/// A file that is being written.
pub(crate) struct Target {
    text: String,
    replace: bool,
    sink: Sink,
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
    /// [`RewriteError::Write`], or [`RewriteError::Exists`] if a file has come up meanwhile that must not be replaced.
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
                let synced = SpawnedTask::spawn_blocking(move || sync_folder(&folder));
                let synced = synced.join_unwind().await.map_err(io::Error::other);
                synced.and_then(|synced| synced).map_err(failed)
            }
            Sink::Object(mut writer) => writer.shutdown().await.map_err(failed),
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
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As for any new file, less the user's umask; by default a temporary file is its owner's alone.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let (file, part) = builder
        .tempfile_in(folder)
        .map_err(|error| write_error(text, error))?
        .into_parts();
    Ok(Sink::Local {
        file: Some(file),
        part,
        path,
    })
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
