//! Object stores: S3 and compatible stores, HTTP servers, memory.
//!
//! A read becomes a few concurrent ranged requests. Each asks for exactly the version that the
//! scan was planned for (`If-Match`), and the size, tag and date of each answer are checked too,
//! because not every server honours the header. A request that fails or stalls is repeated after a
//! growing pause.
//! Not here: credentials, connection pools, signing (the `object_store` crate). A store itself
//! retries refused connections and 5xx answers; `request_timeout` bounds these retries too.
//! Bounds: at most `requests_max` requests outstanding; each at most `request_bytes_max` long,
//! tried at most `attempts_max` times, with at most `request_timeout` per attempt and
//! `backoff_max` between two.
//! O1: bytes of another version never reach an answer. O2: the answer to a range is one allocation
//! of its own; the pieces of a large range are written in place.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::future::try_join_all;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetResult, GetResultPayload, ObjectMeta, ObjectStore, ObjectStoreExt,
};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::merge::{Request, plan};
use super::{Device, FileVersion, Meter, check_ranges, past_end};
use crate::StorageError;

/// How an [`ObjectDevice`] reads.
#[derive(Clone, Debug)]
pub struct ObjectOptions {
    /// The most requests outstanding. A cloud store gives some 80 MB/s per connection, so 16 fill a
    /// 10 Gbit/s network.
    pub requests_max: usize,
    /// The longest request. AWS advises 8 to 16 MiB per request for throughput.
    pub request_bytes_max: u64,
    /// The most attempts per request.
    pub attempts_max: u32,
    /// The longest time of an attempt: 8 MiB at 300 KB/s.
    pub request_timeout: Duration,
    /// The pause after the first failure. It doubles with every failure.
    pub backoff_min: Duration,
    /// The longest pause.
    pub backoff_max: Duration,
}

impl Default for ObjectOptions {
    fn default() -> Self {
        Self {
            requests_max: 16,
            request_bytes_max: 8 << 20,
            attempts_max: 4,
            request_timeout: Duration::from_secs(30),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
        }
    }
}

/// A bucket, or another root of an object store.
#[derive(Debug)]
pub struct ObjectDevice {
    name: String,
    store: Arc<dyn ObjectStore>,
    options: ObjectOptions,
    slots: Semaphore,
    meter: Meter,
}

/// The buffers of a request's parts: (wanted range, buffer of its piece).
type Parts = Vec<(usize, BytesMut)>;

/// Why an attempt failed.
enum Failed {
    /// Another attempt would fail too.
    ForGood(StorageError),
    /// Another attempt may succeed; if no attempt is left, this is the error.
    ForNow(StorageError),
}

impl ObjectDevice {
    /// A device that reads from `store`; errors and listings call it `url` (`s3://bucket`).
    #[must_use]
    pub fn new(url: &str, store: Arc<dyn ObjectStore>, options: ObjectOptions) -> Self {
        Self {
            name: url.trim_end_matches('/').to_owned(),
            store,
            slots: Semaphore::new(options.requests_max.max(1)),
            options,
            meter: Meter::new(LATENCY, BYTES_PER_SECOND),
        }
    }

    fn name_of(&self, location: &Path) -> String {
        format!("{}/{location}", self.name)
    }

