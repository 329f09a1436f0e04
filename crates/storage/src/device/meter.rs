//! How busy is a device, and how fast is it?
//!
//! It counts requests and bytes, tracks how long at least one request was outstanding, and
//! estimates latency and bandwidth, so that callers can weigh a second request against a longer
//! one ([`Meter::request_cost_bytes`]).
//!
//! Idea: latency is the time of a small request that finds the device idle; bandwidth is the bytes
//! per second of busy time while requests are large. Both are exponentially weighted averages that
//! start from typical values of the kind of device, because the first plan is made before the
//! first read.
//! Not here: which query read, and for what (the buffer manager's statistics).
//! Bounds: constant size; one short critical section when a read begins and one when it ends.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
// Tokio's clock, so that a paused test clock also stops the meter. Without a runtime it is the real
// clock.
use tokio::time::Instant;

/// The meter of one device. Clones share their numbers.
#[derive(Clone, Debug)]
pub struct Meter {
    state: Arc<Mutex<State>>,
    born: Instant,
}

#[derive(Debug)]
struct State {
    bytes: u64,
    bytes_wanted: u64,
    requests: u64,
    requests_failed: u64,
    depth: u64,
    depth_max: u64,
    /// Total length of the closed busy periods.
    busy: Duration,
    /// Start of the open busy period. M1: `Some` exactly while `depth > 0`.
    busy_since: Option<Instant>,
    latency_s: f64,
    bytes_per_second: f64,
    /// The open bandwidth window.
    window: Window,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    bytes: u64,
    requests: u64,
    /// The device's total busy time when the window was opened.
    opened_at_busy: Duration,
}

/// The numbers of a [`Meter`] at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeterSnapshot {
    /// Bytes that the device read, gaps and page rounding included.
    pub bytes: u64,
    /// Bytes that callers wanted.
    pub bytes_wanted: u64,
    /// Requests that ended, successfully or not.
    pub requests: u64,
    /// Requests that failed or were abandoned.
    pub requests_failed: u64,
    /// Requests outstanding now.
    pub depth: u64,
    /// The most requests that were outstanding at once.
    pub depth_max: u64,
    /// How long at least one request was outstanding.
    pub busy: Duration,
    /// The age of the meter.
    pub elapsed: Duration,
    /// Estimated time of a small request on an idle device.
    pub latency: Duration,
    /// Estimated bandwidth while busy with large requests.
    pub bytes_per_second: f64,
}

impl MeterSnapshot {
    /// Fraction of wall time, from 0 to 1, in which at least one request was outstanding.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        ratio(self.busy, self.elapsed)
    }

    /// The same fraction for the time between an earlier snapshot of the same meter and this one.
    #[must_use]
    pub fn utilisation_since(&self, earlier: &Self) -> f64 {
        ratio(
            self.busy.saturating_sub(earlier.busy),
            self.elapsed.saturating_sub(earlier.elapsed),
        )
    }
}

impl Meter {
    /// A meter that uses `latency` and `bytes_per_second` until it has measured.
    #[must_use]
    pub fn new(latency: Duration, bytes_per_second: f64) -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                bytes: 0,
                bytes_wanted: 0,
                requests: 0,
                requests_failed: 0,
                depth: 0,
                depth_max: 0,
                busy: Duration::ZERO,
                busy_since: None,
                latency_s: latency.as_secs_f64(),
                bytes_per_second,
                window: Window::default(),
            })),
            born: Instant::now(),
        }
    }

    /// Records that `requests` requests for `bytes` bytes were issued, of which callers wanted
    /// `bytes_wanted`. Call [`InFlight::complete`] when the requests have succeeded; dropping the
    /// guard without it counts them as failed.
    #[must_use]
    pub fn begin(&self, requests: u64, bytes: u64, bytes_wanted: u64) -> InFlight {
        let now = Instant::now();
        let mut state = self.state.lock();
        let alone = state.depth == 0;
        if alone {
            state.busy_since = Some(now);
        }
        state.depth += requests;
        state.depth_max = state.depth_max.max(state.depth);
        InFlight {
            meter: self.clone(),
            started: now,
            requests,
            bytes,
            bytes_wanted,
            alone: alone && requests == 1,
            succeeded: false,
        }
    }

    /// The current numbers.
    #[must_use]
    pub fn snapshot(&self) -> MeterSnapshot {
        let now = Instant::now();
        let state = self.state.lock();
        MeterSnapshot {
            bytes: state.bytes,
            bytes_wanted: state.bytes_wanted,
            requests: state.requests,
            requests_failed: state.requests_failed,
            depth: state.depth,
            depth_max: state.depth_max,
            busy: state.busy_at(now),
            elapsed: now.saturating_duration_since(self.born),
            latency: Duration::from_secs_f64(state.latency_s),
            bytes_per_second: state.bytes_per_second,
        }
    }

    /// The bytes that the device could read in the time that one more request takes, clamped to
    /// `bounds`: reading a gap between two ranges pays off exactly while the gap is smaller.
    #[must_use]
    pub fn request_cost_bytes(&self, bounds: &RangeInclusive<u64>) -> u64 {
        let state = self.state.lock();
        let cost = state.latency_s * state.bytes_per_second;
        // A float cast saturates, so a nonsensical estimate ends at a bound.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let cost = cost as u64;
        cost.clamp(*bounds.start(), *bounds.end())
    }

    fn end(&self, read: &InFlight) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.depth -= read.requests;
        state.requests += read.requests;
        if state.depth == 0
            && let Some(since) = state.busy_since.take()
        {
            state.busy += now.saturating_duration_since(since);
        }
        if !read.succeeded {
            state.requests_failed += read.requests;
            return;
        }
        state.bytes += read.bytes;
        state.bytes_wanted += read.bytes_wanted;
        let alone = read.alone && state.depth == 0;
        if alone && read.bytes <= LATENCY_SAMPLE_BYTES_MAX {
            let took = now.saturating_duration_since(read.started).as_secs_f64();
            state.latency_s += WEIGHT * (took - state.latency_s);
        }
        let busy = state.busy_at(now);
        state.sample_bandwidth(read, busy);
    }
}

