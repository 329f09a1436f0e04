//! Local files as an object store: when are two files the same version, and when is a write
//! durable?
//!
//! This is `object_store`'s local store, with three differences. *Versions*: that store identifies
//! a version by size, modification time and inode, and DataFusion's caches by size and time alone,
//! all of which `cp -p`, `rsync -t` and `mv` may keep. Here a file's time is that of its last
//! change (ctime), which no program can set, and its tag holds device, inode, size and both times.
//! Files that were written within one tick of the clock have equal times, so a listing shows a
//! time that depends on the tag. So a comparison of size and time, or of tags, notices a new file.
//! Other operations that change the ctime (chmod, a new hard link, a rename) also make a new
//! version; caches then read the file once more. *Writes*: file and folder are synced before a
//! write is reported (`disk.rs`), and the files of one statement appear together (`together.rs`).
//! *Threads*: what the kernel has in memory is opened and read in place (`FromMemory`), where the
//! other store changes threads twice.
//! Not here: reading data of large tables, which devices do (`coscan_storage::device`); they use
//! the same versions.

mod disk;
mod journal;
mod left_behind;
mod together;
mod upload;

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::path::Path as FsPath;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use coscan_storage::device::{FromMemory, listed_time, local_version};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, Result,
};
use tokio::runtime::Handle;
use tokio::task::coop::consume_budget;

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
    from_memory: Arc<FromMemory>,
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
            from_memory: Arc::default(),
        }
    }

    /// Opens a file, if the kernel has what that needs in memory.
    async fn open_at_once(&self, path: &FsPath) -> Option<(File, Metadata)> {
        let opened = self.from_memory.open(path);
        if opened.is_some() || !self.learns(path).await {
            return opened;
        }
        self.from_memory.open(path)
    }

    /// Reads these ranges, if the kernel has them in memory.
    async fn read_at_once(&self, path: &FsPath, ranges: &[Range<u64>]) -> Option<Vec<Bytes>> {
        let answers = self.from_memory.read(path, ranges);
        if answers.is_some() || !self.learns(path).await {
            return answers;
        }
        self.from_memory.read(path, ranges)
    }

    /// Learns what file system the path leads to, on a thread that may wait. Whether that was new.
    async fn learns(&self, path: &FsPath) -> bool {
        if !self.from_memory.is_new(path) {
            return false;
        }
        let Ok(runtime) = Handle::try_current() else {
            return false;
        };
        let (from_memory, path) = (Arc::clone(&self.from_memory), path.to_owned());
        let learned = runtime.spawn_blocking(move || from_memory.learn(&path));
        learned.await.is_ok()
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
        let path = self.inner.path_to_filesystem(location)?;
        consume_budget().await;
        let opened = match options.range {
            Some(_) => None,
            None => self.open_at_once(&path).await,
        };
        let found = match opened {
            Some((file, metadata)) => GetResult {
                range: 0..metadata.len(),
                meta: meta(location, &metadata),
                attributes: Attributes::default(),
                payload: GetResultPayload::File(file, path),
            },
            None => {
                let mut found = self.inner.get_opts(location, options).await?;
                if let GetResultPayload::File(file, path) = &found.payload {
                    let metadata = file.metadata().map_err(|error| failed(path, error))?;
                    found.meta = meta(location, &metadata);
                }
                found
            }
        };
        conditions.check_preconditions(&found.meta)?;
        Ok(found)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let path = self.inner.path_to_filesystem(location)?;
        // A scan of many files gives way as it does where it waits for each of them.
        consume_budget().await;
        match self.read_at_once(&path, ranges).await {
            Some(answers) => Ok(answers),
            None => self.inner.get_ranges(location, ranges).await,
        }
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

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    reason = "tests: a failure should panic, reads take lists of ranges"
)]
mod tests {
    use object_store::ObjectStoreExt;
    use tokio::runtime::Builder;
    use tokio::task::spawn_blocking;

    use super::*;

    /// The answer of a call that needs no thread. A mount anywhere may make the kernel refuse a
    /// question now and then.
    fn at_once<F: Future>(ask: impl Fn() -> F) -> F::Output {
        (0..100).find_map(|_| ask().now_or_never()).unwrap()
    }

    #[test]
    fn what_the_kernel_has_in_memory_needs_no_thread() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "content").unwrap();
        let memory = FromMemory::default();
        memory.learn(&path);
        if memory.read(&path, &[0..1]).is_none() {
            eprintln!("skipped: no local file system that reads at once, or no openat2");
            return;
        }
        let store = LocalStore::new();
        let location = Path::from_absolute_path(&path).unwrap();
        let one_thread = Builder::new_current_thread()
            .max_blocking_threads(1)
            .build();
        one_thread.unwrap().block_on(async {
            let before = store.head(&location).await.unwrap();
            std::fs::write(&path, "other content").unwrap();
            let (release, hang) = std::sync::mpsc::channel::<()>();
            let blocked = spawn_blocking(move || hang.recv().is_err());
            let now = at_once(|| store.head(&location)).unwrap();
            assert_eq!((before.size, now.size), (7, 13));
            assert_ne!(before.e_tag, now.e_tag);
            let ranges = [6..8, 0..5];
            let read = at_once(|| store.get_ranges(&location, &ranges));
            assert_eq!(read.unwrap(), ["co", "other"]);
            drop(release);
            assert!(blocked.await.unwrap());
            let all = store.get(&location).await.unwrap();
            assert_eq!(all.meta, now);
            assert_eq!(all.bytes().await.unwrap(), "other content");
            let past = store.get_ranges(&location, &[0..99]).await;
            assert!(past.is_err(), "{past:?}");
            let missing = store.head(&Path::from("no/such/file")).await;
            assert!(matches!(missing, Err(Error::NotFound { .. })));
        });
    }
}
