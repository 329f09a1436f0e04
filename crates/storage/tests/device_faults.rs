//! Promised: devices tolerate the faults of networks and disks. An object store's transient faults
//! (errors, stalls, short answers) are retried and invisible to the reader. Lasting faults end,
//! within the bounds of the options, in an error that names file and range and keeps its source. A
//! fault in one read affects no other. A throttled device is as slow as configured, to a percent.

#![allow(clippy::unwrap_used, reason = "it is a test")]
#![allow(
    clippy::single_range_in_vec_init,
    reason = "a read takes a list of ranges"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "test data are made of low bits"
)]

use std::collections::VecDeque;
use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use coscan_storage::StorageError;
use coscan_storage::device::{
    Device, FileVersion, ObjectDevice, ObjectOptions, Throttle, Throttled,
};
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How one `get` fails.
#[derive(Clone, Copy, Debug)]
enum Get {
    Fails,
    Refused,
    Hangs,
    /// The answer's stream fails after its first half.
    BreaksOff,
    /// The answer's stream ends after its first half.
    EndsEarly,
}

/// A store whose next `get`s fail as scripted.
#[derive(Debug)]
struct Flaky {
    inner: InMemory,
    script: Mutex<VecDeque<Get>>,
}

impl fmt::Display for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("flaky")
    }
}

fn broken() -> Error {
    Error::Generic {
        store: "flaky",
        source: "connection reset".into(),
    }
}

#[async_trait]
impl ObjectStore for Flaky {
    async fn put_opts(&self, to: &Path, bytes: PutPayload, o: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(to, bytes, o).await
    }
    async fn put_multipart_opts(
        &self,
        to: &Path,
        o: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(to, o).await
    }
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let fault = if options.head {
            None
        } else {
            self.script.lock().pop_front()
        };
        match fault {
            Some(Get::Fails) => return Err(broken()),
            Some(Get::Refused) => {
                return Err(Error::PermissionDenied {
                    path: location.to_string(),
                    source: "no".into(),
                });
            }
            Some(Get::Hangs) => return futures::future::pending().await,
            _ => {}
        }
        let mut answer = self.inner.get_opts(location, options).await?;
        if let (Some(fault), GetResultPayload::Stream(stream)) = (fault, &mut answer.payload) {
            let whole = stream.next().await.unwrap()?;
            let mut chunks = vec![Ok(whole.slice(..whole.len() / 2))];
            if matches!(fault, Get::BreaksOff) {
                chunks.push(Err(broken()));
            }
            answer.payload = GetResultPayload::Stream(futures::stream::iter(chunks).boxed());
        }
        Ok(answer)
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
    async fn copy_opts(&self, from: &Path, to: &Path, o: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, o).await
    }
}

async fn flaky(script: &[Get]) -> (ObjectDevice, FileVersion, Arc<Flaky>) {
    let store = Arc::new(Flaky {
        inner: InMemory::new(),
        script: Mutex::new(script.iter().copied().collect()),
    });
    let path = Path::from("t/a.parquet");
    let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    store.put(&path, bytes.into()).await.unwrap();
    let device = ObjectDevice::new("s3://b", Arc::clone(&store) as _, ObjectOptions::default());
    let file = device.stat(&path).await.unwrap();
    (device, file, store)
}

#[tokio::test(start_paused = true)]
async fn transient_faults_are_retried() {
    for script in [
        &[Get::Fails, Get::Hangs, Get::EndsEarly][..],
        &[Get::BreaksOff, Get::BreaksOff, Get::Fails],
    ] {
        let (device, file, _) = flaky(script).await;
        let answers = device.read(&file, &[3..1000, 1007..9000]).await.unwrap();
        let expected =
            |range| -> Vec<u8> { Iterator::map(range, |i: u64| (i % 256) as u8).collect() };
        assert!(answers[0] == expected(3..1000) && answers[1] == expected(1007..9000));
        let meter = device.meter().snapshot();
        assert_eq!(
            (meter.requests, meter.requests_failed, meter.depth),
            (4, 3, 0)
        );
        assert_eq!(meter.bytes, 8997);
    }
}

