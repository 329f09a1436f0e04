//! Local files, read without the page cache.
//!
//! The buffer manager decides what stays in memory. The page cache would hold the same bytes a
//! second time, evict by its own rule, and hide what was read; so files are opened with `O_DIRECT`,
//! and reads go through one `io_uring` per device. The kernel's control groups also throttle and
//! account direct reads exactly.
//!
//! Two fallbacks, each also available by option: buffered reads where the file system refuses
//! `O_DIRECT`, and `preadv` on threads (`positional.rs`) where the kernel refuses `io_uring`, at
//! the start or later.
//! Not here: open files and their versions (`handles.rs`), layout in memory (`scatter.rs`), unsafe
//! code (`sys`).
//! Bounds: `reads_max` reads hold memory at once, other reads wait for admission; `queue_depth`
//! pieces are in the kernel. A read fails when it takes longer than `read_timeout`, or when it
//! waits that long for admission while no other read ends.
//! L1: a read succeeds only if its file was the requested version before and after. L2: each answer
//! owns its memory, which holds the pages that its range touches and nothing else
//! ([`footprint`](crate::device::footprint)).

use std::fs;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::MetadataExt;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::calls::Calls;
use super::handles::{Handle, Handles, unreadable};
use super::local_path::{name_of, path_of};
use super::local_version;
use super::positional::Pool;
use super::scatter::{PAGE, Scatter};
use super::sys::{AlignedBuffer, Failure, Job, Outcome, Ring, Transfer};
use crate::StorageError;
use crate::device::merge::plan;
use crate::device::{Device, FileVersion, Meter, check_ranges, past_end};

/// How reads are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LocalEngine {
    /// `io_uring`, or positional reads where the kernel refuses it.
    #[default]
    Auto,
    /// `io_uring` or an error.
    Uring,
    /// `preadv` on threads.
    Positional,
}

/// How a [`LocalDevice`] reads. The defaults are right for one disk of any speed.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// How reads are issued.
    pub engine: LocalEngine,
    /// Whether to try `O_DIRECT`.
    pub direct: bool,
    /// The most pieces in the kernel. 64 pieces of 64 KiB keep the fastest `NVMe` disk busy.
    pub queue_depth: u16,
    /// Threads of the positional engine.
    pub threads: u16,
    /// The size of a piece. 1 MiB is near what a disk takes as one command, and spreads a chunk
    /// over the members of a RAID.
    pub piece_bytes: u64,
    /// The most reads that are admitted, and hold memory, at once.
    pub reads_max: usize,
    /// The most files kept open.
    pub handles_max: usize,
    /// A read fails this long after its admission. Long enough for `reads_max` chunks of 16 MiB at
    /// 20 MB/s.
    pub read_timeout: Duration,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            engine: LocalEngine::Auto,
            direct: true,
            queue_depth: 64,
            threads: 8,
            piece_bytes: 1 << 20,
            reads_max: 64,
            handles_max: 256,
            read_timeout: Duration::from_mins(1),
        }
    }
}

/// The local files of one block device (or, without one, of one file system).
#[derive(Debug)]
pub struct LocalDevice {
    /// The configured name.
    label: Option<String>,
    names: Names,
    /// The names in use after the ring gave up.
    names_fallen: Names,
    engine: Engine,
    handles: Handles,
    admission: Arc<Semaphore>,
    sink: Arc<AlignedBuffer>,
    meter: Meter,
    piece_bytes: u64,
    read_timeout: Duration,
}

#[derive(Debug)]
enum Engine {
    Ring(Ring, Fallback),
    Pool(Pool),
}

/// The pool that reads after a ring has given up.
#[derive(Debug)]
struct Fallback {
    /// The name of its threads.
    name: String,
    /// `None`: the options require `io_uring`, so there is no fallback.
    threads: Option<u16>,
    pool: OnceLock<Pool>,
}

/// The name of a device, by how files are opened.
#[derive(Debug)]
struct Names {
    direct: String,
    buffered: String,
}

impl Names {
    fn new(device: &str, how: &str) -> Self {
        Self {
            direct: format!("{device} ({how}, O_DIRECT)"),
            buffered: format!("{device} ({how}, buffered)"),
        }
    }
}

impl LocalDevice {
    /// The device that holds `path`, a file or a folder.
    ///
    /// # Errors
    /// `NotFound` or `Read` if there is no such path or its device cannot be opened.
    pub fn open(path: &std::path::Path, options: &LocalOptions) -> Result<Self, StorageError> {
        Self::open_with(path, options, Ring::start)
    }

