//! A local file that is written in parts and appears when it is complete.
//!
//! Not here: when it is durable (`disk.rs`), how several appear at once (`together.rs`).

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use tokio::runtime::Handle;

use super::disk::{self, Disk};
use super::together::{Appearing, Staged, Together};
use super::{blocking, failed, tag_of};

/// An upload. Dropping it aborts it.
pub(super) struct Upload {
    disk: Arc<dyn Disk>,
    file: Arc<File>,
    /// `None` once the upload is completed or aborted.
    staged: Option<PathBuf>,
    target: PathBuf,
    offset: u64,
    /// The files that it appears with, and the state that listings look at.
    together: Option<(Together, Arc<Appearing>)>,
}

impl Upload {
    pub(super) fn begin(
        disk: Arc<dyn Disk>,
        target: PathBuf,
        together: Option<(Together, Arc<Appearing>)>,
    ) -> io::Result<Self> {
        let (file, staged) = disk::stage(&*disk, &target)?;
        Ok(Self {
            disk,
            file: Arc::new(file),
            staged: Some(staged),
            target,
            offset: 0,
            together,
        })
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (file, mut offset) = (Arc::clone(&self.file), self.offset);
        self.offset += data.content_length() as u64;
        let target = self.target.clone();
        blocking(move || {
            for bytes in &data {
                let written = file.write_all_at(bytes, offset);
                written.map_err(|error| failed(&target, error))?;
                offset += bytes.len() as u64;
            }
            Ok(())
        })
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let staged = self.staged.take().ok_or_else(|| gone(&self.target))?;
        let (disk, file) = (Arc::clone(&self.disk), Arc::clone(&self.file));
        let target = self.target.clone();
        if let Some((together, appearing)) = self.together.clone() {
            return blocking(move || {
                if let Err(error) = disk.sync(&file, &staged) {
                    let _ = disk.remove(&staged);
                    return Err(failed(&target, error));
                }
                let tag = tag_of(&staged)?;
                together.add(Staged {
                    disk,
                    file,
                    path: staged,
                    target,
                    appearing,
                });
                Ok(tag)
            })
            .await;
        }
        blocking(move || {
            let done = disk::put_in_place(&*disk, &file, &staged, &target, true);
            done.map_err(|error| failed(&target, error))?;
            tag_of(&target)
        })
        .await
    }

    async fn abort(&mut self) -> Result<()> {
        let staged = self.staged.take().ok_or_else(|| gone(&self.target))?;
        let disk = Arc::clone(&self.disk);
        blocking(move || disk.remove(&staged).map_err(|error| failed(&staged, error))).await
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(staged) = self.staged.take() else {
            return;
        };
        let disk = Arc::clone(&self.disk);
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || disk.remove(&staged))),
            Err(_) => drop(disk.remove(&staged)),
        }
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

fn gone(target: &std::path::Path) -> object_store::Error {
    failed(target, io::Error::other("the upload was ended"))
}
