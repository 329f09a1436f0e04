//! Every device keeps the promises of the `Device` trait.
//!
//! One suite, run on each implementation: local files by `io_uring` and by threads, direct and
//! buffered, on a disk and on a memory file system; object stores in memory, over local files and
//! over S3 on loopback; and wrapped devices.
//! Promised: exact bytes for any ranges (D1); an answer keeps no more memory than its pages (D2);
//! typed errors for files that are missing, too short or replaced, and never another version's
//! bytes; many reads at once; reads dropped half-way.

#![allow(clippy::unwrap_used, reason = "it is a test")]
#![allow(
    clippy::single_range_in_vec_init,
    reason = "a read takes a list of ranges"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "test data are small or made of low bits"
)]

#[path = "s3-server/start.rs"]
mod s3;

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use coscan_storage::StorageError;
use coscan_storage::device::{
    Device, Faulty, FileVersion, LocalDevice, LocalEngine, LocalOptions, ObjectDevice,
    ObjectOptions, Throttle, Throttled, footprint,
};
use futures::future::join_all;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use tempfile::TempDir;

use s3::S3Server;

/// A device and a way to change what it reads.
struct Subject {
    device: Arc<dyn Device>,
    place: Place,
}

enum Place {
    Folder(TempDir, Root),
    Store(Arc<dyn ObjectStore>),
}

/// What the locations of a device are relative to.
#[derive(PartialEq)]
enum Root {
    System,
    Folder,
}

impl Subject {
    fn local(folder: &str, options: &LocalOptions) -> Self {
        let folder = TempDir::new_in(folder).unwrap();
        let device = Arc::new(LocalDevice::open(folder.path(), options).unwrap());
        Self {
            device,
            place: Place::Folder(folder, Root::System),
        }
    }

    fn in_memory() -> Self {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        Self::object("memory://", Place::Store(Arc::clone(&store)), store)
    }

    fn over_local_files() -> Self {
        let folder = TempDir::new_in("/var/tmp").unwrap();
        let store = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
        let place = Place::Folder(folder, Root::Folder);
        Self::object("store://", place, Arc::new(store))
    }

    fn object(url: &str, place: Place, store: Arc<dyn ObjectStore>) -> Self {
        // Small requests and pauses, so that splitting and retrying happen within the test's
        // patience.
        let options = ObjectOptions {
            request_bytes_max: 100_000,
            backoff_min: Duration::from_millis(1),
            ..ObjectOptions::default()
        };
        let device = Arc::new(ObjectDevice::new(url, store, options));
        Self { device, place }
    }

    fn wrapped(self, wrap: impl FnOnce(Arc<dyn Device>) -> Arc<dyn Device>) -> Self {
        Self {
            device: wrap(self.device),
            place: self.place,
        }
    }

    fn path(folder: &TempDir, name: &str) -> PathBuf {
        folder.path().join(name)
    }

    fn location(&self, name: &str) -> Path {
        match &self.place {
            Place::Folder(folder, Root::System) => {
                Path::from_absolute_path(Self::path(folder, name)).unwrap()
            }
            _ => Path::parse(name).unwrap(),
        }
    }

    /// Writes a new file and renames it over an existing one.
    async fn put(&self, name: &str, bytes: &[u8]) -> FileVersion {
        match &self.place {
            Place::Folder(folder, _) => {
                let new = Self::path(folder, "new");
                fs::write(&new, bytes).unwrap();
                fs::rename(new, Self::path(folder, name)).unwrap();
            }
            Place::Store(store) => {
                let bytes = bytes.to_vec().into();
                store.put(&Path::parse(name).unwrap(), bytes).await.unwrap();
            }
        }
        self.device.stat(&self.location(name)).await.unwrap()
    }

    /// Overwrites a file in place.
    async fn overwrite(&self, name: &str, bytes: &[u8]) {
        match &self.place {
            Place::Folder(folder, _) => {
                let mut file = fs::File::create(Self::path(folder, name)).unwrap();
                file.write_all(bytes).unwrap();
            }
            Place::Store(_) => {
                self.put(name, bytes).await;
            }
        }
    }

    async fn read(
        &self,
        file: &FileVersion,
        ranges: &[Range<u64>],
    ) -> Result<Vec<bytes::Bytes>, StorageError> {
        self.device.read(file, ranges).await
    }
}

fn contents(seed: u64, len: u64) -> Vec<u8> {
    let mut state = seed * 2 + 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}

fn slice<'a>(bytes: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    &bytes[range.start as usize..range.end as usize]
}

/// Longer than a tick of the coarsest known file system clock.
async fn tick() {
    tokio::time::sleep(Duration::from_millis(12)).await;
}