    /// Fetches one request's parts, with retries.
    async fn fetch(
        &self,
        file: &FileVersion,
        request: Request,
        mut parts: Parts,
    ) -> Result<Parts, StorageError> {
        let started = Instant::now();
        let mut pause = self.options.backoff_min;
        let mut attempt = 1;
        loop {
            for (_, buffer) in &mut parts {
                buffer.clear();
            }
            let error = match self.attempt(file, &request, &mut parts).await {
                Ok(()) => return Ok(parts),
                Err(Failed::ForGood(error)) => return Err(error),
                Err(Failed::ForNow(error)) => error,
            };
            if attempt >= self.options.attempts_max {
                return Err(self.diagnose(file, error, started.elapsed()).await);
            }
            log::debug!("attempt {attempt}: {error}; retrying in {pause:?}");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(self.options.backoff_max);
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        file: &FileVersion,
        request: &Request,
        parts: &mut Parts,
    ) -> Result<(), Failed> {
        let Ok(_slot) = self.slots.acquire().await else {
            return Err(Failed::ForGood(StorageError::ShutDown));
        };
        let wanted = request.parts.iter().map(|p| p.range.end - p.range.start);
        let in_flight = self.meter.begin(1, request.len(), wanted.sum());
        let limit = self.options.request_timeout;
        let done = timeout(limit, self.get(file, request, parts)).await;
        let Ok(outcome) = done else {
            return Err(Failed::ForNow(StorageError::TimedOut {
                file: self.name_of(&file.location),
                range: request.range.clone(),
                seconds: limit.as_secs(),
            }));
        };
        outcome?;
        in_flight.complete();
        Ok(())
    }

    async fn get(
        &self,
        file: &FileVersion,
        request: &Request,
        parts: &mut Parts,
    ) -> Result<(), Failed> {
        let options = GetOptions {
            range: Some(request.range.clone().into()),
            if_match: strong(file.e_tag.as_deref()).map(str::to_owned),
            ..GetOptions::default()
        };
        let fail = |error| self.classify(file, &request.range, error);
        let answer = self.store.get_opts(&file.location, options).await;
        let answer = answer.map_err(fail)?;
        if !is_version(&answer.meta, file) {
            return Err(Failed::ForGood(self.replaced(file)));
        }
        let mut sink = Sink::new(request, parts);
        each_chunk(answer, |chunk| sink.take(chunk))
            .await
            .map_err(fail)?;
        let got = sink.at - request.range.start;
        if got == request.len() {
            return Ok(());
        }
        Err(Failed::ForNow(StorageError::ShortRead {
            file: self.name_of(&file.location),
            range: request.range.clone(),
            got,
        }))
    }

    fn classify(&self, file: &FileVersion, range: &Range<u64>, error: Error) -> Failed {
        let name = self.name_of(&file.location);
        match error {
            Error::NotFound { .. } => Failed::ForGood(StorageError::NotFound { file: name }),
            Error::Precondition { .. } | Error::NotModified { .. } => {
                Failed::ForGood(self.replaced(file))
            }
            error => {
                // A store that does not support or allow an operation will not allow it a second
                // later either.
                let again = matches!(error, Error::Generic { .. } | Error::JoinError { .. });
                let error = StorageError::Read {
                    file: name,
                    range: range.clone(),
                    source: Arc::new(error),
                };
                if again {
                    Failed::ForNow(error)
                } else {
                    Failed::ForGood(error)
                }
            }
        }
    }

    /// Finds the cause after the last attempt failed: whether the object changed (a range past the
    /// end of a shrunk object is a plain error in most stores), and how long the read waited.
    async fn diagnose(
        &self,
        file: &FileVersion,
        error: StorageError,
        waited: Duration,
    ) -> StorageError {
        if let StorageError::TimedOut { file, range, .. } = error {
            // A `stat` of a store that does not answer would only take longer.
            let seconds = waited.as_secs();
            return StorageError::TimedOut {
                file,
                range,
                seconds,
            };
        }
        let head = self.store.head(&file.location);
        match timeout(self.options.request_timeout, head).await {
            Ok(Ok(meta)) if !is_version(&meta, file) => self.replaced(file),
            Ok(Err(Error::NotFound { .. })) => StorageError::NotFound {
                file: self.name_of(&file.location),
            },
            _ => error,
        }
    }

    fn replaced(&self, file: &FileVersion) -> StorageError {
        StorageError::Replaced {
            file: self.name_of(&file.location),
        }
    }
}

#[async_trait]
impl Device for ObjectDevice {
    fn name(&self) -> &str {
        &self.name
    }