    /// Like [`LocalDevice::open`], with the function that makes the ring. Tests pass one that
    /// refuses, as some container runtimes do.
    fn open_with(
        path: &std::path::Path,
        options: &LocalOptions,
        start_ring: impl FnOnce(String, u16) -> io::Result<Ring>,
    ) -> Result<Self, StorageError> {
        let fail = |source: io::Error| {
            let file = path.display().to_string();
            if source.kind() == io::ErrorKind::NotFound {
                return StorageError::NotFound { file };
            }
            StorageError::Read {
                file,
                range: 0..0,
                source: Arc::new(source),
            }
        };
        let number = fs::metadata(path).map_err(fail)?.dev();
        let calls = Calls::new(options.read_timeout);
        Self::of_number(number, None, calls, options, start_ring).map_err(fail)
    }

    /// The device with this number. `calls` makes its calls that may hang. `name` replaces the
    /// system's name of the device. Makes no call to the device's file systems.
    pub(in crate::device) fn of_number(
        number: u64,
        name: Option<&str>,
        calls: Arc<Calls>,
        options: &LocalOptions,
        start_ring: impl FnOnce(String, u16) -> io::Result<Ring>,
    ) -> io::Result<Self> {
        let device = name.map_or_else(|| block_device(number), str::to_owned);
        let engine = Engine::start(&device, options, start_ring)?;
        Ok(Self {
            label: name.map(str::to_owned),
            names: Names::new(&device, engine.name()),
            names_fallen: Names::new(&device, PREAD),
            engine,
            handles: Handles::new(options.direct, options.handles_max, calls),
            admission: Arc::new(Semaphore::new(options.reads_max.max(1))),
            sink: Arc::new(AlignedBuffer::new(SINK_BYTES)),
            meter: Meter::new(LATENCY, BYTES_PER_SECOND),
            piece_bytes: options.piece_bytes.next_multiple_of(PAGE).max(PAGE),
            read_timeout: options.read_timeout,
        })
    }

    /// The same device under this name, which errors use.
    #[must_use]
    pub fn called(self, name: &str) -> Self {
        Self {
            label: Some(name.to_owned()),
            ..self
        }
    }

    /// Whether reads bypass the page cache. Becomes false permanently at the first refusal.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.handles.direct()
    }

    /// One attempt to read, with the file open. The outer result is the device's, the inner one the
    /// kernel's.
    async fn attempt(
        &self,
        file: &FileVersion,
        handle: &Handle,
        ranges: &[Range<u64>],
    ) -> Result<Outcome, StorageError> {
        let permit = self.admit(file, ranges).await?;
        // Runs must not share a page, so a gap smaller than a page is always joined; its bytes
        // would be read anyway.
        let runs = plan(ranges, self.request_cost_bytes().max(PAGE), u64::MAX);
        let scatter = Scatter::new(ranges, &runs, self.piece_bytes, SINK_BYTES);
        let wanted = ranges.iter().map(|range| range.end - range.start).sum();
        let in_flight = self.meter.begin(runs.len() as u64, scatter.bytes(), wanted);
        let (transfers, answer) = Job::start(
            Arc::clone(&handle.file),
            ranges,
            scatter,
            Arc::clone(&self.sink),
            in_flight,
            permit,
        );
        self.engine.submit(transfers);
        match tokio::time::timeout(self.read_timeout, answer).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(_)) => Err(StorageError::ShutDown),
            Err(_) => Err(self.timed_out(file, ranges)),
        }
    }

    /// Waits for admission as long as other reads end, and otherwise until the time-out. Reads
    /// from a disk that hangs keep their permits, so without the time-out the waiting reads would
    /// never end (D3).
    async fn admit(
        &self,
        file: &FileVersion,
        ranges: &[Range<u64>],
    ) -> Result<OwnedSemaphorePermit, StorageError> {
        let mut admitted = pin!(Arc::clone(&self.admission).acquire_owned());
        loop {
            let ended = self.meter.snapshot().requests;
            match tokio::time::timeout(self.read_timeout, &mut admitted).await {
                Ok(permit) => return permit.map_err(|_| StorageError::ShutDown),
                Err(_) if self.meter.snapshot().requests == ended => {
                    return Err(self.timed_out(file, ranges));
                }
                Err(_) => {}
            }
        }
    }

    fn timed_out(&self, file: &FileVersion, ranges: &[Range<u64>]) -> StorageError {
        StorageError::TimedOut {
            file: name_of(&file.location),
            range: hull(ranges),
            seconds: self.read_timeout.as_secs(),
        }
    }

    /// From now on the device accepts reads and does not carry them out, like a disk that hangs.
    /// Positional engine only.
    #[cfg(test)]
    pub(crate) fn hang(&self) {
        let Engine::Pool(pool) = &self.engine else {
            panic!("a ring cannot be made to hang");
        };
        pool.hang();
    }

    /// From now on no call into the file system returns until the returned senders are dropped.
    #[cfg(test)]
    pub(crate) fn hang_calls(&self) -> Vec<std::sync::mpsc::Sender<()>> {
        self.handles
            .all_remote
            .store(true, std::sync::atomic::Ordering::Relaxed);
        self.handles.calls().hang()
    }
}

