//! How would the system run on a slower device?
//!
//! The model is one server with a latency and a bandwidth. It serves requests one after another in
//! the order of arrival; each takes `latency + bytes / bandwidth`, and its answer is returned when
//! the modelled device would have finished. The real read runs meanwhile, and must be faster for
//! the model to hold.
//!
//! The model keeps its own time: `free_at` advances by exactly the cost of each request, so that
//! late timers do not add up. A caller that sends its next request as soon as it has its answer is
//! late by the timer's lateness. If such a request arrives within [`SLACK`], it starts when the
//! device became free, not when it arrived. Otherwise a single sequential reader of 1 MiB requests
//! at 200 MB/s would measure a fifth less than 200 MB/s.
//! Not here: bursts, reordering, caches, concurrency inside a device (use several).
//! Bounds: the wait is the backlog, which the number of callers bounds.
//! T1: over any time the bytes returned are at most bandwidth × (time + `SLACK`).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::merge::plan;
use super::{Device, FileVersion, Meter};
use crate::StorageError;

/// The speed of a throttled device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// Bytes per second; 0 counts as 1.
    pub bytes_per_second: u64,
    /// Time before the first byte of each request.
    pub latency: Duration,
}

/// A device that is as slow as its [`Throttle`].
#[derive(Debug)]
pub struct Throttled {
    inner: Arc<dyn Device>,
    name: String,
    throttle: Throttle,
    /// When the modelled device will have served all requests that it has received.
    free_at: Mutex<Instant>,
    meter: Meter,
}

impl Throttled {
    /// Slows `inner` down.
    #[must_use]
    pub fn new(inner: Arc<dyn Device>, throttle: Throttle) -> Self {
        let throttle = Throttle {
            bytes_per_second: throttle.bytes_per_second.max(1),
            ..throttle
        };
        let megabytes = throttle.bytes_per_second as f64 / 1e6;
        Self {
            name: format!("{} at {megabytes} MB/s", inner.name()),
            inner,
            throttle,
            free_at: Mutex::new(Instant::now()),
            meter: Meter::new(throttle.latency, throttle.bytes_per_second as f64),
        }
    }

    /// Queues a read with these requests and bytes that arrives now; returns when it is answered.
    /// The read takes its time even if its caller is dropped, because a disk does not stop then
    /// either.
    fn serve(&self, requests: u64, bytes: u64) -> Instant {
        let now = Instant::now();
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        let seconds = bytes as f64 / self.throttle.bytes_per_second as f64;
        let cost = self.throttle.latency * requests + Duration::from_secs_f64(seconds);
        let mut free_at = self.free_at.lock();
        let idle = now.saturating_duration_since(*free_at);
        let start = if idle > SLACK { now } else { *free_at };
        *free_at = start + cost;
        *free_at
    }
}

#[async_trait]
impl Device for Throttled {
    fn name(&self) -> &str {
        &self.name
    }

    fn label(&self) -> Option<&str> {
        self.inner.label()
    }

    async fn read(
        &self,
        file: &FileVersion,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>, StorageError> {
        super::check_ranges(ranges)?;
        let requests = plan(ranges, self.request_cost_bytes(), u64::MAX);
        if requests.is_empty() {
            return self.inner.read(file, ranges).await;
        }
        let count = requests.len() as u64;
        let bytes = requests.iter().map(super::merge::Request::len).sum();
        let wanted = ranges.iter().map(|range| range.end - range.start).sum();
        let in_flight = self.meter.begin(count, bytes, wanted);
        let answered = self.serve(count, bytes);
        let (answers, ()) = futures::join!(
            self.inner.read(file, ranges),
            tokio::time::sleep_until(answered)
        );
        if answers.is_ok() {
            in_flight.complete();
        }
        answers
    }

    async fn stat(&self, location: &Path) -> Result<FileVersion, StorageError> {
        self.inner.stat(location).await
    }

    fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Exact: computed from the model's parameters, not from the meter.
    fn request_cost_bytes(&self) -> u64 {
        let cost = self.throttle.latency.as_secs_f64() * self.throttle.bytes_per_second as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let cost = cost as u64; // A float cast saturates.
        cost
    }
}

/// Tokio's timer fires up to a millisecond late, and the caller needs a moment for its next
/// request.
const SLACK: Duration = Duration::from_millis(3);