    async fn read(
        &self,
        file: &FileVersion,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>, StorageError> {
        check_ranges(ranges)?;
        past_end(self.name_of(&file.location), file.size, ranges)?;
        let gap = self.request_cost_bytes();
        let requests = plan(ranges, gap, self.options.request_bytes_max.max(1));
        let mut buffers: Vec<BytesMut> = ranges
            .iter()
            .map(|range| BytesMut::with_capacity(size(range)))
            .collect();
        let fetches = requests.into_iter().map(|request| {
            let parts = request.parts.iter().map(|part| {
                // The front of the range's memory is for this part, the rest for the parts that
                // follow.
                let rest = buffers[part.wanted].split_off(size(&part.range));
                let piece = std::mem::replace(&mut buffers[part.wanted], rest);
                (part.wanted, piece)
            });
            let parts = parts.collect();
            self.fetch(file, request, parts)
        });
        let pieces = try_join_all(fetches.collect::<Vec<_>>()).await?;
        let mut answers = vec![BytesMut::new(); ranges.len()];
        for (wanted, piece) in pieces.into_iter().flatten() {
            // The pieces are adjacent in memory and are joined without a copy (O2).
            answers[wanted].unsplit(piece);
        }
        Ok(answers.into_iter().map(BytesMut::freeze).collect())
    }

    async fn stat(&self, location: &Path) -> Result<FileVersion, StorageError> {
        let range = 0..0;
        match timeout(self.options.request_timeout, self.store.head(location)).await {
            Ok(Ok(meta)) => Ok(FileVersion::from(&meta)),
            Ok(Err(Error::NotFound { .. })) => Err(StorageError::NotFound {
                file: self.name_of(location),
            }),
            Ok(Err(error)) => Err(StorageError::Read {
                file: self.name_of(location),
                range,
                source: Arc::new(error),
            }),
            Err(_) => Err(StorageError::TimedOut {
                file: self.name_of(location),
                range,
                seconds: self.options.request_timeout.as_secs(),
            }),
        }
    }

    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn request_cost_bytes(&self) -> u64 {
        self.meter.request_cost_bytes(&REQUEST_COST_BYTES)
    }
}

/// Distributes the bytes of a request to its parts.
struct Sink<'a> {
    request: &'a Request,
    parts: &'a mut Parts,
    /// The part that contains the next byte, or follows it.
    next: usize,
    /// The position of the next byte in the file.
    at: u64,
}

impl<'a> Sink<'a> {
    fn new(request: &'a Request, parts: &'a mut Parts) -> Self {
        Self {
            request,
            parts,
            next: 0,
            at: request.range.start,
        }
    }

    fn take(&mut self, chunk: &Bytes) {
        let end = self.at + chunk.len() as u64;
        while let Some(part) = self.request.parts.get(self.next) {
            let from = part.range.start.max(self.at);
            let to = part.range.end.min(end);
            if from < to {
                let bytes = &chunk[size(&(self.at..from))..size(&(self.at..to))];
                self.parts[self.next].1.extend_from_slice(bytes);
            }
            if part.range.end > end {
                break;
            }
            self.next += 1;
        }
        self.at = end;
    }
}

/// Passes the bytes of an answer to `take`, in order.
async fn each_chunk(answer: GetResult, mut take: impl FnMut(&Bytes)) -> Result<(), Error> {
    match answer.payload {
        // A file's stream would come in pieces of 8 KiB, each through a thread pool.
        GetResultPayload::File(..) => take(&answer.bytes().await?),
        GetResultPayload::Stream(mut stream) => {
            while let Some(chunk) = stream.next().await {
                take(&chunk?);
            }
        }
    }
    Ok(())
}

/// Whether an answer comes from the version: same size, and same tag, or same date if there is no
/// tag to compare.
fn is_version(meta: &ObjectMeta, file: &FileVersion) -> bool {
    if meta.size != file.size {
        return false;
    }
    if let (Some(now), Some(then)) = (&meta.e_tag, &file.e_tag) {
        // A server that compresses on the fly weakens its tags; the version is the same.
        return opaque(now) == opaque(then);
    }
    // HTTP dates have whole seconds, listings may be more precise. A server without dates reports
    // 1970.
    let now = FileVersion::from(meta)
        .modified_ns
        .div_euclid(1_000_000_000);
    let then = file.modified_ns.div_euclid(1_000_000_000);
    now == then || now == 0 || then == 0
}

/// The tag, if it can be used with `If-Match`: by RFC 9110 a weak tag never matches.
fn strong(e_tag: Option<&str>) -> Option<&str> {
    e_tag.filter(|tag| !tag.starts_with("W/"))
}

fn opaque(e_tag: &str) -> &str {
    e_tag.strip_prefix("W/").unwrap_or(e_tag)
}

/// The length of a range that is in memory, or about to be.
fn size(range: &Range<u64>) -> usize {
    usize::try_from(range.end - range.start).unwrap_or(usize::MAX)
}

/// The latency of a first byte from S3 in the same region: 15 to 50 ms.
const LATENCY: Duration = Duration::from_millis(30);
/// The bandwidth of one connection.
const BYTES_PER_SECOND: f64 = 80e6;
/// Requests overlap, so one more request occupies a slot for a while, not the device's whole
/// bandwidth: beyond 1 MiB reading a gap costs more than it saves, on any store. A cent buys 25,000
/// requests, so below 64 KiB the price does not matter, but the slot does.
const REQUEST_COST_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_tags_are_compared_but_not_sent() {
        assert_eq!(strong(Some("\"a\"")), Some("\"a\""));
        assert_eq!(strong(Some("W/\"a\"")), None);
        assert_eq!(opaque("W/\"a\""), opaque("\"a\""));
    }
}