#[async_trait]
impl Device for LocalDevice {
    fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    fn name(&self) -> &str {
        let names = if self.engine.has_fallen() {
            &self.names_fallen
        } else {
            &self.names
        };
        if self.handles.direct() {
            &names.direct
        } else {
            &names.buffered
        }
    }

    async fn read(
        &self,
        file: &FileVersion,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>, StorageError> {
        check_ranges(ranges)?;
        if ranges.iter().all(Range::is_empty) {
            return Ok(vec![Bytes::new(); ranges.len()]);
        }
        loop {
            let handle = self.handles.open(file).await?;
            past_end(name_of(&file.location), file.size, ranges)?;
            let outcome = self.attempt(file, &handle, ranges).await?;
            // A buffered read leaves the bytes in a frame and in the page cache. The page cache
            // would hold them a second time, outside the budget, and displace pages of other
            // programs. A memory file system ignores the advice.
            let unneeded = (!handle.direct).then(|| hull(ranges));
            // Checked before the outcome, so that a truncated file is reported as another version.
            self.handles.verify(&handle, file, unneeded).await?;
            match outcome {
                Ok(answers) => return Ok(answers),
                // Some file systems accept the flag and refuse the read. The loop ends, because
                // the next handle is not direct.
                Err(Failure::Io { source, .. })
                    if handle.direct && source.raw_os_error() == Some(libc::EINVAL) =>
                {
                    self.handles.refuse_direct();
                }
                // The loop ends here too, because the pool abandons nothing.
                Err(Failure::Abandoned) if self.engine.can_fall() => {
                    let fallen = self.engine.fall_back();
                    fallen.map_err(|source| {
                        let range = hull(ranges);
                        error(file, ranges, Failure::Io { range, source })
                    })?;
                }
                Err(failure) => return Err(error(file, ranges, failure)),
            }
        }
    }

    async fn stat(&self, location: &Path) -> Result<FileVersion, StorageError> {
        let metadata = self.handles.calls().metadata(path_of(location)).await;
        let metadata = metadata.map_err(|why| unreadable(location, why))?;
        if !metadata.is_file() {
            let other = io::Error::other("not a regular file");
            return Err(unreadable(location, other.into()));
        }
        Ok(local_version(location, &metadata))
    }

    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn request_cost_bytes(&self) -> u64 {
        self.meter.request_cost_bytes(&REQUEST_COST_BYTES)
    }
}

impl Engine {
    fn start(
        device: &str,
        options: &LocalOptions,
        start_ring: impl FnOnce(String, u16) -> io::Result<Ring>,
    ) -> io::Result<Self> {
        let short = device.rsplit('/').next().unwrap_or(device);
        let name = format!("coscan-{short}");
        let pool = || Pool::start(&name, options.threads).map(Self::Pool);
        if options.engine == LocalEngine::Positional {
            return pool();
        }
        match start_ring(name.clone(), options.queue_depth.max(1)) {
            Ok(ring) => {
                let threads = (options.engine == LocalEngine::Auto).then_some(options.threads);
                let fallback = Fallback {
                    name,
                    threads,
                    pool: OnceLock::new(),
                };
                Ok(Self::Ring(ring, fallback))
            }
            Err(error) if options.engine == LocalEngine::Auto => {
                log::info!("{device}: no io_uring ({error}); reading by pread");
                pool()
            }
            Err(error) => Err(error),
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Ring(..) => "io_uring",
            Self::Pool(_) => PREAD,
        }
    }

