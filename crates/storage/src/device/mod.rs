//! Where do bytes come from? Disks, mount points, buckets.
//!
//! A [`Device`] has its own bandwidth and queue. It reads exact ranges of files at a known
//! version, meters its work, and estimates the cost of one more request. All reads above it (chunk
//! loads, footers, page requests) go through this trait, so that a benchmark can slow a device
//! down ([`Throttled`]) and a test can make it fail ([`Faulty`]).
//!
//! | where | question or content |
//! |---|---|
//! | `local/` | local files: `io_uring` and direct I/O, with a fallback |
//! | `object.rs` | object stores: S3, HTTP, memory |
//! | `throttle.rs` | a device slowed down to a given speed |
//! | `faulty.rs` | a device that fails as planned |
//! | `devices.rs` | which device holds a file |
//! | `named.rs` | which files are on a device that the configuration names |
//! | `merge.rs` | which requests to issue |
//! | `meter.rs` | how busy and how fast a device is |
//!
//! Not here: what to read and when (the buffer manager), retries across devices.
//! D1: an answer is the requested bytes of the requested version, or an error. D2: each answer
//! owns its memory alone, at most [`footprint`] bytes, so that dropping it frees the memory,
//! whatever was read together with it. D3: every read ends, by answer or by time-out. D4: a device
//! that waits blocks only its own threads: neither a call nor dropping its future may block.

mod devices;
mod faulty;
mod local;
pub mod merge;
mod meter;
mod named;
mod object;
mod throttle;

use std::fmt::Debug;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::StorageError;

pub use devices::{DeviceOptions, DeviceSnapshot, Devices};
pub use faulty::{Fault, Faulty, Rule, When};
pub use local::{
    FromMemory, LocalDevice, LocalEngine, LocalOptions, known_in_full, lasting_tag, listed_time,
    local_version,
};
pub use meter::{InFlight, Meter, MeterSnapshot};
pub use named::NamedDevice;
pub use object::{ObjectDevice, ObjectOptions};
pub use throttle::{Throttle, Throttled};

/// One file at one version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileVersion {
    /// The location in its store. In the local store: the absolute path without the leading slash.
    pub location: Path,
    /// The file's size in bytes.
    pub size: u64,
    /// When it was last modified, in nanoseconds since 1970; for a local file, when it was last
    /// changed in any way ([`local_version()`]).
    pub modified_ns: i128,
    /// The store's tag of this version, if it gives one.
    pub e_tag: Option<String>,
}

impl FileVersion {
    /// When it was last modified.
    #[must_use]
    pub fn modified(&self) -> SystemTime {
        let nanos = self.modified_ns.unsigned_abs();
        let second = 1_000_000_000;
        // Times beyond the range of the system's clock are clamped.
        let seconds = u64::try_from(nanos / second).unwrap_or(u64::MAX);
        let rest = u32::try_from(nanos % second).unwrap_or(0);
        let since = Duration::new(seconds.min(i64::MAX.unsigned_abs() / 2), rest);
        if self.modified_ns < 0 {
            UNIX_EPOCH - since
        } else {
            UNIX_EPOCH + since
        }
    }

    /// Whether this is the version that [`Device::stat`] found. A version of a local file may come
    /// from a store's listing, which has fewer values to compare.
    #[must_use]
    pub fn is_still(&self, now: &Self) -> bool {
        local::local_version::is_now(self, now)
    }
}

impl From<&ObjectMeta> for FileVersion {
    fn from(meta: &ObjectMeta) -> Self {
        let modified = meta.last_modified;
        let (seconds, nanos) = (modified.timestamp(), modified.timestamp_subsec_nanos());
        let listed = || i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        let known = meta
            .e_tag
            .as_deref()
            .and_then(local::local_version::time_of);
        Self {
            location: meta.location.clone(),
            size: meta.size,
            modified_ns: known.unwrap_or_else(listed),
            e_tag: meta.e_tag.clone(),
        }
    }
}

/// A source of file bytes with its own bandwidth and queue.
///
/// Futures need a Tokio runtime with time enabled.
#[async_trait]
pub trait Device: Send + Sync + Debug {
    /// The device and its way of reading: `/dev/vda (io_uring, O_DIRECT)`, `s3://bucket`.
    fn name(&self) -> &str;

    /// The configured name of the device, which errors use.
    fn label(&self) -> Option<&str> {
        None
    }

    /// One scatter-gather request: returns the bytes of each range, in order. Ranges are ascending
    /// and do not overlap; they may be empty. If all are empty, nothing is read or checked.
    ///
    /// Cancel safe: dropping the future wastes at most the read.
    ///
    /// # Errors
    /// `NotFound`; `Replaced` if the file is not this version, or ceases to be during the read;
    /// `ShortRead` for a range that ends after the end of the file; `Read`; `TimedOut`; `ShutDown`;
    /// `Internal` for ranges that descend or overlap.
    async fn read(
        &self,
        file: &FileVersion,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>, StorageError>;

    /// The current version of the file.
    ///
    /// # Errors
    /// `NotFound`, `Read`, `TimedOut`.
    async fn stat(&self, location: &Path) -> Result<FileVersion, StorageError>;

    /// The meter of the device.
    fn meter(&self) -> &Meter;

    /// The largest gap for which reading two ranges as one is cheaper than a second request:
    /// measured bandwidth times measured latency, within bounds for the kind of device.
    fn request_cost_bytes(&self) -> u64;
}

/// The most memory that the answer to a range keeps: the pages that it touches (D2).
#[must_use]
pub fn footprint(range: &Range<u64>) -> u64 {
    let pages = local::scatter::pages_of(range);
    pages.end - pages.start
}

fn check_ranges(ranges: &[Range<u64>]) -> Result<(), StorageError> {
    let mut end = 0;
    for range in ranges {
        if range.start < end || range.end < range.start {
            let message = format!("ranges must ascend without overlap: {ranges:?}");
            return Err(StorageError::Internal(message));
        }
        end = range.end;
    }
    Ok(())
}

/// `ShortRead` if a range that is not empty ends after the end of the file.
fn past_end(name: String, size: u64, ranges: &[Range<u64>]) -> Result<(), StorageError> {
    let past = ranges
        .iter()
        .find(|range| !range.is_empty() && range.end > size);
    match past {
        Some(range) => Err(StorageError::ShortRead {
            file: name,
            range: range.clone(),
            got: size.saturating_sub(range.start),
        }),
        None => Ok(()),
    }
}