#[tokio::test(start_paused = true)]
async fn lasting_faults_end_in_an_error() {
    let (device, file, _) = flaky(&[Get::Fails; 4]).await;
    let before = Instant::now();
    let error = device.read(&file, &[5..50]).await.unwrap_err();
    assert!(matches!(error, StorageError::Read { .. }), "{error:?}");
    assert!(
        error.to_string().contains("s3://b/t/a.parquet") && error.to_string().contains("5..50")
    );
    assert!(
        error
            .source()
            .unwrap()
            .to_string()
            .contains("connection reset")
    );
    // Three pauses: 0.1, 0.2, 0.4 s.
    assert_eq!(before.elapsed().as_millis(), 700);
    // The script is over: the next read succeeds.
    assert_eq!(device.read(&file, &[5..6]).await.unwrap()[0][0], 5);

    let (device, file, _) = flaky(&[Get::EndsEarly; 4]).await;
    let error = device.read(&file, &[0..100]).await.unwrap_err();
    assert!(
        matches!(error, StorageError::ShortRead { got: 50, .. }),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stalled_store_times_out() {
    let (device, file, _) = flaky(&[Get::Hangs; 4]).await;
    let before = Instant::now();
    let error = device.read(&file, &[5..50]).await.unwrap_err();
    match error {
        StorageError::TimedOut { range, seconds, .. } => assert_eq!((range, seconds), (5..50, 120)),
        error => panic!("{error:?}"),
    }
    assert!(before.elapsed() < Duration::from_secs(122));
    assert_eq!(device.meter().snapshot().depth, 0);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_request_is_not_retried() {
    let (device, file, store) = flaky(&[Get::Refused, Get::Fails]).await;
    let error = device.read(&file, &[5..50]).await.unwrap_err();
    assert!(matches!(error, StorageError::Read { .. }), "{error:?}");
    assert_eq!(store.script.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_on_a_changed_object_says_that_it_changed() {
    let (device, file, store) = flaky(&[Get::Fails; 4]).await;
    store.inner.put(&file.location, "new".into()).await.unwrap();
    let error = device.read(&file, &[5..50]).await.unwrap_err();
    assert!(matches!(error, StorageError::Replaced { .. }), "{error:?}");
}

const BANDWIDTH: u64 = 200_000_000;

/// A file of 16 MB in memory behind 200 MB/s.
async fn throttled(latency: Duration) -> (Arc<Throttled>, FileVersion) {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let path = Path::from("a");
    store.put(&path, vec![1; 16_000_000].into()).await.unwrap();
    let inner = ObjectDevice::new("memory://", store, ObjectOptions::default());
    let file = inner.stat(&path).await.unwrap();
    let throttle = Throttle {
        bytes_per_second: BANDWIDTH,
        latency,
    };
    (Arc::new(Throttled::new(Arc::new(inner), throttle)), file)
}

fn near(measured: Duration, expected: Duration) {
    let ratio = measured.as_secs_f64() / expected.as_secs_f64();
    assert!(
        (0.99..1.01).contains(&ratio),
        "{measured:?}, not {expected:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn requests_are_served_one_after_another() {
    let (device, file) = throttled(Duration::from_millis(5)).await;
    let before = Instant::now();
    let reads = (0..20).map(|_| {
        let (device, file) = (Arc::clone(&device), file.clone());
        async move {
            device.read(&file, &[0..10_000_000]).await.unwrap();
            before.elapsed()
        }
    });
    for (i, end) in (1..).zip(join_all(reads).await) {
        near(end, Duration::from_millis(55) * i);
    }
    let meter = device.meter().snapshot();
    assert_eq!(
        (meter.requests, meter.bytes, meter.depth_max),
        (20, 200_000_000, 20)
    );
    assert!(meter.utilisation() > 0.99);
    // Idle time earns no credit.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = Instant::now();
    device.read(&file, &[0..10_000_000]).await.unwrap();
    near(before.elapsed(), Duration::from_millis(55));
}

#[tokio::test(start_paused = true)]
async fn one_reader_gets_the_whole_bandwidth_and_no_more() {
    for size in [10_000, 1_000_000] {
        let (device, file) = throttled(Duration::ZERO).await;
        let before = Instant::now();
        for _ in 0..400_000_000 / size {
            device.read(&file, &[size..2 * size]).await.unwrap();
        }
        near(before.elapsed(), Duration::from_secs(2));
    }
}

#[tokio::test(start_paused = true)]
async fn another_request_costs_a_latency_unless_the_gap_is_cheaper() {
    let (device, file) = throttled(Duration::from_millis(10)).await;
    assert_eq!(device.request_cost_bytes(), 2_000_000);
    let before = Instant::now();
    device
        .read(&file, &[0..2_000_000, 3_000_000..4_000_000])
        .await
        .unwrap();
    near(before.elapsed(), Duration::from_millis(30));
    let before = Instant::now();
    device
        .read(&file, &[0..2_000_000, 6_000_000..8_000_000])
        .await
        .unwrap();
    near(before.elapsed(), Duration::from_millis(40));
    assert_eq!(device.meter().snapshot().bytes, 8_000_000);
    assert_eq!(device.meter().snapshot().bytes_wanted, 7_000_000);
}

#[tokio::test]
async fn keeps_the_bandwidth_on_the_real_clock() {
    let (device, file) = throttled(Duration::ZERO).await;
    let before = std::time::Instant::now();
    let mut each = Vec::new();
    for _ in 0..200 {
        let asked = std::time::Instant::now();
        device.read(&file, &[0..1_000_000]).await.unwrap();
        each.push(asked.elapsed());
    }
    // Never faster, except by the slack of 3 ms. How much slower depends on the machine's other
    // load.
    let took = before.elapsed();
    println!("200 MB at 200 MB/s took {took:?}");
    assert!(took > Duration::from_millis(990), "{took:?}");
    // A pause of the machine is in few of them.
    each.sort_unstable();
    assert!(each[100] < Duration::from_millis(10), "{each:?}");
}