    fn can_fall(&self) -> bool {
        matches!(self, Self::Ring(_, fallback) if fallback.threads.is_some())
    }

    fn has_fallen(&self) -> bool {
        matches!(self, Self::Ring(_, fallback) if fallback.pool.get().is_some())
    }

    /// Switches to positional reads.
    fn fall_back(&self) -> io::Result<()> {
        let Self::Ring(_, fallback) = self else {
            return Ok(());
        };
        let (Some(threads), None) = (fallback.threads, fallback.pool.get()) else {
            return Ok(());
        };
        // If several reads get here, one pool is kept and the others end.
        let pool = Pool::start(&fallback.name, threads)?;
        if fallback.pool.set(pool).is_ok() {
            log::warn!("{}: io_uring gave up; reading by pread", fallback.name);
        }
        Ok(())
    }

    fn submit(&self, transfers: Vec<Transfer>) {
        match self {
            Self::Ring(ring, fallback) => match fallback.pool.get() {
                Some(pool) => pool.submit(transfers),
                None => ring.submit(transfers),
            },
            Self::Pool(pool) => pool.submit(transfers),
        }
    }
}

/// The storage error for a failure.
fn error(file: &FileVersion, ranges: &[Range<u64>], failure: Failure) -> StorageError {
    let name = name_of(&file.location);
    match failure {
        Failure::Io { range, source } => StorageError::Read {
            file: name,
            range,
            source: Arc::new(source),
        },
        Failure::EndOfFile { at } => {
            let cut = ranges.iter().find(|range| range.end > at);
            let range = cut.cloned().unwrap_or_else(|| hull(ranges));
            StorageError::ShortRead {
                file: name,
                got: at.saturating_sub(range.start),
                range,
            }
        }
        Failure::Abandoned => StorageError::Read {
            file: name,
            range: hull(ranges),
            source: Arc::new(io::Error::other("io_uring gave up")),
        },
        Failure::Unwanted => StorageError::ShutDown,
    }
}

/// The range from the first to the last byte of ascending ranges.
fn hull(ranges: &[Range<u64>]) -> Range<u64> {
    let mut full = ranges.iter().filter(|range| !range.is_empty());
    let Some(first) = full.next() else {
        return 0..0;
    };
    first.start..full.next_back().unwrap_or(first).end
}

/// The mount table's name of a device number: `/dev/vda1`, `tmpfs`; else the number.
fn block_device(number: u64) -> String {
    let wanted = format!("{}:{}", libc::major(number), libc::minor(number));
    // "36 35 98:0 /root /mountpoint options … - type source options"
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let source = mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        (mount.split(' ').nth(2)? == wanted).then(|| system.split(' ').nth(1))?
    });
    source.map_or_else(|| format!("device {wanted}"), str::to_owned)
}

/// The name of the positional engine.
const PREAD: &str = "pread";
/// The latency of a page on an idle `NVMe` disk or cloud volume, through the kernel: 50 to 500 µs.
const LATENCY: Duration = Duration::from_micros(100);
/// The bandwidth of one `NVMe` disk or a good cloud volume.
const BYTES_PER_SECOND: f64 = 1e9;
/// A gap smaller than a page is read anyway. The upper bound keeps a mismeasured device (a throttle
/// makes the first bytes of a burst look free) from reading the columns between.
const REQUEST_COST_BYTES: RangeInclusive<u64> = PAGE..=256 << 10;
/// The size of the sink for gaps; a larger gap takes several segments, at most 4 per merged gap.
const SINK_BYTES: u64 = 64 << 10;

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    reason = "tests: a failure should panic, reads take lists of ranges"
)]
mod tests {
    use futures::FutureExt;
    use tempfile::NamedTempFile;

    use super::super::from_memory::FromMemory;
    use super::*;

    /// The kernel's errors where a container runtime or an administrator forbids `io_uring`, and in
    /// old kernels.
    const REFUSALS: [i32; 2] = [libc::EPERM, libc::ENOSYS];

    fn refused(
        file: &NamedTempFile,
        engine: LocalEngine,
        errno: i32,
    ) -> Result<LocalDevice, StorageError> {
        let options = LocalOptions {
            engine,
            ..LocalOptions::default()
        };
        let refuse = |_: String, _: u16| Err(io::Error::from_raw_os_error(errno));
        LocalDevice::open_with(file.path(), &options, refuse)
    }

