//! How do page reads that a query waits for overtake chunks that are read ahead?
//!
//! An index scan reads a few pages and waits for them; a load reads a chunk of megabytes, and two
//! loads are outstanding on a device at any time. On a slow device a page read behind them waits
//! for most of a second. So, while pages are read from a device, its loads are split into *slices*
//! of the bytes that it reads in [`SLICE`]. One slice of all loads is outstanding at a time, and a
//! slice waits for the outstanding page reads. The next slice is requested a moment before the
//! outstanding one should end, so that the device does not idle. A device without recent page
//! reads gets loads as they are: one request per run.
//! Not here: which pages (`../tables/page_read.rs`), which loads (the core).
//! Bounds: a load waits for pages for at most [`PATIENCE`] per slice; a page read waits for one
//! slice and a quarter.
//! R2: the bytes of a range are the same, whatever the number of slices.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use coscan_core::DeviceId;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use crate::Result;
use crate::pool::TableFile;

/// The device time of a slice: short compared with a page read on a disk, long compared with a
/// request to a fast device.
const SLICE: Duration = Duration::from_millis(3);

/// The smallest slice: a request for less costs as much.
const SLICE_BYTES_MIN: u64 = 128 << 10;

/// The next slice is requested this long after the outstanding one should have begun.
const NEXT_AFTER: Duration = Duration::from_micros(2250);

/// A device's loads are split into slices until this long after the last page read.
const RECENT: Duration = Duration::from_secs(1);

/// The longest that a slice waits for page reads, so that scans progress however many pages are
/// requested.
const PATIENCE: Duration = Duration::from_millis(30);

/// The devices that pages have been read from.
#[derive(Debug, Default)]
pub(in crate::pool) struct Reserve {
    devices: Mutex<HashMap<DeviceId, Arc<OfDevice>>>,
}

#[derive(Debug)]
struct OfDevice {
    /// The number of outstanding page reads, and when the last one began.
    pages: Mutex<(usize, Instant)>,
    none_left: Notify,
    slices: Semaphore,
    queue: Mutex<Queue>,
}

/// The slices that the device has not answered.
#[derive(Debug)]
struct Queue {
    length: u32,
    /// When the device should have answered all of them.
    free_at: Instant,
}

/// An outstanding page read.
#[derive(Debug)]
pub(in crate::pool) struct PagesUnderWay {
    device: Arc<OfDevice>,
}

/// An outstanding slice.
struct SliceUnderWay<'a> {
    device: &'a OfDevice,
    /// When to request the next slice.
    next_at: Instant,
}

impl Reserve {
    /// Registers a page read on the device, which lasts until the result is dropped.
    pub(in crate::pool) fn pages(&self, device: DeviceId) -> PagesUnderWay {
        let mut devices = self.devices.lock();
        let entry = devices.entry(device).or_insert_with(|| {
            Arc::new(OfDevice {
                pages: Mutex::new((0, Instant::now())),
                none_left: Notify::new(),
                slices: Semaphore::new(1),
                queue: Mutex::new(Queue {
                    length: 0,
                    free_at: Instant::now(),
                }),
            })
        });
        let device = Arc::clone(entry);
        drop(devices);
        let mut pages = device.pages.lock();
        *pages = (pages.0 + 1, Instant::now());
        drop(pages);
        PagesUnderWay { device }
    }