impl State {
    fn busy_at(&self, now: Instant) -> Duration {
        let open = self
            .busy_since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.busy + open
    }

    fn sample_bandwidth(&mut self, read: &InFlight, busy: Duration) {
        self.window.bytes += read.bytes;
        self.window.requests += read.requests;
        let seconds = busy
            .saturating_sub(self.window.opened_at_busy)
            .as_secs_f64();
        if seconds < WINDOW_S_MIN {
            return;
        }
        // A window of small requests reflects latency, not bandwidth.
        if self.window.bytes / self.window.requests >= BANDWIDTH_REQUEST_BYTES_MIN {
            let sample = self.window.bytes as f64 / seconds;
            self.bytes_per_second += WEIGHT * (sample - self.bytes_per_second);
        }
        self.window = Window {
            opened_at_busy: busy,
            ..Window::default()
        };
    }
}

/// Requests that are outstanding on a metered device.
#[derive(Debug)]
pub struct InFlight {
    meter: Meter,
    started: Instant,
    requests: u64,
    bytes: u64,
    bytes_wanted: u64,
    /// Whether this is a single request that found the device idle.
    alone: bool,
    succeeded: bool,
}

impl InFlight {
    /// Records that the requests succeeded.
    pub fn complete(mut self) {
        self.succeeded = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.meter.end(self);
    }
}

fn ratio(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() {
        return 0.0;
    }
    (part.as_secs_f64() / whole.as_secs_f64()).clamp(0.0, 1.0)
}

/// The weight of a new sample. With a quarter the estimate follows a change of bandwidth (a
/// throttle set, a neighbour gone) within ten samples.
const WEIGHT: f64 = 0.25;
/// The time of a request up to this size is latency on every known device: 64 KiB take 0.3 ms even
/// at 200 MB/s.
const LATENCY_SAMPLE_BYTES_MAX: u64 = 64 << 10;
/// The time of a request from this size on is mostly transfer on a local disk.
const BANDWIDTH_REQUEST_BYTES_MIN: u64 = 256 << 10;
/// Shorter windows would measure the jitter of single completions.
const WINDOW_S_MIN: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn counts_busy_time_once_however_many_requests_overlap() {
        let meter = Meter::new(MS, 1e9);
        let a = meter.begin(1, 10, 8);
        tokio::time::advance(10 * MS).await;
        let b = meter.begin(2, 20, 20);
        assert_eq!(meter.snapshot().depth, 3);
        tokio::time::advance(10 * MS).await;
        a.complete();
        tokio::time::advance(10 * MS).await;
        drop(b);
        tokio::time::advance(70 * MS).await;
        let end = meter.snapshot();
        assert_eq!((end.requests, end.requests_failed), (3, 2));
        assert_eq!((end.bytes, end.bytes_wanted), (10, 8));
        assert_eq!((end.depth, end.depth_max), (0, 3));
        assert_eq!((end.busy, end.elapsed), (30 * MS, 100 * MS));
        assert!((end.utilisation() - 0.3).abs() < 1e-9);
        tokio::time::advance(50 * MS).await;
        assert!(meter.snapshot().utilisation_since(&end) < 1e-9);
    }

    #[tokio::test(start_paused = true)]
    async fn estimates_follow_the_device() {
        let meter = Meter::new(MS, 1e9);
        for _ in 0..40 {
            let read = meter.begin(1, 4096, 4096);
            tokio::time::advance(5 * MS).await;
            read.complete();
        }
        assert!((meter.snapshot().latency.as_secs_f64() - 0.005).abs() < 1e-4);
        // Small requests do not change the bandwidth estimate.
        assert!((meter.snapshot().bytes_per_second - 1e9).abs() < 1.0);
        for _ in 0..40 {
            let read = meter.begin(1, 20_000_000, 20_000_000);
            tokio::time::advance(100 * MS).await;
            read.complete();
        }
        assert!((meter.snapshot().bytes_per_second / 2e8 - 1.0).abs() < 0.01);
        assert!((meter.snapshot().latency.as_secs_f64() - 0.005).abs() < 1e-4);
        let cost = meter.request_cost_bytes(&(0..=u64::MAX));
        assert!((950_000..1_050_000).contains(&cost), "{cost}");
        assert_eq!(meter.request_cost_bytes(&(4096..=65536)), 65536);
    }
}
