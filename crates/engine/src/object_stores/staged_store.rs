//! How do the new objects of a statement appear only when it has ended?
//!
//! DataFusion's sinks complete each object separately, even when another one fails. Here
//! completing only keeps the upload; [`StagedStore::publish`] completes all of them. A local store
//! publishes the files together (`local_store/together.rs`); other stores can only complete them
//! one after the other.
//! Not here: which statements write through it (`tables/writing.rs`).
//! S1: nothing appears before `publish`, and objects that are not published are discarded.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use parking_lot::Mutex;

use super::local_store::Together;

type Kept = Arc<Mutex<Vec<Box<dyn MultipartUpload>>>>;

/// A store that holds back new objects until they are published.
#[derive(Debug)]
pub(crate) struct StagedStore {
    inner: Arc<dyn ObjectStore>,
    together: Together,
    kept: Kept,
}

impl StagedStore {
    /// `folder` is that of the table, if the store is the local one.
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, folder: PathBuf) -> Self {
        Self {
            inner,
            together: Together::in_folder(folder),
            kept: Kept::default(),
        }
    }

    /// Publishes everything that was written.
    ///
    /// # Errors
    /// The store's errors. A local store then shows none of the objects.
    pub(crate) async fn publish(&self) -> Result<()> {
        let kept = std::mem::take(&mut *self.kept.lock());
        for mut upload in kept {
            upload.complete().await?;
        }
        let together = self.together.clone();
        let published = tokio::task::spawn_blocking(move || together.publish());
        let published = published
            .await
            .map_err(|source| Error::JoinError { source })?;
        published.map_err(|error| Error::Generic {
            store: "LocalStore",
            source: Box::new(error),
        })
    }
}

#[async_trait]
impl ObjectStore for StagedStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let options = PutMultipartOptions {
            tags: options.tags,
            attributes: options.attributes,
            extensions: options.extensions,
        };
        let mut upload = self.put_multipart_opts(location, options).await?;
        upload.put_part(payload).await?;
        upload.complete().await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        mut options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        options.extensions.insert(self.together.clone());
        let upload = self.inner.put_multipart_opts(location, options).await?;
        Ok(Box::new(Staged {
            upload: Some(upload),
            kept: Arc::clone(&self.kept),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

impl fmt::Display for StagedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// An upload that is kept when it is complete.
#[derive(Debug)]
struct Staged {
    /// `None` once the upload is kept or aborted.
    upload: Option<Box<dyn MultipartUpload>>,
    kept: Kept,
}

fn ended() -> Error {
    Error::Generic {
        store: "StagedStore",
        source: "the upload was ended".into(),
    }
}

#[async_trait]
impl MultipartUpload for Staged {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        match &mut self.upload {
            Some(upload) => upload.put_part(data),
            None => Box::pin(std::future::ready(Err(ended()))),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let upload = self.upload.take().ok_or_else(ended)?;
        self.kept.lock().push(upload);
        Ok(PutResult {
            e_tag: None,
            version: None,
        })
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.take().ok_or_else(ended)?.abort().await
    }
}
