//! Local files as an object store: when are two files the same version, and when is a write
//! durable?
//!
//! This is `object_store`'s local store, with two differences. *Versions*: that store identifies a
//! version by size, modification time and inode, and DataFusion's caches by size and time alone,
//! all of which `cp -p`, `rsync -t` and `mv` may keep. Here a file's time is that of its last
//! change (ctime), which no program can set, and its tag holds device, inode, size and both times.
//! Files that were written within one tick of the clock have equal times, so a listing shows a
//! time that depends on the tag. So a comparison of size and time, or of tags, notices a new file.
//! Other operations that change the ctime (chmod, a new hard link, a rename) also make a new
//! version; caches then read the file once more. *Writes*: file and folder are synced before a
//! write is reported (`disk.rs`), and the files of one statement appear together (`together.rs`).
//! Not here: reading data, which devices do (`coscan_storage::device`); they use the same
//! versions.

mod disk;
mod journal;
mod left_behind;
mod together;
mod upload;

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::path::Path as FsPath;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use coscan_storage::device::{listed_time, local_version};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, Result,
};

pub use disk::{Disk, SystemDisk};
pub(crate) use left_behind::settle;
use together::Appearing;
pub(crate) use together::Together;
use upload::Upload;

/// The local file system.
#[derive(Debug)]
pub struct LocalStore {
    inner: Arc<LocalFileSystem>,
    disk: Arc<dyn Disk>,
    appearing: Arc<Appearing>,
}

/// The files of a listing whose versions are looked up in one call.
const LISTED_AT_ONCE: usize = 256;
/// The most concurrent deletions.
const DELETED_AT_ONCE: usize = 10;

impl LocalStore {
    /// A store of the operating system's files.
    #[must_use]
    pub fn new() -> Self {
        Self::on(Arc::new(SystemDisk))
    }

    /// A store that makes its changes through this disk, which a test may break.
    #[must_use]
    pub fn on(disk: Arc<dyn Disk>) -> Self {
        Self {
            inner: Arc::new(LocalFileSystem::new()),
            disk,
            appearing: Arc::default(),
        }
    }

    /// The listing with Coscan's versions, without files that were removed in the meantime and
    /// without the files of a statement that appear while the listing runs.
    fn restamped(
        &self,
        listed: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let inner = Arc::clone(&self.inner);
        let listing = self.appearing.listing();
        let of = Arc::clone(&self.inner);
        let listed = listed.filter(move |file| {
            let shown = file.as_ref().map_or(true, |file| {
                listing.shows(|| of.path_to_filesystem(&file.location).ok())
            });
            futures::future::ready(shown)
        });
        let restamp = move |listed: Vec<Result<ObjectMeta>>| {
            let inner = Arc::clone(&inner);
            async move {
                let stamped = blocking(move || Ok(restamp(&inner, listed))).await;
                stream::iter(stamped.unwrap_or_else(|error| vec![Err(error)]))
            }
        };
        listed
            .chunks(LISTED_AT_ONCE)
            .then(restamp)
            .flatten()
            .boxed()
    }
}