    async fn stat(device: &LocalDevice, file: &NamedTempFile) -> FileVersion {
        let location = Path::from_absolute_path(file.path()).unwrap();
        device.stat(&location).await.unwrap()
    }

    #[tokio::test]
    async fn where_the_kernel_refuses_io_uring_reads_are_positional() {
        let file = NamedTempFile::new_in("/var/tmp").unwrap();
        fs::write(file.path(), vec![7; 20_000]).unwrap();
        for errno in REFUSALS {
            let device = refused(&file, LocalEngine::Auto, errno).unwrap();
            assert!(device.name().contains(" (pread, "), "{}", device.name());
            let version = stat(&device, &file).await;
            let answers = device.read(&version, &[5..19_000]).await.unwrap();
            assert!(answers[0] == vec![7; 18_995]);
            // Options that require `io_uring` get the reason as an error.
            let error = refused(&file, LocalEngine::Uring, errno).unwrap_err();
            let path = file.path().display().to_string();
            assert!(
                matches!(&error, StorageError::Read { file, source, .. }
                    if *file == path && source.to_string().contains(&format!("os error {errno}"))),
                "{error}"
            );
        }
    }

    /// A device on a ring, or `None` where `io_uring` is not available.
    fn on_a_ring(file: &NamedTempFile, engine: LocalEngine) -> Option<LocalDevice> {
        let options = LocalOptions {
            engine,
            reads_max: 4,
            piece_bytes: 4096,
            ..LocalOptions::default()
        };
        let device = LocalDevice::open(file.path(), &options).ok()?;
        if matches!(device.engine, Engine::Pool(_)) {
            eprintln!("skipped: no io_uring here");
            return None;
        }
        Some(device)
    }

    fn break_ring(device: &LocalDevice) {
        match &device.engine {
            Engine::Ring(ring, _) => ring.break_down(),
            Engine::Pool(_) => panic!("there is no ring"),
        }
    }

    #[tokio::test]
    async fn positional_reads_replace_a_ring_that_breaks_under_load() {
        let file = NamedTempFile::new_in("/var/tmp").unwrap();
        let content: Vec<u8> = (0..=250).cycle().take(400_000).collect();
        fs::write(file.path(), &content).unwrap();
        let Some(device) = on_a_ring(&file, LocalEngine::Auto) else {
            return;
        };
        let version = stat(&device, &file).await;
        device.read(&version, &[0..10]).await.unwrap();
        // When the ring breaks, some reads are in it, some wait for admission, and some come
        // later.
        let reads = (0..40_u64).map(|n| n * 9_000..n * 9_000 + 30_000);
        let reads = futures::future::join_all(reads.map(|range| async {
            let answer = device.read(&version, std::slice::from_ref(&range)).await;
            (range, answer)
        }));
        let (reads, ()) = tokio::join!(reads, async { break_ring(&device) });
        let later = device.read(&version, &[5..399_000]).await;
        for (range, answer) in reads.into_iter().chain([(5..399_000, later)]) {
            let at = |offset: u64| usize::try_from(offset).unwrap();
            let expected = &content[at(range.start)..at(range.end)];
            assert!(answer.unwrap()[0] == expected, "{range:?}");
        }
        assert!(device.name().contains(" (pread, "), "{}", device.name());
        assert_eq!(
            device.admission.available_permits(),
            4,
            "all permits are back"
        );
    }

    #[tokio::test]
    async fn a_device_that_requires_io_uring_reports_that_it_gave_up() {
        let file = NamedTempFile::new_in("/var/tmp").unwrap();
        fs::write(file.path(), vec![7; 20_000]).unwrap();
        let Some(device) = on_a_ring(&file, LocalEngine::Uring) else {
            return;
        };
        let version = stat(&device, &file).await;
        break_ring(&device);
        for _ in 0..2 {
            let error = device.read(&version, &[5..19_000]).await.unwrap_err();
            assert!(error.to_string().contains("io_uring gave up"), "{error}");
        }
    }