const LEN: u64 = 3_000_123;

async fn conforms(subject: Subject) {
    println!("{}", subject.device.name());
    any_ranges(&subject).await;
    ends(&subject).await;
    bad_requests(&subject).await;
    missing(&subject).await;
    replaced(&subject).await;
    names(&subject).await;
    many_at_once(&subject).await;
    cancelled(&subject).await;
    metered(&subject).await;
}

async fn any_ranges(subject: &Subject) {
    let bytes = contents(1, LEN);
    let file = subject.put("ranges", &bytes).await;
    assert_eq!(file.size, LEN);
    let step = (
        prop_oneof![Just(0), 0u64..100, 0u64..9000, 0..LEN / 3],
        prop_oneof![Just(0), 1u64..100, 0u64..9000, 0..LEN / 3],
    );
    let steps = prop::collection::vec(step, 0..20);
    let config = Config {
        rng_seed: RngSeed::Fixed(7),
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    for _ in 0..60 {
        let mut at = 0;
        let steps = steps.new_tree(&mut runner).unwrap().current();
        let ranges: Vec<Range<u64>> = steps
            .into_iter()
            .map(|(gap, len)| {
                let start = (at + gap).min(LEN);
                at = (start + len).min(LEN);
                start..at
            })
            .collect();
        let answers = subject.read(&file, &ranges).await.unwrap();
        assert_eq!(answers.len(), ranges.len());
        for (answer, range) in answers.iter().zip(&ranges) {
            assert!(answer == slice(&bytes, range), "{range:?} of {ranges:?}");
        }
    }
    assert_eq!(footprint(&(4095..4097)), 8192);
    assert_eq!(footprint(&(5..5)), 0);
}

async fn ends(subject: &Subject) {
    for len in [0, 1, 4095, 4096, 4097, 12_288] {
        let bytes = contents(2, len);
        let file = subject.put("ends", &bytes).await;
        let all = subject.read(&file, &[0..len]).await.unwrap();
        assert!(all[0] == bytes);
        let last = len.saturating_sub(1)..len;
        let answer = subject.read(&file, std::slice::from_ref(&last)).await;
        assert!(answer.unwrap()[0] == slice(&bytes, &last));
        assert!(subject.read(&file, &[len..len]).await.unwrap()[0].is_empty());
        let past = [0..0, last.start..len + 7];
        match subject.read(&file, &past).await {
            Err(StorageError::ShortRead { range, got, .. }) => {
                assert_eq!((range, got), (past[1].clone(), len - last.start));
            }
            other => panic!("{other:?}"),
        }
        let beyond = subject.read(&file, &[len + 5000..len + 5001]).await;
        assert!(matches!(
            beyond,
            Err(StorageError::ShortRead { got: 0, .. })
        ));
    }
}

async fn bad_requests(subject: &Subject) {
    let file = subject.put("bad", &contents(3, 1000)).await;
    assert!(subject.read(&file, &[]).await.unwrap().is_empty());
    #[expect(clippy::reversed_empty_ranges)]
    let descending = [7..3];
    for ranges in [&[0..10, 5..20][..], &[10..20, 0..5], &descending] {
        let answer = subject.read(&file, ranges).await;
        assert!(
            matches!(answer, Err(StorageError::Internal(_))),
            "{answer:?}"
        );
    }
}

async fn missing(subject: &Subject) {
    let location = subject.location("missing");
    let stat = subject.device.stat(&location).await;
    assert!(
        matches!(stat, Err(StorageError::NotFound { .. })),
        "{stat:?}"
    );
    let file = FileVersion {
        location,
        size: 100,
        modified_ns: 0,
        e_tag: None,
    };
    let read = subject.read(&file, &[0..10]).await;
    assert!(
        matches!(read, Err(StorageError::NotFound { .. })),
        "{read:?}"
    );
    assert!(read.unwrap_err().to_string().contains("missing"));
}

async fn replaced(subject: &Subject) {
    // A device that has never read the old version must notice each of these changes. A device
    // that has read it must never return a mixture or the new bytes; while it keeps the old file
    // open, it may continue to read that.
    for len in [50_000, 40_000, 60_000] {
        for warm in [false, true] {
            for in_place in [false, true] {
                let (old, new) = (contents(4, 50_000), contents(5, len));
                let file = subject.put("replaced", &old).await;
                if warm {
                    subject.read(&file, &[0..10]).await.unwrap();
                }
                tick().await;
                if in_place {
                    subject.overwrite("replaced", &new).await;
                } else {
                    subject.put("replaced", &new).await;
                }
                let range = 100..45_000;
                match subject.read(&file, std::slice::from_ref(&range)).await {
                    Err(StorageError::Replaced { file }) => assert!(file.ends_with("replaced")),
                    Ok(answers) if warm && !in_place => {
                        assert!(answers[0] == slice(&old, &range), "neither version");
                    }
                    Ok(_) => panic!("{len} {warm} {in_place}: read in spite of the change"),
                    Err(error) => panic!("{len} {warm} {in_place}: {error:?}"),
                }
                let file = subject.device.stat(&file.location).await.unwrap();
                let answers = subject.read(&file, &[100..30_000]).await.unwrap();
                assert!(answers[0] == slice(&new, &(100..30_000)));
                tick().await;
            }
        }
    }
}

async fn names(subject: &Subject) {
    for name in ["a b", "äöü", "x=1,y=2", "a+b&c"] {
        let bytes = contents(8, 5000);
        let file = subject.put(name, &bytes).await;
        let answers = subject.read(&file, &[10..4990]).await.unwrap();
        assert!(answers[0] == slice(&bytes, &(10..4990)), "{name}");
    }
}

async fn many_at_once(subject: &Subject) {
    let bytes = contents(6, LEN);
    let file = subject.put("many", &bytes).await;
    let reads = (0..64).map(|i| {
        let (device, file) = (Arc::clone(&subject.device), file.clone());
        let ranges = [i * 1000..i * 1000 + 70_000, LEN - 100_000..LEN - i];
        tokio::spawn(async move { (device.read(&file, &ranges).await, ranges) })
    });
    for joined in join_all(reads).await {
        let (answers, ranges) = joined.unwrap();
        for (answer, range) in answers.unwrap().iter().zip(&ranges) {
            assert!(answer == slice(&bytes, range));
        }
    }
    assert_eq!(subject.device.meter().snapshot().depth, 0);
}

async fn cancelled(subject: &Subject) {
    let bytes = contents(7, LEN);
    let file = subject.put("cancelled", &bytes).await;
    for i in 0..200 {
        let ranges = [0..LEN];
        let read = subject.read(&file, &ranges);
        // The timeouts range from before the first poll to after the last.
        let _some_end = tokio::time::timeout(Duration::from_micros(i * 20), read).await;
    }
    // Whatever was dropped, the next read is right, and dropped requests soon stop counting as
    // outstanding.
    let answers = subject.read(&file, &[1..LEN - 1]).await.unwrap();
    assert!(answers[0] == slice(&bytes, &(1..LEN - 1)));
    let end = std::time::Instant::now() + Duration::from_secs(10);
    while subject.device.meter().snapshot().depth > 0 {
        assert!(std::time::Instant::now() < end, "a request leaked");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn metered(subject: &Subject) {
    let file = subject.put("metered", &contents(9, LEN)).await;
    let before = subject.device.meter().snapshot();
    subject.read(&file, &[0..100_000]).await.unwrap();
    // A device may record the end a moment after the answer.
    tick().await;
    let after = subject.device.meter().snapshot();
    assert_eq!(after.bytes_wanted - before.bytes_wanted, 100_000);
    assert!((100_000..=104_096).contains(&(after.bytes - before.bytes)));
    assert_eq!(after.requests - before.requests, 1);
    assert!(after.depth_max >= 1 && after.busy > before.busy);
    assert!((0.0..=1.0).contains(&after.utilisation()));
    assert!(subject.device.request_cost_bytes() < 1 << 30);
}

const DISK: &str = "/var/tmp";
const MEMORY: &str = "/dev/shm";

fn options(engine: LocalEngine, direct: bool) -> LocalOptions {
    LocalOptions {
        engine,
        direct,
        ..LocalOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn local_uring_direct() {
    let subject = Subject::local(DISK, &options(LocalEngine::Uring, true));
    assert!(subject.device.name().ends_with("(io_uring, O_DIRECT)"));
    conforms(subject).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn local_uring_narrow() {
    // Everything as small as possible: pieces of two pages, two pieces in the kernel, one read,
    // one handle.
    let narrow = LocalOptions {
        queue_depth: 2,
        piece_bytes: 8192,
        reads_max: 1,
        handles_max: 1,
        ..options(LocalEngine::Uring, true)
    };
    conforms(Subject::local(DISK, &narrow)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn local_uring_buffered() {
    conforms(Subject::local(DISK, &options(LocalEngine::Uring, false))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn local_pread_direct() {
    let subject = Subject::local(DISK, &options(LocalEngine::Positional, true));
    assert!(subject.device.name().ends_with("(pread, O_DIRECT)"));
    conforms(subject).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn local_pread_buffered() {
    conforms(Subject::local(
        DISK,
        &options(LocalEngine::Positional, false),
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_file_system_uring() {
    conforms(Subject::local(MEMORY, &options(LocalEngine::Uring, true))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_file_system_pread() {
    conforms(Subject::local(
        MEMORY,
        &options(LocalEngine::Positional, true),
    ))
    .await;
}

#[tokio::test]
async fn current_thread_runtime() {
    conforms(Subject::local(DISK, &LocalOptions::default())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn object_store_in_memory() {
    conforms(Subject::in_memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn object_store_over_local_files() {
    conforms(Subject::over_local_files()).await;
}

fn s3_store(server: &S3Server, secret: &str) -> Arc<dyn ObjectStore> {
    let store = AmazonS3Builder::new()
        .with_endpoint(server.endpoint())
        .with_allow_http(true)
        .with_virtual_hosted_style_request(false)
        .with_region("us-east-1")
        .with_bucket_name("bucket")
        .with_access_key_id("test")
        .with_secret_access_key(secret)
        .build()
        .unwrap();
    Arc::new(store)
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_on_loopback() {
    let package = "tests/s3-server";
    let server = S3Server::start(package.as_ref(), DISK.as_ref());
    let store = s3_store(&server, "test-secret");
    let place = Place::Store(Arc::clone(&store));
    let subject = Subject::object("s3://bucket", place, store);
    let file = subject.put("locked", &contents(1, 100)).await;
    conforms(subject).await;

    let stranger = s3_store(&server, "wrong");
    let device = ObjectDevice::new("s3://bucket", stranger, ObjectOptions::default());
    let read = device.read(&file, &[0..10]).await;
    let error = read.unwrap_err();
    assert!(matches!(error, StorageError::Read { .. }), "{error:?}");
    assert!(
        error.to_string().starts_with("s3://bucket/locked"),
        "{error}"
    );
}

fn fast() -> Throttle {
    Throttle {
        bytes_per_second: 2_000_000_000,
        latency: Duration::from_micros(10),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn throttled_local() {
    let subject = Subject::local(DISK, &LocalOptions::default());
    conforms(subject.wrapped(|inner| Arc::new(Throttled::new(inner, fast())))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn throttled_object_store() {
    let subject = Subject::in_memory();
    conforms(subject.wrapped(|inner| Arc::new(Throttled::new(inner, fast())))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_without_faults() {
    let subject = Subject::local(DISK, &LocalOptions::default());
    conforms(subject.wrapped(|inner| Arc::new(Faulty::new(inner, Vec::new())))).await;
}

#[tokio::test]
async fn a_listing_and_a_stat_name_the_same_version() {
    let folder = TempDir::new_in(DISK).unwrap();
    let path = folder.path().join("a");
    fs::write(&path, b"abc").unwrap();
    let location = Path::from_absolute_path(&path).unwrap();
    let listed = LocalFileSystem::new().head(&location).await.unwrap();
    let device = LocalDevice::open(folder.path(), &LocalOptions::default()).unwrap();
    let version = device.stat(&location).await.unwrap();
    // A listing has fewer values than `stat`, but those that it has are equal.
    let listed = FileVersion::from(&listed);
    assert!(listed.is_still(&version) && !version.is_still(&listed));
    assert_eq!(device.read(&listed, &[0..3]).await.unwrap()[0], b"abc"[..]);

    // Same size, time and inode, other contents: only the time of the last change differs.
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    tick().await;
    fs::write(&path, b"ABC").unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(modified).unwrap();
    let read = device.read(&version, &[0..3]).await;
    assert!(
        matches!(read, Err(StorageError::Replaced { .. })),
        "{read:?}"
    );
    let version = device.stat(&location).await.unwrap();

    // Same size and time, another file: the inode differs too.
    let other = folder.path().join("b");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let mut copy = fs::File::create(&other).unwrap();
    copy.write_all(b"xyz").unwrap();
    copy.set_modified(modified).unwrap();
    fs::rename(&other, &path).unwrap();
    let read = device.read(&version, &[0..3]).await;
    assert!(
        matches!(read, Err(StorageError::Replaced { .. })),
        "{read:?}"
    );
}

#[tokio::test]
async fn a_folder_is_not_a_file() {
    let folder = TempDir::new_in(DISK).unwrap();
    let device = LocalDevice::open(folder.path(), &LocalOptions::default()).unwrap();
    let location = Path::from_absolute_path(folder.path()).unwrap();
    let stat = device.stat(&location).await;
    assert!(matches!(stat, Err(StorageError::Read { .. })), "{stat:?}");
    assert!(LocalDevice::open(&folder.path().join("no"), &LocalOptions::default()).is_err());
}