    /// Reads ranges for a load.
    ///
    /// # Errors
    /// Like [`TableFile::read`].
    pub(in crate::pool) async fn load(
        &self,
        file: &TableFile,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        let known = self.devices.lock().get(&file.device_id()).cloned();
        let asked_for = known.filter(|device| device.pages.lock().1.elapsed() < RECENT);
        let Some(device) = asked_for else {
            return file.read(ranges).await;
        };
        let speed = file.device().meter().snapshot().bytes_per_second;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let slice = (speed * SLICE.as_secs_f64()) as u64; // A float cast saturates.
        let mut answers: Vec<BytesMut> = ranges.iter().map(|_| BytesMut::new()).collect();
        let mut whole: Vec<Option<Bytes>> = vec![None; ranges.len()];
        for parts in slices(ranges, slice.max(SLICE_BYTES_MIN)) {
            let turn = device.slices.acquire().await;
            device.wait_for_pages().await;
            let wanted: Vec<Range<u64>> = parts.iter().map(|(_, range)| range.clone()).collect();
            let slice = device.begin_slice();
            let read = file.read(&wanted);
            tokio::pin!(read);
            let next_at = tokio::time::sleep_until(slice.next_at.into());
            let read = tokio::select! {
                biased;
                read = &mut read => read,
                () = next_at => {
                    drop(turn);
                    read.await
                }
            };
            drop(slice);
            let read = read?;
            for ((at, part), bytes) in parts.into_iter().zip(read) {
                if part == ranges[at] {
                    whole[at] = Some(bytes);
                } else {
                    let joined = &mut answers[at];
                    if joined.is_empty() {
                        // Reserved at once: a buffer that grows by doubling takes more memory than
                        // it holds.
                        let length = ranges[at].end - ranges[at].start;
                        joined.reserve(usize::try_from(length).unwrap_or_default());
                    }
                    joined.extend_from_slice(&bytes);
                }
            }
        }
        let answers = whole.into_iter().zip(answers);
        Ok(answers
            .map(|(whole, joined)| whole.unwrap_or_else(|| joined.freeze()))
            .collect())
    }
}

impl OfDevice {
    /// Registers a slice that is about to be requested.
    fn begin_slice(&self) -> SliceUnderWay<'_> {
        let mut queue = self.queue.lock();
        queue.length += 1;
        let begins = queue.free_at.max(Instant::now());
        queue.free_at = begins + SLICE;
        SliceUnderWay {
            device: self,
            next_at: begins + NEXT_AFTER,
        }
    }

    async fn wait_for_pages(&self) {
        let left = self.none_left.notified();
        if self.pages.lock().0 > 0 {
            let _ = tokio::time::timeout(PATIENCE, left).await;
        }
    }
}

impl Drop for SliceUnderWay<'_> {
    fn drop(&mut self) {
        let mut queue = self.device.queue.lock();
        queue.length -= 1;
        queue.free_at = Instant::now() + SLICE * queue.length;
    }
}

impl Drop for PagesUnderWay {
    fn drop(&mut self) {
        let mut pages = self.device.pages.lock();
        pages.0 -= 1;
        if pages.0 == 0 {
            self.device.none_left.notify_waiters();
        }
    }
}

/// Splits ranges into slices of at most `bytes` bytes. Each part carries the position of its
/// range.
fn slices(ranges: &[Range<u64>], bytes: u64) -> Vec<Vec<(usize, Range<u64>)>> {
    let mut slices = Vec::new();
    let (mut slice, mut room) = (Vec::new(), bytes);
    for (at, range) in ranges.iter().enumerate() {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + room);
            slice.push((at, start..end));
            room -= end - start;
            start = end;
            if room == 0 {
                slices.push(std::mem::take(&mut slice));
                room = bytes;
            }
        }
    }
    if !slice.is_empty() {
        slices.push(slice);
    }
    slices
}

#[cfg(test)]
#[allow(
    clippy::single_range_in_vec_init,
    reason = "slices are lists of ranges"
)]
mod tests {
    use super::*;

    #[test]
    fn slices_hold_all_bytes_once_in_order() {
        let ranges = [0..10, 20..20, 20..25, 30..55];
        let slices = slices(&ranges, 10);
        let lengths = slices
            .iter()
            .map(|slice| slice.iter().map(|(_, r)| r.end - r.start).sum());
        assert_eq!(lengths.collect::<Vec<u64>>(), [10, 10, 10, 10]);
        for (at, range) in ranges.iter().enumerate() {
            let mut end = range.start;
            for (_, part) in slices.iter().flatten().filter(|(of, _)| *of == at) {
                assert_eq!(part.start, end);
                end = part.end;
            }
            assert_eq!(end, range.end);
        }
        assert_eq!(super::slices(&[5..6], 10), [[(0, 5..6)]]);
    }
}