    #[tokio::test]
    async fn every_read_of_a_disk_that_hangs_ends() {
        let file = NamedTempFile::new_in("/var/tmp").unwrap();
        fs::write(file.path(), vec![7; 20_000]).unwrap();
        let options = LocalOptions {
            engine: LocalEngine::Positional,
            reads_max: 2,
            ..LocalOptions::default()
        };
        let device = LocalDevice::open(file.path(), &options).unwrap();
        let version = stat(&device, &file).await;
        device.read(&version, &[0..10]).await.unwrap();
        device.hang();
        tokio::time::pause();
        // Two admitted reads, and two that wait for permits that never become free.
        for _ in 0..2 {
            let before = tokio::time::Instant::now();
            let (one, other) = tokio::join!(
                device.read(&version, &[5..50]),
                device.read(&version, &[100..200, 9000..9500]),
            );
            for (answer, wanted) in [(one, 5..50), (other, 100..9500)] {
                match answer.unwrap_err() {
                    StorageError::TimedOut {
                        file: name,
                        range,
                        seconds,
                    } => {
                        assert_eq!((range, seconds), (wanted, 60));
                        assert_eq!(name, file.path().display().to_string());
                    }
                    error => panic!("{error:?}"),
                }
            }
            assert_eq!(before.elapsed().as_secs(), 60);
        }
    }

    #[tokio::test]
    async fn a_version_that_the_kernel_has_in_memory_needs_no_thread() {
        let file = NamedTempFile::new_in("/var/tmp").unwrap();
        if !FromMemory::works_for(file.path()) {
            return;
        }
        let device = LocalDevice::open(file.path(), &LocalOptions::default()).unwrap();
        let before = stat(&device, &file).await;
        fs::write(file.path(), "longer").unwrap();
        let hung = device.handles.calls().hang_threads();
        // A mount anywhere may make the kernel refuse a question now and then.
        let now = (0..100).find_map(|_| device.stat(&before.location).now_or_never());
        let now = now.unwrap().unwrap();
        assert_eq!((before.size, now.size), (0, 6));
        assert!(!before.is_still(&now));
        drop(hung);
    }

    #[tokio::test]
    async fn a_file_that_the_kernel_can_open_from_memory_needs_no_thread() {
        let file = NamedTempFile::new_in("/var/tmp").unwrap();
        fs::write(file.path(), vec![7; 20_000]).unwrap();
        if !FromMemory::works_for(file.path()) {
            return;
        }
        for direct in [true, false] {
            let options = LocalOptions {
                direct,
                read_timeout: Duration::from_secs(5),
                ..LocalOptions::default()
            };
            let device = LocalDevice::open(file.path(), &options).unwrap();
            let version = stat(&device, &file).await;
            let hung = device.handles.calls().hang_threads();
            // A mount anywhere may make the kernel refuse to open a file now and then.
            let mut tries = 0;
            let answers = loop {
                match device.read(&version, &[5..19_000]).await {
                    Err(StorageError::NoAnswer { .. }) if tries < 3 => tries += 1,
                    answers => break answers,
                }
            };
            assert!(answers.unwrap()[0] == vec![7; 18_995], "direct: {direct}");
            drop(hung);
        }
    }

    #[tokio::test]
    async fn a_mount_that_hangs_blocks_no_thread() {
        let file = NamedTempFile::new_in("/var/tmp").unwrap();
        fs::write(file.path(), vec![7; 20_000]).unwrap();
        let options = LocalOptions {
            read_timeout: Duration::from_secs(1),
            ..LocalOptions::default()
        };
        let device = LocalDevice::open(file.path(), &options).unwrap();
        let version = stat(&device, &file).await;
        device.read(&version, &[0..10]).await.unwrap();
        let hung = device.hang_calls();
        let location = version.location.clone();
        // The file is open: the call that hangs checks whether it is still that version.
        let mut read = pin!(device.read(&version, &[5..50]));
        let mut ask = pin!(device.stat(&location));
        let begun = std::time::Instant::now();
        assert!(futures::poll!(&mut read).is_pending() && futures::poll!(&mut ask).is_pending());
        assert!(
            begun.elapsed() < Duration::from_millis(900),
            "it blocked this thread"
        );
        let (read, asked) = tokio::join!(read, ask);
        for error in [read.unwrap_err(), asked.unwrap_err()] {
            match error {
                StorageError::NoAnswer {
                    file: name,
                    seconds,
                } => {
                    assert_eq!((name, seconds), (file.path().display().to_string(), 1));
                }
                error => panic!("{error:?}"),
            }
        }
        drop(hung);
        let answers = device.read(&version, &[5..50]).await.unwrap();
        assert_eq!(answers[0], vec![7; 45]);
    }
}