impl Default for LocalStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl ObjectStore for LocalStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let replaces = match options.mode {
            PutMode::Overwrite if options.attributes.is_empty() => true,
            PutMode::Create if options.attributes.is_empty() => false,
            // The inner store answers that it does not support this.
            _ => return self.inner.put_opts(location, payload, options).await,
        };
        let target = self.inner.path_to_filesystem(location)?;
        let disk = Arc::clone(&self.disk);
        blocking(move || {
            let put = put(&*disk, &payload, &target, replaces);
            put.map_err(|error| failed(&target, error))?;
            tag_of(&target)
        })
        .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        if !options.attributes.is_empty() {
            return self.inner.put_multipart_opts(location, options).await;
        }
        let target = self.inner.path_to_filesystem(location)?;
        let disk = Arc::clone(&self.disk);
        let together = options.extensions.get::<Together>().cloned();
        let together = together.map(|together| (together, Arc::clone(&self.appearing)));
        let upload = blocking(move || {
            let upload = Upload::begin(disk, target.clone(), together);
            upload.map_err(|error| failed(&target, error))
        });
        Ok(Box::new(upload.await?))
    }

    async fn get_opts(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        // The inner store has its own tags, so conditions on ours are checked here.
        let conditions = GetOptions {
            if_match: options.if_match.take(),
            if_none_match: options.if_none_match.take(),
            if_modified_since: options.if_modified_since.take(),
            if_unmodified_since: options.if_unmodified_since.take(),
            ..GetOptions::default()
        };
        let mut found = self.inner.get_opts(location, options).await?;
        if let GetResultPayload::File(file, path) = &found.payload {
            let metadata = file.metadata().map_err(|error| failed(path, error))?;
            found.meta = meta(location, &metadata);
        }
        conditions.check_preconditions(&found.meta)?;
        Ok(found)
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[std::ops::Range<u64>],
    ) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (inner, disk) = (Arc::clone(&self.inner), Arc::clone(&self.disk));
        locations
            .map(move |location| {
                let (inner, disk) = (Arc::clone(&inner), Arc::clone(&disk));
                blocking(move || {
                    let location = location?;
                    let path = inner.path_to_filesystem(&location)?;
                    let removed = disk::remove(&*disk, &path);
                    removed.map_err(|error| failed(&path, error))?;
                    Ok(location)
                })
            })
            .buffered(DELETED_AT_ONCE)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let folder = prefix.and_then(|prefix| self.inner.path_to_filesystem(prefix).ok());
        let listed = self.restamped(self.inner.list(prefix));
        let Some(folder) = folder else { return listed };
        let disk = Arc::clone(&self.disk);
        // If the journal of a killed process is in place, its statement is committed.
        let finished = blocking(move || {
            let finished = journal::finish_all(&*disk, &folder);
            finished.map_err(|error| failed(&folder, error))
        });
        let finished = finished.map(move |finished| match finished {
            Ok(()) => listed,
            Err(error) => stream::iter([Err(error)]).boxed(),
        });
        finished.into_stream().flatten().boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.restamped(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let listed = self.inner.list_with_delimiter(prefix).await?;
        let objects = stream::iter(listed.objects.into_iter().map(Ok)).boxed();
        Ok(ListResult {
            objects: self.restamped(objects).try_collect().await?,
            common_prefixes: listed.common_prefixes,
        })
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Creates the folder and those above it, if they are missing, so that they survive a power loss.
pub(crate) fn make_folder(path: &FsPath) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    disk::make_folders(&SystemDisk, &std::path::absolute(path)?)
}

fn put(disk: &dyn Disk, payload: &PutPayload, target: &FsPath, replaces: bool) -> io::Result<()> {
    let (mut file, staged) = disk::stage(disk, target)?;
    let mut bytes = payload.iter();
    if let Err(error) = bytes.try_for_each(|bytes| io::Write::write_all(&mut file, bytes)) {
        let _ = disk.remove(&staged);
        return Err(error);
    }
    disk::put_in_place(disk, &file, &staged, target, replaces)
}

fn restamp(inner: &LocalFileSystem, listed: Vec<Result<ObjectMeta>>) -> Vec<Result<ObjectMeta>> {
    let stamp = |listed: Result<ObjectMeta>| {
        let location = match listed {
            Ok(listed) => listed.location,
            Err(error) => return Some(Err(error)),
        };
        let path = match inner.path_to_filesystem(&location) {
            Ok(path) => path,
            Err(error) => return Some(Err(error)),
        };
        match std::fs::metadata(&path) {
            Ok(metadata) => Some(Ok(meta(&location, &metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(Err(failed(&path, error))),
        }
    };
    listed.into_iter().filter_map(stamp).collect()
}

/// The current metadata of a file.
fn meta(location: &Path, metadata: &Metadata) -> ObjectMeta {
    let version = local_version(location, metadata);
    ObjectMeta {
        location: location.clone(),
        last_modified: listed_time(&version).into(),
        size: version.size,
        e_tag: version.e_tag,
        version: None,
    }
}

/// The tag of a file that was just written.
fn tag_of(target: &FsPath) -> Result<PutResult> {
    let metadata = std::fs::metadata(target).map_err(|error| failed(target, error))?;
    Ok(PutResult {
        e_tag: local_version(&Path::default(), &metadata).e_tag,
        version: None,
    })
}

/// Runs a blocking call outside the runtime's workers.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(call).await {
        Ok(done) => done,
        Err(error) => Err(Error::JoinError { source: error }),
    }
}

fn failed(path: &FsPath, error: io::Error) -> Error {
    let name = path.display().to_string();
    let about = |error: io::Error| -> Box<dyn std::error::Error + Send + Sync> {
        Box::new(io::Error::new(error.kind(), format!("{name}: {error}")))
    };
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound {
            source: about(error),
            path: name,
        },
        io::ErrorKind::AlreadyExists => Error::AlreadyExists {
            source: about(error),
            path: name,
        },
        io::ErrorKind::PermissionDenied => Error::PermissionDenied {
            source: about(error),
            path: name,
        },
        _ => Error::Generic {
            store: "LocalStore",
            source: Box::new(error),
        },
    }
}
